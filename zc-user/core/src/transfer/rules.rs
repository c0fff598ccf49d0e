//! Why a program chose an interface: rules as data, each with its source.
//!
//! A rule applies only where the program is recognised (by its name, or by what it was built with) and did what the rule's library
//! does: the sizes that it asks for are part of most rules. An unknown program gets no reason. Which function of a program made the
//! calls, no trace tells: where a loop of one's own looks the same, the reason is a condition.

mod table;

use super::{
    errors,
    facts::Facts,
    flow::{Condition, Flow},
};
use crate::{
    trace::{FileKind, Language, Process},
    transfer::{Api, Attempt, End, Evidence, Reason},
};
use table::RULES;

/// A transfer as the rules look at it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) process: &'a Process,
    pub(super) way: Way,
    pub(super) api: Api,
    pub(super) from: &'a End,
    pub(super) to: &'a End,
    pub(super) bytes: Option<u64>,
    pub(super) facts: &'a Facts,
}

/// What became of the bytes within the program, as far as that is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// They were written as they had been read, or the backend sees no memory.
    Straight,
    /// They were written from other memory than they had been read to: the program copied them, or made others of them.
    Handled,
    /// They were other bytes when they were written than when they were read.
    Changed,
    /// Only their number says that they are the same.
    Unseen,
}

impl Way {
    /// By how it is known that bytes went from one end to the other.
    pub(super) fn of(flow: &Flow<'_>, sees_memory: bool) -> Self {
        match flow.evidence {
            _ if flow.condition != Condition::AsRead => Self::Changed,
            // What lies elsewhere than it was read to was copied there, at least.
            Evidence::Order if sees_memory => Self::Handled,
            Evidence::Totals if sees_memory && flow.api == Api::ReadWrite => Self::Handled,
            Evidence::Call | Evidence::Memory | Evidence::Mapping | Evidence::Order => Self::Straight,
            Evidence::Totals => Self::Unseen,
        }
    }
}

/// A rule. What is empty or `None` holds for all.
#[derive(Debug)]
struct Rule {
    program: Program,
    api: Api,
    from: &'static [FileKind],
    to: &'static [FileKind],
    /// Whether only of sources whose length is 0, as that of files in procfs.
    only_without_length: bool,
    /// Calls that were tried before, all of them.
    after: &'static [&'static str],
    /// What each call at the source, or each call that names both ends, asked for.
    asked: Asked,
    /// Whose rule it is: a program, or a function of a library.
    library: &'static str,
    /// What that does, as a clause without its subject.
    text: &'static str,
    proof: Proof,
    /// Project, file and version where it is written.
    source: &'static str,
}

/// How sure it is that the rule's library made the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// The program is the library, or what was tried before, and with which sizes, is its own.
    Sure,
    /// Other code of a program built alike may do the same.
    Alike,
}

/// Of which program a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    /// One built with this language, its compiler not older than this version.
    Built(Language, [u32; 2]),
    /// One of this name, not built with one of those languages: there are other programs that are called so.
    Named(&'static str),
    /// One whose name is this and perhaps a version.
    Interpreter(&'static str),
}

/// How many bytes a library asks for at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Any,
    Exactly(u64),
    /// The source's length, or this if that is more.
    LengthOrAtLeast(u64),
}

/// Why this interface, if a rule knows; and what the last failed attempt means, if that is known.
pub(super) fn reason(case: &Case<'_>) -> Option<Reason> {
    let did_something = case.facts.moving_calls + case.facts.zero_calls > 0;
    // Who changes the bytes does not just copy them, and a copy is what the rules are about.
    let is_copy = did_something && case.way != Way::Changed;
    let rule = RULES.iter().find(|rule| is_copy && rule.applies(case));
    let refused = case.facts.attempts.last().and_then(|attempt| errors::meaning_of(&attempt.syscall, &attempt.errno));
    let failed = || refusal(case.facts);
    let clauses = rule.map(|rule| (rule.clause(), rule.source));
    let clauses = clauses.into_iter().chain(refused.or_else(failed).map(|meaning| (meaning.text.to_owned(), meaning.source)));
    let (texts, sources): (Vec<String>, Vec<&str>) = clauses.unzip();
    (!texts.is_empty()).then(|| Reason { text: texts.join("; "), source: sources.join("; ") })
}

/// What it means that the interface itself failed, if nothing was tried before.
fn refusal(facts: &Facts) -> Option<&'static errors::Meaning> {
    let (syscall, errno) = (facts.by_syscall.keys().next()?, facts.errors.keys().next()?);
    errors::meaning_of(syscall, errno).filter(|_| facts.attempts.is_empty() && facts.moving_calls == 0)
}

impl Rule {
    fn applies(&self, case: &Case<'_>) -> bool {
        let kinds =
            |kinds: &[FileKind], end: &End| kinds.is_empty() || kinds.iter().any(|kind| end.kind.as_deref() == Some(kind.name()));
        self.api == case.api
            && self.program.is(case.process)
            && kinds(self.from, case.from)
            && kinds(self.to, case.to)
            && (!self.only_without_length || case.from.size == Some(0))
            && self.after.iter().all(|syscall| was_refused(&case.facts.attempts, syscall))
            && self.asked.fits(case)
    }

    fn clause(&self) -> String {
        match self.proof {
            Proof::Sure => format!("{} {}", self.library, self.text),
            Proof::Alike => format!("if this is {}, it {}", self.library, self.text),
        }
    }
}

impl Program {
    fn is(self, process: &Process) -> bool {
        let name = process.exe.as_deref().and_then(|path| path.rsplit('/').next()).or(process.comm.as_deref());
        match self {
            Self::Built(language, since) => {
                process.toolchain.as_ref().is_some_and(|built| built.language == language && version(&built.version) >= since)
            }
            Self::Named(wanted) => process.toolchain.is_none() && name == Some(wanted),
            Self::Interpreter(wanted) => name
                .and_then(|name| name.strip_prefix(wanted))
                .is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.')),
        }
    }
}

/// The first two numbers of a version.
fn version(text: &str) -> [u32; 2] {
    let mut numbers = text.split(['.', '-', ' ']).map(|number| number.parse().unwrap_or(0));
    [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)]
}

impl Asked {
    fn fits(self, case: &Case<'_>) -> bool {
        let wanted = match self {
            Self::Any => return true,
            Self::Exactly(bytes) => bytes,
            Self::LengthOrAtLeast(bytes) => case.from.size.unwrap_or(0).max(bytes),
        };
        case.facts.asked_at_source() == Some(wanted)
    }
}

/// Whether this call is one of the attempts.
pub(super) fn was_refused(attempts: &[Attempt], syscall: &str) -> bool {
    attempts.iter().any(|attempt| attempt.syscall == syscall)
}

#[cfg(test)]
mod tests;
