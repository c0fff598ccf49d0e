//! The traced run of a command: by which kernel API it moved its bytes, and how many at a time.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
};

use serde::Serialize;

use crate::{
    report::{Api, Counted, End, Exit, Report, Syscall, Totals},
    syscalls::{Call, Fds, Spec, data_calls},
    transfer::{Transfer, api_of_call},
};

/// The figures of a command's traced run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Traced {
    /// Name of the backend.
    pub backend: String,
    /// Whether every number is exact. If not, they are lower bounds, and `losses` says why.
    pub exact: bool,
    /// How numbers were lost, and how often.
    pub losses: BTreeMap<String, u64>,
    /// What the report lacks without being wrong, each a sentence.
    pub notes: Vec<String>,
    /// How it ended.
    pub exit: Exit,
    /// Which calls were counted.
    pub counted: Option<Counted>,
    /// How many counted calls returned, over all processes.
    pub syscalls: u64,
    /// Mean size of the calls of `apis`. For transfers it counts the calls that moved bytes at the
    /// destination, precise to less than a byte. If not all calls that move data were counted, it
    /// is the mean of the counted calls that succeeded. `None`: unknown, or nothing was moved.
    pub bytes_per_call: Option<f64>,
    /// The APIs that did the work, the one that moved most first: those of the transfers, else
    /// `read` or `write` for bytes that were only read or only written. Empty if nothing was moved.
    /// `None`: unknown, because calls that move data were not counted, or because so little was
    /// read (64 KiB) that the loader may have read it.
    pub apis: Option<Vec<String>>,
    /// All counts of the report.
    pub totals: Totals,
}

impl Traced {
    /// Takes from a report what a comparison shows.
    pub(super) fn of(report: Report) -> Self {
        let Work {
            apis,
            bytes_per_call,
        } = Work::of(&report);
        Self {
            counted: report.counted,
            syscalls: report.totals.syscalls.iter().map(|call| call.calls).sum(),
            bytes_per_call,
            apis,
            backend: report.backend,
            exact: report.exact,
            losses: report.losses,
            notes: report.notes,
            exit: report.exit,
            totals: report.totals,
        }
    }
}

/// An API is left out if it moved less than this fraction of all known bytes (1/10).
const NEGLIGIBLE: u64 = 10;

/// Up to this many bytes that are only read or only written say nothing about the command's work:
/// the loader reads libraries, the C library reads a locale, and the program prints a line.
const NOISE_BYTES: u64 = 64 << 10;

/// By which APIs a command did its work.
#[derive(Debug, Clone, PartialEq)]
struct Work {
    /// The APIs, the one that moved most first, those with unknown bytes last. Empty if nothing was
    /// moved, `None` if unknown.
    apis: Option<Vec<String>>,
    /// Mean bytes of their calls, if known for all of them.
    bytes_per_call: Option<f64>,
}

/// Bytes that one API moved.
#[derive(Debug, Clone, Copy)]
struct ApiBytes {
    api: &'static str,
    /// `None`: unknown.
    bytes: Option<u64>,
    /// Mean of its calls; `None`: unknown.
    mean_bytes: Option<f64>,
}

impl Work {
    /// Takes the transfers, and the calls that are an API by themselves. Bytes that were only read
    /// or only written count as work if nothing else was moved, or less.
    fn of(report: &Report) -> Self {
        if report
            .counted
            .as_ref()
            .is_some_and(|counted| !counts_all_data(counted))
        {
            // A part of the calls does not tell the API, but these calls do tell how much they
            // moved.
            return Self {
                apis: None,
                bytes_per_call: mean_of_calls(&report.totals.syscalls),
            };
        }
        let mut moved: Vec<ApiBytes> = transfers(report).chain(direct_calls(report)).collect();
        let is_alone = moved.is_empty();
        let least = sum_of(&moved).unwrap_or(0).max(NOISE_BYTES);
        let mut is_idle = true;
        for side in [Side::Read, Side::Written] {
            let rests = rests(report, side);
            let sum = sum_of(&rests);
            let is_work = match sum {
                // The loader reads, but does not write.
                Some(0) => false,
                Some(bytes) => bytes > least || (is_alone && side == Side::Written),
                None => is_alone,
            };
            is_idle &= sum == Some(0);
            if is_work {
                // Not a library from which the loader reads a header.
                let large = |rest: &ApiBytes| is_worth_it(rest.bytes, sum.unwrap_or(0));
                moved.extend(rests.into_iter().filter(large));
            }
        }
        if moved.is_empty() {
            return Self {
                apis: is_idle.then(Vec::new),
                bytes_per_call: None,
            };
        }
        let apis = ranked(&moved);
        moved.retain(|moved| apis.iter().any(|api| api == moved.api));
        Self {
            bytes_per_call: mean_of(&moved),
            apis: Some(apis),
        }
    }
}

