//! Made-up reports, by the names that `verdicts.txt` gives them.

use std::collections::BTreeMap;

use crate::{
    report::{
        Detail, Files, Options, Report,
        sample::{
            self,
            files::{self, Scene},
        },
    },
    syscalls::{Call, Selection},
    trace::{
        Exit, FailedPaths, FileKind, Frame, Loss, OtherCalls, SampleSum, SampledStack, Stack,
        StackEnd, StackId, Trace,
    },
};

/// Reports by name.
#[derive(Default)]
struct Reports(BTreeMap<&'static str, Report>);

impl Reports {
    fn add(&mut self, name: &'static str, report: Report) {
        assert!(self.0.insert(name, report).is_none(), "{name}");
    }

    /// Adds the report of a trace that is changed so.
    fn add_edited(&mut self, name: &'static str, mut trace: Trace, edit: impl FnOnce(&mut Trace)) {
        edit(&mut trace);
        self.add(name, report_of(&trace));
    }
}

/// Every report that `verdicts.txt` is about.
pub(super) fn reports() -> BTreeMap<&'static str, Report> {
    let mut all = Reports::default();
    add_copier(&mut all);
    add_others(&mut all);
    add_transfers(&mut all);
    add_callers(&mut all);
    add_paths(&mut all);
    all.0
}

/// A copier and the shell that started it. It copies `in.dat` by `sendfile` to a Unix socket after
/// `copy_file_range` failed, and `log` by a loop to a pipe. The source of the datagram that it
/// sends is unknown.
pub(super) fn scene() -> Trace {
    let mut scene = Scene::new();
    scene.file(FileKind::UnixStream, "s.sock");
    scene.file(FileKind::Udp, "datagrams");
    scene.run(
        "sh: read libc.so.6 2 832, mmap libc.so.6 1 4096; \
         copier: copy_file_range in.dat->s.sock 0 0 @1 EXDEV*1, \
         sendfile in.dat->s.sock 0 1M @2 /1048576 2000+3000+1500000ns EAGAIN*2, \
         read data/log 16 65536 @3 /4096 +1, write data/log>pipe 16 65536 @4 /4096, \
         sendto datagrams 1 100 @5",
    );
    scene.trace.exit = Some(Exit::Code(3));
    scene.trace.counted = Some("%data,%network".parse().expect("a selection"));
    scene.trace
}

/// The report of a trace, with calls by file.
pub(super) fn report_of(trace: &Trace) -> Report {
    Report::from_trace(
        trace,
        &Options {
            file_calls: Files::Listed,
            ..Options::default()
        },
    )
}

/// Adds reports of the [`scene`] that know less.
fn add_copier(all: &mut Reports) {
    let whole = || report_of(&scene());
    all.add("patterns with typing errors", whole());
    all.add("the directory where relative paths start is known", whole());
    let mut report = whole();
    report.directory = None;
    all.add(
        "the directory where relative paths start is unknown",
        report,
    );
    let mut report = whole();
    report.counted = None;
    all.add("an older report that does not say what it counted", report);
    let mut report = whole();
    report.counted = Some(Selection::All);
    all.add("every call is counted", report);
    let mut report = whole();
    for row in &mut report.totals.syscalls {
        row.errnos.clear();
    }
    all.add("errors without an errno, which may have any", report);
    let plain = Options::default();
    all.add("no calls by file", Report::from_trace(&scene(), &plain));
    let detail = Detail::Total;
    let sums = Options { detail, ..plain };
    all.add("sums only", Report::from_trace(&scene(), &sums));
    all.add_edited("a lower bound", scene(), |trace| {
        trace.losses = BTreeMap::from([(Loss::UncountedCalls, 7)]);
    });
    all.add_edited("figures that the backend cannot know", scene(), |trace| {
        for process in &mut trace.processes {
            process.counters = None;
        }
    });
    all.add_edited("a command that a signal killed", scene(), |trace| {
        trace.exit = Some(Exit::Signal(libc::SIGKILL));
    });
    all.add_edited("some calls without files", scene(), |trace| {
        trace.calls_without_files = 3;
    });
    all.add_edited("a call without any file", scene(), unmap);
    let name = "a failed call that names a file by its path";
    all.add_edited(name, scene(), |trace| {
        unmap(trace);
        let rows = &mut trace.processes[0].threads[0].rows;
        rows.push(sample::row("unlinkat").failed(libc::ENOENT, 1));
    });
}

