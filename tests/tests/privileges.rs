//! Users without the privileges that eBPF needs, zctrace with file capabilities, and commands that
//! run as another user.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use zc_tests::Figures;
use zctrace::report::Report;

use crate::harness::{
    Program, Run, TestDir, Zctrace, binary, copy_program, program, shell, untraced, workload,
    zctrace,
};

/// Starts a program as the user `nobody`.
const AS_NOBODY: [&str; 5] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--",
];

/// A copy of zctrace in a directory that everybody can reach, run by the user `nobody`.
fn unprivileged() -> (Zctrace, TestDir) {
    let dir = TestDir::new();
    dir.set_mode(0o755);
    let copy = dir.join("zctrace");
    copy_program(&binary(), &copy);
    set_mode(&copy, 0o755);
    (zctrace().through(&AS_NOBODY).binary(copy), dir)
}

fn set_mode(file: &Path, mode: u32) {
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("the file is ours");
}

#[test]
fn without_privileges_ebpf_is_refused_and_strace_takes_over_by_default() {
    let (zctrace, dir) = unprivileged();
    let refusal = zctrace.clone().ebpf().refuses().with_status(125);
    refusal.saying_all(&["not allowed", "sudo", "CAP_BPF", "CAP_PERFMON"]);
    let shown = zctrace
        .clone()
        .option("--format=json")
        .show(&shell("exit 3"));
    shown.exits(3);
    let report = Report::from_json(&shown.stderr).expect("a report alone");
    assert_eq!(report.backend, "strace");
    let mut notes = report.notes.iter();
    assert!(
        notes.any(|note| note.contains("not allowed")),
        "{:?}",
        report.notes
    );
    // Usage errors are reported, too.
    let refusal = zctrace.clone().option("--syscalls=raed").refuses();
    refusal.with_status(125).saying("'read'");
    let to_file = zctrace.option("--output").option(dir.join("report.json"));
    to_file
        .refuses()
        .with_status(125)
        .saying("Permission denied");
}

#[test]
fn the_command_can_run_as_another_user() {
    let as_nobody = || zctrace().option("--user=65534:65533");
    let run = as_nobody().run_exactly(&program("id"));
    let id = run.finished.successful();
    let is_nobody = id.contains("uid=65534") && id.contains("gid=65533");
    assert!(is_nobody && !id.contains("=0("), "{id}");

    let dir = TestDir::new();
    let secret = dir.join("secret");
    copy_program("/bin/true".as_ref(), &secret);
    dir.set_mode(0o700);
    let refusal = as_nobody().refuses_to_run(&program(&secret));
    refusal.with_status(126).saying("Permission denied");
}

/// A copy of zctrace with the capabilities that `doctor` recommends, run by the user `nobody`.
fn with_file_capabilities() -> (Zctrace, TestDir) {
    let (zctrace, dir) = unprivileged();
    set_capabilities(&dir.join("zctrace"));
    (zctrace, dir)
}

fn set_capabilities(copy: &Path) {
    let set = program("setcap").arg("cap_bpf,cap_perfmon=ep").arg(copy);
    untraced(&set).finish().successful();
}

#[test]
fn with_file_capabilities_every_user_can_trace_by_ebpf() {
    let (zctrace, dir) = with_file_capabilities();
    let report = dir.join("report.json");
    dir.set_mode(0o777);
    let status = "grep -E 'Cap|NoNewPrivs' /proc/self/status >&2";
    let script = shell(&format!("head -c 5000 /dev/zero; {status}"));
    let finished = zctrace.ebpf().json_to(&report).show(&script);
    finished.exits(0).says("NoNewPrivs:\t1");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        finished.says(&format!("{set}:\t0000000000000000"));
    }
    let report = Report::from_json(&dir.read("report.json")).expect("a report");
    assert!(
        report.exact && report.backend == "ebpf",
        "{:?}",
        report.losses
    );
    // Nothing was restrained.
    let mut notes = report.notes.iter();
    assert!(
        !notes.any(|note| note.contains("no_new_privs")),
        "{:?}",
        report.notes
    );
}

#[test]
fn a_setuid_program_gains_nothing_under_a_zctrace_with_file_capabilities() {
    let (zctrace, dir) = with_file_capabilities();
    let setuid = dir.join("setuid-id");
    copy_program("/usr/bin/id".as_ref(), &setuid);
    set_mode(&setuid, 0o6755);
    let by_itself = untraced(&program(&setuid).through(&AS_NOBODY)).finish();
    assert!(
        by_itself.successful().contains("euid=0"),
        "{}",
        by_itself.text()
    );
    for backend in ["ebpf", "strace"] {
        let zctrace = zctrace.clone().backend(backend).option("--format=json");
        let traced = zctrace.show(&program(&setuid));
        assert!(
            !traced.successful().contains("euid=0"),
            "{backend}: {}",
            traced.text()
        );
        let notes = Report::from_json(&traced.stderr)
            .expect("a report alone")
            .notes;
        let says_so = |note: &String| note.contains("setuid-id") && note.contains("no_new_privs");
        assert!(notes.iter().any(says_so), "{backend}: {notes:?}");
    }
}

