//! Made-up machines.

use super::{
    Capabilities, Container, Distribution, EbpfFacts, Facts, KernelTypes, Lockdown, Program,
    Reading, Seccomp, Status, StraceFacts, System, Trial, Version,
};

/// All capabilities there are.
pub const ALL: Reading<Capabilities> = Reading::Known(Capabilities(0x1ff_ffff_ffff));
/// None of them.
pub const NONE: Reading<Capabilities> = Reading::Known(Capabilities(0));
/// What Docker gives root in a container by default.
pub const DOCKER: Reading<Capabilities> = Reading::Known(Capabilities(0xa804_25fb));

/// Root on a Debian where everything is fine.
pub fn root() -> Facts {
    Facts {
        system: System {
            kernel: Reading::Known("6.12.1-amd64".into()),
            arch: Reading::Known("x86_64".into()),
            distribution: distribution("Debian GNU/Linux 13 (trixie)", &["debian"]),
            executable: Reading::Known("/usr/bin/zctrace".into()),
            executable_mode: Reading::Known(0o755),
            elevated: false,
            euid: 0,
            status: Status {
                effective: ALL,
                bounding: ALL,
                no_new_privs: Reading::Known(false),
                seccomp: Reading::Known(Seccomp::Off),
                tracer_pid: Reading::Known(None),
            },
            unprivileged_bpf_disabled: Reading::Known(Some(2)),
            perf_event_paranoid: Reading::Known(Some(3)),
            yama_ptrace_scope: Reading::Known(Some(0)),
            lockdown: Reading::Known(Some(Lockdown::None)),
            container: Container {
                markers: Vec::new(),
                initial_pid_namespace: Reading::Known(true),
                initial_user_namespace: Reading::Known(true),
            },
        },
        ebpf: EbpfFacts {
            built: true,
            types_path: "/sys/kernel/btf/vmlinux".into(),
            ignored_types_path: None,
            types: Reading::Known(KernelTypes {
                bytes: 5_515_236,
                missing_field: None,
                notes: Vec::new(),
                missing_tracepoints: Vec::new(),
            }),
            trial: Some(Trial::Works),
        },
        strace: StraceFacts {
            program: Reading::Known(Some(Program {
                path: "/usr/bin/strace".into(),
                version: Reading::Known(Some(Version(6, 13))),
            })),
            ptrace: Trial::Works,
        },
    }
}

/// A user without privileges, on the same machine.
pub fn user() -> Facts {
    let mut facts = root();
    facts.system.euid = 1000;
    facts.system.status.effective = NONE;
    facts.ebpf.trial = Some(Trial::Denied);
    facts
}

/// A user whose zctrace has file capabilities, set up as the doctor recommends.
pub fn elevated() -> Facts {
    let mut facts = root();
    facts.system.euid = 1000;
    facts.system.elevated = true;
    facts.system.executable_mode = Reading::Known(0o750);
    facts.system.status.effective = Reading::Known(Capabilities(1 << 38 | 1 << 39));
    facts
}

/// Root in a container of Docker as it is by default, on Alpine, without strace.
pub fn container() -> Facts {
    let mut facts = root();
    let system = &mut facts.system;
    system.distribution = distribution("Alpine Linux v3.22", &["alpine"]);
    system.status.effective = DOCKER;
    system.status.bounding = DOCKER;
    system.status.seccomp = Reading::Known(Seccomp::Filter);
    system.container.markers = vec!["/.dockerenv".into()];
    system.container.initial_pid_namespace = Reading::Known(false);
    facts.ebpf.trial = Some(Trial::Denied);
    facts.strace.program = Reading::Known(None);
    facts
}

/// A distribution of these ids.
pub fn distribution(name: &str, ids: &[&str]) -> Reading<Distribution> {
    Reading::Known(Distribution {
        name: name.to_owned(),
        ids: ids.iter().map(|&id| id.to_owned()).collect(),
    })
}
