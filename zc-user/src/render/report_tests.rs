//! Reports as tables and as JSON. There is one snapshot for each format, all of the same report.
//! `INSTA_UPDATE=always cargo test -p zctrace --lib` writes them anew; read the difference before
//! you commit it.

use std::{collections::BTreeMap, path::Path};

use zctrace_core::golden::{GoldenCase, check_golden};

use super::*;
use crate::{
    report::{
        self, Detail,
        sample::{self, files::Scene, row},
    },
    syscalls::Abi,
    trace::{Exit, FailedPaths, Loss, SampleSum, StackId, Trace},
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

pub(super) fn at_width(width: usize) -> Options {
    Options {
        width: Some(width),
        ..Options::default()
    }
}

fn everything_shown() -> Options {
    Options {
        all: true,
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
pub(super) fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

/// The text without escape sequences: colour adds nothing but colour.
fn without_colour(text: &str) -> String {
    let mut plain = text.to_owned();
    for parameter in ["0", "1", "2", "31", "32", "33"] {
        plain = plain.replace(&format!("\x1b[{parameter}m"), "");
    }
    plain
}

/// Checks that a page has room in a terminal of any width, except for the lines that `may_be_wide`,
/// and that colour adds nothing but colour: returns the page in colour.
#[track_caller]
pub(super) fn check_page(
    render: impl Fn(&Options) -> String,
    may_be_wide: fn(&str) -> bool,
) -> String {
    for width in 0..200 {
        let text = render(&at_width(width));
        // Fewer columns are too few for the tables, but this must not panic.
        let mut lines = text
            .lines()
            .filter(|line| width >= 40 && !may_be_wide(line));
        let wide = lines.find(|line| text::width(line) > width);
        assert_eq!(wide, None, "wider than {width} columns");
    }
    let coloured = render(&Options {
        colour: true,
        ..at_width(80)
    });
    assert_eq!(without_colour(&coloured), render(&at_width(80)));
    coloured
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
    let samples = SampleSum::of_every_call;
    cat.rows[0].callers = BTreeMap::from([(StackId(0), samples(12)), (StackId(1), samples(3))]);
    cat.rows.push(row("poll").took(&[800, 900, 12_000]));
    cat.rows.push(row("exit_group").unfinished(1));
    let sendto = &mut trace.processes[3].threads[0].rows[1];
    *sendto = sendto.clone().took(&[3_000, 90_000, 457_333_000]);
    let mut report = transfers::with_files(&trace);
    report.tool.version = "0.0.0".into();
    let stacks = report.stacks.as_mut().expect("callers were sampled");
    stacks[1].frames[0].inlined = true;
    report
}

#[test]
fn every_format_has_a_snapshot() {
    let report = everything();
    for (width, all) in [(80, false), (120, true)] {
        let options = Options {
            histogram: true,
            all,
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
        ("ndjson", Format::Ndjson),
    ] {
        let text = render(&report, format, &Options::default());
        // The lines of CSV end as RFC 4180 has it; those of the snapshots as all others here.
        assert_snapshot(name, &text.replace("\r\n", "\n"));
    }
    // It has no lower bounds.
    let exact = Report {
        exact: true,
        ..report.clone()
    };
    assert_snapshot(
        "bencher",
        &render(&exact, Format::Bencher, &Options::default()),
    );
    // An element on each line, so that a difference can be read; without the style.
    let page = html(&report).replace(include_str!("html/page.css"), "");
    assert_snapshot("html", &page.replace("><", ">\n<"));
}

/// The sample copier, in which `std::io::copy` and a loop of its own made the calls, and the loader
/// mapped a library.
fn with_callers() -> Trace {
    let source = "/home/me/copier/src";
    let own = format!("{source}/copiers/one_after_another.rs:41");
    let copiers = "/bin/copier: copier::copiers::one_after_another";
    let main = format!("/bin/copier: copier::main@{source}/main.rs:41");
    let library = "/bin/copier: std::io::copy::copy@/rustc/5980/library/std/src/io/copy.rs:41";
    let stacks = [
        format!("{library} | {copiers}::copy_all_of_it@{own} | {main}"),
        format!("{copiers}::copy_by_hand@{own} | {main} | ..."),
        "/lib64/ld-linux-x86-64.so.2: _dl_map_segments".to_owned(),
    ];
    let mut trace = Trace {
        stacks: Some(stacks.iter().map(|text| sample::stack(text)).collect()),
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
            .map(|&(stack, samples)| {
                let calls = 10 * samples;
                (StackId(stack), SampleSum { samples, calls })
            })
            .collect();
    }
    trace
}

/// The sample copier with failed calls on paths.
fn with_failed_paths() -> Trace {
    let mut failed = FailedPaths::default();
    let mut add = |call: &'static str, errno: i32, path: &str, calls: usize| {
        let one = sample::on_path(call, errno, Some(path));
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
    add("execve", libc::E2BIG, "/usr/bin/ls", 1);
    Trace {
        failed_paths: Some(failed),
        ..sample::copier()
    }
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
    let reports = traces.iter().map(transfers::with_files);
    for report in reports.chain([everything()]) {
        let table = |options: &Options| {
            let options = Options {
                histogram: true,
                ..*options
            };
            shown(&report, &options)
        };
        check_page(table, |_| false);
    }
}

/// A table of processes, grouped like this.
fn made_by(processes: u32, by: Option<Detail>) -> String {
    let options = Options {
        by,
        ..at_width(100)
    };
    shown(&report(&sample::make(processes)), &options)
}

/// The table of a report with this detail.
fn with_detail(trace: &Trace, detail: Detail) -> String {
    let report = Report::from_trace(trace, &by_detail(detail));
    shown(&report, &Options::default())
}

/// The sample copier in two processes.
fn two_copiers() -> Report {
    let mut trace = with_callers();
    let second = trace.processes[0].clone();
    trace.processes.push(second);
    report(&trace)
}

/// The table of 30 programs.
fn many_programs(options: &Options) -> String {
    let mut trace = sample::make(30);
    for process in &mut trace.processes {
        process.comm = Some(format!("program-{}", process.pid));
    }
    shown(&report(&trace), options)
}

/// Compares the beginnings of some texts with one snapshot: each text under its name.
pub(super) fn assert_beginnings(name: &str, texts: &[(&str, String)]) {
    /// So many lines of each.
    const MAX_LINES: usize = 36;
    let beginning = |(title, text): &(&str, String)| {
        let lines: Vec<&str> = text.lines().take(MAX_LINES).collect();
        format!("====== {title}\n{}\n", lines.join("\n"))
    };
    assert_snapshot(name, &texts.iter().map(beginning).collect::<String>());
}

#[test]
fn a_table_shows_what_is_asked_for() {
    let callers_by = |by| {
        let options = Options {
            by: Some(by),
            ..Options::default()
        };
        shown(&two_copiers(), &options)
    };
    assert_beginnings(
        "tables",
        &[
            ("a narrow page", table(&sample::copier(), Some(40))),
            ("no limit", table(&sample::copier(), None)),
            ("a few processes", made_by(5, None)),
            ("many processes", made_by(2000, None)),
            ("by process", made_by(2000, Some(Detail::Process))),
            ("by program", made_by(2000, Some(Detail::Program))),
            ("many programs", many_programs(&at_width(80))),
            ("callers of all", callers_by(Detail::Total)),
            ("callers by program", callers_by(Detail::Program)),
            ("sums", with_detail(&sample::make(5), Detail::Total)),
            ("threads", with_detail(&sample::copier(), Detail::Thread)),
            ("strace", table(&sample::from_strace(), Some(120))),
            ("no calls", table(&sample::nothing(), Some(80))),
            ("failed paths", table(&with_failed_paths(), None)),
            ("losses", table(&lossy(), Some(80))),
        ],
    );
}

#[test]
fn a_table_leaves_out_what_is_not_asked_for() {
    let sums = with_detail(&sample::make(5), Detail::Total);
    assert!(
        !sums.contains("PROGRAMS") && !sums.contains("(2001)"),
        "{sums}"
    );
    let all = many_programs(&everything_shown());
    assert!(!all.contains("--all shows them"), "{all}");
    assert!(made_by(2000, None).lines().count() <= 24);
    let busiest = made_by(2000, Some(Detail::Process));
    assert_has(&busiest, &["\n  and 1990 more processes with "]);
    assert_eq!(busiest.matches("\ncc1 (").count(), 10, "{busiest}");
    let all = shown(&report(&sample::make(2000)), &everything_shown());
    assert!(all.contains("cc1 (3998)") && !all.contains("more processes"));
}

/// Nobody knows how much was read and written there.
#[test]
fn files_have_no_figures_of_calls_that_were_not_counted() {
    let scene = Scene::read("copier: fsync out 1 0, fsync other 1 0\n@ counted fsync\n");
    let files = shown(&transfers::with_files(&scene.trace), &at_width(100));
    assert_has(&files, &["\nPATHS, 2\n  path   what was done  calls\n"]);
}

#[test]
fn a_long_table_ends_with_the_largest_transfer_if_that_is_an_answer() {
    let options = Options {
        height: Some(10),
        ..at_width(100)
    };
    let ends_with_a_transfer = |report: &Report| {
        let text = shown(report, &options);
        text.lines()
            .rev()
            .take(6)
            .any(|line| line.contains("ext4) -> "))
    };
    let mut report = everything();
    assert!(ends_with_a_transfer(&report));
    for transfer in &mut report.transfers {
        transfer.bytes = Some(1);
    }
    assert!(!ends_with_a_transfer(&report));
}

#[test]
fn the_lines_of_all_processes_sum_up_their_files_hosts_and_programs() {
    let mut scene = Scene::new();
    let [client, _] = scene.connection("10.0.0.1:5", "10.0.0.2:80");
    scene.name("client", client);
    scene.run(
        "get: read client 3 9000, write out 1 300000, read in 2 200000; put: write client 1 1",
    );
    let options = Options {
        height: Some(10),
        ..Options::default()
    };
    let shown = shown(&scene.report(), &options);
    for line in [
        "data: wrote 293.0 KiB to out; read 195.3 KiB of in",
        "network: 8.8 KiB from and 1 B to 10.0.0.2:80 (tcp)",
    ] {
        assert_eq!(shown.matches(&format!("\n{line}\n")).count(), 2, "{shown}");
    }
    let programs = "\nCPU: 312 ms get (50.0 %), 312 ms put (50.0 %)\n";
    assert_eq!(shown.matches(programs).count(), 1, "{shown}");
}

/// Checks that what is shown of each trace of a golden file is what the file says.
pub(super) fn check_shown(file: &str, show: fn(&Trace) -> String) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/render/report_tests");
    check_golden(Path::new(folder).join(file), GoldenCase::Lines, |case| {
        let text = show(&Scene::read(case).trace);
        let lines = text.lines().filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    });
}

/// The parts of the table that a case of `parts.txt` asks for, without rules. Its sections are in the
/// other formats for people as well.
fn parts_shown(case: &str) -> String {
    let is_json = |line: &str| line.starts_with(['{', ' ']);
    let asked = case.lines().filter_map(|line| line.strip_prefix("show "));
    let lines = |is_such: &dyn Fn(&str) -> bool| -> String {
        let lines = case.lines().filter(|line| is_such(line));
        lines.fold(String::new(), |all, line| all + line + "\n")
    };
    let scene = Scene::read(&lines(&|line| !is_json(line) && !line.starts_with("show ")));
    let mut value = serde_json::to_value(report(&scene.trace)).expect("can be JSON");
    let changes = lines(&is_json);
    for change in serde_json::Deserializer::from_str(&changes).into_iter() {
        let change: serde_json::Map<_, _> = change.expect("is JSON");
        value.as_object_mut().expect("is an object").extend(change);
    }
    let report: Report = serde_json::from_value(value).expect("is a report");
    check_page(|options| shown(&report, options), |_| false);
    let text = shown(&report, &Options::default());
    let mut parts = Vec::new();
    for beginning in asked {
        let mut found = text.lines().skip_while(|line| !line.starts_with(beginning));
        if beginning.starts_with(char::is_uppercase) {
            parts.extend(found.take_while(|line| !line.is_empty()));
            for page in [
                render(&report, Format::Markdown, &Options::default()),
                html(&report),
            ] {
                assert_has(&page, &[beginning]);
            }
        } else {
            parts.extend(found.next());
        }
    }
    parts.retain(|line| !line.trim_start().starts_with("---"));
    parts.join("\n")
}

#[test]
fn parts_of_a_table_are_as_the_golden_file_says() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/render/report_tests");
    check_golden(
        Path::new(folder).join("parts.txt"),
        GoldenCase::Lines,
        parts_shown,
    );
}

#[test]
fn a_table_says_how_the_command_ended_and_where_the_time_went() {
    check_shown("tables.txt", |trace| table(trace, None));
}

#[test]
fn processes_that_are_not_listed_may_have_used_more_pipes() {
    let mut report = report(&transfers::several());
    let plain = Options::default();
    assert_has(&shown(&report, &plain), &["\nPIPES, 1\n"]);
    report.totals.programs += 1;
    assert_has(&shown(&report, &plain), &["\nPIPES, at least 1\n"]);
}

#[test]
fn a_span_says_which_part_of_the_run_it_is_and_nothing_of_its_end() {
    let mut trace = sample::make(1);
    trace.exit = None;
    trace.span = Some(report::Span {
        name: Some("one\x1b".to_owned()),
        since_ns: 1_000_000_000,
        until_ns: 2_500_000_000,
        earlier_ns: 300_000_000,
    });
    let shown = table(&trace, None);
    let lines: Vec<&str> = shown.lines().collect();
    let is_named = lines[0].starts_with(r"zctrace: one\u{1b}, 1.00 s to 2.50 s: ");
    assert!(is_named && lines[1].starts_with("wall "), "{shown}");
    let rows = ndjson::render(&[&report(&trace)]);
    let span = r#""span":"one\u001b","since_ns":1000000000,"until_ns":2500000000"#;
    assert!(rows.lines().all(|row| row.contains(span)), "{rows}");
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
fn hostile_names_cannot_drive_the_terminal() {
    let mut trace = sample::make(2);
    trace.command = vec!["./a b".into(), "\x1b]0;owned\x07".into(), "x".repeat(300)];
    trace.processes[1].comm = Some("\x1b[2Jevil\n\u{202e}".into());
    trace.notes = vec!["line\x1b[2J".into()];
    let options = Options {
        by: Some(Detail::Process),
        ..at_width(80)
    };
    let text = shown(&report(&trace), &options);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
    assert!(text.lines().all(|line| text::width(line) <= 80), "{text}");
    assert_has(&text, &["\n\\u{1b}[2Jevil\\n\\u{202e} (2001), 1 thread"]);
}

mod formats;
mod html;
mod transfers;
