//! Reports as tables and as JSON. There is one snapshot for each format, all of the same report.
//! `INSTA_UPDATE=always cargo test -p zctrace --lib` writes them anew; read the difference before
//! you commit it.

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

fn at_width(width: usize) -> Options {
    Options {
        width: Some(width),
        ..Options::default()
    }
}

fn all_transfers() -> Options {
    Options {
        all_transfers: true,
        ..Options::default()
    }
}

fn by_detail(detail: Detail) -> report::Options {
    report::Options {
        detail,
        ..report::Options::default()
    }
}

/// The table of a report.
fn shown(report: &Report, options: &Options) -> String {
    render(report, Format::Table, options)
}

fn table(trace: &Trace, width: Option<usize>) -> String {
    let options = width.map_or_else(Options::default, at_width);
    shown(&report(trace), &options)
}

/// Asserts that a text has each of these parts.
#[track_caller]
fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

/// The line of a text that begins with this.
fn line_of(text: &str, start: &str) -> Option<String> {
    let mut lines = text.lines();
    lines
        .find(|line| line.starts_with(start))
        .map(str::to_owned)
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

/// A report with something in every part: transfers of several processes, callers, failed paths,
/// losses, notes.
fn everything() -> Report {
    let mut trace = Trace {
        failed_paths: with_failed_paths().failed_paths,
        stacks: with_callers().stacks,
        losses: BTreeMap::from([(Loss::UncountedErrnos, 2)]),
        notes: vec!["This kernel has no field `nvcsw`: context switches are unknown.".into()],
        ..transfers::several()
    };
    let cat = &mut trace.processes[0].threads[0];
    cat.rows[0].callers = BTreeMap::from([(StackId(0), 12), (StackId(1), 3)]);
    cat.rows.push(row("poll").took(&[800, 900, 12_000]));
    cat.rows.push(row("exit_group").unfinished(1));
    let mut report = transfers::with_files(&trace);
    report.tool.version = "0.0.0".into();
    report
}

#[test]
fn every_format_has_a_snapshot() {
    let report = everything();
    for width in [80, 120] {
        let options = Options {
            histogram: Some(Bars::Blocks),
            ..at_width(width)
        };
        let text = shown(&report, &options);
        assert_snapshot(&format!("table-{width}"), &text);
    }
    for (name, format) in [
        ("json", Format::Json),
        ("csv", Format::Csv),
        ("markdown", Format::Markdown),
        ("folded", Format::Folded),
    ] {
        let text = render(&report, format, &Options::default());
        // The lines of CSV end as RFC 4180 has it; those of the snapshots as all others here.
        assert_snapshot(name, &text.replace("\r\n", "\n"));
    }
    // An element on each line, so that a difference can be read; without the style.
    let page = html(&report).replace(include_str!("html/page.css"), "");
    assert_snapshot("html", &page.replace("><", ">\n<"));
}

#[test]
fn a_narrow_table_has_fewer_columns_and_names_the_others() {
    let text = table(&sample::copier(), Some(80));
    assert_has(&text, &["\nno room for: min, p99\n"]);
    assert_has(
        &table(&sample::copier(), Some(40)),
        &[
            "\n  syscall   calls    bytes    total\n",
            "\n  mmap          3        -  13.7 µs\n",
            "\nno room for: errors, avg size, % time,\n  min, avg, max, p99\n",
        ],
    );
    assert!(!table(&sample::copier(), None).contains("no room for"));
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
    let code = |function, file| frame(function, Some(file), "/bin/copier");
    let own = "/home/me/copier/src/copiers/one_after_another.rs";
    let main = || code("copier::main", "/home/me/copier/src/main.rs");
    let by_library = vec![
        code(
            "std::io::copy::copy",
            "/rustc/5980/library/std/src/io/copy.rs",
        ),
        code("copier::copiers::one_after_another::copy_all_of_it", own),
        main(),
    ];
    let by_hand = code("copier::copiers::one_after_another::copy_by_hand", own);
    let loader = frame("_dl_map_segments", None, "/lib64/ld-linux-x86-64.so.2");
    let stacks = [
        (by_library, StackEnd::Root),
        (vec![by_hand, main()], StackEnd::TooDeep),
        (vec![loader], StackEnd::Root),
    ];
    let stacks = stacks.map(|(frames, end)| Stack { frames, end });
    let mut trace = Trace {
        stacks: Some(stacks.into()),
        ..sample::copier()
    };
    let threads = trace
        .processes
        .iter_mut()
        .flat_map(|process| &mut process.threads);
    for row in threads.flat_map(|thread| &mut thread.rows) {
        let samples: &[(u32, u64)] = match row.call.name.as_ref() {
            "mmap" => &[(2, 2)],
            "read" if row.calls > 0 => &[(0, 12), (1, 3)],
            "write" => &[(1, 9)],
            _ => &[],
        };
        let samples = samples.iter();
        row.callers = samples
            .map(|&(stack, samples)| (StackId(stack), samples))
            .collect();
    }
    trace
}

#[test]
fn below_each_row_is_its_most_frequent_caller_on_one_line() {
    let text = table(&with_callers(), Some(80));
    assert_fits(&text, 80);
    let parts = [
        "\n    caller: copier::copier…another.rs:41) via std::io::copy, in 24 of 30 samples\n",
        "\n    caller: copier::copiers::one_af…ne_after_another.rs:41), in 18 of 18 samples\n",
        "\nCALLERS, 50 samples, 26 with a complete stack\n  24 samples, by read\n    std::io::copy::copy (",
        "\n  24 samples, by read, write\n",
        "\n    incomplete: it is deeper than the part that was copied, at most 64 KiB\n",
        "\n  and 1 more stack with 2 samples: --all shows them\n",
    ];
    assert_has(&text, &parts);
    let all = Options {
        width: Some(120),
        ..all_transfers()
    };
    let text = shown(&report(&with_callers()), &all);
    let others = [
        "copy_by_hand (one_after_another.rs:41), in 6 of 30 samples\n",
        "\n  2 samples, by mmap\n    _dl_map_segments (ld-linux-x86-64.so.2)\n",
    ];
    assert_has(&text, &others);
}

#[test]
fn the_rows_of_totals_and_of_programs_have_their_callers() {
    let mut trace = with_callers();
    let second = trace.processes[0].clone();
    trace.processes.push(second);
    let text = |by| {
        shown(
            &report(&trace),
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
    let text = table(&trace, None);
    let expected =
        "failed: ENOENT in (openat), 40 x ENOENT /etc/app.d/..., 2 x ENOENT a\\n (unlink), 2 more";
    assert_eq!(line_of(&text, "failed").as_deref(), Some(expected));
    assert_eq!(
        line_of(&text, "loading").as_deref(),
        Some("loading: 7 searches for libraries found none")
    );
    trace.losses.insert(Loss::MissedProbes, 1);
    assert_has(&table(&trace, None), &["\nfailed, at least: ENOENT in"]);
}

#[test]
fn all_failed_paths_are_listed_if_all_is_asked_for() {
    let options = Options {
        width: Some(60),
        all_transfers: true,
        ..Options::default()
    };
    let text = shown(&report(&with_failed_paths()), &options);
    assert_fits(&text, 60);
    let parts = [
        "\nFAILED PATHS, 8\n  path                calls   error        call\n",
        "\n  /etc/app.d/\\n1         30  ENOENT      openat\n",
        "\n  /etc/shadow             1  EACCES      openat\n",
    ];
    assert_has(&text, &parts);
    assert!(!table(&with_failed_paths(), None).contains("FAILED PATHS"));
}

#[test]
fn the_tables_fit_every_width() {
    let traces = [
        sample::copier(),
        sample::make(30),
        sample::from_strace(),
        sample::nothing(),
        lossy(),
        with_callers(),
        transfers::std_io_copy(),
        transfers::many(30),
    ];
    for report in traces
        .iter()
        .map(transfers::with_files)
        .chain([everything()])
    {
        for width in 0..200 {
            let options = Options {
                histogram: Some(Bars::Blocks),
                ..at_width(width)
            };
            let text = shown(&report, &options);
            // Fewer columns are too few for the tables, but this must not panic.
            if width >= 40 {
                assert_fits(&text, width);
            }
        }
    }
}

#[test]
fn a_few_processes_are_all_shown_after_their_total() {
    let text = table(&sample::make(5), Some(100));
    let headings: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("thread, ") || line.starts_with("TOTAL"))
        .collect();
    let expected = [
        "TOTAL, 5 processes, 5 threads, 19 calls",
        "make (2000), 1 thread, 3 calls, still running",
        "cc1 (2001), 1 thread, 4 calls",
        "cc1 (2002), 1 thread, 5 calls",
        "true (2003), 1 thread, no calls",
        "cc1 (2004), 1 thread, 7 calls",
    ];
    assert_eq!(headings, expected, "{text}");
    assert_has(&text, &["\n  $ /usr/lib/gcc/cc1 -quiet 'file 1.c' -o -\n"]);
}

#[test]
fn many_processes_are_summed_up_by_program() {
    let text = table(&sample::make(2000), Some(80));
    assert!(text.lines().count() <= 24, "{} lines", text.lines().count());
    let parts = [
        "\nPROGRAMS, 3 in 2000 processes\n",
        "\n  cc1           1499  40997       0    194 ms   140 s   75.0\n",
        "\nTOTAL, 2000 processes, 2000 threads, 41000 calls\n",
        "\n--by program shows the calls of each program, --by process those of each\n  process\n",
    ];
    assert_has(&text, &parts);
}

/// The table of 2000 processes, grouped like this.
fn make_by(by: Detail) -> String {
    let options = Options {
        by: Some(by),
        width: Some(100),
        ..Options::default()
    };
    shown(&report(&sample::make(2000)), &options)
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
    let parts = [
        "\ncc1, 1499 processes, 1499 threads, 40997 calls\n",
        "\n  read     39498       0  5.7 GiB  151.9 KiB    30.5  59.2 ms  1.50 µs ",
        "\ntrue, 500 processes, 500 threads, no calls\n",
        "\nmake, 1 process, 1 thread, 3 calls\n",
    ];
    assert_has(&make_by(Detail::Program), &parts);
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
    let all = shown(
        &report(&trace),
        &Options {
            all_processes: true,
            ..Options::default()
        },
    );
    assert!(!all.contains("--all shows them"), "{all}");
}

#[test]
fn the_head_says_where_the_time_went() {
    let line = |trace: &Trace, start: &str| line_of(&table(trace, None), start);
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
    let text = shown(&report(&sample::make(2000)), &options);
    assert!(text.contains("cc1 (3998)") && !text.contains("more processes"));
}

#[test]
fn by_total_shows_only_the_total() {
    let options = by_detail(Detail::Total);
    let report = Report::from_trace(&sample::make(5), &options);
    let text = shown(&report, &Options::default());
    assert_has(&text, &["\nTOTAL, 5 processes, 5 threads, 19 calls\n"]);
    assert!(
        !text.contains("PROGRAMS") && !text.contains("(2001)"),
        "{text}"
    );
}

#[test]
fn by_thread_shows_a_section_for_every_thread() {
    let options = by_detail(Detail::Thread);
    let report = Report::from_trace(&sample::copier(), &options);
    let text = shown(&report, &Options::default());
    let parts = [
        "\ncopier (1234), 2 threads, 262156 calls\n",
        "\ncopier (1234), thread 1234, 131084 calls\n",
        "\n  never returned: exit_group 1\n",
        "\ncopier (1234), thread 1235, 131072 calls\n",
        "\n  never returned: read 1\n",
    ];
    assert_has(&text, &parts);
}

#[test]
fn unknown_figures_are_a_dash_with_a_legend() {
    let parts = [
        "zctrace: (command unknown)\nexit -, wall -, CPU -\n",
        "\nnote: The log has no times: record it with -T.\n",
        "\n- (1234), 1 thread, 7 calls\n",
        "\n  write (i386)      1       0   20 B      20 B       -      -    -    -    -    -\n",
        "\n  context switches: -; page faults: -; cpu: -\n",
        "\n\"-\": unknown, not 0\n",
    ];
    assert_has(&table(&sample::from_strace(), Some(120)), &parts);
}

#[test]
fn a_process_without_calls_is_one_line() {
    let text = table(&sample::nothing(), Some(80));
    assert_has(
        &text,
        &["\n1 process, 1 thread, 0 calls, backend ebpf, exact\n"],
    );
    assert!(
        text.ends_with("\n\ncopier (1234), 1 thread, no calls\n"),
        "{text}"
    );
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
    let parts = [
        "\nkilled by SIGKILL, wall 1.23 s, ",
        "\n1 process, 2 threads, at least 262156 calls, backend ebpf, lower bound\n",
        "\nlower bound: calls not counted: 12 (the table of rows was full; raise\n  --max-rows)\n",
        "\nlower bound: errors counted without their errno: 2 (the table of errnos was\n  full; raise --max-rows)\n",
        "\nnote: This kernel has no field `nvcsw`: context switches are unknown.\n",
        "\n  read errors: errno lost 1\n",
    ];
    assert_has(&table(&lossy(), Some(80)), &parts);
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
    let options = Options {
        width: Some(80),
        colour: true,
        ..Options::default()
    };
    let mut text = shown(&report(&lossy()), &options);
    let parts = [
        "\x1b[1mzctrace: ./copier in out\x1b[0m\n\x1b[31mkilled by SIGKILL,\x1b[0m wall",
        "ebpf, \x1b[33mlower bound\x1b[0m\n",
        "\n  \x1b[2msyscall   calls ",
        "\n  \x1b[33mread errors: errno lost 1\x1b[0m\n",
    ];
    assert_has(&text, &parts);
    for escape in ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[33m"] {
        text = text.replace(escape, "");
    }
    assert_eq!(text, table(&lossy(), Some(80)), "colour adds nothing");
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
    assert_has(&text, &["\n\\u{1b}[2Jevil\\n\\u{202e} (2001), 1 thread"]);
}

#[test]
fn json_is_the_model_and_ends_in_a_newline() {
    let report = report(&sample::copier());
    let json = render(&report, Format::Json, &Options::default());
    assert_eq!(Report::from_json(&json).expect("is read"), report);
}

mod formats;
mod html;
mod latency;
mod transfers;
