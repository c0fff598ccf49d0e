//! What the callers of a transfer show about the library that a rule is about: that it made the
//! calls, that it did not, or nothing.

use super::{Proof, Rule, RuleCase};
use crate::{
    report::{functions_named, how_to_settle, is_recognised, is_telling, library_in},
    trace::SampledStack,
};

/// The clause of a rule that fits the case otherwise. `None`: the library that it is about did not
/// make these calls.
pub(super) fn shown_clause(rule: &Rule, case: &RuleCase<'_>) -> Option<String> {
    let stated =
        (rule.proof != Proof::OnlyIfShown).then(|| rule.clause_without_callers(case.process));
    let is_library = |found: &str| {
        functions_named(found)
            .any(|name| functions_named(rule.library).any(|wanted| wanted == name))
    };
    let known = case.transfer.callers.as_ref().zip(case.stacks);
    let Some((callers, stacks)) =
        known.filter(|_| functions_named(rule.library).any(is_recognised))
    else {
        return stated;
    };
    let all = callers.stacks.iter();
    let sampled: Vec<&SampledStack> = all.filter_map(|one| stacks.get(one.stack)).collect();
    let libraries = sampled.iter().map(|stack| library_in(&stack.frames));
    let own: Vec<&str> = libraries
        .flatten()
        .filter(|found| is_library(found))
        .collect();
    let is_other = |stack: &&SampledStack| match library_in(&stack.frames) {
        Some(library) => !is_library(library),
        None => is_telling(stack),
    };
    let others = sampled.iter().copied().filter(is_other).count();
    match own.first() {
        Some(found) if own.len() == sampled.len() => Some(format!("{found} {}", rule.text)),
        None if others == sampled.len() => None,
        _ if rule.proof == Proof::Sure || own.len() + others == sampled.len() => stated,
        _ => stated.map(|clause| format!("{clause}; {}", how_to_settle(sampled.iter().copied()))),
    }
}
