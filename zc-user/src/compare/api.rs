//! By which kernel API a command moved its bytes, and how many at a time.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
};

use super::half::{Half, Side};
use crate::{
    report::{Api, Counted, Report, Syscall},
    syscall::{Call, Fds, Spec, TABLE},
    transfer::api_of_call,
};

/// What moved less than one part in so many of all known bytes is not worth its name.
const NEGLIGIBLE: u64 = 10;

/// What is only read or only written, up to so many bytes, says nothing of a command's work: the loader looks at libraries, the C
/// library at a locale, and a program prints a line.
const NOISE_BYTES: u64 = 64 << 10;

/// How a command did its work.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Work {
    /// The APIs that did it, the one that moved most first; those of which the bytes are unknown come last. Empty if nothing was moved.
    pub(super) apis: Option<Vec<String>>,
    /// Mean of what one of their calls moved, if they all tell.
    pub(super) bytes_per_call: Option<f64>,
}

/// What one API moved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moved {
    pub(super) api: &'static str,
    /// `None`: its calls do not tell.
    pub(super) bytes: Option<u64>,
    /// By each of its calls; `None`: unknown.
    pub(super) mean_bytes: Option<f64>,
}

impl Work {
    /// That of the transfers, and of calls that are an API by themselves. What was only read, or only written, is the command's work if
    /// there is nothing else, or less.
    pub(super) fn of(report: &Report) -> Self {
        if report.counted.as_ref().is_some_and(|counted| !counts_all_data(counted)) {
            // Of a part of the work nobody can tell what it was a part of; how much those calls moved, they say themselves.
            return Self { apis: None, bytes_per_call: mean_of_calls(&report.totals.syscalls) };
        }
        let (mut moved, halves) = moved(report);
        let is_alone = moved.is_empty();
        let least = moved.iter().filter_map(|moved| moved.bytes).fold(0, u64::saturating_add).max(NOISE_BYTES);
        let is_work = |half: &&Half<'_>| match half.bytes() {
            // No loader writes.
            Some(bytes) => bytes > least || (is_alone && half.side == Side::Written && bytes > 0),
            None => is_alone,
        };
        moved.extend(halves.iter().filter(is_work).filter_map(Half::moved));
        if moved.is_empty() {
            let is_idle = halves.iter().all(|half| half.bytes() == Some(0));
            return Self { apis: is_idle.then(Vec::new), bytes_per_call: None };
        }
        let apis = ranked(&moved);
        moved.retain(|moved| apis.iter().any(|api| api == moved.api));
        Self { bytes_per_call: mean_of(&moved), apis: Some(apis) }
    }
}

/// Whether every call that moves bytes was counted.
fn counts_all_data(counted: &Counted) -> bool {
    TABLE.iter().filter(|spec| moves_bytes(spec)).all(|spec| counted.contains(spec.name))
}

fn moves_bytes(spec: &Spec) -> bool {
    !matches!(spec.fds, Fds::None | Fds::On(_)) || spec.name == "io_uring_enter"
}

