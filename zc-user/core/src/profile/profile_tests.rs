//! What profiles allow and deny, and what `check --profile` says of a run.

use super::*;
use crate::{
    golden::{GoldenCase, check_golden},
    report::sample::files::Scene,
};

/// Groups as `systemd-analyze` prints them.
const GROUPS: &str = "\
@default
    # System calls that are always permitted
    execve
    exit_group

@file-system
    openat
    read
@system-service
    # A reasonable set
    @default
    @file-system
    socket
# Ungrouped
";

#[test]
fn profiles_are_read_as_the_golden_file_says() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/profile/tests/profiles.txt"
    );
    check_golden(path, GoldenCase::Lines, |case| {
        let (text, asked) = case.split_once("\n? ").expect("asks for calls");
        let profile = CallProfile::parse(text, "x86_64", || Some(CallGroups::parse(GROUPS)));
        match (profile, asked.strip_prefix("run ")) {
            (Err(error), _) => error.to_string(),
            (Ok(profile), Some(scene)) => judged(&profile, scene),
            (Ok(profile), None) => {
                let calls = asked.trim_end().split(", ");
                let rule = |call: &str| {
                    let (name, abi) = call.split_once(' ').unwrap_or((call, "x86_64"));
                    format!("{call}: {:?}\n", profile.rule(name, abi))
                };
                calls.map(rule).collect()
            }
        }
    });
}

/// What is found in the report of a scene.
fn judged(profile: &CallProfile, scene: &str) -> String {
    let outcome = profile.evaluate("p.json", &Scene::read(scene).report());
    let findings = outcome.findings.iter().map(|one| {
        let (verdict, found) = (&one.verdict, &one.found);
        format!(
            "{verdict:?}: {found} {:?} {:?}\n",
            one.facts,
            one.reason.as_deref().unwrap_or_default()
        )
    });
    format!("{}\n{}", outcome.expectation, findings.collect::<String>())
}

#[test]
fn without_systemd_the_calls_that_are_always_allowed_are_unknown() {
    let error = CallProfile::parse("SystemCallFilter=read", "x86_64", || None);
    assert_eq!(
        error.expect_err("no groups").to_string(),
        "only systemd-analyze knows which calls '@default' has: install systemd"
    );
}