/// The sum of the bytes; `None`: unknown for one of them.
fn sum_of(all: &[ApiBytes]) -> Option<u64> {
    let mut bytes = all.iter().map(|moved| moved.bytes);
    bytes.try_fold(0, |sum: u64, bytes| sum.checked_add(bytes?))
}

/// Whether every call that moves bytes was counted.
fn counts_all_data(counted: &Counted) -> bool {
    data_calls()
        .filter(|spec| moves_bytes(spec))
        .all(|spec| counted.contains(spec.name))
}

fn moves_bytes(spec: &Spec) -> bool {
    !matches!(spec.fds, Fds::None | Fds::On(_)) || spec.name == "io_uring_enter"
}

fn transfers(report: &Report) -> impl Iterator<Item = ApiBytes> {
    within_processes(report).map(|transfer| ApiBytes {
        api: transfer.api.name(),
        bytes: transfer.bytes,
        mean_bytes: transfer.mean_bytes.and_then(|bytes| mean(bytes, 1)),
    })
}

/// The transfers within processes. Those over several consist of them.
fn within_processes(report: &Report) -> impl Iterator<Item = &Transfer> {
    report
        .transfers
        .iter()
        .filter(|transfer| !transfer.crosses_processes())
}

/// Calls that are an API by themselves and are part of no transfer.
fn direct_calls(report: &Report) -> impl Iterator<Item = ApiBytes> {
    let in_transfers: HashSet<&String> = within_processes(report)
        .flat_map(|transfer| transfer.calls_by_syscall.keys())
        .collect();
    let operations_are_known = report
        .processes
        .iter()
        .any(|process| !process.io_uring.is_empty());
    let others = report
        .totals
        .syscalls
        .iter()
        .filter(move |call| call.calls > call.errors && !in_transfers.contains(&call.name));
    others.filter_map(move |call| {
        let api = match call.name.as_str() {
            "io_uring_enter" => (!operations_are_known).then_some(Api::IoUring)?,
            "vmsplice" => Api::Vmsplice,
            name => api_of_call(&Call::native(name.to_owned()))?,
        };
        Some(ApiBytes {
            api: api.name(),
            bytes: call.bytes,
            mean_bytes: mean_of_call(call),
        })
    })
}

fn mean_of_call(call: &Syscall) -> Option<f64> {
    mean(call.bytes?, call.calls.saturating_sub(call.errors))
}

/// Mean bytes of the successful calls; `None` if one of them does not tell how much it moved.
fn mean_of_calls(calls: &[Syscall]) -> Option<f64> {
    let moving = calls
        .iter()
        .filter(|call| call.calls > call.errors && moves_bytes(&Spec::named(&call.name)));
    let is_reflink =
        |call: &&Syscall| api_of_call(&Call::native(call.name.clone())) == Some(Api::Reflink);
    let mut sum: (u64, u64) = (0, 0);
    for call in moving.filter(|call| !is_reflink(call)) {
        sum = (
            sum.0.checked_add(call.bytes?)?,
            sum.1 + call.calls - call.errors,
        );
    }
    mean(sum.0, sum.1)
}

/// The names of the APIs that moved more than a negligible share.
fn ranked(all: &[ApiBytes]) -> Vec<String> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for moved in all {
        let sum = sums.entry(moved.api).or_default();
        *sum = sum.saturating_add(moved.bytes.unwrap_or(0));
    }
    let total = sums
        .values()
        .fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
    let is_unknown = |api: &str| {
        all.iter()
            .any(|moved| moved.api == api && moved.bytes.is_none())
    };
    let mut ranked: Vec<(&str, u64)> = sums
        .into_iter()
        .filter(|&(api, bytes)| is_unknown(api) || is_worth_it(Some(bytes), total))
        .collect();
    ranked.sort_by_key(|&(_, bytes)| Reverse(bytes));
    ranked.into_iter().map(|(api, _)| api.to_owned()).collect()
}

/// Whether this is more than a negligible share of `all`. Unknown bytes may be.
fn is_worth_it(bytes: Option<u64>, all: u64) -> bool {
    bytes.is_none_or(|bytes| bytes > 0 && bytes >= all / NEGLIGIBLE)
}