#[test]
fn setuid_programs_are_not_restricted_under_root() {
    let (_, dir) = unprivileged();
    let copy = dir.join("zctrace");
    set_capabilities(&copy);
    let status = shell("grep NoNewPrivs /proc/self/status");
    let run = zctrace().binary(copy).run_exactly(&status);
    assert_eq!(run.finished.successful().trim(), "NoNewPrivs:\t0");
}

#[test]
fn capabilities_are_dropped_before_the_command_runs() {
    let (zctrace, _dir) = with_file_capabilities();
    let script = shell("echo ready; read line");
    let mut zctrace = zctrace.ebpf().launch_of(&script).start();
    zctrace.expect("ready");
    let status = fs::read_to_string(format!("/proc/{}/status", zctrace.pid().as_raw_pid()));
    let status = status.expect("it lives");
    for set in ["CapPrm:\t0000000000000000", "CapEff:\t0000000000000000"] {
        assert!(status.contains(set), "{status}");
    }
    zctrace.say("go on");
    assert_eq!(zctrace.wait(), Some(0));
}

#[test]
fn with_file_capabilities_the_variable_for_btf_is_ignored() {
    let (zctrace, dir) = with_file_capabilities();
    let crafted = dir.write("crafted", "not BTF");
    let zctrace = zctrace.env("ZCTRACE_BTF", &crafted);
    zctrace.clone().ebpf().show(&program("true")).exits(0);
    let doctor = zctrace.launch_with(&["doctor"]).finish();
    assert!(
        doctor.successful().contains("is ignored"),
        "{}",
        doctor.text()
    );
}

#[test]
fn a_setuid_zctrace_refuses_to_run() {
    let (zctrace, dir) = unprivileged();
    set_mode(&dir.join("zctrace"), 0o4755);
    let refusal = zctrace.refuses().with_status(125);
    refusal.saying_all(&["setuid", "file capabilities"]);
}

/// Starts a program as the user `nobody`, without capabilities and without a way to get one.
const WITHOUT_CAPABILITIES: [&str; 8] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=-all",
    "--bounding-set=-all",
    "--no-new-privs",
    "--",
];

/// A directory that everybody can reach, with copies of zctrace and of the workloads.
struct Public(TestDir);

impl Public {
    fn new() -> Self {
        let public = Self(TestDir::new());
        let workload = PathBuf::from(env!("CARGO_BIN_EXE_workload"));
        for (file, name) in [(binary(), "zctrace"), (workload, "workload")] {
            copy_program(&file, &public.path(name));
            set_mode(&public.path(name), 0o755);
        }
        public.0.set_mode(0o755);
        public
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// zctrace, run by the user `nobody` through these words.
    fn zctrace(&self, through: &[&str]) -> Zctrace {
        let zctrace = zctrace().through(&WITHOUT_CAPABILITIES).through(through);
        zctrace.binary(self.path("zctrace")).dir("/")
    }

    fn workload(&self, words: &[&str]) -> Program {
        program(self.path("workload")).args(words)
    }

    /// Traces a workload with the default backend. The report goes to stderr, because the user can
    /// write nowhere else.
    #[track_caller]
    fn run(&self, words: &[&str]) -> Run {
        let zctrace = self.zctrace(&[]).by_thread().option("--format=json");
        let finished = zctrace.show(&self.workload(words));
        let report = serde_json::from_str(&finished.stderr).expect("a report alone");
        Run { report, finished }
    }
}

/// The rows of the workload's own thread, which must be as it states.
#[track_caller]
fn own_rows(run: &Run) -> Figures {
    run.assert_exact();
    run.own_thread().assert_equal(&run.stated().calls);
    run.own_thread().figures()
}

#[test]
fn an_unprivileged_user_gets_the_same_counts_by_strace() {
    let public = Public::new();
    for words in [["known"].as_slice(), &["errnos"], &["signal-reads", "20"]] {
        let nobody = public.run(words);
        let root = zctrace().by_thread().ebpf();
        let root = root.run(&workload(words[0]).args(&words[1..]));
        assert_eq!(nobody.report.backend, "strace");
        assert_eq!(own_rows(&nobody), own_rows(&root), "{words:?}");
    }
}

#[test]
fn an_unprivileged_users_report_names_the_backend_and_the_reason() {
    let public = Public::new();
    let notes = public.run(&["write"]).report.notes;
    let start = "backend strace, since eBPF cannot run here: ";
    assert!(notes.len() == 1 && notes[0].starts_with(start), "{notes:?}");
    assert!(notes[0].contains("CAP_BPF"), "{notes:?}");
    let table = public
        .zctrace(&[])
        .show(&public.workload(&["write"]))
        .stderr;
    assert!(
        table.lines().any(|line| line.contains(&notes[0])),
        "not in one line: {table}"
    );
}

#[test]
fn an_unprivileged_user_gets_the_commands_exit_status() {
    let public = Public::new();
    for (words, status) in [(["exit-code", "7"], 7), (["kill-self", "TERM"], 143)] {
        public.run(&words).finished.exits(status);
    }
}

#[test]
fn an_unprivileged_user_without_strace_is_told_both_reasons() {
    let public = Public::new();
    let zctrace = public.zctrace(&["env", "PATH=/nonexistent"]);
    let refusal = zctrace.refuses_to_run(&public.workload(&["write"]));
    let said = ["CAP_BPF", "strace is not installed", "package 'strace'"];
    refusal.with_status(125).saying_all(&said);
}
