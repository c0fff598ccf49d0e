//! What the facts mean for each backend: what keeps it from running, and what to do about it.

use rustix::thread::CapabilitySet;

use super::{
    BackendDiagnosis, MIN_STRACE, MachineFacts, MachineFinding, StraceProgram, StraceUnavailable,
    System, Trial, usable_strace,
};
use crate::{
    backend::{
        ebpf::{BTF_PATH_VARIABLE, ObjectOrigin},
        strace::unavailable::{denied as ptrace_denied, usable_program},
    },
    machine::as_root,
};

/// What the facts mean for the eBPF backend. Whether it can run is what the trial says; the other
/// findings explain it.
pub(super) fn ebpf(facts: &MachineFacts) -> BackendDiagnosis {
    let (system, ebpf) = (&facts.system, &facts.ebpf);
    let usable = ebpf.trial == Trial::Works;
    let lacking = missing_privileges(system).filter(|_| !usable);
    let mut findings = match (&ebpf.trial, lacking) {
        (Trial::Works, _) => vec![
            MachineFinding::ok("trial", "the programs load and attach"),
            enough(system),
        ],
        (Trial::Denied, Some(lacking)) => vec![lacking],
        (Trial::Denied, None) => vec![denied(system), enough(system)],
        // Privileges would not help.
        (Trial::Failed(reason), Some(_)) => vec![MachineFinding::missing("trial", reason.as_str())],
        (Trial::Failed(reason), None) => {
            vec![
                MachineFinding::missing("trial", reason.as_str()),
                enough(system),
            ]
        }
    };
    if let Some(object) = ebpf.object {
        let ObjectOrigin {
            origin,
            sha256,
            tools,
        } = object;
        let detail = format!("{origin}, SHA-256 {sha256}, by {tools}");
        findings.push(MachineFinding::ok("programs", detail));
    }
    if !ebpf.notes.is_empty() {
        findings.push(MachineFinding::warning("kernel", ebpf.notes.join("; ")));
    }
    if let Some(ignored) = &ebpf.ignored_types_path {
        let detail = format!(
            "{BTF_PATH_VARIABLE}={} is ignored: this zctrace has more privileges than its caller",
            ignored.display()
        );
        findings.push(MachineFinding::warning("kernel types", detail));
    }
    let can = [
        "calls, errors, bytes moved and requested",
        "times",
        "context switches, page faults and CPU time of each process",
    ];
    BackendDiagnosis {
        name: "ebpf",
        usable,
        findings,
        can: can.map(str::to_owned).into(),
        cannot: ebpf.notes.clone(),
    }
}

const PRIVILEGES: &str = "privileges";

/// This process has enough privileges. File capabilities are for everybody who may run the file.
fn enough(system: &System) -> MachineFinding {
    /// All users may execute it.
    const OTHERS: u32 = 0o001;
    let mode = system.executable_mode;
    if system.elevated && mode.is_none_or(|mode| mode & OTHERS != 0) {
        let detail = "enough to load eBPF programs, but everybody on this machine has them; restrict them to the group zctrace";
        return MachineFinding::warning(PRIVILEGES, detail)
            .with_remedy(Some(set_capabilities(system)));
    }
    MachineFinding::ok(PRIVILEGES, "enough to load eBPF programs")
}

/// Which capabilities for loading this process lacks, and how to get them; `None` if it has them.
fn missing_privileges(system: &System) -> Option<MachineFinding> {
    if system.is_user_namespace {
        let detail = "in a user namespace nobody has the host's CAP_BPF and CAP_PERFMON, not even root; run zctrace outside of it";
        return Some(MachineFinding::missing(PRIVILEGES, detail));
    }
    // Root is assumed to have them.
    let assumed = if system.euid == 0 {
        CapabilitySet::all()
    } else {
        CapabilitySet::empty()
    };
    let status = &system.status;
    let missing = missing_capabilities(status.effective.unwrap_or(assumed));
    if missing.is_empty() {
        return None;
    }
    let most = status.bounding;
    let reachable = most.is_none_or(|most| missing_capabilities(most).is_empty());
    let (way, remedy) = match (reachable, status.no_new_privs, system.is_container) {
        (false, _, true) => ("start the container with them", Some(DOCKER_BPF.to_owned())),
        (false, _, false) => (
            "the capability bounding set excludes them, so that not even sudo can grant them",
            None,
        ),
        (true, true, _) => (
            "no_new_privs is set, so that not even sudo can grant them",
            None,
        ),
        (true, false, _) => (
            "run zctrace with sudo, or grant them permanently to the group zctrace; you join it at your next login, or in a shell of newgrp zctrace",
            Some(set_capabilities(system)),
        ),
    };
    let detail = format!("needs {}; {way}", missing.join(" and "));
    Some(MachineFinding::missing(PRIVILEGES, detail).with_remedy(remedy))
}

