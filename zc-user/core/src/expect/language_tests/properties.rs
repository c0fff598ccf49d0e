//! Properties: no text makes the parser panic, and what is known less never contradicts what is
//! known more.

use proptest::{collection::vec, prelude::*, sample::select, test_runner::TestRunner};

use super::{MISTAKES, form_pairs, report_of, sample_trace};
use crate::expect::{Expectation, Verdict};

fn any_form() -> impl Strategy<Value = String> {
    let all: Vec<&str> = form_pairs().flatten().collect();
    select(all).prop_map(str::to_owned)
}

fn joined_forms() -> impl Strategy<Value = String> {
    any_form().prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| format!("not ({inner})")),
            vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" and "))),
            vec(inner, 2..4).prop_map(|parts| format!("({})", parts.join(" or "))),
        ]
    })
}

fn proptest_config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

#[test]
fn a_lower_bound_never_contradicts_the_exact_report() {
    let (exact, mut bound) = (report_of(&sample_trace()), report_of(&sample_trace()));
    bound.exact = false;
    TestRunner::new(proptest_config(4000))
        .run(&joined_forms(), |text| {
            let read = text.parse::<Expectation>();
            let expectation = read.map_err(|error| TestCaseError::fail(error.to_string()))?;
            let (Ok(sure), Ok(unsure)) =
                (expectation.evaluate(&exact), expectation.evaluate(&bound))
            else {
                return Ok(());
            };
            let agrees = unsure.verdict == sure.verdict || unsure.verdict == Verdict::Inconclusive;
            prop_assert!(agrees, "{}\n{}", sure, unsure);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

/// A text with a part of it replaced by something else.
fn mutated_text(text: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let place = any::<(prop::sample::Index, prop::sample::Index)>();
    (text, place, "\\PC{0,4}").prop_map(|(text, (from, to), with)| {
        let chars: Vec<char> = text.chars().chain([' ']).collect();
        let (from, to) = (from.index(chars.len()), to.index(chars.len()));
        let (from, to) = (from.min(to), from.max(to).min(from.min(to) + 8));
        let before = chars[..from].iter().copied();
        let after = chars[to..].iter().copied();
        before.chain(with.chars()).chain(after).collect()
    })
}

#[test]
fn no_text_makes_the_parser_panic() {
    let words = vec(
        select(vec![
            "read", ".", "calls", "==", "0", "(", ")", "[", "]", "transfer", "->", "*", "\"",
            "not", "and", "in", "..", "5s", "%", ",",
        ]),
        0..20,
    );
    let mistake = select(MISTAKES.lines().collect::<Vec<_>>()).prop_map(str::to_owned);
    let text = prop_oneof![
        any::<String>(),
        "\\PC{0,60}",
        words.prop_map(|words| words.join(" ")),
        mutated_text(joined_forms()),
        mutated_text(mistake),
    ];
    TestRunner::new(proptest_config(10_000))
        .run(&text, |text| {
            if let Err(error) = text.parse::<Expectation>() {
                prop_assert!(
                    error.offset() <= text.len()
                        && !error.message().is_empty()
                        && !error.message().contains('\n'),
                    "{error}"
                );
                prop_assert!(error.to_string().ends_with('^'));
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}
