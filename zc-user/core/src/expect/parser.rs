//! Parses an expectation to a tree: comparisons of figures, joined by `and`, `or`, `not` and
//! parentheses.

mod figure;

use std::ops::Bound;

use super::{
    ast::{Comparison, Expr, Figure, NONE, Wanted},
    tokens::{SyntaxError, Tokens, is_letter, unknown},
};
use crate::{
    figures::{list::FigureUnit, value},
    report::Api,
    signal,
};

/// Limit for the nesting of parentheses and `not`.
const MAX_DEPTH: usize = 64;

/// Parses a text.
pub(super) fn parse(text: &str) -> Result<Expr, SyntaxError> {
    let mut tokens = Tokens::new(text);
    let expr = any(&mut tokens, Nesting::default())?;
    if tokens.peek().is_empty() {
        return Ok(expr);
    }
    Err(tokens.expected("'and', 'or' or the end"))
}

/// Where in an expression a part is.
#[derive(Clone, Copy, Default)]
struct Nesting {
    depth: usize,
    /// Whether it is behind an odd number of `not`.
    is_negated: bool,
}

/// Parses a part of an expression.
type Part = fn(&mut Tokens<'_>, Nesting) -> Result<Expr, SyntaxError>;

fn any(tokens: &mut Tokens<'_>, nesting: Nesting) -> Result<Expr, SyntaxError> {
    joined(tokens, nesting, "or", all)
}

fn all(tokens: &mut Tokens<'_>, nesting: Nesting) -> Result<Expr, SyntaxError> {
    joined(tokens, nesting, "and", not)
}

fn joined(
    tokens: &mut Tokens<'_>,
    nesting: Nesting,
    word: &str,
    part: Part,
) -> Result<Expr, SyntaxError> {
    let mut parts = vec![part(tokens, nesting)?];
    while tokens.takes(word) {
        parts.push(part(tokens, nesting)?);
    }
    // The negation of `a and b` is `not a or not b`.
    let needs_all = (word == "and") != nesting.is_negated;
    Ok(match parts.len() {
        1 => parts.remove(0),
        _ if needs_all => Expr::All(parts),
        _ => Expr::Any(parts),
    })
}

fn not(tokens: &mut Tokens<'_>, mut nesting: Nesting) -> Result<Expr, SyntaxError> {
    if nesting.depth > MAX_DEPTH {
        return Err(SyntaxError::at(tokens.at(), "nested too deeply"));
    }
    nesting.depth += 1;
    if tokens.takes("not") {
        nesting.is_negated = !nesting.is_negated;
        return not(tokens, nesting);
    }
    if tokens.takes("(") {
        let inner = any(tokens, nesting)?;
        tokens.take(")")?;
        return Ok(inner);
    }
    comparison(tokens, nesting.is_negated)
}

fn comparison(tokens: &mut Tokens<'_>, is_negated: bool) -> Result<Expr, SyntaxError> {
    let at = tokens.at();
    let figure = figure::figure(tokens)?;
    let (wanted, is_unequal) = wanted(tokens, &figure)?;
    let not = if is_negated { "not " } else { "" };
    Ok(Expr::Comparison(Box::new(Comparison {
        text: format!("{not}{}", tokens.written_since(at)),
        figure,
        wanted,
        is_negated: is_negated != is_unequal,
    })))
}

/// What compares numbers. What is a word is only equal or not: by the first two.
const OPERATORS: [&str; 7] = ["==", "!=", "<", "<=", ">", ">=", "in"];

/// What the figure is compared with, and whether it must be anything else.
fn wanted(tokens: &mut Tokens<'_>, figure: &Figure) -> Result<(Wanted, bool), SyntaxError> {
    let unit = figure.unit;
    let operators = if unit.is_of_words() {
        &OPERATORS[..2]
    } else {
        &OPERATORS
    };
    let Some(operator) = operators.iter().find(|one| tokens.takes(one)) else {
        let (text, what, all) = (&figure.text, unit.name(), operators.join(" "));
        return Err(tokens.expected(&format!("{text} is {what}: one of {all}")));
    };
    if *operator == "in" {
        return Ok((range(tokens, unit)?, false));
    }
    let is_unequal = *operator == "!=";
    if let ("==" | "!=", Some(word)) = (*operator, word(tokens, unit)?) {
        return Ok((Wanted::Word(word), is_unequal));
    }
    let at = tokens.at();
    let number = number(tokens, unit)?;
    if let Some(most) = unit.most().filter(|most| number > *most) {
        let why = format!("{} is at most {most}", unit.name());
        return Err(SyntaxError::at(at, why));
    }
    let (start, end) = match *operator {
        "<" => (Bound::Unbounded, Bound::Excluded(number)),
        "<=" => (Bound::Unbounded, Bound::Included(number)),
        ">" => (Bound::Excluded(number), Bound::Unbounded),
        ">=" => (Bound::Included(number), Bound::Unbounded),
        _ => (Bound::Included(number), Bound::Included(number)),
    };
    Ok((Wanted::Within(start, end), is_unequal))
}

/// The word that a figure of this unit is compared with; `None`: it is compared with a number.
fn word(tokens: &mut Tokens<'_>, unit: FigureUnit) -> Result<Option<String>, SyntaxError> {
    match unit {
        FigureUnit::Api => {
            let name = tokens.take_name("API", &Api::ALL.map(Api::name))?;
            Ok(Some(name.to_owned()))
        }
        FigureUnit::Function => {
            let what = "the name of a library function, like \"std::io::copy\",";
            let (name, at) = tokens.take_text(what)?;
            if name.is_empty() || tokens.peek() == ":" {
                let why = format!("{what} is needed here, in quotes");
                return Err(SyntaxError::at(at, why));
            }
            Ok(Some(name))
        }
        FigureUnit::Status | FigureUnit::Signal if tokens.takes(NONE) => Ok(Some(NONE.to_owned())),
        _ => Ok(None),
    }
}

fn range(tokens: &mut Tokens<'_>, unit: FigureUnit) -> Result<Wanted, SyntaxError> {
    let at = tokens.at();
    let first = number(tokens, unit)?;
    let is_inclusive = tokens.takes("..=");
    if !is_inclusive && !tokens.takes("..") {
        let (first, example) = (tokens.written_since(at), unit.example());
        let range = format!("a range, {first}..={example} or {first}..{example} without its end,");
        return Err(tokens.expected(&range));
    }
    let last = number(tokens, unit)?;
    if first > last || (first == last && !is_inclusive) {
        let why = format!("the range {} is empty", tokens.written_since(at));
        return Err(SyntaxError::at(at, why));
    }
    let end = if is_inclusive {
        Bound::Included(last)
    } else {
        Bound::Excluded(last)
    };
    Ok(Wanted::Within(Bound::Included(first), end))
}

/// Words that are not units.
const KEYWORDS: [&str; 4] = ["and", "or", "not", "in"];

fn number(tokens: &mut Tokens<'_>, unit: FigureUnit) -> Result<u64, SyntaxError> {
    let (at, digits) = (tokens.at(), tokens.peek());
    if unit == FigureUnit::Signal && digits.starts_with(is_letter) {
        let known = signal::number(tokens.advance());
        let names = || signal::names().chain([NONE]).collect::<Vec<_>>();
        let error = || SyntaxError::at(at, unknown("signal", digits, &names()));
        return known
            .map(|signal| signal.unsigned_abs().into())
            .ok_or_else(error);
    }
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        let what = format!("{}, like {},", unit.name(), unit.example());
        return Err(tokens.expected(&what));
    }
    tokens.advance();
    let next = tokens.peek();
    let suffix = if next.starts_with(is_letter) && !KEYWORDS.contains(&next) {
        tokens.advance()
    } else {
        ""
    };
    value::number(digits, suffix, unit).map_err(|why| SyntaxError::at(at, why))
}
