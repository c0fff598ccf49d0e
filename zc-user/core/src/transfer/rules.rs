//! Reasons: why a program used an interface, and why another one failed. The rules are data, each
//! with its source.
//!
//! A rule applies only if the program is recognised, by its name or by what it was built with, and
//! if its calls look like those of the rule's library. For most rules that includes the sizes that
//! the calls ask for. An unknown program gets no reason. If other code could make the same calls,
//! the reason begins with "if this is", unless the callers were sampled and show which function it
//! was.

mod shown;
mod table;

use super::flow::Flow;
use crate::{
    ends::End,
    text::file_name,
    trace::{FileKind, Language, Process, SampledStack},
    transfer::{Api, Reason, Transfer},
};
use table::RULES;

/// What the rules look at: a transfer and its process.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuleCase<'a> {
    pub(super) process: &'a Process,
    /// The transfer, without its reason, hint and verdict.
    pub(super) transfer: &'a Transfer,
    pub(super) flow: &'a Flow<'a>,
    /// The stacks of the trace. `None`: no callers were sampled.
    pub(super) stacks: Option<&'a [SampledStack]>,
}

/// A rule. An empty list matches everything.
#[derive(Debug)]
struct Rule {
    program: RuleProgram,
    api: Api,
    from: &'static [FileKind],
    to: &'static [FileKind],
    /// Calls that must all have been tried before.
    after: &'static [&'static str],
    /// The bytes that each call at the source, or each call that names both ends, asked for.
    asked: Asked,
    /// The library function that the rule is about; empty: the program.
    library: &'static str,
    /// What it does, as a clause without its subject.
    text: &'static str,
    proof: Proof,
    /// Project, file and version where it is written.
    source: &'static str,
}

/// How sure it is that the rule's library made the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// The program is the library, or only this library makes these attempts with these sizes.
    Sure,
    /// Other code in a program of the same language may make the same calls.
    Likely,
    /// Only the stacks of the calls can tell.
    OnlyIfShown,
}

/// The program that a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleProgram {
    /// Built with this language, by a compiler of at least this version.
    Built(Language, [u32; 2]),
    /// Has one of these names, and is not built with one of those languages: there are other
    /// programs of the same name.
    Named(&'static [&'static str]),
    /// Has this name, perhaps followed by a version.
    Interpreter(&'static str),
}

/// How many bytes a library asks for at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Any,
    Exactly(u64),
    /// The length of the source, or this if it is more.
    LengthOrAtLeast(u64),
}

/// Why this interface was used, if a rule says so.
pub(super) fn reason_for(case: &RuleCase<'_>) -> Option<Reason> {
    if case.flow.moving_calls() + case.transfer.zero_calls == 0 {
        return None;
    }
    for rule in RULES.iter().filter(|rule| rule.applies_to(case)) {
        if let Some(text) = shown::shown_clause(rule, case) {
            let source = rule.source.to_owned();
            return Some(Reason { text, source });
        }
    }
    None
}

impl Rule {
    fn applies_to(&self, case: &RuleCase<'_>) -> bool {
        let kinds = |kinds: &[FileKind], end: &End| kinds.is_empty() || is_one_of(kinds, end);
        let transfer = case.transfer;
        let was_tried =
            |syscall: &&str| transfer.attempts.iter().any(|one| one.syscall == *syscall);
        self.api == transfer.api
            && self.program.matches_process(case.process)
            && kinds(self.from, &transfer.from)
            && kinds(self.to, &transfer.to)
            && self.after.iter().all(was_tried)
            && self.asked.fits_case(case)
    }

    /// What it says of this process if no callers were sampled.
    fn clause_without_callers(&self, process: &Process) -> String {
        let subject = match self.program {
            RuleProgram::Named(_) => program_name(process).unwrap_or_default(),
            RuleProgram::Built(..) | RuleProgram::Interpreter(_) => self.library,
        };
        match self.proof {
            Proof::Sure | Proof::OnlyIfShown => format!("{subject} {}", self.text),
            Proof::Likely => format!("if this is {subject}, it {}", self.text),
        }
    }
}

fn program_name(process: &Process) -> Option<&str> {
    let exe = process.exe.as_deref().map(file_name);
    exe.or(process.comm.as_deref())
}

impl RuleProgram {
    fn matches_process(self, process: &Process) -> bool {
        let name = program_name(process);
        match self {
            Self::Built(language, since) => match &process.toolchain {
                Some(built) => {
                    built.language == language && version_numbers(&built.version) >= since
                }
                None => false,
            },
            Self::Named(wanted) => {
                process.toolchain.is_none() && name.is_some_and(|name| wanted.contains(&name))
            }
            Self::Interpreter(wanted) => name
                .and_then(|name| name.strip_prefix(wanted))
                .is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.')),
        }
    }
}

/// The first two numbers of a version.
fn version_numbers(text: &str) -> [u32; 2] {
    let mut numbers = text.split(['.', '-', ' ']);
    [numbers.next(), numbers.next()].map(|number| number.and_then(|n| n.parse().ok()).unwrap_or(0))
}

impl Asked {
    fn fits_case(self, case: &RuleCase<'_>) -> bool {
        let wanted = match self {
            Self::Any => return true,
            Self::Exactly(bytes) => bytes,
            Self::LengthOrAtLeast(bytes) => case.transfer.from.size.unwrap_or(0).max(bytes),
        };
        case.flow.asked_at_source() == Some(wanted)
    }
}

/// Whether this end is of one of these kinds.
pub(super) fn is_one_of(kinds: &[FileKind], end: &End) -> bool {
    let mut kinds = kinds.iter();
    kinds.any(|kind| end.kind.as_deref() == Some(kind.name()))
}

#[cfg(test)]
mod tests {
    //! That the data of the rules is sound. What they lead to is in `reasons.txt` of the tests of the
    //! analysis.

    use super::*;
    use crate::trace::Toolchain;

    #[test]
    fn rules_need_a_recent_enough_compiler() {
        let program = RuleProgram::Built(Language::Rust, [1, 70]);
        let matches = |version: &str| {
            program.matches_process(&Process {
                toolchain: Some(Toolchain {
                    language: Language::Rust,
                    version: version.into(),
                }),
                ..Process::default()
            })
        };
        assert!(["1.70.0", "1.95.0-nightly", "2.0"].into_iter().all(matches));
        assert!(!["1.69.9", ""].into_iter().any(matches));
        assert!(!program.matches_process(&Process::default()));
    }

    /// Other code in the same language may ask for the same sizes: 8 KiB, 32 KiB, the length of the
    /// file, the most that the kernel moves at once. It must not be taken for the library.
    #[test]
    fn only_attempts_together_with_sizes_tell_a_library_from_other_code() {
        for rule in RULES.iter().filter(|rule| {
            rule.proof != Proof::OnlyIfShown && !matches!(rule.program, RuleProgram::Named(_))
        }) {
            let told_apart =
                rule.after.contains(&"copy_file_range") && matches!(rule.asked, Asked::Exactly(_));
            assert_eq!(rule.proof == Proof::Sure, told_apart, "{rule:?}");
            assert_eq!(
                rule.clause_without_callers(&Process::default())
                    .starts_with("if this is "),
                !told_apart,
                "{rule:?}"
            );
        }
    }
}
