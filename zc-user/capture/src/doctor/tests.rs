//! What users of other machines are told: each made-up machine is one line of [`MACHINES`], and
//! the snapshot has the texts.

use std::fmt::Write as _;

use rustix::thread::CapabilitySet;

use super::{sample::*, *};

/// A machine: its name, which machine it is like, and what is different.
type Machine = (&'static str, fn() -> Facts, fn(&mut Facts));

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
    ("container of another distribution", container, |facts| {
        facts.system.distribution = distribution("Own", "own");
    }),
    ("container, seccomp", container, |facts| {
        facts.strace = root().strace;
        facts.strace.ptrace = Trial::Denied;
        facts.system.status.effective = ALL;
        facts.system.status.bounding = ALL;
    }),
    ("root of a user namespace", root, |facts| {
        facts.ebpf.trial = Some(Trial::Denied);
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
        facts.strace.program = strace_of(Ok(Some(Version(5, 10))));
    }),
    ("strace just new enough", root, |facts| {
        facts.strace.program = strace_of(Ok(Some(MIN_STRACE)));
    }),
    ("strace does not run", root, |facts| {
        facts.strace.program = strace_of(Err("Exec format error".to_owned()));
    }),
    ("strace of unknown version", root, |facts| {
        facts.strace.program = strace_of(Ok(None));
    }),
    ("no types", root, |facts| {
        facts.ebpf.types = Err("No such file or directory".to_owned());
        facts.ebpf.trial = None;
    }),
    ("no types where the environment says", root, |facts| {
        facts.ebpf.types = Err("No such file or directory".to_owned());
        facts.ebpf.types_path = "/tmp/other".into();
        facts.ebpf.trial = None;
    }),
    ("built without eBPF", root, |facts| {
        facts.ebpf.built = false;
        facts.ebpf.trial = None;
    }),
    ("kernel without a field", root, |facts| {
        types_of(facts).missing_field = Some("no field upid".into());
        facts.ebpf.trial = None;
    }),
    ("kernel without a tracepoint", root, |facts| {
        types_of(facts).missing_tracepoints = vec!["sys_enter".into()];
        facts.ebpf.trial = None;
    }),
    ("kernel that knows less", root, |facts| {
        types_of(facts).notes = vec!["CPU time is unknown".into()];
    }),
    ("arm", root, |facts| {
        facts.system.arch = Some("aarch64".into());
    }),
    ("bpf is denied", root, |facts| {
        facts.ebpf.trial = Some(Trial::Denied);
    }),
    ("lockdown", root, |facts| {
        facts.ebpf.trial = Some(Trial::Denied);
        facts.system.is_locked_down = true;
    }),
    ("the trial fails", root, |facts| {
        facts.ebpf.trial = Some(Trial::Failed("the verifier refuses".into()));
    }),
    // Nothing else is reported of it.
    ("kernel too old", user, |facts| {
        facts.system.kernel = Some("5.10.0-30-amd64".into());
        facts.ebpf.types = Err("No such file or directory".to_owned());
        facts.ebpf.trial = None;
        facts.strace.ptrace = Trial::Denied;
    }),
    // Root is assumed to have the capabilities.
    ("nothing can be read", root, |facts| {
        facts.system.status = Status::default();
        facts.system.yama_ptrace_scope = None;
        facts.system.distribution = Distribution::default();
        facts.ebpf.trial = Some(Trial::Denied);
        facts.strace.ptrace = Trial::Denied;
    }),
    ("nothing can be read but seccomp", root, |facts| {
        facts.system.status = Status::default();
        facts.system.status.has_filter = true;
        facts.ebpf.trial = Some(Trial::Denied);
        facts.strace.ptrace = Trial::Denied;
    }),
];

fn strace_of(version: Result<Option<Version>, String>) -> Result<Option<Program>, String> {
    Ok(Some(Program {
        path: "/opt/strace".into(),
        version,
    }))
}

fn types_of(facts: &mut Facts) -> &mut KernelTypes {
    facts.ebpf.types.as_mut().expect("are known")
}

/// All that is not as on a machine where everything is fine.
fn complaints(diagnosis: &Diagnosis) -> String {
    let Auto { backend, why } = &diagnosis.auto;
    let mut text = format!("auto: {}, {why}\n", backend.unwrap_or("none"));
    for (backend, usual) in diagnosis.backends.iter().zip(diagnose(&root()).backends) {
        for found in &backend.findings {
            if found.state != State::Ok {
                let (name, what, state) = (backend.name, found.what, found.state);
                let _ = writeln!(text, "{name} {what}, {state:?}: {}", found.detail);
                found.remedy.iter().for_each(|remedy| {
                    let _ = writeln!(text, "  $ {remedy}");
                });
            }
        }
        for cannot in &backend.cannot {
            if !usual.cannot.contains(cannot) {
                let _ = writeln!(text, "{} cannot: {cannot}", backend.name);
            }
        }
    }
    text
}

/// The first finding that keeps a backend from running.
fn first_missing(backend: &BackendDiagnosis) -> Option<&Finding> {
    let mut findings = backend.findings.iter();
    let missing = findings.find(|finding| finding.state == State::Missing);
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
        let unavailable = strace_unavailable(&facts.system, &facts.strace);
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

#[test]
fn a_kernel_whose_release_has_no_usable_number_is_tried() {
    let mut facts = root();
    for odd in ["", "custom", "2nd", "5.14.0-503.11.1.el9_5.x86_64"] {
        facts.system.kernel = Some(odd.into());
        assert!(diagnose(&facts).backends[0].usable, "{odd:?}");
    }
}
