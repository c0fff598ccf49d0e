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

#[cfg(test)]
mod tests {
    use crate::{
        report::sample::files::Scene,
        trace::{Frame, SampleSum, SampledStack, Stack, StackEnd, StackId},
    };

    fn frame(function: &str, file: Option<&str>) -> Frame {
        Frame {
            function: Some(function.into()),
            file: file.map(str::to_owned),
            module: Some("/bin/copier".into()),
            ..Frame::default()
        }
    }

    fn stack(names: &[&str], file: Option<&str>, end: StackEnd) -> SampledStack {
        Stack {
            frames: names.iter().map(|name| frame(name, file)).collect(),
            end,
        }
        .into()
    }

    /// The verdict on what `std::io::copy` does from a file to a socket, if its two calls were
    /// sampled with these stacks.
    fn verdict(stacks: Vec<SampledStack>) -> String {
        let mut scene = Scene::new();
        let process =
            scene.run("copier: read in 128 1M +1 /8192 @8, write in~unix-stream 128 1M @9");
        for (index, row) in (0..).zip(&mut process.threads[0].rows) {
            row.callers
                .insert(StackId(index), SampleSum::of_every_call(4));
        }
        scene.change("rust");
        scene.trace.stacks = Some(stacks);
        scene.report().transfers.remove(0).verdict
    }

    const COPY: &[&str] = &[
        "std::io::copy::stack_buffer_copy<File, UnixStream>",
        "std::io::copy::copy<File, UnixStream>",
        "copier::run",
        "main",
    ];
    const OWN: &[&str] = &[
        "<std::fs::File as std::io::Read>::read",
        "copier::run",
        "main",
    ];

    /// Asserts that these stacks of two calls lead to a verdict with all of these parts.
    fn assert_says(stacks: [&SampledStack; 2], parts: &[&str]) {
        let verdict = verdict(stacks.map(SampledStack::clone).into());
        assert!(parts.iter().all(|part| verdict.contains(part)), "{verdict}");
    }

    #[test]
    fn stacks_with_line_tables_show_who_made_the_calls() {
        let copy = stack(COPY, Some("x.rs"), StackEnd::Root);
        let own = stack(OWN, Some("x.rs"), StackEnd::Root);
        let text = "does not use sendfile or splice from a file to a socket";
        assert_says([&copy; 2], &[&format!(": std::io::copy {text}")]);
        let partly = format!("std::io::copy, which made 4 of 8 sampled calls, {text}");
        assert_says([&copy, &own], &[&partly]);
        let verdict = verdict(vec![own.clone(), own]);
        assert!(!verdict.contains("std::io::copy"), "{verdict}");
    }

    #[test]
    fn a_stack_that_does_not_show_everything_leaves_a_guess_and_says_what_would_settle_it() {
        let guess = "if this is std::io::copy, it does not";
        let stripped = stack(OWN, None, StackEnd::Root);
        assert_says([&stripped; 2], &[guess, "debug = \"line-tables-only\""]);
        let cut = stack(&OWN[..1], Some("x.rs"), StackEnd::TooDeep);
        assert_says([&cut; 2], &[guess, "deeper than"]);
    }

    #[test]
    fn what_both_of_rusts_copies_work_with_is_not_taken_for_tokios() {
        let names = ["std::sys::io::kernel_copy::linux::sendfile_splice", "main"];
        let both = stack(&names, None, StackEnd::Root);
        let expected = ": std::io::copy or std::fs::copy does not use sendfile";
        assert_says([&both; 2], &[expected]);
    }

    #[test]
    fn tokios_copy_is_recognised_only_by_its_stack() {
        let poll = "<tokio::io::util::copy::CopyBuffer>::poll_copy";
        let tokio = stack(&[poll, "copier::run", "main"], Some("x.rs"), StackEnd::Root);
        assert_says([&tokio; 2], &[": tokio::io::copy always reads and writes"]);
    }
}
