//! What users of other machines are told.

use super::{
    sample::{container, root, user},
    *,
};

/// What keeps this backend from running, with the remedies.
fn missing(facts: &Facts, backend: &str) -> Vec<(String, Option<String>)> {
    let diagnosis = diagnose(facts);
    let found = diagnosis
        .backends
        .iter()
        .find(|found| found.name == backend)
        .expect("a backend");
    let missing: Vec<_> = found
        .findings
        .iter()
        .filter(|finding| finding.state == State::Missing)
        .collect();
    assert_eq!(
        found.usable,
        missing.is_empty(),
        "a backend that cannot run must say why: {found:?}"
    );
    missing
        .into_iter()
        .map(|finding| (finding.detail.clone(), finding.remedy.clone()))
        .collect()
}

/// The only thing that keeps a backend from running.
fn only_missing(facts: &Facts, backend: &str) -> (String, Option<String>) {
    let [only] = missing(facts, backend)
        .try_into()
        .expect("one thing is missing");
    only
}

/// The line about strace, which must agree with its findings.
fn strace_line(facts: &Facts) -> String {
    let unavailable = strace_unavailable(&facts.system, &facts.strace).expect("strace cannot run");
    let line = unavailable.to_string();
    assert!(!line.contains('\n'), "{line}");
    assert_eq!(
        missing(facts, "strace")[0],
        (unavailable.obstacle.to_string(), unavailable.remedy)
    );
    line
}

/// Facts in which ptrace is denied.
fn denied(mut facts: Facts) -> Facts {
    facts.strace.ptrace = Trial::Denied;
    facts
}

#[test]
fn auto_prefers_ebpf_where_both_backends_work() {
    let diagnosis = diagnose(&root());
    assert_eq!(diagnosis.auto.backend, Some("ebpf"));
    assert!(diagnosis.backends.iter().all(|backend| backend.usable));
    assert!(
        diagnosis
            .backends
            .iter()
            .flat_map(|backend| &backend.findings)
            .all(|finding| finding.state == State::Ok)
    );
    assert_eq!(
        (
            strace_unavailable(&root().system, &root().strace),
            diagnosis.exit_status()
        ),
        (None, 0)
    );
}

#[test]
fn a_user_without_privileges_gets_strace() {
    let (detail, remedy) = only_missing(&user(), "ebpf");
    assert_eq!(
        detail,
        "needs CAP_BPF and CAP_PERFMON; run zctrace with sudo, or grant them permanently to members of the group zctrace"
    );
    let expected = "sudo groupadd --force zctrace && sudo chown root:zctrace /usr/bin/zctrace && sudo chmod 0750 /usr/bin/zctrace \
                    && sudo setcap cap_bpf,cap_perfmon=ep /usr/bin/zctrace";
    assert_eq!(remedy.as_deref(), Some(expected));
    let diagnosis = diagnose(&user());
    assert_eq!(
        (diagnosis.auto.backend, diagnosis.exit_status()),
        (Some("strace"), 0)
    );
    assert_eq!(diagnosis.auto.why, format!("ebpf cannot run: {detail}"));
}

#[test]
fn a_remedy_quotes_the_path_of_the_program() {
    let mut facts = user();
    facts.system.executable = Reading::Known("/home/a b/it's".into());
    let remedy = only_missing(&facts, "ebpf").1.expect("a remedy");
    assert!(
        remedy.ends_with(r"sudo setcap cap_bpf,cap_perfmon=ep '/home/a b/it'\''s'"),
        "{remedy}"
    );
    facts.system.executable = Reading::unknown("no /proc");
    let remedy = only_missing(&facts, "ebpf").1.expect("a remedy");
    assert!(
        remedy.ends_with("sudo setcap cap_bpf,cap_perfmon=ep \"$(command -v zctrace)\""),
        "{remedy}"
    );
}

