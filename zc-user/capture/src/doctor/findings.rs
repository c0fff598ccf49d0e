//! What the facts mean for each backend: what keeps it from running, and what to do about it.

use std::path::Path;

use rustix::thread::CapabilitySet;

use super::{
    BackendDiagnosis, Capabilities, EbpfFacts, Facts, Finding, KernelTypes, Lockdown, MIN_STRACE,
    Obstacle, Program, Reading, Seccomp, Setting, System, Trial, strace_unavailable,
};
use crate::{
    backend::{
        ebpf::{
            TooOld,
            kernel::{BTF_PATH, BTF_PATH_VARIABLE},
        },
        strace::unavailable::{program_obstacle, ptrace_obstacle, remedy},
    },
    machine::as_root,
};

/// What the facts mean for the eBPF backend. Whether it can run is what the trial says; the other
/// findings explain it.
pub(super) fn ebpf(facts: &Facts) -> BackendDiagnosis {
    let (system, ebpf) = (&facts.system, &facts.ebpf);
    let usable = ebpf.trial == Some(Trial::Works);
    let can = [
        "calls, errors, bytes moved and requested",
        "times",
        "context switches, page faults and CPU time of each process",
    ];
    let diagnosis = |findings, cannot| BackendDiagnosis {
        name: "ebpf",
        usable,
        findings,
        can: can.map(str::to_owned).into(),
        cannot,
    };
    // On a kernel that is too old, nothing else matters. One of unknown release is not too old.
    let release = system.kernel.known();
    if let Some(Err(too_old)) = release.map(|release| TooOld::check(release)) {
        let too_old = Finding::missing("kernel", too_old.to_string());
        return diagnosis(vec![built(ebpf.built), too_old], Vec::new());
    }
    let mut findings = vec![built(ebpf.built), types(ebpf)];
    if let Reading::Known(types) = &ebpf.types {
        findings.extend([fields(types), tracepoints(types)]);
    }
    let lacking = missing_privileges(system).filter(|_| !usable);
    let is_privileged = lacking.is_none();
    findings.push(lacking.unwrap_or_else(|| enough(system)));
    findings.push(settings(system));
    findings.extend(match &ebpf.trial {
        Some(Trial::Works) => Some(Finding::ok("trial", "the programs load and attach")),
        Some(Trial::Denied) if is_privileged => Some(denied(system)),
        Some(Trial::Failed(reason)) => Some(Finding::missing("trial", reason.as_str())),
        // Another finding explains it.
        Some(Trial::Denied) | None => None,
    });
    let notes = ebpf.types.known().map(|types| types.notes.clone());
    diagnosis(findings, notes.unwrap_or_default())
}

fn built(built: bool) -> Finding {
    if built {
        return Finding::ok("programs", "built in");
    }
    let detail = "this zctrace was built without eBPF; install the BPF toolchain and rebuild";
    let remedy = "cargo xtask setup && cargo build --release".to_owned();
    Finding::missing("programs", detail).with_remedy(Some(remedy))
}

fn types(ebpf: &EbpfFacts) -> Finding {
    const WHAT: &str = "kernel types";
    let path = ebpf.types_path.display();
    match (&ebpf.types, &ebpf.ignored_types_path) {
        (Reading::Known(types), None) => {
            Finding::ok(WHAT, format!("{path}, {} bytes", types.bytes))
        }
        (Reading::Known(types), Some(ignored)) => Finding::warning(
            WHAT,
            format!(
                "{path}, {} bytes; {BTF_PATH_VARIABLE}={} is ignored: this zctrace has more privileges than its caller",
                types.bytes,
                ignored.display()
            ),
        ),
        (Reading::Unknown { unknown }, _) if ebpf.types_path == Path::new(BTF_PATH) => {
            let detail = format!(
                "cannot use {path}: {unknown}; the kernel must be built with CONFIG_DEBUG_INFO_BTF"
            );
            Finding::missing(WHAT, detail)
        }
        (Reading::Unknown { unknown }, _) => {
            let detail =
                format!("cannot use {path}: {unknown}; the path is from {BTF_PATH_VARIABLE}");
            let remedy = format!("unset {BTF_PATH_VARIABLE}");
            Finding::missing(WHAT, detail).with_remedy(Some(remedy))
        }
    }
}

fn fields(types: &KernelTypes) -> Finding {
    const WHAT: &str = "kernel fields";
    match (&types.missing_field, types.notes.as_slice()) {
        (Some(field), _) => Finding::missing(WHAT, format!("{field}; use another kernel")),
        (None, []) => Finding::ok(WHAT, "all found"),
        (None, notes) => Finding::warning(WHAT, notes.join("; ")),
    }
}

fn tracepoints(types: &KernelTypes) -> Finding {
    const WHAT: &str = "tracepoints";
    if types.missing_tracepoints.is_empty() {
        return Finding::ok(WHAT, "all found");
    }
    let missing = types.missing_tracepoints.join(", ");
    let detail = format!("this kernel lacks {missing}; use another kernel");
    Finding::missing(WHAT, detail)
}

const PRIVILEGES: &str = "privileges";

/// This process has enough privileges. File capabilities are for everybody who may run the file.
fn enough(system: &System) -> Finding {
    /// All users may execute it.
    const OTHERS: u32 = 0o001;
    let mode = system.executable_mode.known();
    if system.elevated && mode.is_none_or(|mode| mode & OTHERS != 0) {
        let detail = "enough to load eBPF programs, but everybody on this machine has them; restrict them to the group zctrace";
        return Finding::warning(PRIVILEGES, detail).with_remedy(Some(set_capabilities(system)));
    }
    Finding::ok(PRIVILEGES, "enough to load eBPF programs")
}

