//! Where the report goes, and what it contains.

use std::{
    fs,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
    thread,
};

use zctrace::report::Report;

use crate::harness::{
    TestDir, Zctrace, each_backend, fifo, null, program, shell, workload, zctrace,
};

/// A zctrace that writes its report to this file.
fn to(path: impl AsRef<Path>) -> Zctrace {
    zctrace().json_to(path.as_ref())
}

/// Parses a report, which must be complete.
#[track_caller]
fn report(text: &str) -> Report {
    assert!(text.ends_with("}\n"), "the end: {text}");
    Report::from_json(text).expect("a report")
}

#[track_caller]
fn report_in(path: &Path) -> Report {
    report(&fs::read_to_string(path).expect("it was written"))
}

/// The report after the line that the command wrote.
#[track_caller]
fn after_own(text: &str) -> Report {
    report(text.strip_prefix("own\n").expect("the command's own"))
}

fn about(path: &Path) -> fs::Metadata {
    fs::metadata(path).expect("it is there")
}

fn mode(path: &Path) -> u32 {
    about(path).permissions().mode() & 0o777
}

#[test]
fn nothing_is_written_to_stdout_by_default_and_a_dash_is_stdout() {
    for format in ["table", "json"] {
        let zctrace = zctrace().option(format!("--format={format}"));
        let shown = zctrace.show(&program("true"));
        shown.exits(0).prints_only("").says("true");
    }
    let shown = to("-").show(&program("true"));
    let report = report(shown.says_only("").successful());
    assert_eq!(report.command, ["true"]);
    assert!(!Path::new("-").exists());
}