#[test]
fn file_capabilities_for_everybody_are_a_warning() {
    let finding = |facts: &Facts, what: &str| {
        let [ebpf, _] = diagnose(facts).backends;
        ebpf.findings
            .into_iter()
            .find(|finding| finding.what == what)
            .expect("it is checked")
    };
    let mut facts = sample::elevated();
    assert_eq!(finding(&facts, "privileges").state, State::Ok);
    facts.system.executable_mode = Reading::Known(0o755);
    let open = finding(&facts, "privileges");
    assert_eq!(open.state, State::Warning);
    assert!(open.detail.contains("everybody"), "{}", open.detail);
    assert!(
        open.remedy
            .as_ref()
            .is_some_and(|remedy| remedy.contains("chmod 0750")),
        "{:?}",
        open.remedy
    );
    facts.ebpf.ignored_types_path = Some("/tmp/crafted".into());
    let types = finding(&facts, "kernel types");
    assert_eq!(types.state, State::Warning);
    assert!(
        types.detail.contains("ZCTRACE_BTF=/tmp/crafted is ignored"),
        "{}",
        types.detail
    );
}

#[test]
fn sudo_is_not_recommended_where_it_cannot_help() {
    let mut sealed = user();
    sealed.system.status.no_new_privs = Reading::Known(true);
    let (detail, remedy) = only_missing(&sealed, "ebpf");
    assert!(
        detail.contains("no_new_privs is set, so that not even sudo"),
        "{detail}"
    );
    assert_eq!(remedy, None);
    let mut bounded = user();
    bounded.system.status.bounding = sample::DOCKER;
    let (detail, remedy) = only_missing(&bounded, "ebpf");
    assert!(detail.contains("capability bounding set"), "{detail}");
    assert_eq!(remedy, None);
}

#[test]
fn only_the_missing_capability_is_named() {
    let mut facts = user();
    facts.system.status.effective = Reading::Known(Capabilities(1 << 39));
    assert!(
        only_missing(&facts, "ebpf")
            .0
            .starts_with("needs CAP_PERFMON; ")
    );
}

#[test]
fn a_container_without_capabilities_and_without_strace() {
    let facts = container();
    let (detail, remedy) = only_missing(&facts, "ebpf");
    assert_eq!(
        detail,
        "needs CAP_BPF and CAP_PERFMON; start the container with them"
    );
    assert_eq!(
        remedy.as_deref(),
        Some("docker run --cap-add BPF --cap-add PERFMON IMAGE COMMAND")
    );
    assert_eq!(
        strace_line(&facts),
        "strace is not installed; install the package 'strace': apk add strace"
    );
    let diagnosis = diagnose(&facts);
    assert_eq!((diagnosis.auto.backend, diagnosis.exit_status()), (None, 1));
}

#[test]
fn a_seccomp_filter_in_a_container_is_blamed() {
    let mut facts = denied(container());
    facts.strace = StraceFacts {
        ptrace: Trial::Denied,
        ..root().strace
    };
    facts.system.status.effective = sample::ALL;
    facts.system.status.bounding = sample::ALL;
    let unconfined = "--security-opt seccomp=unconfined IMAGE COMMAND";
    assert!(
        strace_line(&facts).ends_with(&format!("docker run --cap-add SYS_PTRACE {unconfined}"))
    );
    let (detail, remedy) = only_missing(&facts, "ebpf");
    assert!(detail.contains("seccomp"), "{detail}");
    assert!(remedy.is_some_and(|remedy| remedy.ends_with(unconfined)));
}

#[test]
fn root_in_a_user_namespace_cannot_load_programs() {
    let mut facts = root();
    facts.ebpf.trial = Some(Trial::Denied);
    facts.system.container.initial_user_namespace = Reading::Known(false);
    let (detail, remedy) = only_missing(&facts, "ebpf");
    assert!(detail.contains("user namespace"), "{detail}");
    assert_eq!(remedy, None);
}

