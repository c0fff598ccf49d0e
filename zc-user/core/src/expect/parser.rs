//! Parses an expectation to a tree: comparisons of figures, joined by `and`, `or`, `not` and
//! parentheses.

mod figure;

use std::ops::Bound;

use super::{
    ast::{ComparisonExpr, Expr, FigureExpr, NONE, Wanted},
    tokens::{SyntaxError, Tokens, is_letter},
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
type OperandParser = fn(&mut Tokens<'_>, Nesting) -> Result<Expr, SyntaxError>;

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
    part: OperandParser,
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
    let (wanted, is_unequal) = if figure.subject.is_a_condition() {
        (NOTHING, false)
    } else {
        wanted(tokens, &figure)?
    };
    let not = if is_negated { "not " } else { "" };
    Ok(Expr::Comparison(Box::new(ComparisonExpr {
        text: format!("{not}{}", tokens.written_since(at)),
        figure,
        wanted,
        is_negated: is_negated != is_unequal,
    })))
}

/// No file, no path.
const NOTHING: Wanted = Wanted::Within(Bound::Included(0), Bound::Included(0));

/// What compares numbers. What is a word is only equal or not: by the first two.
const OPERATORS: [&str; 7] = ["==", "!=", "<", "<=", ">", ">=", "in"];

/// What the figure is compared with, and whether it must be anything else.
fn wanted(tokens: &mut Tokens<'_>, figure: &FigureExpr) -> Result<(Wanted, bool), SyntaxError> {
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
    if unit == FigureUnit::Status && number > 255 {
        return Err(SyntaxError::at(at, "an exit status is at most 255"));
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
    let word = match unit {
        FigureUnit::Api => tokens.take_name("API", &Api::ALL.map(Api::name))?,
        FigureUnit::Signal => {
            let names: Vec<&str> = signal::names().chain([NONE]).collect();
            tokens.take_name("signal", &names)?
        }
        FigureUnit::Function if tokens.takes(NONE) => NONE,
        FigureUnit::Function => {
            let what = "the name of a library function, like \"std::io::copy\",";
            tokens.take_quoted(what)?.0
        }
        _ => return Ok(None),
    };
    Ok(Some(word.to_owned()))
}

/// A range that includes its end.
fn range(tokens: &mut Tokens<'_>, unit: FigureUnit) -> Result<Wanted, SyntaxError> {
    let at = tokens.at();
    let first = number(tokens, unit)?;
    if !tokens.takes("..=") {
        let (first, example) = (tokens.written_since(at), unit.example());
        return Err(tokens.expected(&format!("a range, {first}..={example},")));
    }
    let last = number(tokens, unit)?;
    if first > last {
        let why = format!("the range {} is empty", tokens.written_since(at));
        return Err(SyntaxError::at(at, why));
    }
    Ok(Wanted::Within(
        Bound::Included(first),
        Bound::Included(last),
    ))
}

/// Words that are not units.
const KEYWORDS: [&str; 4] = ["and", "or", "not", "in"];

fn number(tokens: &mut Tokens<'_>, unit: FigureUnit) -> Result<u64, SyntaxError> {
    let (at, digits) = (tokens.at(), tokens.peek());
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
