//! What the callers of a transfer show about the library that a rule is about: that it made the
//! calls, that it did not, or nothing.

use super::{Proof, Rule, RuleCase};
use crate::{
    report::{StackSamples, is_of_c_library, is_recognised, library_in, named},
    trace::{Frame, SampledStack},
};

/// The clause of a rule that fits the case otherwise. `None`: the library that it is about did not
/// make these calls.
pub(super) fn clause(rule: &Rule, case: &RuleCase<'_>) -> Option<String> {
    let stated = || (rule.proof != Proof::OnlyIfShown).then(|| rule.clause(case.process));
    let is_library =
        |found: &str| named(found).any(|name| named(rule.library).any(|wanted| wanted == name));
    let known = case.transfer.callers.as_ref().zip(case.stacks);
    let Some((callers, stacks)) = known.filter(|_| named(rule.library).any(is_recognised)) else {
        return stated();
    };
    let of_stack = |sampled: &StackSamples| Some((stacks.get(sampled.stack)?, sampled.samples));
    let samples: Vec<(&SampledStack, u64)> = callers.stacks.iter().filter_map(of_stack).collect();
    let (mut found, mut by_library, mut by_others) = (None, 0, 0);
    for (stack, samples) in &samples {
        match library_in(&stack.frames) {
            Some(library) if is_library(library) => {
                found.get_or_insert(library);
                by_library += samples;
            }
            Some(_) => by_others += samples,
            None if is_telling(stack) => by_others += samples,
            None => {}
        }
    }
    let (all, text) = (callers.samples, rule.text);
    match found {
        Some(found) if by_library == all => Some(format!("{found} {text}")),
        Some(found) => Some(format!(
            "{found}, which made {by_library} of {all} sampled calls, {text}"
        )),
        None if by_others == all => None,
        None if rule.proof == Proof::Sure => stated(),
        None => {
            let remedy = remedy(samples.iter().map(|(stack, _)| *stack));
            stated().map(|clause| format!("{clause}; {remedy}"))
        }
    }
}

/// Whether the stack shows every function, also those that were inlined into others: it is
/// complete, and there are line tables.
pub(crate) fn is_telling(stack: &SampledStack) -> bool {
    stack.complete && !stack.frames.iter().any(may_hide_functions)
}

/// Whether functions may have been inlined into this one without anyone knowing. The C library has
/// none of those that rules are about, and neither have the functions of Rust's library that are
/// compiled before any program is: those without type parameters.
pub(crate) fn may_hide_functions(frame: &Frame) -> bool {
    let is_compiled_before = |name: &str| {
        !name.contains('<')
            && ["std::", "core::"]
                .iter()
                .any(|root| name.starts_with(root))
    };
    let is_known = |name: &str| matches!(name, "main" | "_start") || is_compiled_before(name);
    frame.file.is_none()
        && !is_of_c_library(frame)
        && !frame.function.as_deref().is_some_and(is_known)
}

/// What would settle it.
pub(crate) fn remedy<'a>(mut stacks: impl Iterator<Item = &'a SampledStack> + Clone) -> String {
    let cut = stacks
        .clone()
        .find_map(|stack| stack.incomplete_because.as_deref());
    if stacks.any(|stack| stack.frames.iter().any(may_hide_functions)) {
        return "line tables would show it: set debug = \"line-tables-only\" in the profile, and do not strip"
            .to_owned();
    }
    cut.map_or_else(
        || "the sampled stacks are incomplete".to_owned(),
        |cut| format!("a sampled stack is incomplete: {cut}"),
    )
}