/// Starts a container that may load eBPF programs.
const DOCKER_BPF: &str = "docker run --cap-add BPF --cap-add PERFMON IMAGE COMMAND";

/// The names of the capabilities that loading needs and this set lacks.
fn missing_capabilities(held: CapabilitySet) -> Vec<&'static str> {
    let needed = [
        (CapabilitySet::BPF, "CAP_BPF"),
        (CapabilitySet::PERFMON, "CAP_PERFMON"),
    ];
    needed
        .into_iter()
        .filter(|(one, _)| !held.intersects(*one | CapabilitySet::SYS_ADMIN))
        .map(|(_, name)| name)
        .collect()
}

/// The group that may run a zctrace with file capabilities.
const GROUP: &str = "zctrace";

/// Restricts the program to a group that its user is in, and then gives it capabilities. The order
/// matters: chown removes capabilities.
fn set_capabilities(system: &System) -> String {
    let program = match &system.executable {
        Some(path) => shell_word(&path.to_string_lossy()),
        None => "\"$(command -v zctrace)\"".to_owned(),
    };
    let steps = [
        format!("groupadd --force {GROUP}"),
        format!("usermod -aG {GROUP} \"$(id -un)\""),
        format!("chown root:{GROUP} {program}"),
        format!("chmod 0750 {program}"),
        format!("setcap cap_bpf,cap_perfmon=ep {program}"),
    ];
    steps.map(|step| as_root(system, &step)).join(" && ")
}

/// Quotes a word for a shell, if it has to be.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Why the kernel denies what the capabilities allow.
fn denied(system: &System) -> MachineFinding {
    const WHAT: &str = "trial";
    if system.is_locked_down {
        let detail = "kernel lockdown forbids programs from reading kernel memory: boot without lockdown=confidentiality";
        return MachineFinding::missing(WHAT, detail);
    }
    if system.status.has_filter {
        let detail =
            "bpf(2) is denied despite sufficient privileges, apparently by a seccomp filter";
        let remedy = "docker run --cap-add BPF --cap-add PERFMON --security-opt seccomp=unconfined IMAGE COMMAND".to_owned();
        let remedy = system.is_container.then_some(remedy);
        return MachineFinding::missing(WHAT, detail).with_remedy(remedy);
    }
    let detail = "bpf(2) is denied despite sufficient privileges, possibly by a security module (SELinux, AppArmor)";
    MachineFinding::missing(WHAT, detail)
}

/// What the facts mean for the strace backend.
pub(super) fn strace(facts: &MachineFacts) -> BackendDiagnosis {
    let MachineFacts { system, strace, .. } = facts;
    let missing = |what, StraceUnavailable { obstacle, remedy }| {
        MachineFinding::missing(what, obstacle).with_remedy(remedy)
    };
    let program = match usable_program(&strace.program) {
        Ok(program) => describe_program(program),
        Err(why) => missing("program", why),
    };
    let ptrace = match ptrace_denied(system, &strace.ptrace) {
        Some(why) => missing("ptrace", why),
        None => MachineFinding::ok("ptrace", "a trial succeeded"),
    };
    let can = [
        "calls, errors, bytes moved and requested",
        "times, including strace's own overhead",
    ];
    let cannot = [
        "no context switches, page faults or CPU time",
        "slows the command down: it stops at every traced call",
        "a process can have only one tracer: commands that use ptrace themselves, such as debuggers, do not work",
    ];
    BackendDiagnosis {
        name: "strace",
        usable: usable_strace(system, strace).is_ok(),
        findings: vec![program, ptrace],
        can: can.map(str::to_owned).into(),
        cannot: cannot.map(str::to_owned).into(),
    }
}

/// The program strace, in which nothing is wrong.
fn describe_program(StraceProgram { path, version }: &StraceProgram) -> MachineFinding {
    const WHAT: &str = "program";
    let path = path.display();
    match version {
        Ok(Some(version)) => MachineFinding::ok(WHAT, format!("{path}, version {version}")),
        _ => MachineFinding::warning(
            WHAT,
            format!("{path} does not report its version; {MIN_STRACE} or newer is needed"),
        ),
    }
}
