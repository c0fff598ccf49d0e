//! The tree of an expectation.

use super::{
    field::{Dimension, Field},
    pattern::{EndPattern, Glob, KindPattern},
};

/// Whether something holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expr {
    /// Every one of these holds; at least two.
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
    pub(super) figure: Figure,
    pub(super) test: Test,
}

/// What a figure is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Test {
    /// A number.
    Number(Op, Number),
    /// A range of numbers.
    In(Range),
    /// A word: the name of an API, `none`.
    Word(Equality, String),
}

/// How two numbers are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How two words are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Equality {
    Equal,
    NotEqual,
}

/// A number in the smallest unit of its dimension: calls, bytes, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) amount: u64,
    pub(super) dimension: Dimension,
}

/// A range of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: Number,
    pub(super) last: Number,
    /// Whether `last` is one of them (`..=`).
    pub(super) is_inclusive: bool,
}

/// A figure of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) subject: Subject,
    pub(super) selectors: Selectors,
    pub(super) field: Field,
    /// The part of the field: an errno.
    pub(super) errno: Option<String>,
    pub(super) at: At,
}

/// What a figure is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    /// One system call, whatever its ABI.
    Call(String),
    /// A class of calls, without its `%`.
    Class(String),
    /// Every call that was counted.
    AllCalls,
    /// Page faults.
    Faults,
    /// Context switches.
    Switches,
    /// Time of the run.
    Time,
    /// How the command ended.
    Exit,
    /// The processes.
    Processes,
    /// Transfers between these ends.
    Transfer(EndPattern, EndPattern),
}

/// Which part of a report a figure is of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Selectors {
    /// Processes of this name, or with this program.
    pub(super) process: Option<Glob>,
    /// Calls on this file.
    pub(super) file: Option<Glob>,
    /// Calls on files of this kind.
    pub(super) kind: Option<KindPattern>,
}

impl Figure {
    /// The same for a report whose relative paths begin in this directory.
    pub(super) fn below(&self, directory: &str) -> Self {
        let end = |end: &EndPattern| EndPattern { path: end.path.as_ref().map(|glob| glob.below(directory)), ..end.clone() };
        let mut figure = self.clone();
        figure.selectors.file = figure.selectors.file.map(|glob| glob.below(directory));
        if let Subject::Transfer(from, to) = &self.subject {
            figure.subject = Subject::Transfer(end(from), end(to));
        }
        figure
    }
}

impl Selectors {
    /// Whether they choose by file, not by process alone.
    pub(super) fn are_by_file(&self) -> bool {
        self.file.is_some() || self.kind.is_some()
    }
}

/// Where in the text something begins, in bytes. It is no part of what an expectation means: all places are equal.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct At(pub(super) usize);

impl PartialEq for At {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for At {}
