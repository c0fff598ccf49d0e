//! The tree of an expectation, and how it is written. What is printed is read as the same tree
//! again.

use std::fmt::{self, Display, Formatter};

use super::{
    field::{Field, Subject},
    function::FunctionPattern,
    pattern::{EndPattern, Glob, KindPattern, quote},
    value::Number,
};
use crate::words::names;

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
    /// A name in quotes: that of a function.
    Name(Equality, String),
}

/// The word for no exit status and no signal.
pub(super) const NONE: &str = "none";

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
    /// The errno, if the figure has one.
    pub(super) errno: Option<String>,
    pub(super) at: At,
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
    /// The same for a report whose relative paths start in this directory.
    pub(super) fn below(&self, directory: &str) -> Self {
        let end = |end: &EndPattern| EndPattern {
            path: end.path.as_ref().map(|glob| glob.below(directory)),
            ..end.clone()
        };
        let mut figure = self.clone();
        figure.selectors.file = figure.selectors.file.map(|glob| glob.below(directory));
        figure.selectors.path = figure.selectors.path.map(|glob| glob.below(directory));
        if let Subject::Transfer(from, to) = &self.subject {
            figure.subject = Subject::Transfer(end(from), end(to));
        }
        figure
    }
}

impl Selectors {
    /// Whether they choose by file.
    pub(super) fn are_by_file(&self) -> bool {
        self.file.is_some() || self.kind.is_some()
    }
}

/// Offset in the text, in bytes. It is not part of the meaning, so that all offsets are equal.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct At(pub(super) usize);

impl PartialEq for At {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for At {}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Comparison(comparison) => comparison.fmt(f),
            Self::Not(inner) => {
                f.write_str("not ")?;
                inner.fmt_within(f, |inner| matches!(inner, Self::All(_) | Self::Any(_)))
            }
            Self::All(parts) => join(f, parts, " and ", |part| {
                matches!(part, Self::All(_) | Self::Any(_))
            }),
            Self::Any(parts) => join(f, parts, " or ", |part| matches!(part, Self::Any(_))),
        }
    }
}

impl Expr {
    fn fmt_within(
        &self,
        f: &mut Formatter<'_>,
        needs_parentheses: impl Fn(&Self) -> bool,
    ) -> fmt::Result {
        if needs_parentheses(self) {
            write!(f, "({self})")
        } else {
            self.fmt(f)
        }
    }
}

fn join(
    f: &mut Formatter<'_>,
    parts: &[Expr],
    word: &str,
    needs_parentheses: fn(&Expr) -> bool,
) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        f.write_str(if index > 0 { word } else { "" })?;
        part.fmt_within(f, needs_parentheses)?;
    }
    Ok(())
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.figure, self.test)
    }
}

impl Display for Test {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(op, number) => write!(f, "{} {number}", op.sign()),
            Self::In(range) => write!(f, "in {range}"),
            Self::Word(Equality::Equal, word) => write!(f, "== {word}"),
            Self::Word(Equality::NotEqual, word) => write!(f, "!= {word}"),
            Self::Name(Equality::Equal, name) => write!(f, "== {}", quote(name)),
            Self::Name(Equality::NotEqual, name) => write!(f, "!= {}", quote(name)),
        }
    }
}

impl Op {
    /// All operators with their signs.
    pub(super) const ALL: [(&str, Self); 6] = [
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<=", Self::LessOrEqual),
        ("<", Self::Less),
        (">=", Self::GreaterOrEqual),
        (">", Self::Greater),
    ];

    fn sign(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, op)| *op == self)
            .map_or("", |(sign, _)| sign)
    }
}

impl Display for Range {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}..{}{}",
            self.first,
            if self.is_inclusive { "=" } else { "" },
            self.last
        )
    }
}

impl Display for Figure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let field = self.subject.line(self.field).map_or("", |line| line.name);
        write!(f, "{}{}.{field}", self.subject, self.selectors)?;
        self.errno
            .iter()
            .try_for_each(|errno| write!(f, ".{errno}"))
    }
}

impl Display for Selectors {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let quoted = |key: Selector, glob: &Glob| format!("{}={}", key.name(), quote(glob.text()));
        let process = self
            .process
            .as_ref()
            .map(|glob| quoted(Selector::Process, glob));
        let file = self.file.as_ref().map(|glob| quoted(Selector::File, glob));
        let kind = self
            .kind
            .map(|kind| format!("{}={}", Selector::Kind.name(), kind.name()));
        let path = self.path.as_ref().map(|glob| quoted(Selector::Path, glob));
        let caller = self
            .caller
            .as_ref()
            .map(|pattern| format!("{}={}", Selector::Caller.name(), quote(pattern.text())));
        let all: Vec<String> = process
            .into_iter()
            .chain(file)
            .chain(kind)
            .chain(path)
            .chain(caller)
            .collect();
        if all.is_empty() {
            Ok(())
        } else {
            write!(f, "[{}]", all.join(", "))
        }
    }
}