/// Mean bytes of all these calls; `None` if unknown for one of them. A reflink shares blocks and
/// moves no bytes.
fn mean_of(all: &[ApiBytes]) -> Option<f64> {
    let telling = || {
        all.iter()
            .filter(|moved| moved.api != Api::Reflink.name() && moved.bytes != Some(0))
    };
    let mut sum = (0, 0.0);
    for moved in telling() {
        let bytes = moved.bytes?;
        sum = (sum.0 + bytes, sum.1 + mean(bytes, 1)? / moved.mean_bytes?);
    }
    (sum.0 > 0).then(|| mean(sum.0, 1).map(|bytes| bytes / sum.1))?
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a mean is not a count: an error in its 16th digit does not matter"
)]
fn mean(bytes: u64, calls: u64) -> Option<f64> {
    (calls > 0).then(|| bytes as f64 / calls as f64)
}

/// Whether bytes were read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Read,
    Written,
}

/// What processes read from each file, or wrote to it, and is in no transfer. The API is called
/// `read` or `write`.
fn rests(report: &Report, side: Side) -> Vec<ApiBytes> {
    let mut rests = Vec::new();
    for process in &report.processes {
        let mut add = |file: Option<&End>, bytes: Option<u64>, calls| {
            let ends = |transfer: &&Transfer| {
                file == Some(match side {
                    Side::Read => &transfer.from,
                    Side::Written => &transfer.to,
                })
            };
            let moved = report.transfers_of(process).filter(ends);
            let moved: u64 = moved.filter_map(|transfer| transfer.bytes).sum();
            rests.push(ApiBytes {
                api: side.api(),
                bytes: bytes.map(|bytes| bytes.saturating_sub(moved)),
                mean_bytes: bytes.and_then(|bytes| mean(bytes, calls)),
            });
        };
        match side {
            Side::Read => {
                let sources = process.sources.iter();
                sources.for_each(|one| add(one.file.as_ref(), one.read_bytes, one.read_calls));
            }
            Side::Written => {
                let destinations = process.destinations.iter();
                destinations
                    .for_each(|one| add(one.file.as_ref(), one.written_bytes, one.written_calls));
            }
        }
    }
    rests.retain(|rest| rest.bytes != Some(0));
    rests
}

