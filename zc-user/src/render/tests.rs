//! Reports as tables and as JSON. `INSTA_UPDATE=always cargo test -p zctrace --lib` writes all
//! snapshots anew; read the difference before you commit it.

use std::collections::BTreeMap;

use super::*;
use crate::{
    report::{
        self, Detail,
        sample::{self, row},
    },
    syscalls::{Abi, Call, Selection},
    trace::{
        Exit, FailedPath, FailedPaths, Frame, GivenPath, Loss, OtherCalls, Stack, StackEnd,
        StackId, Trace,
    },
};

/// Compares with a snapshot, which was made on `x86_64`: reports name the machine's own table of
/// calls.
pub(super) fn assert_snapshot(name: &str, found: &str) {
    // Insta compares without the white space at the end.
    assert!(found.ends_with('\n'), "{name} ends in a newline");
    let on_x86_64 = found.replace(Abi::NATIVE.name(), Abi::X86_64.name());
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, on_x86_64) });
}

fn report(trace: &Trace) -> Report {
    let mut report = Report::from_trace(trace, &report::Options::default());
    report.tool.version = "0.0.0".into();
    report
}

fn table(trace: &Trace, width: Option<usize>) -> String {
    render(
        &report(trace),
        Format::Table,
        &Options {
            width,
            ..Options::default()
        },
    )
}

/// No line is wider than the terminal.
pub(super) fn assert_fits(text: &str, width: usize) {
    for line in text.lines() {
        assert!(
            text::width(line) <= width,
            "{} columns in {width}: {line}",
            text::width(line)
        );
    }
}

#[test]
fn one_process_at_several_widths() {
    for width in [200, 80, 60, 40] {
        let text = table(&sample::copier(), Some(width));
        assert_fits(&text, width);
        assert_snapshot(&format!("copier-{width}"), &text);
    }
    assert_snapshot("copier-200", &table(&sample::copier(), None));
}

/// The sample copier, in which `std::io::copy` and a loop of its own made the calls, and the loader
/// mapped a library.
fn with_callers() -> Trace {
    let frame = |function: &str, file: Option<&str>, module: &str| Frame {
        function: Some(function.into()),
        file: file.map(str::to_owned),
        line: file.map(|_| 41),
        module: Some(module.into()),
        ..Frame::default()
    };
    let own = |function: &str| {
        frame(
            function,
            Some("/home/me/copier/src/copiers/one_after_another.rs"),
            "/bin/copier",
        )
    };
    let copy = frame(
        "std::io::copy::copy",
        Some("/rustc/5980/library/std/src/io/copy.rs"),
        "/bin/copier",
    );
    let main = || {
        frame(
            "copier::main",
            Some("/home/me/copier/src/main.rs"),
            "/bin/copier",
        )
    };
    let loader = frame("_dl_map_segments", None, "/lib64/ld-linux-x86-64.so.2");
    let stack = |frames: Vec<Frame>, end| Stack { frames, end };
    let stacks = vec![
        stack(
            vec![
                copy,
                own("copier::copiers::one_after_another::copy_all_of_it"),
                main(),
            ],
            StackEnd::Root,
        ),
        stack(
            vec![
                own("copier::copiers::one_after_another::copy_by_hand"),
                main(),
            ],
            StackEnd::TooDeep,
        ),
        stack(vec![loader], StackEnd::Root),
    ];
    let mut trace = Trace {
        stacks: Some(stacks),
        ..sample::copier()
    };
    for row in trace
        .processes
        .iter_mut()
        .flat_map(|process| &mut process.threads)
        .flat_map(|thread| &mut thread.rows)
    {
        let samples: &[(u32, u64)] = match row.call.name.as_ref() {
            "mmap" => &[(2, 2)],
            "read" if row.calls > 0 => &[(0, 12), (1, 3)],
            "write" => &[(1, 9)],
            _ => &[],
        };
        row.callers = samples
            .iter()
            .map(|&(stack, samples)| (StackId(stack), samples))
            .collect();
    }
    trace
}

#[test]
fn below_each_row_is_its_most_frequent_caller_on_one_line() {
    for width in [200, 100, 80, 40] {
        let text = table(&with_callers(), Some(width));
        assert_fits(&text, width);
        assert_snapshot(&format!("callers-{width}"), &text);
    }
    for width in 0..200 {
        table(&with_callers(), Some(width));
    }
    let all = Options {
        width: Some(120),
        all_transfers: true,
        ..Options::default()
    };
    assert_snapshot(
        "callers-all",
        &render(&report(&with_callers()), Format::Table, &all),
    );
}

