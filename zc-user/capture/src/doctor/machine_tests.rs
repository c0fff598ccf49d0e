//! What users of other machines are told: each made-up machine is one line of [`MACHINES`], and
//! the snapshot has the texts.

use std::fmt::Write as _;

use rustix::thread::CapabilitySet;

use super::{sample_machines::*, *};

/// A machine: its name, which machine it is like, and what is different.
type Machine = (&'static str, fn() -> MachineFacts, fn(&mut MachineFacts));

const MACHINES: &[Machine] = &[
    ("root", root, |_| {}),
    ("user", user, |_| {}),
    ("user, path with blanks", user, |facts| {
        facts.system.executable = Some("/home/a b/it's".into());
    }),
    ("user, unknown path", user, |facts| {
        facts.system.executable = None;
    }),
    ("user, no_new_privs", user, |facts| {
        facts.system.status.no_new_privs = true;
    }),
    ("user, bounding set", user, |facts| {
        facts.system.status.bounding = DOCKER;
    }),
    ("user, only CAP_BPF", user, |facts| {
        facts.system.status.effective = Some(CapabilitySet::BPF);
    }),
    ("elevated", elevated, |_| {}),
    ("elevated, for everybody", elevated, |facts| {
        facts.system.executable_mode = Some(0o755);
        facts.ebpf.ignored_types_path = Some("/tmp/crafted".into());
    }),
    ("container", container, |_| {}),
    ("container, seccomp", container, |facts| {
        facts.strace = root().strace;
        facts.strace.ptrace = Trial::Denied;
        facts.system.status.effective = ALL;
        facts.system.status.bounding = ALL;
    }),
    ("root of a user namespace", root, |facts| {
        facts.ebpf.trial = Trial::Denied;
        facts.system.is_user_namespace = true;
    }),
    ("user, ptrace_scope 3", user, |facts| {
        facts.strace.ptrace = Trial::Denied;
        facts.system.yama_ptrace_scope = Some(3);
    }),
    ("user, ptrace_scope 2", user, |facts| {
        facts.strace.ptrace = Trial::Denied;
        facts.system.yama_ptrace_scope = Some(2);
    }),
    ("root, ptrace_scope 2, ptrace works", root, |facts| {
        facts.system.yama_ptrace_scope = Some(2);
    }),
    // Root has CAP_SYS_PTRACE, so it must be something else.
    ("root, ptrace_scope 2, ptrace is denied", root, |facts| {
        facts.strace.ptrace = Trial::Denied;
        facts.system.yama_ptrace_scope = Some(2);
    }),
    // A debugger that does not follow children does no harm.
    ("another tracer, ptrace works", root, |facts| {
        facts.system.status.tracer_pid = Some(4711);
    }),
    ("another tracer, ptrace is denied", root, |facts| {
        facts.strace.ptrace = Trial::Denied;
        facts.system.status.tracer_pid = Some(4711);
    }),
    ("strace too old", root, |facts| {
        facts.strace.program = Ok(Some(strace_of(Ok(Some(Version(5, 10))))));
    }),
    ("strace just new enough", root, |facts| {
        facts.strace.program = Ok(Some(strace_of(Ok(Some(MIN_STRACE)))));
    }),
    ("strace does not run", root, |facts| {
        facts.strace.program = Ok(Some(strace_of(Err("Exec format error".to_owned()))));
    }),
    ("strace of unknown version", root, |facts| {
        facts.strace.program = Ok(Some(strace_of(Ok(None))));
    }),
    ("kernel that knows less", root, |facts| {
        facts.ebpf.notes = vec!["CPU time is unknown".into()];
    }),
    ("bpf is denied", root, |facts| {
        facts.ebpf.trial = Trial::Denied;
    }),
    ("lockdown", root, |facts| {
        facts.ebpf.trial = Trial::Denied;
        facts.system.is_locked_down = true;
    }),
    ("the trial fails", root, |facts| {
        facts.ebpf.trial = Trial::Failed("the verifier refuses".into());
    }),
    // The privileges would not help, so they come second.
    ("kernel too old", user, |facts| {
        facts.ebpf.trial = Trial::Failed("Linux 5.10 is too old".into());
        facts.strace.ptrace = Trial::Denied;
    }),
    // Root is assumed to have the capabilities.
    ("nothing can be read", root, |facts| {
        facts.system.status = ProcessStatus::default();
        facts.system.yama_ptrace_scope = None;
        facts.ebpf.trial = Trial::Denied;
        facts.strace.ptrace = Trial::Denied;
    }),
    ("nothing can be read but seccomp", root, |facts| {
        facts.system.status = ProcessStatus::default();
        facts.system.status.has_filter = true;
        facts.ebpf.trial = Trial::Denied;
        facts.strace.ptrace = Trial::Denied;
    }),
];

fn strace_of(version: Result<Option<Version>, String>) -> StraceProgram {
    StraceProgram {
        path: "/opt/strace".into(),
        version,
    }
}

/// All that is not as on a machine where everything is fine.
fn complaints(diagnosis: &Diagnosis) -> String {
    let Auto { backend, why } = &diagnosis.auto;
    let mut text = format!("auto: {}, {why}\n", backend.unwrap_or("none"));
    for backend in &diagnosis.backends {
        for found in &backend.findings {
            if found.state != FindingState::Ok {
                let (name, what, state) = (backend.name, found.what, found.state);
                let _ = writeln!(text, "{name} {what}, {state:?}: {}", found.detail);
                found.remedy.iter().for_each(|remedy| {
                    let _ = writeln!(text, "  $ {remedy}");
                });
            }
        }
    }
    text
}

/// The first finding that keeps a backend from running.
fn first_missing(backend: &BackendDiagnosis) -> Option<&MachineFinding> {
    let mut findings = backend.findings.iter();
    let missing = findings.find(|finding| finding.state == FindingState::Missing);
    assert_eq!(
        backend.usable,
        missing.is_none(),
        "it must say why: {backend:?}"
    );
    missing
}

#[test]
fn users_of_each_machine_are_told_what_is_missing_and_how_to_get_it() {
    let mut text = String::new();
    for (name, like, change) in MACHINES {
        let mut facts = like();
        change(&mut facts);
        let diagnosis = diagnose(&facts);
        let [ebpf, strace] = diagnosis.backends.each_ref().map(first_missing);
        let none_can_run = ebpf.is_some() && strace.is_some();
        assert_eq!(diagnosis.exit_status(), u8::from(none_can_run), "{name}");
        // The line of an error agrees with the findings.
        let unavailable = usable_strace(&facts.system, &facts.strace).err();
        let line = unavailable.as_ref().map(ToString::to_string);
        let obstacle = unavailable.map(|found| (found.obstacle, found.remedy));
        assert_eq!(
            strace.map(|found| (found.detail.clone(), found.remedy.clone())),
            obstacle,
            "{name}"
        );
        let expected = obstacle.map(|(obstacle, remedy)| match remedy {
            Some(remedy) => format!("{obstacle}: {remedy}"),
            None => obstacle,
        });
        assert_eq!(line, expected, "{name}");
        assert!(!line.is_some_and(|line| line.contains('\n')), "{name}");
        let _ = writeln!(text, "# {name}\n{}", complaints(&diagnosis));
    }
    insta::assert_snapshot!("machines", text);
}
