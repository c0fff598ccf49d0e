//! Users who may not do what zctrace needs.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use tempfile::TempDir;
use zctrace::report::Report;

use crate::harness::{Zctrace, binary, copy_program, program, shell, untraced, zctrace};

/// A zctrace run by nobody in particular, from where everybody can reach it.
fn unprivileged() -> (Zctrace, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let copy = dir.path().join("zctrace");
    copy_program(&binary(), &copy);
    for path in [dir.path(), &copy] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    let setpriv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    (zctrace().through(&setpriv).binary(copy), dir)
}

#[test]
fn without_privileges_it_says_which_are_needed() {
    let (zctrace, _dir) = unprivileged();
    let refusal = zctrace.ebpf().refuses().with_status(125);
    refusal.saying("not allowed").saying("sudo").saying("CAP_BPF").saying("CAP_PERFMON");
}

#[test]
fn without_privileges_strace_takes_over_unless_told_otherwise() {
    let (zctrace, _dir) = unprivileged();
    let shown = zctrace.option("--format=json").show(&shell("exit 3"));
    assert_eq!(shown.code, Some(3));
    let report: Report = serde_json::from_str(&shown.stderr).expect("a report alone");
    assert_eq!(report.backend, "strace");
    assert!(report.notes.iter().any(|note| note.contains("not allowed")), "it says why: {:?}", report.notes);
}

#[test]
fn mistakes_are_told_without_privileges_too() {
    let (zctrace, dir) = unprivileged();
    zctrace.clone().option("--syscalls=raed").refuses().with_status(125).saying("'read'");
    zctrace.option("--output").option(dir.path().join("report.json")).refuses().with_status(125).saying("Permission denied");
}

#[test]
fn the_command_can_run_as_somebody_else() {
    let run = zctrace().option("--user=65534:65533").run(&program("id"));
    let id = run.finished.successful();
    assert!(id.contains("uid=65534") && id.contains("gid=65533") && !id.contains("=0("), "{id}");
    run.assert_exact();
}

#[test]
fn a_command_that_somebody_else_may_not_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let secret = dir.path().join("secret");
    copy_program("/bin/true".as_ref(), &secret);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).expect("ours");
    zctrace().option("--user=65534").refuses_to_run(&program(&secret)).with_status(126).saying("Permission denied");
}

/// A zctrace with the capabilities that `doctor` recommends, run by nobody in particular.
fn with_file_capabilities() -> (Zctrace, TempDir) {
    let (zctrace, dir) = unprivileged();
    set_capabilities(&dir.path().join("zctrace"));
    (zctrace, dir)
}

fn set_capabilities(copy: &Path) {
    let set = Command::new("setcap").arg("cap_bpf,cap_perfmon=ep").arg(copy).status().expect("setcap is installed");
    assert!(set.success(), "the filesystem of {} stores no capabilities", copy.display());
}

#[test]
fn with_file_capabilities_everybody_traces_by_ebpf() {
    let (zctrace, dir) = with_file_capabilities();
    let report = dir.path().join("report.json");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("ours");
    let zctrace = zctrace.ebpf().option("--format=json").option("--output").option(&report);
    let finished = zctrace.show(&shell("head -c 5000 /dev/zero; grep -E 'Cap|NoNewPrivs' /proc/self/status >&2"));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(finished.stderr.contains(&format!("{set}:\t0000000000000000")), "{set} reached the command: {}", finished.stderr);
    }
    assert!(finished.stderr.contains("NoNewPrivs:\t1"), "{}", finished.stderr);
    let report: Report = serde_json::from_slice(&fs::read(report).expect("written")).expect("a report");
    assert!(report.exact && report.backend == "ebpf", "{:?}", report.losses);
    assert!(!report.notes.iter().any(|note| note.contains("no_new_privs")), "nothing was restrained: {:?}", report.notes);
}

#[test]
fn what_is_setuid_gains_nothing_under_a_zctrace_with_file_capabilities() {
    let (zctrace, dir) = with_file_capabilities();
    let setuid = dir.path().join("setuid-id");
    copy_program("/usr/bin/id".as_ref(), &setuid);
    fs::set_permissions(&setuid, fs::Permissions::from_mode(0o6755)).expect("ours");
    let plain = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let untraced = untraced(&program(&setuid).through(&plain)).finish();
    assert!(untraced.successful().contains("euid=0"), "by itself it is root: {}", untraced.text());
    for backend in ["ebpf", "strace"] {
        let zctrace = zctrace.clone().option(format!("--backend={backend}")).option("--format=json");
        let traced = zctrace.show(&program(&setuid));
        assert!(!traced.successful().contains("euid=0"), "{backend}: {}", traced.text());
        let report: Report = serde_json::from_str(&traced.stderr).expect("a report alone");
        let says_so = |note: &String| note.contains("setuid-id") && note.contains("no_new_privs");
        assert!(report.notes.iter().any(says_so), "{backend}: {:?}", report.notes);
    }
}

#[test]
fn root_keeps_setuid_programs_as_they_are() {
    let (_, dir) = unprivileged();
    let copy = dir.path().join("zctrace");
    set_capabilities(&copy);
    let run = zctrace().binary(copy).run(&shell("grep NoNewPrivs /proc/self/status"));
    assert_eq!(run.finished.successful().trim(), "NoNewPrivs:\t0");
    run.assert_exact();
}

#[test]
fn capabilities_are_given_up_before_the_command_runs() {
    let (zctrace, _dir) = with_file_capabilities();
    let mut zctrace = zctrace.ebpf().launch_of(&shell("echo ready; read line")).start();
    zctrace.expect("ready");
    let status = fs::read_to_string(format!("/proc/{}/status", zctrace.pid().as_raw_pid())).expect("it lives");
    for set in ["CapPrm", "CapEff"] {
        assert!(status.contains(&format!("{set}:\t0000000000000000")), "{status}");
    }
    zctrace.say("go on");
    assert_eq!(zctrace.wait(), Some(0));
}

#[test]
fn with_file_capabilities_the_environment_names_no_kernel_types() {
    let (zctrace, dir) = with_file_capabilities();
    let crafted = dir.path().join("crafted");
    fs::write(&crafted, "not BTF").expect("ours");
    let zctrace = zctrace.env("ZCTRACE_BTF", &crafted);
    let traced = zctrace.clone().ebpf().show(&program("true"));
    assert_eq!(traced.code, Some(0), "{}", traced.stderr);
    let doctor = zctrace.launch_with(&["doctor"]).finish();
    assert!(doctor.successful().contains("is ignored"), "{}", doctor.text());
}

#[test]
fn a_setuid_zctrace_refuses_to_run() {
    let (zctrace, dir) = unprivileged();
    fs::set_permissions(dir.path().join("zctrace"), fs::Permissions::from_mode(0o4755)).expect("ours");
    zctrace.refuses().with_status(125).saying("setuid").saying("file capabilities");
}