/// Adds a call of `munmap`.
fn unmap(trace: &mut Trace) {
    trace.counted = Some("%data,%file,%memory".parse().expect("a selection"));
    let rows = &mut trace.processes[0].threads[0].rows;
    rows.push(sample::row("munmap").called(1));
}

fn add_others(all: &mut Reports) {
    let mut timed = Scene::new();
    // There is only one call of the second.
    let process = timed.run("cat: read in 0 1000, pread64 in 0 10 100050ns");
    let durations: Vec<u64> = (0..100).map(|n| 100_000 + n).collect();
    let read = &mut process.threads[0].rows[0];
    *read = read.clone().took(&durations);
    let name = "percentiles, known to the precision of the histogram";
    all.add(name, report_of(&timed.trace));
    let mut limited = report_of(&sample::make(50));
    limited.limit_processes(4);
    all.add("some processes are not listed", limited);
    all.add("a log without files", report_of(&sample::from_strace()));
}

fn add_transfers(all: &mut Reports) {
    let inferred = "copier: read in 16 65536, write in~out 16 65536";
    let changed = "copier: read in 1 100, sendfile in->out 1 65536, write in!out 1 100";
    for (name, processes) in [
        ("an inferred transfer", inferred),
        ("an inferred transfer, which is accepted", inferred),
        (
            "an observed transfer beside an inferred one",
            "copier: read in 32 131072, write in>out 16 65536, write in~out 16 65536",
        ),
        ("an observed transfer", "copier: sendfile in->out 1 65536"),
        (
            "an observed transfer and bytes of the program's own",
            "copier: read in 1 10, sendfile in->out 1 65536, write out 1 100",
        ),
        (
            "an observed transfer and changed memory of its source",
            changed,
        ),
        ("changed memory, which is accepted", changed),
        (
            "a transfer through two processes, of which no byte counts twice",
            "cat: splice in->pipe 1 65536; dd: splice pipe->out 1 65536",
        ),
        (
            "a pipe with a little of a second source",
            "cat: splice in->pipe 1 65536, sendfile other->pipe 1 100; \
             dd: splice pipe->out 1 65536",
        ),
        (
            "a pipe with as much of a second source",
            "cat: splice in->pipe 1 65536, sendfile other->pipe 1 65536; \
             dd: splice pipe->out 1 65536",
        ),
    ] {
        all.add(name, report_of(&files::scene(processes).trace));
    }
}

/// The stack of a call that `app::load` made, of one that `std::io::copy` made for `app::save`, and
/// of one whose end is unknown.
fn stacks() -> Vec<SampledStack> {
    let frame = |function: &str, file: &str| Frame {
        function: Some(function.into()),
        file: Some(file.into()),
        module: Some("/bin/app".into()),
        ..Frame::default()
    };
    let read = frame(
        "<std::fs::File as std::io::Read>::read",
        "/rustc/1/library/std/src/fs.rs",
    );
    let copy = frame(
        "std::io::copy::stack_buffer_copy<A, B>",
        "/rustc/1/library/std/src/io/copy.rs",
    );
    let [load, save, main] = ["load", "save", "main"]
        .map(|name| frame(&format!("app::{name}"), &format!("src/{name}.rs")));
    let frames = [
        (vec![read.clone(), load, main.clone()], StackEnd::Root),
        (vec![read.clone(), copy, save, main], StackEnd::Root),
        (vec![read], StackEnd::TooDeep),
    ];
    frames
        .into_iter()
        .map(|(frames, end)| Stack { frames, end }.into())
        .collect()
}

/// A program that reads 8 times and writes 8 times. So many of the reads and of the writes as
/// `samples` says have these stacks.
fn sampled(samples: &[(u32, u64)]) -> Trace {
    let mut scene = Scene::new();
    scene.file(FileKind::UnixStream, "out");
    let process = scene.run("app: read in 8 65536 @1, write in>out 8 65536 @2");
    for row in &mut process.threads[0].rows {
        let samples = samples.iter();
        let samples =
            samples.map(|&(stack, count)| (StackId(stack), SampleSum::of_every_call(count)));
        row.callers.extend(samples);
    }
    scene.trace.stacks = Some(stacks());
    scene.trace
}

