//! Tests of the whole language by tables: every form that holds and that fails, with its message;
//! what is said of reports that know less; and every mistake.

mod properties;
mod reports;

use std::{collections::BTreeSet, fmt::Write as _};

use super::*;
use reports::{report_of, report_of_lines, sample_trace};

/// Pairs of expectations: one that holds, and a similar one that fails.
fn form_pairs() -> impl Iterator<Item = [&'static str; 2]> {
    let lines = include_str!("language_tests/forms.txt").lines();
    let pairs = lines.filter_map(|line| line.split_once('|'));
    pairs.map(|(holds, fails)| [holds.trim(), fails.trim()])
}

/// Mistakes, one on each line.
const MISTAKES: &str = include_str!("language_tests/mistakes.txt");

fn parse_valid(text: &str) -> Expectation {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_form_can_hold_and_fail() {
    let report = report_of(&sample_trace());
    let (mut text, mut wrong) = (String::new(), Vec::new());
    for [holds, fails] in form_pairs() {
        wrong.extend(report.expect(holds).err());
        match report.expect(fails) {
            Err(error @ ExpectError::Fails(_)) => {
                writeln!(text, "{error}\n").expect("memory takes it");
            }
            other => panic!("{fails}: {other:?}"),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    insta::assert_snapshot!("failing", text);
}

#[test]
fn an_expectation_is_inconclusive_if_the_report_does_not_know_enough() {
    let sections = include_str!("language_tests/verdicts.txt").split("report: ");
    for section in sections.skip(1) {
        let mut lines = section.lines().map(str::trim);
        let name = lines.next().unwrap_or_default();
        let mut premises = Premises::default();
        if name.ends_with("accepted") {
            premises.inferred = Inferred::Accept;
        }
        let is_said = |line: &&str| !line.is_empty() && !line.starts_with('#');
        let (of, verdicts): (Vec<&str>, Vec<&str>) = lines
            .filter(is_said)
            .partition(|line| line.starts_with("@ "));
        let mut of: Vec<&str> = of.iter().map(|line| &line[2..]).collect();
        of.retain(|line| !is_premise(line, &mut premises));
        let report = report_of_lines(&of);
        assert!(!verdicts.is_empty(), "{name}");
        for line in verdicts {
            assert_verdict(name, &report, &premises, line);
        }
    }
}

/// Whether a line says a premise, which it adds.
fn is_premise(line: &str, premises: &mut Premises) -> bool {
    if let Some(files) = line.strip_prefix("there are ") {
        premises.files = files.split(' ').map(str::to_owned).collect();
        return true;
    }
    let is_permission = line == "selectors may match nothing";
    premises.may_match_nothing |= is_permission;
    is_permission
}

/// Asserts what a line says of a report: a verdict and an expectation, and behind ` (` a part of
/// what is said about it.
fn assert_verdict(name: &str, report: &Report, premises: &Premises, line: &str) {
    let (verdict, rest) = line.split_once(' ').expect("a verdict and an expectation");
    let (text, said) = rest.split_once("  (").unwrap_or((rest, ""));
    let outcome = parse_valid(text.trim()).evaluate_with(report, premises);
    let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(outcome.verdict.name(), verdict, "{name}: {outcome}");
    let outcome = outcome.to_string();
    assert!(outcome.contains(said), "{name}, {said:?}: {outcome}");
}

#[test]
fn the_debug_form_of_an_error_is_its_message() {
    let report = report_of(&sample_trace());
    let error = report.expect("write.calls == 0").expect_err("it writes");
    assert_eq!(format!("{error:?}"), error.to_string());
}

#[test]
fn every_comparison_has_a_finding() {
    let expectation = parse_valid("write.calls == 0 or not read.calls == 0");
    let outcome = expectation.evaluate(&report_of(&sample_trace()));
    let outcome = outcome.expect("was counted");
    let findings = outcome.findings.iter();
    let found = findings.map(|finding| (finding.comparison.as_str(), finding.verdict));
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            ("write.calls == 0", Verdict::Fails),
            ("not read.calls == 0", Verdict::Holds)
        ]
    );
}

#[test]
fn an_expectation_says_what_a_run_must_count_and_record() {
    const SAMPLED: &str = r#"not read[caller="x"].calls == 0 or transfer(* -> *).via != "x""#;
    const VIA: &str = r#"transfer(* -> *).via == "std::io::copy" and read.calls == 0"#;
    let calls =
        parse_valid("fsync.calls == 0 and not (%signal.calls > 1 or ioctl(FICLONE).calls == 0)")
            .named_calls();
    let named = BTreeSet::from(["fsync", "kill", "ioctl(FICLONE)"]);
    assert!(calls.is_superset(&named), "{calls:?}");
    let calls = parse_valid("exit.calls == 0 and time.wall < 1s").named_calls();
    assert_eq!(calls, BTreeSet::from(["exit"]));

    let plain = Recorded::ALL;
    for (text, needed) in [
        (
            r#"not openat[path="/etc/**"].calls > 0"#,
            plain.with_paths(true),
        ),
        (
            r#"openat[path="/etc/**"].errors == 0 and openat.calls == 0"#,
            plain,
        ),
        (
            r#"not durable("a") or read.calls == 0"#,
            plain.with_syncs(true),
        ),
        (r#"syncs("a").count == 0"#, plain.with_syncs(true)),
        ("fsync.calls == 0", plain),
        (
            "touches(exec) within [] or read.calls == 0",
            plain.with_touches(true),
        ),
        (
            r#"connect[to="tcp:*"].calls == 0"#,
            plain.with_touches(true),
        ),
        ("read.size.p50 > 1", plain.with_sizes(true)),
        ("fds.open == 0", plain.with_descriptors(true)),
        (SAMPLED, plain.with_callers(SampledCalls::All)),
        (VIA, plain.with_callers(SampledCalls::Some)),
    ] {
        assert_eq!(parse_valid(text).must_record(), needed, "{text}");
    }
    assert!(
        parse_valid(r#"connect[to="tcp:*"].calls == 0"#)
            .named_calls()
            .contains("connect")
    );
    assert!(parse_valid(r#"read[span="a"].calls == 0"#).needs_spans());
    assert!(!parse_valid("read.calls == 0").needs_spans());
    assert!(parse_valid(r#"read[thread="a"].calls == 0"#).needs_threads());

    for quiet in [
        "time.wall < 1s",
        "not read.p99 > 1us",
        "syncs(\"a\").ns < 1s",
        "exit.code == 0 or switches.voluntary < 5",
    ] {
        assert!(parse_valid(quiet).depends_on_load(), "{quiet}");
    }
    assert!(!parse_valid("read.calls == 0 and faults.major == 0").depends_on_load());
    assert!(!parse_valid(r#"durable("a") and syncs("a").count == 0"#).depends_on_load());
}

#[test]
fn every_mistake_has_a_message_and_a_place() {
    let mut text = String::new();
    for mistake in MISTAKES.lines() {
        let error = mistake.parse::<Expectation>().expect_err(mistake);
        assert_eq!(error.message().lines().count(), 1, "{error}");
        writeln!(text, "{error}\n").expect("memory takes it");
    }
    insta::assert_snapshot!("mistakes", text);
}

#[test]
fn an_expectation_nested_too_deeply_is_refused() {
    for deep in ["(".repeat(100_000), "not ".repeat(100_000)] {
        let error = deep.parse::<Expectation>().expect_err("too deep");
        assert_eq!(error.message(), "nested too deeply");
    }
}

#[test]
fn a_call_that_was_not_counted_is_an_error_instead_of_0() {
    let report = report_of(&sample_trace());
    let error = |text: &str| match report.expect(text) {
        Err(ExpectError::NotCounted(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        error("exit.code == 3 and fsync.calls == 0"),
        "fsync was not counted in this run, so nothing is known about it: select it with --syscalls\n  \
         exit.code == 3 and fsync.calls == 0\n                     ^"
    );
    let of_class = error("%signal.calls == 0");
    assert!(
        of_class.starts_with("kill, ") && of_class.contains(" more were not counted"),
        "{of_class}"
    );
}
