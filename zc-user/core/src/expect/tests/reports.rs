//! Made-up reports, by the names that `verdicts.txt` gives them.

use std::collections::BTreeMap;

use crate::{
    report::{
        Counted, Detail, Files, Options, Report,
        sample::{
            self,
            files::{Scene, copy, map, read, write, written_after, written_changed, written_held},
        },
    },
    syscalls::{Call, Selection},
    trace::{
        Exit, FailedPath, FailedPaths, FileId, FileKind, Frame, GivenPath, Loss, OtherCalls, Row,
        Stack, StackEnd, StackId, Trace,
    },
};

/// Every report that `verdicts.txt` is about.
pub(super) fn reports() -> BTreeMap<&'static str, Report> {
    let all = [
        reports_of_a_copier(),
        reports_of_others(),
        reports_of_transfers(),
        reports_with_callers(),
        reports_with_paths(),
    ];
    all.into_iter().flatten().collect()
}

/// Reports with their names.
type Named = Vec<(&'static str, Report)>;

/// A copier and the shell that started it. It copies `in.dat` by `sendfile` to a Unix socket after
/// `copy_file_range` failed, and `log` by a loop to a pipe. The source of the datagram that it
/// sends is unknown.
pub(super) fn scene() -> Trace {
    let mut scene = Scene::new();
    let [source, library, log] =
        ["in.dat", "libc.so.6", "data/log"].map(|name| scene.regular(name));
    let socket = scene.file(FileKind::UnixStream, "s.sock");
    let pipe = scene.pipe();
    let datagrams = scene.file(FileKind::Udp, "datagrams");
    scene.process(
        "sh",
        vec![read("read", library, 2, 832), map(library, 4096)],
    );
    let copier = vec![
        copy("copy_file_range", source, socket, 0, 0)
            .at(1)
            .failed(libc::EXDEV, 1),
        copy("sendfile", source, socket, 0, 1 << 20)
            .at(2)
            .each(1 << 20)
            .took(&[2000, 3000, 1_500_000])
            .failed(libc::EAGAIN, 2),
        read("read", log, 16, 1 << 16).at(3).each(4096).zero(1),
        written_held("write", log, pipe, 16, 1 << 16, 1 << 16)
            .at(4)
            .each(4096),
        write("sendto", datagrams, 1, 100).at(5),
    ];
    scene.process("copier", copier);
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

/// Reports of the [`scene`] that know less.
fn reports_of_a_copier() -> Named {
    let edited = |edit: fn(&mut Trace)| {
        let mut trace = scene();
        edit(&mut trace);
        report_of(&trace)
    };
    let mut undeclared = report_of(&scene());
    undeclared.counted = None;
    let mut with_all = undeclared.clone();
    with_all.counted = Some(Counted::All);
    let mut without_errnos = report_of(&scene());
    for row in &mut without_errnos.totals.syscalls {
        row.errnos.clear();
    }
    let mut without_directory = report_of(&scene());
    without_directory.directory = None;
    let sums = Options {
        detail: Detail::Total,
        ..Options::default()
    };
    vec![
        (
            "a lower bound",
            edited(|trace| trace.losses = BTreeMap::from([(Loss::UncountedCalls, 7)])),
        ),
        (
            "figures that the backend cannot know",
            edited(|trace| {
                for process in &mut trace.processes {
                    process.counters = None;
                }
            }),
        ),
        (
            "some calls without files",
            edited(|trace| trace.calls_without_files = 3),
        ),
        (
            "no calls by file",
            Report::from_trace(&scene(), &Options::default()),
        ),
        ("sums only", Report::from_trace(&scene(), &sums)),
        ("a call without any file", edited(|trace| unmap(trace))),
        (
            "a failed call that names a file by its path",
            edited(|trace| {
                unmap(trace);
                let rows = &mut trace.processes[0].threads[0].rows;
                rows.push(sample::row("unlinkat").failed(libc::ENOENT, 1));
            }),
        ),
        (
            "an older report that does not say what it counted",
            undeclared,
        ),
        ("every call is counted", with_all),
        (
            "errors without an errno, which may have any",
            without_errnos,
        ),
        ("patterns with typing errors", report_of(&scene())),
        (
            "the directory where relative paths start is known",
            report_of(&scene()),
        ),
        (
            "the directory where relative paths start is unknown",
            without_directory,
        ),
    ]
}

/// Adds a call of `munmap`.
fn unmap(trace: &mut Trace) {
    trace.counted = Some("%data,%file,%memory".parse().expect("a selection"));
    let rows = &mut trace.processes[0].threads[0].rows;
    rows.push(sample::row("munmap").called(1));
}

fn reports_of_others() -> Named {
    let mut timed = Scene::new();
    let file = timed.regular("in");
    let durations: Vec<u64> = (0..100).map(|n| 100_000 + n).collect();
    let rows = vec![
        read("read", file, 0, 1000).took(&durations),
        // There is only one call of it.
        read("pread64", file, 0, 10).took(&[100_050]),
    ];
    timed.process("cat", rows);
    let mut limited = report_of(&sample::make(50));
    limited.limit_processes(4);
    vec![
        (
            "percentiles, known to the precision of the histogram",
            report_of(&timed.trace),
        ),
        ("some processes are not listed", limited),
        ("a log without files", report_of(&sample::from_strace())),
    ]
}

/// A report of one process with these calls on `in` and `out`.
fn report_of_rows(rows: impl Fn(FileId, FileId) -> Vec<Row>) -> Report {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out"));
    scene.process("copier", rows(from, to));
    report_of(&scene.trace)
}

fn reports_of_transfers() -> Named {
    const BYTES: u64 = 65536;
    let inferred = report_of_rows(|from, to| {
        vec![
            read("read", from, 16, BYTES),
            written_after("write", from, to, 16, BYTES, BYTES),
        ]
    });
    let beside = report_of_rows(|from, to| {
        vec![
            read("read", from, 32, 2 * BYTES),
            written_held("write", from, to, 16, BYTES, BYTES),
            written_after("write", from, to, 16, BYTES, BYTES),
        ]
    });
    let observed = report_of_rows(|from, to| vec![copy("sendfile", from, to, 1, BYTES)]);
    let with_own_memory = report_of_rows(|from, to| {
        vec![
            read("read", from, 1, 10),
            copy("sendfile", from, to, 1, BYTES),
            write("write", to, 1, 100),
        ]
    });
    let changed = report_of_rows(|from, to| {
        vec![
            read("read", from, 1, 100),
            copy("sendfile", from, to, 1, BYTES),
            written_changed("write", from, to, 1, 100, 100),
        ]
    });
    // A pipe between two processes, with these bytes of a second source.
    let piped = |of_another: u64| {
        let mut scene = Scene::new();
        let [from, other, to] = ["in", "other", "out"].map(|name| scene.regular(name));
        let pipe = scene.pipe();
        let mut rows = vec![copy("splice", from, pipe, 1, BYTES)];
        if of_another > 0 {
            rows.push(copy("sendfile", other, pipe, 1, of_another));
        }
        scene.process("cat", rows);
        scene.process("dd", vec![copy("splice", pipe, to, 1, BYTES)]);
        report_of(&scene.trace)
    };
    vec![
        ("an inferred transfer", inferred.clone()),
        ("an inferred transfer, which is accepted", inferred),
        ("an observed transfer beside an inferred one", beside),
        ("an observed transfer", observed),
        (
            "an observed transfer and bytes of the program's own",
            with_own_memory,
        ),
        (
            "an observed transfer and changed memory of its source",
            changed.clone(),
        ),
        ("changed memory, which is accepted", changed),
        (
            "a transfer through two processes, of which no byte counts twice",
            piped(0),
        ),
        ("a pipe with a little of a second source", piped(100)),
        ("a pipe with as much of a second source", piped(BYTES)),
    ]
}

/// The stack of a call that `app::load` made, of one that `std::io::copy` made for `app::save`, and
/// of one whose end is unknown.
fn stacks() -> Vec<Stack> {
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
        .map(|(frames, end)| Stack { frames, end })
        .collect()
}

/// A program that reads 8 times and writes 8 times. So many of the reads and of the writes as
/// `samples` says have these stacks.
fn sampled(samples: &[(u32, u64)]) -> Trace {
    let mut scene = Scene::new();
    let from = scene.regular("in");
    let to = scene.file(FileKind::UnixStream, "out");
    let mut rows = vec![
        read("read", from, 8, 1 << 16).at(1),
        written_held("write", from, to, 8, 1 << 16, 1 << 16).at(2),
    ];
    for row in &mut rows {
        let samples = samples.iter();
        let samples = samples.map(|&(stack, count)| (StackId(stack), count));
        row.callers.extend(samples);
    }
    scene.process("app", rows);
    scene.trace.stacks = Some(stacks());
    scene.trace
}

fn reports_with_callers() -> Named {
    let mut without_lines = sampled(&[(0, 8)]);
    let stacks = without_lines.stacks.iter_mut().flatten();
    for frame in stacks.flat_map(|stack| &mut stack.frames) {
        frame.file = None;
    }
    let mut without_stacks = sampled(&[]);
    without_stacks.stacks = None;
    without_stacks.notes = vec!["callers are unknown: the backend does not sample them".to_owned()];
    let traces = [
        ("callers of every call", sampled(&[(0, 6), (1, 2)])),
        ("callers of half of the calls", sampled(&[(0, 3), (1, 1)])),
        ("a stack that was cut off", sampled(&[(0, 6), (2, 2)])),
        ("stacks without line tables", without_lines),
        ("no stacks", without_stacks),
        ("all samples are of std::io::copy", sampled(&[(1, 4)])),
        ("all samples are of the program itself", sampled(&[(0, 2)])),
        (
            "some samples are of std::io::copy, the others cut off",
            sampled(&[(1, 2), (2, 2)]),
        ),
        ("all samples are cut off", sampled(&[(2, 2)])),
        ("no samples", sampled(&[])),
    ];
    traces.map(|(name, trace)| (name, report_of(&trace))).into()
}

fn on_path(call: &'static str, errno: u32, path: Option<&str>) -> FailedPath {
    let path = path.map(|path| GivenPath {
        text: path.to_owned(),
        is_cut: false,
        is_below_descriptor: false,
    });
    FailedPath {
        call: Call::native(call),
        errno,
        path,
    }
}

/// A trace in which 5 of 7 `openat` and all of 2 `stat` failed.
fn with_failed_paths() -> Trace {
    let mut scene = Scene::new();
    let file = scene.regular("in");
    scene.process("cp", vec![read("read", file, 1, 10)]);
    let mut trace = scene.trace;
    let mut paths = FailedPaths {
        directory_may_change: true,
        ..FailedPaths::default()
    };
    for (call, errno, path) in [
        ("openat", 2, "/etc/app.conf"),
        ("openat", 2, "/etc/app.d/one"),
        ("openat", 13, "/etc/app.d/one"),
        ("openat", 2, "data/x"),
        ("openat", 2, "/usr/../etc/y"),
        ("stat", 2, "/srv"),
        ("stat", 2, "/srv"),
    ] {
        paths.add(on_path(call, errno, Some(path)));
    }
    trace.failed_paths = Some(paths);
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

/// The same trace with the paths of the calls that succeeded: 2 `openat`.
fn with_all_paths() -> Trace {
    let mut trace = with_failed_paths();
    let paths = trace.failed_paths.get_or_insert_default();
    paths.has_successes = true;
    paths.add(on_path("openat", 0, Some("/etc/hosts")));
    paths.add(on_path("openat", 0, Some("/lib/libc.so.6")));
    trace
}

fn reports_with_paths() -> Named {
    let edited = |mut trace: Trace, edit: fn(&mut Trace, &mut FailedPaths)| {
        let mut paths = trace.failed_paths.take().expect("are known");
        edit(&mut trace, &mut paths);
        trace.failed_paths = Some(paths);
        trace
    };
    let in_work = edited(with_failed_paths(), |trace, paths| {
        trace.directory = Some("/work".to_owned());
        paths.directory_may_change = false;
    });
    let mut without_paths = with_failed_paths();
    without_paths.failed_paths = None;
    let traces = [
        ("paths of failed calls", with_failed_paths()),
        (
            "a failed call of an unknown path",
            edited(with_failed_paths(), |_, paths| {
                paths.add(on_path("openat", 14, None));
            }),
        ),
        ("relative paths start in /work", in_work.clone()),
        (
            "a path that starts in a directory of the call",
            edited(in_work, |_, paths| {
                let mut below = on_path("openat", 2, Some("data/x"));
                below.path.as_mut().expect("given").is_below_descriptor = true;
                paths.add(below);
            }),
        ),
        ("paths of all calls", with_all_paths()),
        (
            "an unknown path of a call that succeeded",
            edited(with_all_paths(), |trace, paths| {
                paths.add(on_path("execve", 0, None));
                add_calls(trace, "execve", [1, 0]);
            }),
        ),
        (
            "calls that a signal interrupted",
            edited(with_all_paths(), |trace, _| {
                add_calls(trace, "openat", [8, 6]);
            }),
        ),
        (
            "paths that had no room",
            edited(with_all_paths(), |_, paths| paths.left_out = 1),
        ),
        (
            "paths and losses",
            edited(with_all_paths(), |trace, _| {
                trace.losses.insert(Loss::MissedProbes, 1);
            }),
        ),
        (
            "paths of calls that are not all counted",
            edited(with_all_paths(), |trace, _| trace.other_calls = None),
        ),
        ("no paths", without_paths),
    ];
    traces
        .map(|(name, trace)| (name, Report::from_trace(&trace, &Options::default())))
        .into()
}