/// What went from one end to another, and the two halves of which the other end is not known.
fn moved(report: &Report) -> (Vec<Moved>, [Half<'_>; 2]) {
    let mut moved: Vec<Moved> = transfers(report).chain(direct_calls(report)).collect();
    let halves = [Half::of(report, Side::Read), Half::of(report, Side::Written)];
    let [read, written] = halves.each_ref().map(|half| half.where_file_is_known(false));
    match loop_of(&read, &written) {
        None => (moved, halves),
        Some(relay) => {
            moved.push(relay);
            (moved, halves.map(|half| half.where_file_is_known(true)))
        }
    }
}

fn transfers(report: &Report) -> impl Iterator<Item = Moved> {
    let transfers = report.processes.iter().flat_map(|process| &process.transfers);
    transfers.map(|transfer| Moved {
        api: transfer.api.name(),
        bytes: transfer.bytes,
        mean_bytes: transfer.mean_bytes.and_then(|bytes| mean(bytes, 1)),
    })
}

/// Calls that are an API by themselves, where no transfer has them.
fn direct_calls(report: &Report) -> impl Iterator<Item = Moved> {
    let transfers = report.processes.iter().flat_map(|process| &process.transfers);
    let in_transfers: HashSet<&String> = transfers.flat_map(|transfer| transfer.calls_by_syscall.keys()).collect();
    let operations_are_known = report.processes.iter().any(|process| !process.io_uring.is_empty());
    let others = report.totals.syscalls.iter().filter(move |call| call.calls > call.errors && !in_transfers.contains(&call.name));
    others.filter_map(move |call| {
        let api = match call.name.as_str() {
            "io_uring_enter" => (!operations_are_known).then_some(Api::IoUring)?,
            "vmsplice" => Api::Vmsplice,
            name => api_of_call(&Call::native(name.to_owned()))?,
        };
        Some(Moved { api: api.name(), bytes: call.bytes, mean_bytes: mean_of_call(call) })
    })
}

fn mean_of_call(call: &Syscall) -> Option<f64> {
    mean(call.bytes?, call.calls.saturating_sub(call.errors))
}

/// Mean of what the calls moved that succeeded; `None` if some moved bytes and do not tell how many.
fn mean_of_calls(calls: &[Syscall]) -> Option<f64> {
    let moving = calls.iter().filter(|call| call.calls > call.errors && moves_bytes(&Spec::of(&call.name)));
    let is_reflink = |call: &&Syscall| api_of_call(&Call::native(call.name.clone())) == Some(Api::Reflink);
    let mut sum: (u64, u64) = (0, 0);
    for call in moving.filter(|call| !is_reflink(call)) {
        sum = (sum.0.checked_add(call.bytes?)?, sum.1 + call.calls - call.errors);
    }
    mean(sum.0, sum.1)
}

/// Where the files are not known, about as many bytes in as out are taken for a loop through user memory. Beside its loop, a program
/// reads its libraries and writes its messages.
fn loop_of(read: &Half<'_>, written: &Half<'_>) -> Option<Moved> {
    let (from, to) = (read.bytes()?, written.bytes()?);
    let calls = read.calls().zip(written.calls()).map(|(reads, writes)| reads + writes);
    let mean_bytes = calls.and_then(|calls| mean(from.saturating_add(to), calls));
    let is_loop = from > 0 && to > 0 && from / 2 <= to && to / 2 <= from;
    is_loop.then(|| Moved { api: Api::ReadWrite.name(), bytes: Some(from.min(to)), mean_bytes })
}

/// The names of the APIs that moved more than little.
fn ranked(all: &[Moved]) -> Vec<String> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for moved in all {
        let sum = sums.entry(moved.api).or_default();
        *sum = sum.saturating_add(moved.bytes.unwrap_or(0));
    }
    let total = sums.values().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
    let is_unknown = |api: &str| all.iter().any(|moved| moved.api == api && moved.bytes.is_none());
    let mut ranked: Vec<(&str, u64)> =
        sums.into_iter().filter(|&(api, bytes)| is_unknown(api) || is_worth_it(Some(bytes), total)).collect();
    ranked.sort_by_key(|&(_, bytes)| Reverse(bytes));
    ranked.into_iter().map(|(api, _)| api.to_owned()).collect()
}

/// Whether so many bytes are more than little of all; unknown ones may be.
pub(super) fn is_worth_it(bytes: Option<u64>, all: u64) -> bool {
    bytes.is_none_or(|bytes| bytes > 0 && bytes >= all / NEGLIGIBLE)
}

/// Mean of what a call moved, of all of these; `None` if one does not tell. Blocks that are shared are no bytes that were moved.
fn mean_of(all: &[Moved]) -> Option<f64> {
    let telling = || all.iter().filter(|moved| moved.api != Api::Reflink.name() && moved.bytes != Some(0));
    let mut sum = (0, 0.0);
    for moved in telling() {
        let bytes = moved.bytes?;
        sum = (sum.0 + bytes, sum.1 + mean(bytes, 1)? / moved.mean_bytes?);
    }
    (sum.0 > 0).then(|| mean(sum.0, 1).map(|bytes| bytes / sum.1))?
}

