//! Users without the privileges that eBPF needs, zctrace with file capabilities, and commands that
//! run as another user.

use std::fs;

use zc_tests::Figures;
use zctrace::report::Report;

use crate::harness::{
    Program, Run, TestDir, Zctrace, binary, copy_program, each_backend, program, set_mode, shell,
    untraced, words, workload, zctrace,
};

/// Starts a program as the user `nobody`.
const AS_NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups --";

/// The same, without capabilities and without a way to get one.
const WITHOUT_CAPABILITIES: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups \
                                    --inh-caps=-all --bounding-set=-all --no-new-privs --";

/// A copy of zctrace in a directory that everybody can reach, run by the user `nobody`. A copy of
/// the workloads is beside it.
fn unprivileged() -> (Zctrace, TestDir) {
    let dir = TestDir::new();
    let workload = env!("CARGO_BIN_EXE_workload").into();
    for (file, name) in [(binary(), "zctrace"), (workload, "workload")] {
        copy_program(&file, &dir.join(name));
        set_mode(&dir.join(name), 0o755);
    }
    dir.set_mode(0o755);
    let zctrace = zctrace()
        .through(&words(AS_NOBODY))
        .binary(dir.join("zctrace"));
    (zctrace.dir("/"), dir)
}

/// A zctrace that writes its report to stderr as JSON, and that report.
#[track_caller]
fn report_on_stderr(zctrace: Zctrace, program: &Program) -> Run {
    let finished = zctrace.option("--format=json").show(program);
    let report = Report::from_json(&finished.stderr).expect("a report alone");
    Run { report, finished }
}

#[test]
fn without_privileges_ebpf_is_refused_and_strace_takes_over_by_default() {
    let (zctrace, dir) = unprivileged();
    let refused = zctrace.clone().ebpf().refuses();
    refused
        .exits(125)
        .says_all(&["not allowed", "sudo", "CAP_BPF", "CAP_PERFMON"]);
    let run = report_on_stderr(zctrace.clone(), &shell("exit 3"));
    run.finished.exits(3);
    assert_eq!(run.report.backend, "strace");
    // Usage errors are reported, too.
    let refused = zctrace.clone().option("--syscalls=raed").refuses();
    refused.exits(125).says("'read'");
    let to_file = zctrace.option("--output").option(dir.join("report.json"));
    to_file.refuses().exits(125).says("permission denied");
}

#[test]
fn the_command_can_run_as_another_user() {
    for zctrace in each_backend() {
        let as_nobody = zctrace.option("--user=65534:65533");
        let id = as_nobody.run_exactly(&program("id")).finished;
        id.prints_all(&["uid=65534", "gid=65533"])
            .never_prints("=0(");
    }
    let dir = TestDir::new();
    let secret = dir.join("secret");
    copy_program("/bin/true".as_ref(), &secret);
    dir.set_mode(0o700);
    let as_nobody = zctrace().option("--user=65534:65533");
    let refused = as_nobody.refuses_to_run(&program(&secret));
    refused.exits(126).says("Permission denied");
}

/// A copy of zctrace with the capabilities that `doctor` recommends, run by the user `nobody`.
fn with_file_capabilities() -> (Zctrace, TestDir) {
    let (zctrace, dir) = unprivileged();
    let set = program("setcap").arg("cap_bpf,cap_perfmon=ep");
    untraced(&set.arg(dir.join("zctrace"))).finish().exits(0);
    (zctrace, dir)
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
    let (is_exact, backend) = (report.exact, report.backend);
    assert!(is_exact && backend == "ebpf", "{:?}", report.losses);
    // Nothing was restrained.
    let is_restrained = report
        .notes
        .iter()
        .any(|note| note.contains("no_new_privs"));
    assert!(!is_restrained, "{:?}", report.notes);
}

#[test]
fn the_process_that_only_waits_for_compare_has_no_capabilities() {
    let (zctrace, dir) = with_file_capabilities();
    dir.set_mode(0o777);
    let capabilities = r#"grep -h CapPrm /proc/$PPID/status /proc/$(sed -n "s/^PPid:.//p" /proc/$PPID/status)/status"#;
    let comparison = zctrace
        .option("compare")
        .option("--runs=1")
        .option("--warmup=0");
    let script = format!("{capabilities} >{}", dir.join("sets").display());
    untraced(&comparison.option(script).launch())
        .finish()
        .exits(0);
    let sets = dir.read("sets");
    let lines: Vec<&str> = sets.lines().collect();
    assert!(
        lines.len() == 2
            && !lines[0].ends_with("0000000000")
            && lines[1].ends_with("0000000000000000"),
        "{sets}"
    );
}