impl Side {
    const fn api(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Written => "write",
        }
    }
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

    /// `sendfile, read+write`, and the mean size.
    #[track_caller]
    fn work(report: &Report) -> (Option<String>, Option<f64>) {
        let Work {
            apis,
            bytes_per_call,
        } = Work::of(report);
        (apis.map(|apis| apis.join(", ")), bytes_per_call)
    }

    fn moved(name: &'static str, bytes: u64) -> Row {
        row(name).called(10).bytes(bytes)
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn calls_without_files_give_the_api_by_their_bytes() {
        let cases = [
            // The call that moved nearly all bytes.
            ("read 832, sendfile 1048576, write 20", "sendfile"),
            ("pread64 832, copy_file_range 1048576", "copy_file_range"),
            // Bytes that were only read or only written; few of them may be the loader's.
            ("read 832, write 1048576", "write"),
            ("read 1048576, write 10", "read"),
            ("read 1048576, sendto 1048576", "read, write"),
            // A tenth or more is listed, unknown bytes last.
            ("splice 600, sendfile 60, vmsplice 20", "splice"),
            (
                "splice 600, sendfile 80, vmsplice 75",
                "splice, sendfile, vmsplice",
            ),
        ];
        for (rows, apis) in cases {
            let rows = rows.split(", ").filter_map(|row| row.split_once(' '));
            let rows = rows.map(|(name, bytes)| moved(name, bytes.parse().expect("a number")));
            let rows: Vec<Row> = rows.collect();
            let text = format!("{rows:?}");
            assert_eq!(work(&report(rows)).0.as_deref(), Some(apis), "{text}");
        }
        let reflink = || row("ioctl(FICLONE)");
        let failed = row("sendfile").failed(libc::EINVAL, 1);
        let cases = [
            (vec![reflink().called(1)], "reflink"),
            (
                vec![moved("splice", 9), reflink().called(1)],
                "splice, reflink",
            ),
            // A failed call moved nothing.
            (
                vec![reflink().failed(libc::EXDEV, 1), moved("sendfile", 9)],
                "sendfile",
            ),
            (vec![row("mmap").called(3), failed], ""),
            // The operations of io_uring are unseen.
            (
                vec![moved("read", 832), row("io_uring_enter").called(3)],
                "io_uring",
            ),
        ];
        for (rows, apis) in cases {
            let text = format!("{rows:?}");
            assert_eq!(work(&report(rows)).0.as_deref(), Some(apis), "{text}");
        }
        assert_eq!(work(&report(vec![reflink().called(1)])).1, None);
    }

    /// The work of a process with these files.
    fn with_files(rows: impl Fn(&mut Scene) -> Vec<Row>) -> (Option<String>, Option<f64>) {
        let mut scene = Scene::new();
        let rows = rows(&mut scene);
        scene.process("copier", rows);
        work(&Report::from_trace(&scene.trace, &Options::default()))
    }

    fn found(apis: &str, mean: f64) -> (Option<String>, Option<f64>) {
        (Some(apis.to_owned()), Some(mean))
    }

    #[test]
    fn where_files_are_known_the_transfers_give_the_api() {
        let mapped = with_files(|scene| {
            let (from, to) = (scene.regular("in"), scene.file(FileKind::Tcp, "sock"));
            vec![map(from, MIB), written_from("sendto", from, to, 4, MIB)]
        });
        assert_eq!(mapped.0.as_deref(), Some("mmap+write"));
        let by_call = with_files(|scene| {
            let (from, to) = (scene.regular("in"), scene.regular("out"));
            vec![copy("copy_file_range", from, to, 2, MIB)]
        });
        assert_eq!(by_call.0.as_deref(), Some("copy_file_range"));
        let by_loop = with_files(|scene| {
            let (from, to) = (scene.regular("in"), scene.regular("out"));
            vec![
                read("read", from, 257, MIB),
                written_after("write", from, to, 256, MIB, MIB),
            ]
        });
        assert_eq!(by_loop.0.as_deref(), Some("read+write"));
        // Reading one file and writing another is not a loop.
        let apart = with_files(|scene| {
            let (data, stdout) = (scene.regular("data"), scene.regular("tty"));
            vec![
                read("read", data, 1, MIB),
                write("write", stdout, 1, MIB / 2),
            ]
        });
        assert_eq!(apart.0.as_deref(), Some("read, write"));
        // A small copy does not hide larger writes.
        let larger = with_files(|scene| {
            let [from, to, log] = ["in", "out", "log"].map(|name| scene.regular(name));
            vec![
                copy("sendfile", from, to, 1, 18),
                write("write", log, 4, MIB),
            ]
        });
        assert_eq!(larger.0.as_deref(), Some("write"));
    }

    #[test]
    fn the_loaders_reads_are_not_the_commands_work() {
        let small = with_files(|scene| {
            let [libc, from, to] = ["libc.so.6", "in", "out"].map(|name| scene.regular(name));
            vec![
                read("read", libc, 9, 7520),
                copy("copy_file_range", from, to, 1, 18).zero(1),
            ]
        });
        assert_eq!(small, found("copy_file_range", 18.0));
        let alone = with_files(|scene| vec![read("read", scene.regular("libc.so.6"), 3, 2400)]);
        assert_eq!(alone, (None, None));
        let with_a_line = with_files(|scene| {
            let (libc, stdout) = (scene.regular("libc.so.6"), scene.regular("tty"));
            vec![read("read", libc, 3, 2400), write("write", stdout, 1, 3)]
        });
        assert_eq!(with_a_line, found("write", 3.0));
        let only_reads = with_files(|scene| {
            let (libc, data) = (scene.regular("libc.so.6"), scene.regular("data"));
            vec![read("read", libc, 3, 2400), read("read", data, 4, MIB)]
        });
        assert_eq!(only_reads, found("read", 262_144.0));
        // Failed calls read nothing.
        let some_failed = with_files(|scene| {
            let data = scene.regular("data");
            vec![read("read", data, 4, MIB).failed(libc::EAGAIN, 3)]
        });
        assert_eq!(some_failed, found("read", 262_144.0));
    }

    #[test]
    fn the_api_is_unknown_if_only_some_calls_were_counted() {
        let of_part = |selection: &str, rows: Vec<Row>| {
            let mut trace = of_threads(vec![rows]);
            trace.counted = Some(selection.parse().expect("a selection"));
            work(&Report::from_trace(&trace, &Options::default()))
        };
        assert_eq!(of_part("mmap", vec![row("mmap").called(9)]), (None, None));
        let writes = || vec![row("write").called(4).bytes(MIB)];
        assert_eq!(of_part("write", writes()), (None, Some(262_144.0)));
        assert_eq!(of_part("%data", writes()).0.as_deref(), Some("write"));
    }

    #[test]
    fn syscalls_counts_every_call_and_bytes_per_call_only_those_that_moved_bytes() {
        let found = Traced::of(report(vec![
            row("read").called(3).bytes(4096),
            row("write").called(2).bytes(4096),
            row("sendfile").failed(libc::EINVAL, 5),
            row("mmap").called(7).requested(MIB),
        ]));
        assert_eq!((found.syscalls, found.bytes_per_call), (17, Some(2048.0)));
        let failed = row("read").bytes(0).failed(libc::EIO, 1);
        for without_bytes in [row("mmap").called(7), failed] {
            assert_eq!(Traced::of(report(vec![without_bytes])).bytes_per_call, None);
        }
    }
}
