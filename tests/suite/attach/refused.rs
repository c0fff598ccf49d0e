//! What one cannot attach to: one true sentence each, and exit status 125.

use std::fs;

use super::{target, tell};
use crate::harness::{child_of, program, shell, state_of, wait_until, zctrace};

/// Why zctrace does not attach to this.
#[track_caller]
fn refusal(options: &[&str]) -> String {
    let finished = zctrace().options(options).refuses_words(&[]);
    finished.exits(125);
    let said = finished.stderr.trim_end();
    said.trim_start_matches("zctrace: ").to_owned()
}

#[test]
fn there_is_no_such_process() {
    // No process id is so large.
    for backend in ["ebpf", "strace", "auto"] {
        let said = refusal(&["--backend", backend, "-p", "4194304"]);
        assert_eq!(
            said, "there is no process 4194304: it may have ended",
            "{backend}"
        );
    }
    assert!(refusal(&["-p", "nginx"]).contains("'nginx' is not a process id"));
}

#[test]
fn a_thread_of_the_kernel_makes_no_calls() {
    let of_kernel = |pid: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let flags: u64 = stat.rsplit_once(") ")?.1.split(' ').nth(6)?.parse().ok()?;
        (flags & 0x20_0000 != 0).then(|| pid.to_owned())
    };
    let all = fs::read_dir("/proc").expect("processes");
    let names = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let thread = names.into_iter().find_map(|name| of_kernel(&name));
    let thread = thread.expect("the kernel has threads");
    let said = refusal(&["-p", &thread]);
    assert!(said.contains("is a kernel thread"), "{said}");
}

#[test]
fn a_process_that_has_ended_has_nothing_to_trace() {
    let mut parent = target();
    tell(&mut parent, "if os.fork() == 0: os._exit(0)");
    let child = child_of(parent.pid());
    wait_until("it has ended", || state_of(child) == 'Z');
    let said = refusal(&["-p", &child.as_raw_pid().to_string()]);
    assert!(said.contains("is a zombie: it has ended"), "{said}");
}

#[test]
fn zctrace_does_not_attach_to_itself() {
    let script = "exec \"$@\" -p $$";
    let finished = zctrace().by_script(script).refuses_words(&[]);
    finished.exits(125).says("is zctrace itself");
}

#[test]
fn without_privileges_the_sentence_says_what_to_do() {
    let mut target = shell("echo ready; read line").start();
    target.expect("ready");
    let pid = target.pid().as_raw_pid().to_string();
    let nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--",
    ];
    let refused = |backend| {
        let zctrace = zctrace().through(&nobody).backend(backend);
        zctrace.options(&["-p", &pid]).refuses_words(&[])
    };
    refused("ebpf").exits(125).says("run zctrace with sudo");
    let said =
        format!("not allowed to trace process {pid}: run zctrace as root (sudo zctrace -p {pid})");
    refused("strace").exits(125).says(&said);
    refused("auto").exits(125).says(&said);
}

#[test]
fn there_is_no_such_cgroup() {
    let said = refusal(&["--cgroup", "no/such/cgroup"]);
    assert!(
        said.starts_with("there is no version 2 cgroup 'no/such/cgroup'"),
        "{said}"
    );
    let said = refusal(&["--cgroup", "/tmp"]);
    assert!(
        said.starts_with("'/tmp' is not a version 2 cgroup"),
        "{said}"
    );
}

#[test]
fn a_command_and_a_process_are_one_too_many() {
    let finished = zctrace()
        .options(&["-p", "1"])
        .refuses_to_run(&program("true"));
    finished.exits(125);
}