#[expect(clippy::cast_precision_loss, reason = "a mean is no count: its error in the 16th digit does not matter")]
pub(super) fn mean(bytes: u64, calls: u64) -> Option<f64> {
    (calls > 0).then(|| bytes as f64 / calls as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        compare::sample::report,
        report::{
            Options,
            sample::{
                files::{Scene, copy, map, read, write, written_after, written_from},
                of_threads, row,
            },
        },
        trace::{FileKind, Row},
    };

    /// The APIs, which are known.
    #[track_caller]
    fn known(report: &Report) -> Vec<String> {
        Work::of(report).apis.expect("they are known")
    }

    fn apis(rows: Vec<Row>) -> Vec<String> {
        known(&report(rows))
    }

    fn moved(name: &'static str, bytes: u64) -> Row {
        row(name).called(10).bytes(bytes)
    }

    #[test]
    fn the_call_that_moved_nearly_all() {
        assert_eq!(apis(vec![moved("read", 832), moved("sendfile", 1 << 20), moved("write", 20)]), ["sendfile"]);
        assert_eq!(apis(vec![moved("pread64", 832), moved("copy_file_range", 1 << 20)]), ["copy_file_range"]);
    }

    #[test]
    fn a_loop_through_user_memory_whatever_its_calls() {
        assert_eq!(apis(vec![moved("read", 1 << 20), moved("sendto", 1 << 20)]), ["read+write"]);
        assert_eq!(apis(vec![moved("recvfrom", 600), moved("readv", 400), moved("write", 1000)]), ["read+write"]);
    }

    #[test]
    fn only_one_half_of_a_loop() {
        assert_eq!(apis(vec![moved("read", 832), moved("write", 1 << 20)]), ["write"]);
        assert_eq!(apis(vec![moved("read", 1 << 20), moved("write", 10)]), ["read"]);
    }

    #[test]
    fn several_that_did_a_tenth_or_more() {
        let rows = vec![moved("read", 300), moved("write", 300), moved("sendfile", 600), moved("splice", 20)];
        assert_eq!(apis(rows), ["sendfile", "read+write"]);
    }

    #[test]
    fn bytes_that_nobody_tells() {
        assert_eq!(apis(vec![row("ioctl(FICLONE)").called(1)]), ["reflink"]);
        assert_eq!(apis(vec![moved("read", 9), moved("write", 9), row("ioctl(FICLONE)").called(1)]), ["read+write", "reflink"]);
        assert_eq!(Work::of(&report(vec![row("ioctl(FICLONE)").called(1)])).bytes_per_call, None);
        // One that failed moved nothing.
        assert_eq!(apis(vec![row("ioctl(FICLONE)").failed(libc::EXDEV, 1), moved("sendfile", 9)]), ["sendfile"]);
    }

    const MIB: u64 = 1 << 20;

    /// The report of a process with these files.
    fn with_files(rows: impl Fn(&mut Scene) -> Vec<Row>) -> Report {
        let mut scene = Scene::new();
        let rows = rows(&mut scene);
        scene.process("copier", rows);
        Report::from_trace(&scene.trace, &Options::default())
    }

    fn apis_with_files(rows: impl Fn(&mut Scene) -> Vec<Row>) -> Vec<String> {
        known(&with_files(rows))
    }

    #[test]
    fn where_files_are_known_the_transfers_tell() {
        let found = apis_with_files(|scene| {
            let (from, to) = (scene.regular("in"), scene.file(FileKind::Tcp, "sock"));
            vec![map(from, MIB), written_from("sendto", from, to, 4, MIB)]
        });
        assert_eq!(found, ["mmap+write"]);
        let found = apis_with_files(|scene| {
            let (from, to) = (scene.regular("in"), scene.regular("out"));
            vec![copy("copy_file_range", from, to, 2, MIB)]
        });
        assert_eq!(found, ["copy_file_range"]);
        let found = apis_with_files(|scene| {
            let (from, to) = (scene.regular("in"), scene.regular("out"));
            vec![read("read", from, 257, MIB), written_after("write", from, to, 256, MIB, MIB)]
        });
        assert_eq!(found, ["read+write"]);
    }

    #[test]
    fn what_is_read_and_written_by_chance_is_no_loop() {
        let found = apis_with_files(|scene| {
            let (data, stdout) = (scene.regular("data"), scene.regular("tty"));
            vec![read("read", data, 1, MIB), write("write", stdout, 1, MIB / 2)]
        });
        assert_eq!(found, ["read", "write"]);
    }

    #[test]
    fn a_small_copy_is_not_hidden_by_what_the_loader_reads() {
        let report = with_files(|scene| {
            let (libc, from, to) = (scene.regular("libc.so.6"), scene.regular("in"), scene.regular("out"));
            vec![read("read", libc, 9, 7520), copy("copy_file_range", from, to, 1, 18).zero(1)]
        });
        assert_eq!(Work::of(&report), Work { apis: Some(vec!["copy_file_range".to_owned()]), bytes_per_call: Some(18.0) });
    }

    #[test]
    fn what_the_loader_reads_is_nobodys_work() {
        let libc_alone = with_files(|scene| vec![read("read", scene.regular("libc.so.6"), 3, 2400)]);
        assert_eq!(Work::of(&libc_alone), Work { apis: None, bytes_per_call: None });
        let with_a_line = with_files(|scene| {
            let (libc, stdout) = (scene.regular("libc.so.6"), scene.regular("tty"));
            vec![read("read", libc, 3, 2400), write("write", stdout, 1, 3)]
        });
        assert_eq!(Work::of(&with_a_line), Work { apis: Some(vec!["write".to_owned()]), bytes_per_call: Some(3.0) });
    }

    #[test]
    fn a_program_that_reads_and_does_nothing_else() {
        let report = with_files(|scene| {
            let (libc, data) = (scene.regular("libc.so.6"), scene.regular("data"));
            vec![read("read", libc, 3, 2400), read("read", data, 4, MIB)]
        });
        assert_eq!(Work::of(&report), Work { apis: Some(vec!["read".to_owned()]), bytes_per_call: Some(262_144.0) });
    }

    #[test]
    fn a_small_copy_does_not_hide_what_is_written_besides() {
        let found = apis_with_files(|scene| {
            let (from, to, log) = (scene.regular("in"), scene.regular("out"), scene.regular("log"));
            vec![copy("sendfile", from, to, 1, 18), write("write", log, 4, MIB)]
        });
        assert_eq!(found, ["write"]);
    }

    #[test]
    fn a_share_that_may_count_failed_calls_tells_no_mean() {
        let report = with_files(|scene| {
            let data = scene.regular("data");
            vec![read("read", data, 4, MIB).failed(libc::EAGAIN, 3)]
        });
        assert_eq!(Work::of(&report), Work { apis: Some(vec!["read".to_owned()]), bytes_per_call: None });
    }

    #[test]
    fn a_part_of_the_calls_does_not_tell_the_api() {
        let of_part = |selection: &str, rows: Vec<Row>| {
            let mut trace = of_threads(vec![rows]);
            trace.counted = Some(selection.parse().expect("a selection"));
            Work::of(&Report::from_trace(&trace, &Options::default()))
        };
        assert_eq!(of_part("mmap", vec![row("mmap").called(9)]), Work { apis: None, bytes_per_call: None });
        let writes = vec![row("write").called(4).bytes(1 << 20)];
        assert_eq!(of_part("write", writes.clone()), Work { apis: None, bytes_per_call: Some(262_144.0) });
        assert_eq!(of_part("%data", writes).apis, Some(vec!["write".to_owned()]));
    }

    #[test]
    fn an_io_uring_whose_operations_nobody_sees() {
        let report = report(vec![moved("read", 832), row("io_uring_enter").called(3)]);
        assert_eq!(Work::of(&report), Work { apis: Some(vec!["io_uring".to_owned()]), bytes_per_call: None });
    }

    #[test]
    fn nothing_was_moved() {
        assert!(apis(vec![row("mmap").called(3), row("sendfile").failed(libc::EINVAL, 1)]).is_empty());
    }
}