fn add_callers(all: &mut Reports) {
    for (name, samples) in [
        ("callers of every call", &[(0, 6), (1, 2)][..]),
        ("callers of half of the calls", &[(0, 3), (1, 1)]),
        ("a stack that was cut off", &[(0, 6), (2, 2)]),
        ("all samples are of std::io::copy", &[(1, 4)]),
        ("all samples are of the program itself", &[(0, 2)]),
        (
            "some samples are of std::io::copy, the others cut off",
            &[(1, 2), (2, 2)],
        ),
        ("all samples are cut off", &[(2, 2)]),
        ("no samples", &[]),
    ] {
        all.add(name, report_of(&sampled(samples)));
    }
    let without_lines = |trace: &mut Trace| {
        let stacks = trace.stacks.iter_mut().flatten();
        for frame in stacks.flat_map(|stack| &mut stack.frames) {
            frame.file = None;
        }
    };
    let name = "stacks without line tables";
    all.add_edited(name, sampled(&[(0, 8)]), without_lines);
    all.add_edited("no stacks", sampled(&[]), |trace| {
        trace.stacks = None;
        let note = "callers are unknown: the backend does not sample them";
        trace.notes = vec![note.to_owned()];
    });
}

/// A trace in which 5 of 7 `openat` and all of 2 `stat` failed.
fn with_failed_paths() -> Trace {
    let mut trace = files::scene("cp: read in 1 10").trace;
    let paths = trace.failed_paths.insert(FailedPaths::default());
    paths.directory_may_change = true;
    for (call, errno, path) in [
        ("openat", 2, "/etc/app.conf"),
        ("openat", 2, "/etc/app.d/one"),
        ("openat", 13, "/etc/app.d/one"),
        ("openat", 2, "data/x"),
        ("openat", 2, "/usr/../etc/y"),
        ("stat", 2, "/srv"),
        ("stat", 2, "/srv"),
    ] {
        add_path(&mut trace, call, errno, Some(path));
    }
    trace.counted = Some(Selection::default());
    add_calls(&mut trace, "openat", [7, 5]);
    add_calls(&mut trace, "stat", [2, 2]);
    trace
}

fn add_calls(trace: &mut Trace, name: &'static str, [calls, errors]: [u64; 2]) {
    let sums = OtherCalls {
        calls,
        errors,
        ..OtherCalls::NONE
    };
    let all = trace.other_calls.get_or_insert_default();
    all.insert(Call::native(name), sums);
}

fn add_path(trace: &mut Trace, call: &'static str, errno: i32, path: Option<&str>) {
    let paths = trace.failed_paths.get_or_insert_default();
    paths.add(sample::on_path(call, errno, path));
}

/// The same trace with the paths of the calls that succeeded: 2 `openat`.
fn with_all_paths() -> Trace {
    let mut trace = with_failed_paths();
    trace.failed_paths.get_or_insert_default().has_successes = true;
    add_path(&mut trace, "openat", 0, Some("/etc/hosts"));
    add_path(&mut trace, "openat", 0, Some("/lib/libc.so.6"));
    trace
}

fn add_paths(all: &mut Reports) {
    all.add("paths of failed calls", report_of(&with_failed_paths()));
    all.add("paths of all calls", report_of(&with_all_paths()));
    let name = "a failed call of an unknown path";
    all.add_edited(name, with_failed_paths(), |trace| {
        add_path(trace, "openat", 14, None);
    });
    let start_in_work = |trace: &mut Trace| {
        trace.directory = Some("/work".to_owned());
        let paths = trace.failed_paths.get_or_insert_default();
        paths.directory_may_change = false;
    };
    let name = "relative paths start in /work";
    all.add_edited(name, with_failed_paths(), start_in_work);
    let name = "a path that starts in a directory of the call";
    all.add_edited(name, with_failed_paths(), |trace| {
        start_in_work(trace);
        let mut below = sample::on_path("openat", 2, Some("data/x"));
        below.path.as_mut().expect("given").is_below_descriptor = true;
        trace.failed_paths.get_or_insert_default().add(below);
    });
    let name = "an unknown path of a call that succeeded";
    all.add_edited(name, with_all_paths(), |trace| {
        add_path(trace, "execve", 0, None);
        add_calls(trace, "execve", [1, 0]);
    });
    let name = "calls that a signal interrupted";
    all.add_edited(name, with_all_paths(), |trace| {
        add_calls(trace, "openat", [8, 6]);
    });
    all.add_edited("paths that had no room", with_all_paths(), |trace| {
        trace.failed_paths.get_or_insert_default().left_out = 1;
    });
    all.add_edited("paths and losses", with_all_paths(), |trace| {
        trace.losses.insert(Loss::MissedProbes, 1);
    });
    let name = "paths of calls that are not all counted";
    all.add_edited(name, with_all_paths(), |trace| trace.other_calls = None);
    all.add_edited("no paths", with_failed_paths(), |trace| {
        trace.failed_paths = None;
    });
}
