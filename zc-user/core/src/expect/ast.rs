//! The tree of an expectation.

use std::ops::Bound;

use super::{
    function::FunctionPattern,
    pattern::{EndPattern, Glob, KindPattern},
};
use crate::{
    figures::list::{FigureField, FigureGroup, FigureUnit},
    words::names,
};

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expr {
    /// All of these hold; at least two.
    All(Vec<Expr>),
    /// One of these holds; at least two.
    Any(Vec<Expr>),
    /// This does not hold.
    Not(Box<Expr>),
    /// A figure and what it is compared with.
    Comparison(Box<Comparison>),
}

/// A figure and what it is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Comparison {
    /// As it was written.
    pub(super) text: String,
    pub(super) figure: Figure,
    pub(super) test: Test,
}

/// What a figure is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Test {
    /// Whether it is one of these numbers.
    Within(Bound<u64>, Bound<u64>),
    /// Whether it is another number.
    Not(u64),
    /// Whether it is this word: the name of an API or of a function, `none`.
    Word(String),
    /// Whether it is another word.
    NotWord(String),
}

/// The word for no exit status and no signal.
pub(super) const NONE: &str = "none";

/// A figure of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Figure {
    /// As it was written.
    pub(super) text: String,
    /// Where, in bytes.
    pub(super) at: usize,
    pub(super) subject: FigureSubject,
    pub(super) selectors: Selectors,
    pub(super) field: FigureField,
    /// The errno, if the figure has one.
    pub(super) errno: Option<String>,
}

/// The subject of a figure, which is named before the dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FigureSubject {
    /// One system call, whatever its ABI.
    Call(String),
    /// A class of calls, without its `%`.
    Class(String),
    /// Every call that was counted.
    AllCalls,
    /// A group of figures of the run as a whole.
    Run(FigureGroup),
    /// Transfers between these ends.
    Transfer(EndPattern, EndPattern),
}

/// The word for transfers.
pub(super) const TRANSFER: &str = "transfer";

/// The word for all calls.
const ALL_CALLS: &str = "syscalls";

/// The names of the subjects that are neither calls nor transfers.
pub(super) fn aggregates() -> impl Iterator<Item = &'static str> {
    let of_run = FigureGroup::OF_RUN.into_iter().map(|(name, _)| name);
    std::iter::once(ALL_CALLS).chain(of_run)
}

impl FigureSubject {
    /// The aggregate of this name.
    pub(super) fn aggregate(name: &str) -> Option<Self> {
        if name == ALL_CALLS {
            return Some(Self::AllCalls);
        }
        let mut groups = FigureGroup::OF_RUN.into_iter();
        let (_, group) = groups.find(|(known, _)| *known == name)?;
        Some(Self::Run(group))
    }

    /// The group of its figures.
    pub(super) const fn group(&self) -> FigureGroup {
        match self {
            Self::Call(_) | Self::Class(_) | Self::AllCalls => FigureGroup::Calls,
            Self::Run(group) => *group,
            Self::Transfer(..) => FigureGroup::Transfers,
        }
    }
}

names! {
    /// What figures can be selected by.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Selector {
        /// The process.
        Process = "process",
        /// The file.
        File = "file",
        /// The kind of the file.
        Kind = "kind",
        /// The path that the call was given.
        Path = "path",
        /// The function that made the call, or had it made.
        Caller = "caller",
    }
}

/// The part of a report that a figure is read from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Selectors {
    /// Processes of this name, or with this program.
    pub(super) process: Option<Glob>,
    /// Calls on this file.
    pub(super) file: Option<Glob>,
    /// Calls on files of this kind.
    pub(super) kind: Option<KindPattern>,
    /// Calls that were given this path.
    pub(super) path: Option<Glob>,
    /// Calls that were made within a function of this name.
    pub(super) caller: Option<FunctionPattern>,
}

impl Figure {
    /// Its unit.
    pub(super) fn unit(&self) -> FigureUnit {
        let figure = self.subject.group().figure_of(self.field);
        figure.map_or(FigureUnit::Count, |figure| figure.unit)
    }

    /// The same for a report whose relative paths start in this directory.
    pub(super) fn below(&self, directory: &str) -> Self {
        let end = |end: &EndPattern| EndPattern {
            path: end.path.as_ref().map(|glob| glob.below(directory)),
            ..end.clone()
        };
        let mut figure = self.clone();
        figure.selectors.file = figure.selectors.file.map(|glob| glob.below(directory));
        figure.selectors.path = figure.selectors.path.map(|glob| glob.below(directory));
        if let FigureSubject::Transfer(from, to) = &self.subject {
            figure.subject = FigureSubject::Transfer(end(from), end(to));
        }
        figure
    }
}

impl Selectors {
    /// Whether they choose by file.
    pub(super) fn are_by_file(&self) -> bool {
        self.file.is_some() || self.kind.is_some()
    }

    /// The pattern of files that they choose.
    pub(super) fn file_pattern(&self) -> EndPattern {
        EndPattern {
            kind: self.kind,
            path: self.file.clone(),
        }
    }
}

impl Expr {
    /// Every figure of it.
    pub(super) fn figures(&self) -> Vec<&Figure> {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::figures).collect(),
            Self::Not(inner) => inner.figures(),
            Self::Comparison(comparison) => vec![&comparison.figure],
        }
    }
}
