//! Where the report goes, and what it contains.

use std::{
    fs,
    io::Read as _,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
    thread,
};

use zctrace::report::Report;

use crate::harness::{TestDir, Zctrace, fifo, null, program, shell, workload, zctrace};

/// A zctrace that writes its report to this file.
fn to(path: impl AsRef<Path>) -> Zctrace {
    zctrace().json_to(path.as_ref())
}

/// Parses a report, which must be complete.
#[track_caller]
fn report(text: &str) -> Report {
    assert!(
        text.ends_with("}\n"),
        "the end: {:?}",
        text.get(text.len().saturating_sub(20)..)
    );
    Report::from_json(text).expect("a report")
}

#[track_caller]
fn report_in(path: &Path) -> Report {
    report(&fs::read_to_string(path).expect("it was written"))
}

/// A directory with an old report, and the path of that.
fn old_report() -> (TestDir, std::path::PathBuf) {
    let dir = TestDir::with("report.json", "old");
    let path = dir.join("report.json");
    (dir, path)
}

#[test]
fn nothing_is_written_to_stdout_by_default() {
    for format in ["table", "json"] {
        let shown = zctrace()
            .option(format!("--format={format}"))
            .show(&program("true"));
        assert_eq!(shown.successful(), "", "{format}");
        assert!(!shown.stderr.is_empty(), "{format}");
    }
}

#[test]
fn a_dash_as_the_output_file_is_stdout() {
    let shown = to("-").show(&program("true"));
    assert_eq!(report(shown.successful()).command, ["true"]);
    assert_eq!(shown.stderr, "");
    assert!(!Path::new("-").exists());
}