#[test]
fn the_rows_of_totals_and_of_programs_have_their_callers() {
    let mut trace = with_callers();
    let second = trace.processes[0].clone();
    trace.processes.push(second);
    let text = |by| {
        render(
            &report(&trace),
            Format::Table,
            &Options {
                by: Some(by),
                ..Options::default()
            },
        )
    };
    for by in [Detail::Total, Detail::Program] {
        assert!(
            text(by).contains("via std::io::copy, in 48 of 60 samples"),
            "{}",
            text(by)
        );
    }
}

/// The sample copier with failed calls on paths.
fn with_failed_paths() -> Trace {
    let mut failed = FailedPaths::default();
    let mut add = |call: &'static str, errno: i32, path: &str, calls: usize| {
        let path = Some(GivenPath {
            text: path.to_owned(),
            is_cut: false,
            is_below_descriptor: false,
        });
        let one = FailedPath {
            call: Call::native(call),
            errno: errno.unsigned_abs(),
            path,
        };
        (0..calls).for_each(|_| failed.add(one.clone()));
    };
    add("openat", libc::ENOENT, "/etc/app.d/\n1", 30);
    add("newfstatat", libc::ENOENT, "/etc/app.d/2", 9);
    add("newfstatat", libc::ENOENT, "/etc/app.d/3", 1);
    add("openat", libc::EACCES, "/etc/shadow", 1);
    add("unlink", libc::ENOENT, "a\n", 2);
    add("openat", libc::ENOENT, "in", 1);
    add("mkdir", libc::EEXIST, "/", 1);
    add("access", libc::ENOENT, "/etc/ld.so.preload", 7);
    Trace {
        failed_paths: Some(failed),
        ..sample::copier()
    }
}

#[test]
fn the_head_names_failed_paths_and_counts_what_the_loader_looked_for() {
    let mut trace = with_failed_paths();
    let line = |text: &str, title: &str| {
        text.lines()
            .find(|line| line.starts_with(title))
            .map(str::to_owned)
    };
    let text = table(&trace, None);
    let expected =
        "failed: ENOENT in (openat), 40 x ENOENT /etc/app.d/..., 2 x ENOENT a\\n (unlink), 2 more";
    assert_eq!(line(&text, "failed").as_deref(), Some(expected));
    assert_eq!(
        line(&text, "loading").as_deref(),
        Some("loading: 7 searches for libraries found none")
    );
    trace.losses.insert(Loss::MissedProbes, 1);
    assert!(line(&table(&trace, None), "failed, at least: ENOENT in").is_some());
}

#[test]
fn all_failed_paths_are_listed_if_all_is_asked_for() {
    let options = Options {
        width: Some(60),
        all_transfers: true,
        ..Options::default()
    };
    let text = render(&report(&with_failed_paths()), Format::Table, &options);
    assert_fits(&text, 60);
    let list = text.find("FAILED PATHS").expect("it is there");
    assert_snapshot("failed-paths", &text[list..]);
    assert!(!table(&with_failed_paths(), None).contains("FAILED PATHS"));
}

#[test]
fn the_tables_fit_every_width() {
    for trace in [
        sample::copier(),
        sample::make(30),
        sample::from_strace(),
        sample::nothing(),
        lossy(),
    ] {
        for width in 40..200 {
            assert_fits(&table(&trace, Some(width)), width);
        }
    }
    // Fewer columns are too few for the tables, but this must not panic.
    for width in 0..40 {
        table(&sample::copier(), Some(width));
    }
}

#[test]
fn a_few_processes_are_all_shown_after_their_total() {
    assert_snapshot("make-5", &table(&sample::make(5), Some(100)));
}

#[test]
fn many_processes_are_summed_up_by_program() {
    let text = table(&sample::make(2000), Some(80));
    assert!(text.lines().count() <= 24, "{} lines", text.lines().count());
    assert_snapshot("make-2000", &text);
}

/// The table of 2000 processes, grouped like this.
fn make_by(by: Detail) -> String {
    let options = Options {
        by: Some(by),
        width: Some(100),
        ..Options::default()
    };
    render(&report(&sample::make(2000)), Format::Table, &options)
}

#[test]
fn by_process_the_busiest_are_shown_and_the_others_summed() {
    let text = make_by(Detail::Process);
    assert!(text.contains("\nand 1990 more processes with "), "{text}");
    assert!(text.lines().count() < 120, "{} lines", text.lines().count());
    assert_eq!(text.matches("\ncc1 (").count(), 10, "{text}");
}