#[test]
fn an_unknown_distribution_gets_the_name_of_the_package() {
    let mut facts = container();
    facts.system.distribution = sample::distribution("Own", &["own"]);
    assert_eq!(
        strace_line(&facts),
        "strace is not installed; install the package 'strace'"
    );
    facts.system.distribution = Reading::unknown("No such file or directory");
    assert_eq!(
        strace_line(&facts),
        "strace is not installed; install the package 'strace'"
    );
}

#[test]
fn the_strictest_scopes_of_yama_are_explained() {
    let mut facts = denied(user());
    facts.system.yama_ptrace_scope = Reading::Known(Some(3));
    let line = strace_line(&facts);
    assert!(
        line.contains("cannot be changed until the next boot"),
        "{line}"
    );
    assert!(
        line.ends_with("| sudo tee /etc/sysctl.d/zz-ptrace.conf && sudo reboot"),
        "{line}"
    );
    facts.system.yama_ptrace_scope = Reading::Known(Some(2));
    let line = strace_line(&facts);
    assert!(
        line.contains("CAP_SYS_PTRACE")
            && line.ends_with(": sudo sysctl kernel.yama.ptrace_scope=1"),
        "{line}"
    );
}

#[test]
fn yama_is_not_blamed_where_ptrace_works_or_the_capability_is_held() {
    let mut facts = root();
    facts.system.yama_ptrace_scope = Reading::Known(Some(2));
    assert_eq!(missing(&facts, "strace"), []);
    // Root has CAP_SYS_PTRACE, so it must be something else.
    assert!(strace_line(&denied(facts)).contains("security module"));
}

#[test]
fn another_tracer_is_named() {
    let mut facts = root();
    facts.system.status.tracer_pid = Reading::Known(Some(4711));
    assert_eq!(
        missing(&facts, "strace"),
        [],
        "a debugger that does not follow children does no harm"
    );
    let line = strace_line(&denied(facts));
    assert!(
        line.contains("(by pid 4711)") && line.ends_with("run zctrace outside of that tracer"),
        "{line}"
    );
}

#[test]
fn an_old_strace_is_refused_and_one_of_unknown_version_is_tried() {
    let with = |version| {
        let mut facts = root();
        facts.strace.program = Reading::Known(Some(Program {
            path: "/opt/strace".into(),
            version,
        }));
        facts
    };
    assert_eq!(
        strace_line(&with(Reading::Known(Some(Version(5, 10))))),
        "/opt/strace is strace 5.10, which is too old: install 5.15 or newer"
    );
    assert_eq!(
        missing(&with(Reading::Known(Some(MIN_STRACE))), "strace"),
        []
    );
    let silent = strace_line(&with(Reading::unknown("no answer within 2s")));
    assert_eq!(
        silent,
        "cannot use strace: '/opt/strace --version' failed: no answer within 2s"
    );
    let odd = diagnose(&with(Reading::Known(None)));
    assert_eq!(
        (odd.backends[1].usable, odd.backends[1].findings[0].state),
        (true, State::Warning)
    );
}

#[test]
fn missing_type_information_is_explained() {
    let mut facts = root();
    facts.ebpf.types = Reading::unknown("No such file or directory");
    facts.ebpf.trial = None;
    let (detail, _) = only_missing(&facts, "ebpf");
    assert!(
        detail.contains("/sys/kernel/btf/vmlinux: No such file")
            && detail.contains("CONFIG_DEBUG_INFO_BTF"),
        "{detail}"
    );
    assert_eq!(diagnose(&facts).auto.backend, Some("strace"));
    facts.ebpf.types_path = "/tmp/other".into();
    let (detail, remedy) = only_missing(&facts, "ebpf");
    assert!(
        detail.contains("/tmp/other") && !detail.contains("CONFIG"),
        "{detail}"
    );
    assert_eq!(remedy.as_deref(), Some("unset ZCTRACE_BTF"));
}

#[test]
fn a_build_without_ebpf_says_how_to_rebuild() {
    let mut facts = root();
    facts.ebpf.built = false;
    facts.ebpf.trial = None;
    assert_eq!(
        only_missing(&facts, "ebpf").1.as_deref(),
        Some("cargo xtask setup && cargo build --release")
    );
}