#[test]
fn a_new_file_has_permissions_by_the_umask() {
    let dir = TestDir::new();
    let path = dir.join("new.json");
    to(&path)
        .through(&["sh", "-c", r#"umask 027; exec "$@""#, "sh"])
        .show(&program("true"))
        .successful();
    report_in(&path);
    assert_eq!(
        fs::metadata(&path).expect("there").permissions().mode() & 0o777,
        0o640
    );
    dir.assert_has_only(&["new.json"]);
}

#[test]
fn an_existing_file_is_replaced_atomically_and_keeps_its_permissions() {
    let (dir, path) = old_report();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).expect("it belongs to the test");
    let old = fs::File::open(&path).expect("it belongs to the test");
    // While the command runs, the old report is still there.
    assert_eq!(
        to(&path).show(&program("cat").arg(&path)).successful(),
        "old"
    );
    report_in(&path);
    assert_eq!(
        fs::metadata(&path).expect("there").permissions().mode() & 0o777,
        0o604
    );
    assert_ne!(
        fs::metadata(&path).expect("there").ino(),
        old.metadata().expect("open").ino(),
        "renamed, not overwritten"
    );
    dir.assert_has_only(&["report.json"]);
}

#[test]
fn a_symlink_stays_a_symlink() {
    let (dir, path) = old_report();
    let link = dir.join("link");
    symlink("report.json", &link).expect("it belongs to the test");
    to(&link).show(&program("true")).successful();
    assert_eq!(
        fs::read_link(&link).expect("a link"),
        Path::new("report.json")
    );
    report_in(&path);
    dir.assert_has_only(&["link", "report.json"]);
}

#[test]
fn a_dangling_symlink_stays_and_its_target_is_created() {
    let dir = TestDir::new();
    let link = dir.join("link");
    symlink("later.json", &link).expect("it belongs to the test");
    to(&link).show(&program("true")).successful();
    assert_eq!(
        fs::read_link(&link).expect("still a link"),
        Path::new("later.json")
    );
    report_in(&dir.join("later.json"));
    dir.assert_has_only(&["later.json", "link"]);
}

#[test]
fn a_relative_output_file_is_in_the_working_directory() {
    let dir = TestDir::new();
    to("here.json")
        .dir(dir.path())
        .show(&program("true"))
        .successful();
    report_in(&dir.join("here.json"));
    // The same if the command changes its own directory.
    to("there.json")
        .dir(dir.path())
        .show(&shell("cd /"))
        .successful();
    dir.assert_has_only(&["here.json", "there.json"]);
}

#[test]
fn a_device_is_not_replaced() {
    let dir = TestDir::new();
    let path = null(dir.path());
    let shown = to(&path).show(&program("true"));
    assert_eq!((shown.successful(), shown.stderr.as_str()), ("", ""));
    assert!(
        fs::metadata(&path)
            .expect("still there")
            .file_type()
            .is_char_device()
    );
    dir.assert_has_only(&["null"]);
}

#[test]
fn a_symlink_to_stdout_writes_to_stdout() {
    // The link is like `/dev/stdout`. Here stdout is a file without a name.
    let dir = TestDir::new();
    let stdout = dir.join("stdout");
    symlink("/proc/self/fd/1", &stdout).expect("it belongs to the test");
    let shown = to(&stdout).show(&shell("echo own"));
    assert_eq!(
        fs::read_link(&stdout).expect("still a link"),
        Path::new("/proc/self/fd/1")
    );
    assert_eq!(
        report(
            shown
                .successful()
                .strip_prefix("own\n")
                .expect("the command's own")
        )
        .command[0],
        "sh"
    );
}

#[test]
fn a_symlink_to_stdout_in_a_file_keeps_what_the_command_wrote() {
    let dir = TestDir::new();
    symlink("/proc/self/fd/1", dir.join("stdout")).expect("it belongs to the test");
    let through = ["sh", "-c", r#"exec "$@" >both"#, "sh"];
    to("stdout")
        .dir(dir.path())
        .through(&through)
        .show(&shell("echo own"))
        .successful();
    let both = dir.read("both");
    report(both.strip_prefix("own\n").expect("the command's own"));
    dir.assert_has_only(&["both", "stdout"]);
}

#[test]
fn a_fifo_is_written_to() {
    let dir = TestDir::new();
    let path = fifo(dir.path());
    let reader = thread::spawn({
        let path = path.clone();
        move || {
            let mut text = String::new();
            fs::File::open(path)
                .and_then(|mut end| end.read_to_string(&mut text))
                .map(|_| text)
        }
    });
    to(&path).show(&program("true")).successful();
    report(&reader.join().expect("no panic").expect("text"));
    dir.assert_has_only(&["fifo"]);
}

#[test]
fn the_report_names_what_was_run_and_where() {
    let report = zctrace().run(&program("true")).report;
    assert_eq!(
        (
            report.schema,
            report.tool.name.as_str(),
            report.backend.as_str()
        ),
        (1, "zctrace", "ebpf")
    );
    assert_eq!(
        (report.command, report.exit.code),
        (vec!["true".to_owned()], Some(0))
    );
    assert_eq!(report.arch.as_deref(), Some(std::env::consts::ARCH));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").expect("there is /proc");
    assert_eq!(report.kernel.as_deref(), Some(kernel.trim()));
    assert!(
        report
            .started_at
            .is_some_and(|time| time.ends_with('Z') && time.starts_with("20")),
        "RFC 3339"
    );
    assert!(report.wall_ns.is_some_and(|ns| ns > 0));
}

#[test]
fn wall_time_covers_the_command() {
    let run = zctrace().run(&program("sleep").arg("0.3"));
    let wall_ns = run.report.wall_ns.expect("known");
    assert!((300_000_000..2_000_000_000).contains(&wall_ns), "{wall_ns}");
}

#[test]
fn the_environment_forces_or_forbids_colour() {
    let is_coloured = |zctrace: Zctrace| zctrace.show(&program("true")).stderr.contains('\x1b');
    assert!(!is_coloured(zctrace()), "not to a file");
    assert!(
        !is_coloured(zctrace().env("TERM", "xterm")),
        "not to a file"
    );
    assert!(is_coloured(zctrace().env("CLICOLOR_FORCE", "1")));
    assert!(!is_coloured(zctrace().env("CLICOLOR_FORCE", "0")));
    assert!(!is_coloured(
        zctrace().env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1")
    ));
    assert!(
        is_coloured(zctrace().option("--color=always").env("NO_COLOR", "1")),
        "the option wins"
    );
    assert!(
        !is_coloured(zctrace().option("--color=never").env("CLICOLOR_FORCE", "1")),
        "the option wins"
    );
}

/// How many processes of the workload have a heading in the table.
fn headings(table: &str) -> usize {
    table
        .lines()
        .filter(|line| line.starts_with("workload ("))
        .count()
}

#[test]
fn many_processes_are_summed_up_by_program_unless_they_are_requested() {
    let storm = workload("fork-storm").arg("30");
    let summed = zctrace().show(&storm).stderr;
    assert_eq!(headings(&summed), 0, "{summed}");
    assert!(
        summed.contains("PROGRAMS, 1 in 31 processes\n") && summed.contains("TOTAL, 31 processes"),
        "{summed}"
    );
    let some = zctrace().option("--by=process").show(&storm).stderr;
    assert_eq!(headings(&some), 10, "{some}");
    assert!(
        some.contains("and 21 more processes with 63 calls") && some.contains("--all-processes"),
        "{some}"
    );
    for option in ["--all-processes", "--all"] {
        let all = zctrace().option(option).show(&storm).stderr;
        assert_eq!(headings(&all), 31, "{all}");
        assert!(!all.contains("more processes"), "{all}");
    }
}

#[test]
fn a_saved_report_is_grouped_again() {
    let dir = TestDir::new();
    let path = dir.join("r.json");
    zctrace()
        .json_to(&path)
        .show(&workload("fork-storm").arg("30"))
        .successful();
    let shown = |by: &str| {
        zctrace()
            .option("report")
            .option(&path)
            .option(format!("--by={by}"))
            .launch()
            .finish()
    };
    assert_eq!(headings(shown("process").successful()), 10);
    assert!(
        shown("program")
            .successful()
            .contains("\nworkload, 31 processes, 31 threads, ")
    );
    assert!(!shown("total").successful().contains("PROGRAMS"));
    zctrace()
        .json_to(&path)
        .show(&workload("known"))
        .successful();
    let refused = shown("thread");
    assert!(
        refused.code == Some(125) && refused.stderr.contains("--by thread"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_report_can_be_by_process_by_thread_or_only_totals() {
    let of = |by: &str| {
        zctrace()
            .option(format!("--by={by}"))
            .run(&workload("known"))
            .report
    };
    let (process, thread, total) = (of("process"), of("thread"), of("total"));
    let count = |report: &Report| {
        (
            report.processes.len(),
            report
                .processes
                .iter()
                .map(|process| process.by_thread.len())
                .sum(),
        )
    };
    assert_eq!(
        (count(&process), count(&thread), count(&total)),
        ((1, 0), (1, 2), (0, 0))
    );
    for report in [&process, &thread, &total] {
        assert_eq!((report.totals.processes, report.totals.threads), (1, 2));
        assert!(
            report
                .totals
                .syscalls
                .iter()
                .any(|row| row.name == "splice"),
            "the sums are always there"
        );
    }
}

#[test]
fn rows_are_sorted_by_the_requested_key() {
    let of = |key: &str| {
        zctrace()
            .option(format!("--sort={key}"))
            .run(&workload("known"))
            .report
            .totals
            .syscalls
    };
    assert!(of("name").is_sorted_by_key(|row| row.name.clone()));
    assert!(of("calls").is_sorted_by(|a, b| a.calls >= b.calls));
    assert!(of("errors").is_sorted_by(|a, b| a.errors >= b.errors));
    assert!(of("bytes").is_sorted_by(|a, b| a.bytes >= b.bytes));
    assert!(of("time").is_sorted_by(|a, b| a.total_ns >= b.total_ns));
    assert!(of("max").is_sorted_by(|a, b| a.max_ns >= b.max_ns));
}

#[test]
fn times_are_consistent_with_each_other() {
    for row in zctrace().run(&workload("known")).report.totals.syscalls {
        let all = [
            row.min_ns,
            row.p50_ns,
            row.p90_ns,
            row.p99_ns,
            row.max_ns,
            row.total_ns,
        ];
        assert!(all.is_sorted() && all[0] > Some(0), "{row:?}");
        assert_eq!(
            row.mean_ns,
            row.total_ns.map(|total| total / row.calls),
            "{row:?}"
        );
    }
}

#[test]
fn with_v_the_ebpf_programs_log_what_they_do() {
    let shown = zctrace().option("-v").run(&program("true")).finished;
    assert!(
        shown
            .stderr
            .lines()
            .all(|line| line.starts_with("zctrace: kernel: ")),
        "{}",
        shown.stderr
    );
    assert!(
        shown.stderr.contains("is followed") && shown.stderr.contains("executed a program"),
        "{}",
        shown.stderr
    );
}
