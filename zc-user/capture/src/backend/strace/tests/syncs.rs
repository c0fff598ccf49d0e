//! What was synced in order: a made-up log for each rule.

use super::{GoldenCase, check_golden, read_recorded};
use crate::backend::Recorded;
use zctrace_core::durable::Syncs;

#[test]
fn the_order_of_syncs_is_judged_as_the_golden_file_says() {
    check_golden("rules/syncs.txt", GoldenCase::Lines, |case| {
        let trace = read_recorded(case, Recorded::default().with_syncs(true));
        describe(&trace.syncs.expect("it was asked for"))
    });
}

#[test]
fn syncs_are_judged_only_if_that_is_asked_for() {
    let trace = read_recorded("sync() = 0\n", Recorded::default());
    assert_eq!(trace.syncs, None);
}

/// A line for each changed file, one for the syncs, and one for each doubt about all of them.
fn describe(syncs: &Syncs) -> String {
    let mut lines = Vec::new();
    for file in syncs.files.iter().filter(|file| file.changed) {
        let why = file.why.as_deref().map(|why| format!(" ({why})"));
        let verdict = file.verdict.name();
        lines.push(format!(
            "{}: {verdict}{}",
            file.path,
            why.unwrap_or_default()
        ));
    }
    let sums = &syncs.sums;
    let ns = sums.ns.map_or("?".to_owned(), |ns| ns.to_string());
    if sums.count > 0 {
        lines.push(format!(
            "syncs {} not needed {} failed {} ns {ns}",
            sums.count, sums.wasted, sums.failed
        ));
    }
    lines.extend(syncs.doubts.iter().map(|doubt| format!("unknown: {doubt}")));
    lines.push(String::new());
    lines.join("\n")
}