#[test]
fn kernels_without_a_field_or_tracepoint_are_explained() {
    let with = |types: KernelTypes, trial| {
        let mut facts = root();
        facts.ebpf.types = Reading::Known(types);
        facts.ebpf.trial = trial;
        facts
    };
    let all = || root().ebpf.types.known().cloned().expect("types");
    let fieldless = KernelTypes {
        missing_field: Some("no field upid".into()),
        ..all()
    };
    assert_eq!(
        only_missing(&with(fieldless, None), "ebpf").0,
        "no field upid; use another kernel"
    );
    let pointless = KernelTypes {
        missing_tracepoints: vec!["sys_enter".into()],
        ..all()
    };
    assert_eq!(
        only_missing(&with(pointless, None), "ebpf").0,
        "this kernel lacks sys_enter; use another kernel"
    );
    let poorer = with(
        KernelTypes {
            notes: vec!["CPU time is unknown".into()],
            ..all()
        },
        Some(Trial::Works),
    );
    assert_eq!(missing(&poorer, "ebpf"), []);
    assert_eq!(
        diagnose(&poorer).backends[0].cannot,
        ["CPU time is unknown"]
    );
}

#[test]
fn arm_users_are_told_which_calls_do_not_exist() {
    let mut facts = root();
    facts.system.arch = Reading::Known("aarch64".into());
    for backend in diagnose(&facts).backends {
        assert!(
            backend.cannot.iter().any(|line| line.contains("openat")),
            "{backend:?}"
        );
    }
    assert!(
        !diagnose(&root())
            .backends
            .iter()
            .any(|backend| backend.cannot.iter().any(|line| line.contains("openat")))
    );
}

#[test]
fn denials_despite_privileges_are_explained() {
    let mut facts = root();
    facts.ebpf.trial = Some(Trial::Denied);
    assert!(only_missing(&facts, "ebpf").0.contains("security module"));
    facts.system.lockdown = Reading::Known(Some(Lockdown::Confidentiality));
    assert!(
        only_missing(&facts, "ebpf")
            .0
            .contains("lockdown=confidentiality")
    );
    facts.ebpf.trial = Some(Trial::Failed("the verifier refuses".into()));
    assert_eq!(only_missing(&facts, "ebpf").0, "the verifier refuses");
}

#[test]
fn for_a_kernel_that_is_too_old_nothing_else_is_reported() {
    const TOO_OLD: &str = "Linux 5.10.0-30-amd64 is too old for the eBPF programs: use Linux 6.1 or newer, or --backend strace";
    let mut facts = denied(user());
    facts.system.kernel = Reading::Known("5.10.0-30-amd64".into());
    facts.ebpf.types = Reading::unknown("No such file or directory");
    facts.ebpf.trial = None;
    assert_eq!(only_missing(&facts, "ebpf"), (TOO_OLD.to_owned(), None));
    // A release without a usable number says nothing: the trial decides.
    facts = root();
    for odd in ["", "custom", "2nd", "5.14.0-503.11.1.el9_5.x86_64"] {
        facts.system.kernel = Reading::Known(odd.into());
        assert_eq!(missing(&facts, "ebpf"), [], "{odd:?}");
    }
}

#[test]
fn unreadable_facts_are_not_guessed() {
    let mut facts = denied(root());
    facts.system.status = Status::parse(Err("No such file or directory"));
    facts.system.yama_ptrace_scope = Reading::unknown("No such file or directory");
    facts.system.distribution = Reading::unknown("No such file or directory");
    facts.ebpf.trial = Some(Trial::Denied);
    assert!(
        only_missing(&facts, "ebpf")
            .0
            .contains("despite sufficient privileges"),
        "root is assumed to have them"
    );
    assert!(strace_line(&facts).contains("possibly"));
    facts.system.status.seccomp = Reading::Known(Seccomp::Filter);
    assert!(strace_line(&facts).contains("apparently"));
}