/// Which capabilities for loading this process lacks, and how to get them; `None` if it has them.
fn missing_privileges(system: &System) -> Option<Finding> {
    if system.container.initial_user_namespace.known() == Some(&false) {
        let detail = "in a user namespace nobody has the host's CAP_BPF and CAP_PERFMON, not even root; run zctrace outside of it";
        return Some(Finding::missing(PRIVILEGES, detail));
    }
    // Root is assumed to have them.
    let assumed = Capabilities(if system.euid == 0 { u64::MAX } else { 0 });
    let held = system.status.effective.known().unwrap_or(&assumed);
    let missing = missing_capabilities(*held);
    if missing.is_empty() {
        return None;
    }
    let most = system.status.bounding.known();
    let reachable = most.is_none_or(|most| missing_capabilities(*most).is_empty());
    let sealed = system.status.no_new_privs.known() == Some(&true);
    let (way, remedy) = match (reachable, sealed, system.container.is_likely()) {
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
            "run zctrace with sudo, or grant them permanently to the group zctrace: you are in it after your next login, or in a shell of newgrp zctrace",
            Some(set_capabilities(system)),
        ),
    };
    let detail = format!("needs {}; {way}", missing.join(" and "));
    Some(Finding::missing(PRIVILEGES, detail).with_remedy(remedy))
}

/// Starts a container that may load eBPF programs.
const DOCKER_BPF: &str = "docker run --cap-add BPF --cap-add PERFMON IMAGE COMMAND";

/// The names of the capabilities that loading needs and this set lacks.
fn missing_capabilities(held: Capabilities) -> Vec<String> {
    let needed = [CapabilitySet::BPF, CapabilitySet::PERFMON].into_iter();
    needed
        .filter(|one| !held.has(*one | CapabilitySet::SYS_ADMIN))
        .flat_map(|one| Capabilities(one.bits()).names())
        .collect()
}

/// The group that may run a zctrace with file capabilities.
const GROUP: &str = "zctrace";

/// Restricts the program to a group that its user is in, and then gives it capabilities. The order
/// matters: chown removes capabilities.
fn set_capabilities(system: &System) -> String {
    let program = match &system.executable {
        Reading::Known(path) => shell_word(&path.to_string_lossy()),
        Reading::Unknown { .. } => "\"$(command -v zctrace)\"".to_owned(),
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

/// The settings that people suspect first. Neither keeps a privileged program from tracing.
fn settings(system: &System) -> Finding {
    let value = |name: &str, setting: &Setting| match setting {
        Reading::Known(Some(value)) => format!("{name} = {value}"),
        Reading::Known(None) => format!("no {name}"),
        Reading::Unknown { unknown } => format!("{name} unknown ({unknown})"),
    };
    let bpf = "kernel.unprivileged_bpf_disabled";
    let bpf = value(bpf, &system.unprivileged_bpf_disabled);
    let perf = value("kernel.perf_event_paranoid", &system.perf_event_paranoid);
    let detail = format!("{bpf}, {perf}: neither affects zctrace");
    Finding::ok("settings", detail)
}

/// Why the kernel denies what the capabilities allow.
fn denied(system: &System) -> Finding {
    const WHAT: &str = "trial";
    if system.lockdown.known() == Some(&Some(Lockdown::Confidentiality)) {
        let detail = "kernel lockdown forbids programs to read kernel memory: boot without lockdown=confidentiality";
        return Finding::missing(WHAT, detail);
    }
    if system.status.seccomp.known() == Some(&Seccomp::Filter) {
        let detail =
            "bpf(2) is denied despite sufficient privileges, apparently by a seccomp filter";
        let remedy = "docker run --cap-add BPF --cap-add PERFMON --security-opt seccomp=unconfined IMAGE COMMAND".to_owned();
        let remedy = system.container.is_likely().then_some(remedy);
        return Finding::missing(WHAT, detail).with_remedy(remedy);
    }
    let detail = "bpf(2) is denied despite sufficient privileges, possibly by a security module (SELinux, AppArmor)";
    Finding::missing(WHAT, detail)
}

/// What the facts mean for the strace backend.
pub(super) fn strace(facts: &Facts) -> BackendDiagnosis {
    let Facts { system, strace, .. } = facts;
    let missing = |what, obstacle: Obstacle| {
        let remedy = remedy(system, &obstacle);
        Finding::missing(what, obstacle.to_string()).with_remedy(remedy)
    };
    let program = match (&strace.program, program_obstacle(&strace.program)) {
        (Reading::Known(Some(program)), None) => usable_program(program),
        (_, obstacle) => missing("program", obstacle.unwrap_or(Obstacle::Missing)),
    };
    let ptrace = match ptrace_obstacle(system, &strace.ptrace) {
        Some(obstacle) => missing("ptrace", obstacle),
        None => Finding::ok("ptrace", "a trial succeeded"),
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
        usable: strace_unavailable(system, strace).is_none(),
        findings: vec![program, ptrace],
        can: can.map(str::to_owned).into(),
        cannot: cannot.map(str::to_owned).into(),
    }
}

/// The program strace, in which nothing is wrong.
fn usable_program(Program { path, version }: &Program) -> Finding {
    const WHAT: &str = "program";
    let path = path.display();
    match version {
        Reading::Known(Some(version)) => Finding::ok(WHAT, format!("{path}, version {version}")),
        _ => Finding::warning(
            WHAT,
            format!("{path} does not report its version; {MIN_STRACE} or newer is needed"),
        ),
    }
}
