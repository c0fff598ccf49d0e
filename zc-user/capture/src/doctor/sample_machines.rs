//! Made-up machines.

use rustix::thread::CapabilitySet;

use crate::backend::ebpf::ObjectOrigin;

use super::{
    EbpfFacts, MachineFacts, ProcessStatus, StraceFacts, StraceProgram, System, Trial, Version,
};

/// All capabilities there are.
pub const ALL: Option<CapabilitySet> = Some(CapabilitySet::all());
/// None of them.
pub const NONE: Option<CapabilitySet> = Some(CapabilitySet::empty());
/// What Docker gives root in a container by default.
pub const DOCKER: Option<CapabilitySet> = Some(CapabilitySet::from_bits_retain(0xa804_25fb));

/// Root on a Debian where everything is fine.
pub fn root() -> MachineFacts {
    MachineFacts {
        system: System {
            kernel: Some("6.12.1-amd64".into()),
            arch: Some("x86_64".into()),
            distribution: "Debian GNU/Linux 13 (trixie)".into(),
            executable: Some("/usr/bin/zctrace".into()),
            executable_mode: Some(0o755),
            elevated: false,
            euid: 0,
            status: ProcessStatus {
                effective: ALL,
                bounding: ALL,
                ..ProcessStatus::default()
            },
            yama_ptrace_scope: Some(0),
            is_locked_down: false,
            is_container: false,
            is_user_namespace: false,
        },
        ebpf: EbpfFacts {
            object: Some(ObjectOrigin {
                origin: "prebuilt",
                sha256: "00018aff",
                tools: "rustc 1.97.0-nightly",
            }),
            ignored_types_path: None,
            trial: Trial::Works,
            notes: Vec::new(),
        },
        strace: StraceFacts {
            program: Ok(Some(StraceProgram {
                path: "/usr/bin/strace".into(),
                version: Ok(Some(Version(6, 13))),
            })),
            ptrace: Trial::Works,
        },
    }
}

/// A user without privileges, on the same machine.
pub fn user() -> MachineFacts {
    let mut facts = root();
    facts.system.euid = 1000;
    facts.system.status.effective = NONE;
    facts.ebpf.trial = Trial::Denied;
    facts
}

/// A user whose zctrace has file capabilities, set up as the doctor recommends.
pub fn elevated() -> MachineFacts {
    let mut facts = root();
    facts.system.euid = 1000;
    facts.system.elevated = true;
    facts.system.executable_mode = Some(0o750);
    facts.system.status.effective = Some(CapabilitySet::PERFMON | CapabilitySet::BPF);
    facts
}

/// Root in a container of Docker as it is by default, on Alpine, without strace.
pub fn container() -> MachineFacts {
    let mut facts = root();
    let system = &mut facts.system;
    system.distribution = "Alpine Linux v3.22".into();
    system.status.effective = DOCKER;
    system.status.bounding = DOCKER;
    system.status.has_filter = true;
    system.is_container = true;
    facts.ebpf.trial = Trial::Denied;
    facts.strace.program = Ok(None);
    facts
}