/// Runs a command that `doctor` prints, with a copy of `/etc` that only it sees, and then traces as
/// the user who was told so.
const AS_DOCTOR_SAYS: &str = r#"
    cp -a /etc "$1/etc"
    mount --bind "$1/etc" /etc
    sudo() { "$@"; }
    id() { echo nobody; }
    eval "$2"
    exec setpriv --reuid=nobody --regid=nogroup --init-groups -- "$1/zctrace" --backend=ebpf -- true
"#;

#[test]
fn the_command_that_doctor_prints_does_not_lock_its_user_out() {
    let (zctrace, dir) = unprivileged();
    let diagnosis = untraced(&zctrace.option("doctor").launch()).finish();
    let said = String::from_utf8_lossy(&diagnosis.stdout);
    let mut lines = said.lines().map(str::trim);
    let command = lines.find(|line| line.starts_with("sudo groupadd"));
    let command = command.expect("a command");
    let private = program("unshare").args(&["--mount", "sh", "-ec", AS_DOCTOR_SAYS, "sh"]);
    let traced = untraced(&private.arg(dir.path()).arg(command)).finish();
    traced.exits(0).says("backend ebpf, exact");
}

#[test]
fn a_setuid_program_gains_nothing_under_a_zctrace_with_file_capabilities() {
    let (zctrace, dir) = with_file_capabilities();
    let setuid = dir.join("setuid-id");
    copy_program("/usr/bin/id".as_ref(), &setuid);
    set_mode(&setuid, 0o6755);
    let setuid = program(setuid);
    let by_itself = untraced(&setuid.clone().through(&words(AS_NOBODY))).finish();
    by_itself.exits(0).prints("euid=0");
    for backend in ["ebpf", "strace"] {
        let run = report_on_stderr(zctrace.clone().backend(backend), &setuid);
        run.finished.exits(0).never_prints("euid=0");
        let notes = run.report.notes;
        let says_so = |note: &String| note.contains("setuid-id") && note.contains("no_new_privs");
        assert!(notes.iter().any(says_so), "{backend}: {notes:?}");
    }
}

#[test]
fn setuid_programs_are_not_restricted_under_root() {
    let (_, dir) = with_file_capabilities();
    let by_root = zctrace().binary(dir.join("zctrace"));
    let run = by_root.run_exactly(&shell("grep NoNewPrivs /proc/self/status"));
    run.finished.exits(0).prints_only("NoNewPrivs:\t0\n");
}