#[test]
fn a_new_file_has_permissions_by_the_umask_and_an_existing_one_keeps_its_own() {
    let dir = TestDir::new();
    let new = dir.join("new.json");
    let masked = to(&new).by_script(r#"umask 027; exec "$@""#);
    masked.show(&program("true")).successful();
    report_in(&new);
    assert_eq!(mode(&new), 0o640);

    let path = dir.write_with_mode("report.json", "old", 0o604);
    // While the command runs, the old report is still there. It stays open, and so keeps its inode.
    let old = fs::File::open(&path).expect("it belongs to the test");
    let inode = about(&path).ino();
    let shown = to(&path).show(&program("cat").arg(&path));
    shown.exits(0).prints_only("old");
    drop(old);
    report_in(&path);
    assert_eq!(mode(&path), 0o604);
    assert_ne!(about(&path).ino(), inode, "renamed, not overwritten");
    dir.assert_has_only(&["new.json", "report.json"]);
}

#[test]
fn a_symlink_stays_a_symlink_also_if_its_target_is_created() {
    let dir = TestDir::with("old.json", "old");
    for target in ["old.json", "later.json"] {
        let link = dir.join(format!("to-{target}"));
        symlink(target, &link).expect("it belongs to the test");
        to(&link).show(&program("true")).successful();
        assert_eq!(fs::read_link(&link).expect("a link"), Path::new(target));
        report_in(&dir.join(target));
    }
    dir.assert_has_only(&["later.json", "old.json", "to-later.json", "to-old.json"]);
}

#[test]
fn a_relative_output_file_is_in_the_working_directory() {
    let dir = TestDir::new();
    // The same if the command changes its own directory.
    for (name, command) in [
        ("here.json", program("true")),
        ("there.json", shell("cd /")),
    ] {
        to(name).dir(dir.path()).show(&command).successful();
        report_in(&dir.join(name));
    }
    dir.assert_has_only(&["here.json", "there.json"]);
}

#[test]
fn a_device_is_not_replaced() {
    let dir = TestDir::new();
    let path = null(dir.path());
    let shown = to(&path).show(&program("true"));
    shown.exits(0).says_only("").prints_only("");
    assert!(about(&path).file_type().is_char_device());
    dir.assert_has_only(&["null"]);
}

#[test]
fn a_symlink_to_stdout_writes_to_stdout_after_what_the_command_wrote() {
    // The link is like `/dev/stdout`. First, stdout is a file without a name.
    let dir = TestDir::new();
    let (stdout, target) = (dir.join("stdout"), "/proc/self/fd/1");
    symlink(target, &stdout).expect("it belongs to the test");
    let shown = to(&stdout).show(&shell("echo own"));
    let link = fs::read_link(&stdout).expect("still a link");
    assert_eq!(link, Path::new(target));
    assert_eq!(after_own(shown.successful()).command[0], "sh");

    let redirected = to("stdout").by_script(r#"exec "$@" >both"#);
    redirected.dir(dir.path()).show(&shell("echo own")).exits(0);
    after_own(&dir.read("both"));
    dir.assert_has_only(&["both", "stdout"]);
}

#[test]
fn a_fifo_is_written_to() {
    let dir = TestDir::new();
    let path = fifo(dir.join("fifo"));
    let end = path.clone();
    let reader = thread::spawn(move || fs::read_to_string(end));
    to(&path).show(&program("true")).successful();
    report(&reader.join().expect("no panic").expect("text"));
    dir.assert_has_only(&["fifo"]);
}

#[test]
fn the_report_names_what_was_run_and_where() {
    let report = zctrace().run(&program("true")).report;
    let (tool, backend) = (report.tool.name.as_str(), report.backend.as_str());
    assert_eq!((report.schema, tool, backend), (1, "zctrace", "ebpf"));
    assert_eq!(
        (report.command[0].as_str(), report.exit.code),
        ("true", Some(0))
    );
    assert_eq!(report.arch.as_deref(), Some(std::env::consts::ARCH));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").expect("there is /proc");
    assert_eq!(report.kernel.as_deref(), Some(kernel.trim()));
    let started = report.started_at.expect("known");
    let is_rfc_3339 = started.starts_with("20") && started.ends_with('Z');
    assert!(is_rfc_3339, "{started}");
}

#[test]
fn wall_time_covers_the_command_and_with_wait_all_its_descendants() {
    let run = zctrace().run(&program("sleep").arg("0.3"));
    let wall_ns = run.report.wall_ns.expect("known");
    assert!((300_000_000..2_000_000_000).contains(&wall_ns), "{wall_ns}");
    for zctrace in each_backend() {
        // Under strace, the time begins when zctrace reads the first line of the log, which is
        // later on a loaded machine.
        let zctrace = zctrace.option("--wait-all");
        let run = zctrace.run(&shell("sleep 0.6 >&- 2>&- &"));
        let wall_ns = run.report.wall_ns.expect("known");
        assert!(wall_ns >= 300_000_000, "{wall_ns} ns");
    }
}

#[test]
fn the_environment_forces_or_forbids_colour() {
    for (option, variables, expected) in [
        // To a file.
        ("auto", &[][..], false),
        ("auto", &[("TERM", "xterm")], false),
        ("auto", &[("CLICOLOR_FORCE", "1")], true),
        ("auto", &[("CLICOLOR_FORCE", "0")], false),
        ("auto", &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        // The option wins.
        ("always", &[("NO_COLOR", "1")], true),
        ("never", &[("CLICOLOR_FORCE", "1")], false),
    ] {
        let zctrace = zctrace().option(format!("--color={option}"));
        let set = |zctrace: Zctrace, &(name, value): &(&str, &str)| zctrace.env(name, value);
        let shown = variables.iter().fold(zctrace, set).show(&program("true"));
        let is_coloured = shown.stderr.contains('\x1b');
        assert_eq!(is_coloured, expected, "{option} {variables:?}");
    }
}

/// How many processes of the workload have a heading in the table.
fn headings(table: &str) -> usize {
    let headings = table.lines().filter(|line| line.starts_with("workload ("));
    headings.count()
}

#[test]
fn many_processes_are_summed_up_by_program_unless_they_are_requested() {
    let storm = workload("fork-storm").arg("30");
    let (few, most) = ("and 21 more processes with 63 calls", "--all shows them");
    let programs = ["PROGRAMS, 1 in 31 processes\n", "TOTAL, 31 processes"];
    for (option, processes, said) in [
        ("--sort=time", 0, &programs[..]),
        ("--by=process", 10, &[few, most]),
        ("--all-processes", 31, &[]),
        ("--all", 31, &[]),
    ] {
        let shown = zctrace().option(option).show(&storm);
        assert_eq!(headings(&shown.stderr), processes, "{option}");
        shown.says_all(said);
    }
}

#[test]
fn a_saved_report_is_grouped_again() {
    let dir = TestDir::new();
    let path = dir.join("r.json");
    let shown = |by: &str| {
        let report = zctrace().option("report").option(&path);
        report.option(format!("--by={by}")).finish()
    };
    to(&path).show(&workload("fork-storm").arg("30")).exits(0);
    assert_eq!(headings(shown("process").successful()), 10);
    let by_program = "\nworkload, 1 exec, 31 threads, ";
    shown("program").exits(0).prints(by_program);
    shown("total").exits(0).never_prints("PROGRAMS");
    to(&path).show(&workload("known")).exits(0);
    shown("thread").exits(125).says("--by thread");
}

#[test]
fn rows_are_sorted_by_the_requested_key_and_their_times_are_consistent() {
    let sorted = zctrace().option("--sort=name").run(&workload("known"));
    let rows = sorted.report.totals.syscalls;
    assert!(rows.len() > 10 && rows.is_sorted_by(|a, b| a.name <= b.name));
    for row in rows {
        let quantiles = [row.min_ns, row.p50_ns, row.p90_ns, row.p99_ns, row.max_ns];
        let is_sorted = quantiles.is_sorted() && row.max_ns <= row.total_ns;
        assert!(is_sorted && row.min_ns > Some(0), "{row:?}");
        let mean = row.total_ns.map(|total| total / row.calls);
        assert_eq!(row.mean_ns, mean, "{row:?}");
    }
}

#[test]
fn with_v_the_ebpf_programs_log_what_they_do() {
    let shown = zctrace().option("-v").run(&program("true")).finished;
    shown.says("is followed").says("executed a program");
    let mut lines = shown.stderr.lines();
    assert!(
        lines.all(|line| line.starts_with("zctrace: kernel: ")),
        "{}",
        shown.stderr
    );
}