#[test]
fn by_program_each_program_has_a_section() {
    assert_snapshot("by-program", &make_by(Detail::Program));
}

#[test]
fn many_programs_are_cut() {
    let mut trace = sample::make(30);
    for process in &mut trace.processes {
        process.comm = Some(format!("program-{}", process.pid));
    }
    let text = table(&trace, Some(80));
    assert!(
        text.contains("PROGRAMS, 30 in 30 processes\n")
            && text.contains("\n  and 24 more with 24 processes, "),
        "{text}"
    );
    let all = render(
        &report(&trace),
        Format::Table,
        &Options {
            all_processes: true,
            ..Options::default()
        },
    );
    assert!(!all.contains("--all shows them"), "{all}");
}

#[test]
fn the_head_says_where_the_time_went() {
    let line = |trace: &Trace, start: &str| {
        let text = table(trace, None);
        text.lines()
            .find(|line| line.starts_with(start))
            .map(str::to_owned)
    };
    let mut trace = sample::of_threads(vec![vec![
        row("read").took(&[500_000_000]),
        row("write").took(&[30_000_000]),
        row("mmap").took(&[2_000_000]),
        row("munmap").took(&[1_000_000]),
        row("pread64").took(&[1_000_000]),
    ]]);
    let time = "time: 701 ms outside of calls, 534 ms in calls (read 500 ms, write 30.0 ms)";
    assert_eq!(line(&trace, "time").as_deref(), Some(time));
    let summary = "exit 0, wall 1.23 s, CPU 312 ms (user 12.0 ms, system 300 ms), off CPU 923 ms";
    assert_eq!(line(&trace, "exit").as_deref(), Some(summary));
    assert_eq!(
        line(&trace, "1 process").as_deref(),
        Some("1 process, 1 thread, 5 calls, backend ebpf, exact")
    );
    trace.counted = Some(Selection::default());
    let rest = "time: 701 ms outside of counted calls (-e all shows where), 534 ms in calls that move data (read 500 ms, ";
    assert!(line(&trace, "time").is_some_and(|line| line.starts_with(rest)));
    assert_eq!(
        line(&trace, "1 process").as_deref(),
        Some("1 process, 1 thread, 5 calls that move data, backend ebpf, exact")
    );
    trace.processes[0].threads[0]
        .rows
        .push(row("recvfrom").unfinished(1));
    assert!(
        line(&trace, "time")
            .is_some_and(|line| line.contains(" 701 ms outside of counted calls that returned "))
    );
    // Threads are in calls at the same time, so that nothing can be subtracted.
    let threads = sample::copier();
    let time = "time, all threads: 1.85 s in calls (read 1.47 s, write 383 ms)";
    assert_eq!(line(&threads, "time").as_deref(), Some(time));
    assert!(line(&threads, "exit").is_some_and(|line| !line.contains("off CPU")));
    // A log does not say how long the command ran.
    trace.wall_ns = None;
    assert!(line(&trace, "time").is_some_and(|line| line.starts_with("time: 534 ms in calls ")));
    // Without times there is no line of times.
    assert_eq!(line(&sample::from_strace(), "time"), None);
}

#[test]
fn calls_without_rows_are_in_the_head_and_beside_their_process() {
    let mut trace = sample::of_threads(vec![vec![row("read").took(&[500_000])]]);
    trace.counted = Some(Selection::default());
    let sums = |calls, total_ns| OtherCalls {
        calls,
        total_ns,
        ..OtherCalls::NONE
    };
    let slept = sums(2, Some(1_200_000_000));
    trace.processes[0].threads[0].other_calls = Some(sums(5, Some(1_200_003_000)));
    trace.other_calls = Some(BTreeMap::from([
        (Call::native("clock_nanosleep"), slept),
        (Call::native("openat"), sums(3, Some(3_000))),
        (
            Call::native("exit_group"),
            OtherCalls {
                unfinished: 1,
                ..OtherCalls::NONE
            },
        ),
    ]));
    let text = table(&trace, None);
    assert!(
        text.contains("\n1 process, 1 thread, 6 calls, 1 that move data, backend ebpf, exact\n"),
        "{text}"
    );
    let time = "\ntime: 1.20 s in other calls (clock_nanosleep 1.20 s), 34.1 ms outside of calls, 500 µs in calls that move data\n";
    assert!(text.contains(time), "{text}");
    assert!(
        text.contains("\ncopier (1234), 1 thread, 1 call, 5 other calls in 1.20 s\n"),
        "{text}"
    );
    // A call that did not return may have taken all the time.
    let killed = OtherCalls {
        unfinished: 1,
        ..OtherCalls::NONE
    };
    trace.other_calls = Some(BTreeMap::from([(Call::native("clock_nanosleep"), killed)]));
    assert!(table(&trace, None).contains("1.23 s outside of calls that returned"));
    // Where one time is unknown, so is the sum.
    trace.other_calls = Some(BTreeMap::from([(Call::native("openat"), sums(3, None))]));
    assert!(!table(&trace, None).contains("\ntime"));
}

