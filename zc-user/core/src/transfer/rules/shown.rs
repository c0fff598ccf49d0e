//! What the callers of a transfer show about the library that a rule is about: that it made the
//! calls, that it did not, or nothing.

use super::{Proof, Rule, RuleCase};
use crate::{
    report::{StackSamples, is_of_c_library, is_recognised, library_in, named},
    trace::{Frame, SampledStack},
};

/// What the sampled stacks say.
#[derive(Debug, PartialEq, Eq)]
enum ShownMaker {
    /// No caller was sampled, or stacks never show this library.
    Nothing,
    /// The library of this name made all sampled calls.
    Always(&'static str),
    /// It made some of them: so many, of so many.
    Partly(&'static str, u64, u64),
    /// It made none of them.
    Never,
    /// Some stacks do not show enough. A clause says what would.
    Unclear(String),
}

/// The clause of a rule that fits the case otherwise. `None`: the library that it is about did not
/// make these calls.
pub(super) fn clause(rule: &Rule, case: &RuleCase<'_>) -> Option<String> {
    let (library, text) = (rule.library, rule.text);
    let stated = || (rule.proof != Proof::OnlyIfShown).then(|| rule.clause(case.process));
    match shown(library, case) {
        ShownMaker::Nothing => stated(),
        ShownMaker::Never => None,
        ShownMaker::Always(found) => Some(format!("{found} {text}")),
        ShownMaker::Partly(found, samples, all) => Some(format!(
            "{found}, which made {samples} of {all} sampled calls, {text}"
        )),
        ShownMaker::Unclear(_) if rule.proof == Proof::Sure => stated(),
        ShownMaker::Unclear(remedy) => stated().map(|clause| format!("{clause}; {remedy}")),
    }
}

fn shown(library: &str, case: &RuleCase<'_>) -> ShownMaker {
    let known = case.transfer.callers.as_ref().zip(case.stacks);
    let Some((callers, stacks)) = known.filter(|_| named(library).any(is_recognised)) else {
        return ShownMaker::Nothing;
    };
    let of_stack = |sampled: &StackSamples| Some((stacks.get(sampled.stack)?, sampled.samples));
    let samples: Vec<(&SampledStack, u64)> = callers.stacks.iter().filter_map(of_stack).collect();
    let by = |wanted: &dyn Fn(&SampledStack) -> bool| {
        samples
            .iter()
            .filter(|(stack, _)| wanted(stack))
            .map(|(_, count)| count)
            .sum::<u64>()
    };
    let is_library =
        |found: &str| named(found).any(|name| named(library).any(|wanted| wanted == name));
    let found = samples
        .iter()
        .filter_map(|(stack, _)| library_in(&stack.frames))
        .find(|found| is_library(found));
    if let Some(found) = found {
        let count = by(&|stack| library_in(&stack.frames).is_some_and(&is_library));
        return if count == callers.samples {
            ShownMaker::Always(found)
        } else {
            ShownMaker::Partly(found, count, callers.samples)
        };
    }
    if by(&|stack| library_in(&stack.frames).is_some() || is_telling(stack)) == callers.samples {
        return ShownMaker::Never;
    }
    ShownMaker::Unclear(remedy(samples.iter().map(|(stack, _)| *stack)))
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
        return "line tables would tell: debug = \"line-tables-only\" in the profile, and no strip"
            .to_owned();
    }
    format!(
        "sampled stacks do not tell, since {}",
        cut.unwrap_or("they are incomplete")
    )
}
