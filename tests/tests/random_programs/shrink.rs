//! Finds a small program of which the same kind of false statement is made.

use std::collections::HashMap;

use zc_tests::truth::Truth;

use super::{
    Plan,
    judge::{Failure, judge},
};

/// Programs that are tried for each kind of failure. Some fail only at times, or only among others.
const CANDIDATES: usize = 4;

/// Calls that are shown of a program.
const MOST_WORDS: usize = 40;

/// Turns of a loop that are shown, as lines.
const TURNS: usize = 3;

/// The words, with `...` for what goes on in the same way: the same calls of one step on the same memory.
fn folded(words: &[String]) -> Vec<String> {
    let call = |line: &String| line.split(" at ").next().unwrap_or_default().to_owned();
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut lines: Vec<String> = Vec::new();
    for line in words {
        let times = seen.entry(call(line)).or_default();
        *times += 1;
        if *times <= TURNS {
            lines.push(line.clone());
        } else if lines.last().is_some_and(|last| last != "...") {
            lines.push("...".to_owned());
        }
    }
    lines.truncate(MOST_WORDS);
    lines
}

/// A program: how many steps it has, and which of them are left out.
type Shape = (usize, Vec<usize>);

/// The smallest program found, in words.
pub(super) fn smallest(plan: &Plan, failures: &[&Failure]) -> String {
    for failure in failures.iter().take(CANDIDATES) {
        let fails = |shape: &Shape| alone(plan, failure, shape).is_some();
        if !fails(&(plan.steps, Vec::new())) {
            continue;
        }
        let mut steps = (1..plan.steps).find(|&steps| fails(&(steps, Vec::new()))).unwrap_or(plan.steps);
        let mut skipped = Vec::new();
        for step in (0..steps).rev() {
            skipped.push(step);
            if !fails(&(steps, skipped.clone())) {
                skipped.pop();
            }
        }
        while skipped.contains(&(steps - 1)) {
            steps -= 1;
            skipped.retain(|step| *step != steps);
        }
        let shape = (steps, skipped);
        if let Some((texts, truth)) = alone(plan, failure, &shape) {
            let (words, calls) = (words(failure.of, &shape).join(" "), truth.words.len());
            let shown = folded(&truth.words).join("\n    ");
            return format!("  random-io {words}\n    {shown}\n  of {calls} calls and stores\n  {}\n", texts.join("\n  "));
        }
    }
    format!("  it does not happen when the program runs alone: seed {}: {}\n", failures[0].of.0, failures[0].text)
}

fn words((seed, theme): (u64, usize), (steps, skipped): &Shape) -> Vec<String> {
    let words =
        ["one".to_owned(), seed.to_string(), "0".to_owned(), steps.to_string(), format!("--theme={theme}"), "--words".to_owned()];
    let skips = skipped.iter().map(|step| format!("--skip={step}"));
    words.into_iter().chain(skips).collect()
}

/// What is false of a program in this way when it runs alone, and its truth.
fn alone(plan: &Plan, failure: &Failure, shape: &Shape) -> Option<(Vec<String>, Truth)> {
    let (report, mut truths) = plan.trace(&words(failure.of, shape), std::iter::once(0));
    let failures = judge(&report, &truths).failures.into_iter().filter(|other| other.class == failure.class);
    let texts: Vec<String> = failures.map(|failure| failure.text).collect();
    (!texts.is_empty()).then(|| (texts, truths.remove(0)))
}