#[test]
fn every_process_is_shown_on_request() {
    let options = Options {
        all_processes: true,
        ..Options::default()
    };
    let text = render(&report(&sample::make(2000)), Format::Table, &options);
    assert!(text.contains("cc1 (3998)") && !text.contains("more processes"));
}

#[test]
fn by_total_shows_only_the_total() {
    let options = report::Options {
        detail: Detail::Total,
        ..report::Options::default()
    };
    let report = Report::from_trace(&sample::make(5), &options);
    assert_snapshot(
        "by-total",
        &render(&report, Format::Table, &Options::default()),
    );
}

#[test]
fn by_thread_shows_a_section_for_every_thread() {
    let options = report::Options {
        detail: Detail::Thread,
        ..report::Options::default()
    };
    let report = Report::from_trace(&sample::copier(), &options);
    assert_snapshot(
        "by-thread",
        &render(&report, Format::Table, &Options::default()),
    );
}

#[test]
fn unknown_figures_are_a_dash_with_a_legend() {
    assert_snapshot("strace", &table(&sample::from_strace(), Some(120)));
}

#[test]
fn a_process_without_calls_is_one_line() {
    assert_snapshot("nothing", &table(&sample::nothing(), Some(80)));
}

/// A copier that a signal killed, with losses.
fn lossy() -> Trace {
    let mut trace = sample::copier();
    trace.exit = Some(Exit::Signal(libc::SIGKILL));
    trace.losses = BTreeMap::from([
        (Loss::UncountedCalls, 12),
        (Loss::UncountedErrnos, 2),
        (Loss::MissedProbes, 0),
    ]);
    trace.notes = vec!["This kernel has no field `nvcsw`: context switches are unknown.".into()];
    trace.processes[0].threads[0].rows[0].errnos.clear();
    trace
}

#[test]
fn losses_say_what_is_missing_and_what_helps() {
    assert_snapshot("lossy-80", &table(&lossy(), Some(80)));
}

#[test]
fn the_head_says_how_the_command_ended() {
    let head = |exit| {
        let text = table(
            &Trace {
                exit,
                ..sample::nothing()
            },
            None,
        );
        text.lines()
            .nth(1)
            .and_then(|line| line.split(',').next())
            .map(str::to_owned)
            .expect("has a summary")
    };
    assert_eq!(head(Some(Exit::Code(3))), "exit 3");
    assert_eq!(head(Some(Exit::Signal(libc::SIGSEGV))), "killed by SIGSEGV");
    assert_eq!(head(Some(Exit::Signal(40))), "killed by signal 40");
    assert_eq!(head(None), "exit -");
}

#[test]
fn the_tables_in_colour() {
    let text = render(
        &report(&lossy()),
        Format::Table,
        &Options {
            width: Some(80),
            colour: true,
            ..Options::default()
        },
    );
    assert_snapshot("lossy-colour", &text.replace('\x1b', "^["));
}

#[test]
fn hostile_names_cannot_drive_the_terminal() {
    let mut trace = sample::make(2);
    trace.command = vec!["./a b".into(), "\x1b]0;owned\x07".into(), "x".repeat(300)];
    trace.processes[1].comm = Some("\x1b[2Jevil\n\u{202e}".into());
    trace.notes = vec!["line\x1b[2J".into()];
    let text = table(&trace, Some(80));
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
    assert_fits(&text, 80);
    assert_snapshot("hostile", &text);
}

#[test]
fn json_is_the_model_and_ends_in_a_newline() {
    let report = report(&sample::copier());
    let json = render(&report, Format::Json, &Options::default());
    assert_eq!(Report::from_json(&json).expect("is read"), report);
    assert_snapshot("copier-json", &json);
}

mod formats;
mod html;
mod latency;
mod transfers;
