//! Snapshots of every format. An independent parser reads those that have one here;
//! tests/suite/check reads the others.

use zctrace_core::check::sample_checks;

use std::collections::BTreeMap;

use super::*;
use crate::{
    check::{Results, SCHEMA},
    render::report_tests::{assert_has, assert_snapshot, check_page},
};

fn rendered(results: &Results, format: CheckFormat) -> String {
    check(results, format, &Options::default())
}

/// The sample, in which a check, its stderr and a fact have the characters that matter.
fn hostile() -> Results {
    let mut results = sample_checks::results();
    let check = &mut results.checks[1];
    check.name = "a\nb\u{1b}\u{ffff}".to_owned();
    check.stderr = ["\u{fffe}", "::stop-commands::tok", "a ##[group]x :: y"]
        .map(str::to_owned)
        .into();
    check.expectations[0].outcome.findings[0].facts =
        vec!["write, a\nb (regular): 1 call".to_owned()];
    results
}

#[test]
fn every_format_has_a_snapshot() {
    let nothing = Results {
        labels: BTreeMap::new(),
        schema: SCHEMA,
        checks: Vec::new(),
        interrupted: Some("SIGINT".to_owned()),
    };
    for format in CheckFormat::value_variants() {
        let name = format.to_possible_value().expect("has a name");
        let text = rendered(&sample_checks::results(), *format);
        assert_snapshot(&format!("check-{}", name.get_name()), &text);
        let is_empty = rendered(&nothing, *format).is_empty();
        assert_eq!(is_empty, *format == CheckFormat::Github);
    }
}

#[test]
fn the_page_fits_every_width() {
    let page = |options: &Options| check(&sample_checks::results(), CheckFormat::Text, options);
    // A command is for copying, so it is not broken.
    let coloured = check_page(page, |line| line.contains("the whole report:"));
    assert!(coloured.starts_with("\x1b[32mok"), "{coloured}");
}

#[test]
fn hostile_text_is_harmless_in_every_format() {
    for format in CheckFormat::value_variants() {
        let text = rendered(&hostile(), *format);
        assert!(!text.contains(['\u{1b}', '\u{fffe}', '\u{ffff}']) || *format == CheckFormat::Json);
    }
    let text = rendered(&hostile(), CheckFormat::Text);
    assert_has(&text, &["\n      write, a\\nb (regular): 1 call\n"]);
    let harmless = ["\n    : :stop-commands::tok\n    a ## [group]x :: y\n"];
    assert_has(&escape_workflow_commands(&text), &harmless);
    let usual = rendered(&sample_checks::results(), CheckFormat::Text);
    assert_eq!(escape_workflow_commands(&usual), usual);
    let junit = rendered(&hostile(), CheckFormat::Junit);
    roxmltree::Document::parse(&junit).unwrap_or_else(|error| panic!("{error}: {junit}"));
    let markdown = rendered(&hostile(), CheckFormat::Markdown);
    assert_has(&markdown, &[r"| `a\nb\u{1b}\u{ffff}` |"]);
}