#[test]
fn capabilities_are_dropped_before_the_command_runs() {
    let (zctrace, _dir) = with_file_capabilities();
    let zctrace = zctrace.ebpf();
    let script = shell("echo ready; read line");
    // On a small stack, it works in another thread.
    let small = zctrace.clone().by_script(r#"ulimit -s 128; exec "$@""#);
    for zctrace in [zctrace, small] {
        let mut zctrace = zctrace.launch_of(&script).start();
        zctrace.expect("ready");
        let threads = format!("/proc/{}/task", zctrace.pid().as_raw_pid());
        for thread in fs::read_dir(threads).expect("it lives") {
            let status = thread.expect("it lives").path().join("status");
            let status = fs::read_to_string(status).expect("it lives");
            for set in ["CapPrm:\t0000000000000000", "CapEff:\t0000000000000000"] {
                assert!(status.contains(set), "{status}");
            }
        }
        zctrace.say("go on");
        assert_eq!(zctrace.wait(), Some(0));
    }
}

#[test]
fn with_file_capabilities_the_variable_for_btf_is_ignored() {
    let (zctrace, dir) = with_file_capabilities();
    let crafted = dir.write("crafted", "not BTF");
    let zctrace = zctrace.env("ZCTRACE_BTF", &crafted);
    zctrace.clone().ebpf().show(&program("true")).exits(0);
    let doctor = zctrace.finish_with(&["doctor"]);
    doctor.exits(0).prints("is ignored");
}

#[test]
fn a_setuid_zctrace_refuses_to_run() {
    let (zctrace, dir) = unprivileged();
    set_mode(&dir.join("zctrace"), 0o4755);
    let refused = zctrace.refuses();
    refused
        .exits(125)
        .says_all(&["setuid", "file capabilities"]);
}

/// zctrace, run by a user without any privileges through these words, and workloads for it.
fn powerless(through: &[&str]) -> (Zctrace, impl Fn(&[&str]) -> Program) {
    let (_, dir) = unprivileged();
    let zctrace = zctrace()
        .through(&words(WITHOUT_CAPABILITIES))
        .through(through);
    let zctrace = zctrace.binary(dir.join("zctrace")).dir("/");
    let workload = move |words: &[&str]| program(dir.join("workload")).args(words);
    (zctrace, workload)
}

/// The rows of the workload's own thread, which must be as it states.
#[track_caller]
fn own_rows(run: &Run) -> Figures {
    run.assert_exact();
    run.own_thread().assert_equal(&run.stated().calls);
    run.own_thread().figures()
}

#[test]
fn an_unprivileged_user_gets_the_same_counts_by_strace_and_the_reason() {
    let (powerless, own) = powerless(&[]);
    for words in [["known"].as_slice(), &["errnos"], &["signal-reads", "20"]] {
        let nobody = report_on_stderr(powerless.clone().by_thread(), &own(words));
        let root = zctrace().by_thread().ebpf();
        let root = root.run(&workload(words[0]).args(&words[1..]));
        assert_eq!(own_rows(&nobody), own_rows(&root), "{words:?}");
        let report = nobody.report;
        let note = report.notes.first().expect("a note");
        let start = "backend strace, since eBPF cannot run here: ";
        let is_right = note.starts_with(start) && note.contains("CAP_BPF");
        assert!(report.backend == "strace" && is_right, "{note}");
        // In one line of the table, too.
        powerless.clone().show(&own(words)).exits(0).says(note);
    }
    for (script, status) in [("exit 7", 7), ("kill $$", 143)] {
        powerless.clone().show(&shell(script)).exits(status);
    }
}

#[test]
fn an_unprivileged_user_without_strace_is_told_both_reasons() {
    let (powerless, workload) = powerless(&["env", "PATH=/nonexistent"]);
    let refused = powerless.refuses_to_run(&workload(&["write"]));
    let said = ["CAP_BPF", "strace is not installed", "package 'strace'"];
    refused.exits(125).says_all(&said);
}

/// A container: namespaces of its own, and these capabilities at most. Docker leaves out the files
/// of tracing, and does not let `/sys` be written.
fn in_a_container(capabilities: &str) -> Report {
    let script = "mount -t tmpfs none /sys/kernel/tracing && mount -t tmpfs none /sys/kernel/debug \
                  && mount -o remount,ro,bind /sys && exec \"$@\"";
    let namespaces = "unshare --mount --pid --fork --uts --ipc --net --cgroup --mount-proc";
    let bounding = format!("--bounding-set={capabilities}");
    let through = [
        &words(namespaces)[..],
        &["sh", "-c", script, "sh", "setpriv", &bounding, "--"],
    ];
    let zctrace = zctrace().through(&through.concat());
    let cat = program("cat").arg("/proc/version");
    zctrace.run_with_any_backend(&cat).report
}

/// What docs/how-to/ci.md says of containers.
#[test]
fn containers_use_ebpf_with_two_capabilities_and_strace_without() {
    // What Docker gives by default.
    let default = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,\
                   +net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap";
    for (more, backend) in [
        ("", "strace"),
        (",+bpf", "strace"),
        (",+bpf,+perfmon", "ebpf"),
        (",+sys_admin", "ebpf"),
    ] {
        let report = in_a_container(&format!("{default}{more}"));
        assert_eq!(report.backend, backend, "{more}: {:?}", report.notes);
        assert!(report.exact && report.exit.code == Some(0));
        let read = report.syscall("read").expect("was counted");
        assert!(read.calls >= 2, "{more}");
    }
}

#[test]
fn another_user_has_its_home_its_groups_and_its_setuid_programs() {
    let (_, dir) = unprivileged();
    let setuid = dir.join("setuid-id");
    copy_program("/usr/bin/id".as_ref(), &setuid);
    set_mode(&setuid, 0o4755);
    let script = format!("echo $HOME $USER $LOGNAME; id -G; {}", setuid.display());
    for zctrace in each_backend() {
        let by_name = zctrace.clone().option("--user=nobody").env("HOME", "/root");
        let run = by_name.run_exactly(&shell(&script));
        run.finished
            .prints("/nonexistent nobody nobody\n65534\nuid=65534")
            .prints("euid=0(root)");
        // What is set stays.
        let set = zctrace.option("--user=nobody").option("--env=HOME=/home");
        set.run(&shell("echo $HOME $USER"))
            .finished
            .prints_only("/home nobody\n");
    }
    // strace gives rights to users with names only.
    let nameless = zctrace().backend("strace").option("--user=12345:12345");
    let report = nameless.run(&program(&setuid)).report;
    let says_so = |note: &String| note.contains("setuid-id") && note.contains("no name here");
    assert!(report.notes.iter().any(says_so), "{:?}", report.notes);
}
