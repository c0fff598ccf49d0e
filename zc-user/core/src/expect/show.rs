//! An expectation as it is written. What is printed is read as the same again.

use std::fmt::{self, Display, Formatter, Write as _};

use super::{
    ast::{Comparison, Equality, Expr, Figure, Number, Op, Range, Selectors, Subject, Test},
    field::Dimension,
    pattern::EndPattern,
    value::in_units,
};
use crate::signal;

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Comparison(comparison) => comparison.fmt(f),
            Self::Not(inner) => {
                f.write_str("not ")?;
                inner.fmt_within(f, |inner| matches!(inner, Self::All(_) | Self::Any(_)))
            }
            Self::All(parts) => join(f, parts, " and ", |part| matches!(part, Self::All(_) | Self::Any(_))),
            Self::Any(parts) => join(f, parts, " or ", |part| matches!(part, Self::Any(_))),
        }
    }
}

impl Expr {
    fn fmt_within(&self, f: &mut Formatter<'_>, needs_parentheses: impl Fn(&Self) -> bool) -> fmt::Result {
        if needs_parentheses(self) { write!(f, "({self})") } else { self.fmt(f) }
    }
}

fn join(f: &mut Formatter<'_>, parts: &[Expr], word: &str, needs_parentheses: fn(&Expr) -> bool) -> fmt::Result {
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
        }
    }
}

impl Op {
    /// Every one, by its sign.
    pub(super) const ALL: [(&str, Self); 6] = [
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<=", Self::LessOrEqual),
        ("<", Self::Less),
        (">=", Self::GreaterOrEqual),
        (">", Self::Greater),
    ];

    fn sign(self) -> &'static str {
        Self::ALL.iter().find(|(_, op)| *op == self).map_or("", |(sign, _)| sign)
    }
}

impl Display for Range {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}{}", self.first, if self.is_inclusive { "=" } else { "" }, self.last)
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.dimension == Dimension::Signal {
            let name = i32::try_from(self.amount).map(signal::name).unwrap_or_default();
            return if name.starts_with("SIG") { f.write_str(&name) } else { write!(f, "{}", self.amount) };
        }
        let (amount, unit) = in_units(self.amount, self.dimension);
        write!(f, "{amount}{unit}")
    }
}

impl Display for Figure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let field = self.subject.line(self.field).map_or("", |line| line.name);
        write!(f, "{}{}.{field}", self.subject, self.selectors)?;
        self.errno.iter().try_for_each(|errno| write!(f, ".{errno}"))
    }
}

impl Display for Subject {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(name) => f.write_str(name),
            Self::Class(name) => write!(f, "%{name}"),
            Self::AllCalls => f.write_str("syscalls"),
            Self::Faults => f.write_str("faults"),
            Self::Switches => f.write_str("switches"),
            Self::Time => f.write_str("time"),
            Self::Exit => f.write_str("exit"),
            Self::Processes => f.write_str("processes"),
            Self::Transfer(from, to) => write!(f, "transfer({from} -> {to})"),
        }
    }
}

impl Display for Selectors {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let quoted = |key: &str, glob: &super::pattern::Glob| format!("{key}={}", quote(glob.text()));
        let process = self.process.as_ref().map(|glob| quoted("process", glob));
        let file = self.file.as_ref().map(|glob| quoted("file", glob));
        let kind = self.kind.map(|kind| format!("kind={}", kind.name()));
        let all: Vec<String> = process.into_iter().chain(file).chain(kind).collect();
        if all.is_empty() { Ok(()) } else { write!(f, "[{}]", all.join(", ")) }
    }
}

impl Display for EndPattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (self.kind, &self.path) {
            (None, None) => f.write_char('*'),
            (Some(kind), None) => f.write_str(kind.name()),
            (None, Some(path)) => f.write_str(&quote(path.text())),
            (Some(kind), Some(path)) => write!(f, "{}:{}", kind.name(), quote(path.text())),
        }
    }
}

fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}
