//! Parses an expectation to a tree: comparisons of figures, joined by `and`, `or`, `not` and
//! parentheses.

mod figure;

use std::ops::Bound;

use super::{
    ast::{Comparison, Expr, Figure, NONE, Test},
    tokens::{SyntaxProblem, Tokens, is_letter, unknown},
};
use crate::{
    figures::{list::FigureUnit, value},
    report::Api,
    signal,
};

/// Limit for the nesting of parentheses and `not`.
const MAX_DEPTH: usize = 64;

/// Parses a text.
pub(super) fn parse(text: &str) -> Result<Expr, SyntaxProblem> {
    let mut tokens = Tokens::new(text);
    let expr = any(&mut tokens, 0)?;
    if tokens.peek().is_empty() {
        return Ok(expr);
    }
    Err(tokens.expected("'and', 'or' or the end"))
}

/// Parses a part of an expression at this depth.
type Part = fn(&mut Tokens<'_>, usize) -> Result<Expr, SyntaxProblem>;

fn any(tokens: &mut Tokens<'_>, depth: usize) -> Result<Expr, SyntaxProblem> {
    let parts = joined(tokens, depth, "or", all)?;
    Ok(single(parts).unwrap_or_else(Expr::Any))
}

fn all(tokens: &mut Tokens<'_>, depth: usize) -> Result<Expr, SyntaxProblem> {
    let parts = joined(tokens, depth, "and", not)?;
    Ok(single(parts).unwrap_or_else(Expr::All))
}

fn joined(
    tokens: &mut Tokens<'_>,
    depth: usize,
    word: &str,
    part: Part,
) -> Result<Vec<Expr>, SyntaxProblem> {
    let mut parts = vec![part(tokens, depth)?];
    while tokens.takes(word) {
        parts.push(part(tokens, depth)?);
    }
    Ok(parts)
}

/// The only part, or all of several.
fn single(mut parts: Vec<Expr>) -> Result<Expr, Vec<Expr>> {
    match parts.len() {
        1 => Ok(parts.remove(0)),
        _ => Err(parts),
    }
}

fn not(tokens: &mut Tokens<'_>, depth: usize) -> Result<Expr, SyntaxProblem> {
    if depth > MAX_DEPTH {
        return Err(SyntaxProblem::at(tokens.at(), "nested too deeply"));
    }
    if tokens.takes("not") {
        return Ok(Expr::Not(Box::new(not(tokens, depth + 1)?)));
    }
    if tokens.takes("(") {
        let inner = any(tokens, depth + 1)?;
        tokens.take(")")?;
        return Ok(inner);
    }
    comparison(tokens)
}

fn comparison(tokens: &mut Tokens<'_>) -> Result<Expr, SyntaxProblem> {
    let at = tokens.at();
    let figure = figure::figure(tokens)?;
    let test = test(tokens, &figure)?;
    Ok(Expr::Comparison(Box::new(Comparison {
        text: tokens.written_since(at).to_owned(),
        figure,
        test,
    })))
}

/// What compares numbers. What is a word is only equal or not: by the first two.
const OPERATORS: [&str; 7] = ["==", "!=", "<", "<=", ">", ">=", "in"];

fn test(tokens: &mut Tokens<'_>, figure: &Figure) -> Result<Test, SyntaxProblem> {
    let unit = figure.unit();
    let operators = if unit.is_of_words() {
        &OPERATORS[..2]
    } else {
        &OPERATORS
    };
    let Some(operator) = operators.iter().find(|one| tokens.takes(one)) else {
        let (text, what, all) = (&figure.text, unit.name(), operators.join(" "));
        return Err(tokens.expected(&format!("{text} is {what}: one of {all}")));
    };
    let (at, included) = (tokens.at(), Bound::Included);
    match *operator {
        "in" => return range(tokens, unit),
        "==" => {
            if let Some(word) = word(tokens, unit)? {
                return Ok(Test::Word(word));
            }
        }
        "!=" => {
            if let Some(word) = word(tokens, unit)? {
                return Ok(Test::NotWord(word));
            }
        }
        _ => {}
    }
    let number = number(tokens, unit)?;
    if let Some(most) = unit.most().filter(|most| number > *most) {
        let why = format!("{} is at most {most}", unit.name());
        return Err(SyntaxProblem::at(at, why));
    }
    Ok(match *operator {
        "==" => Test::Within(included(number), included(number)),
        "!=" => Test::Not(number),
        "<" => Test::Within(Bound::Unbounded, Bound::Excluded(number)),
        "<=" => Test::Within(Bound::Unbounded, included(number)),
        ">" => Test::Within(Bound::Excluded(number), Bound::Unbounded),
        _ => Test::Within(included(number), Bound::Unbounded),
    })
}

/// The word that a figure of this unit is compared with; `None`: it is compared with a number.
fn word(tokens: &mut Tokens<'_>, unit: FigureUnit) -> Result<Option<String>, SyntaxProblem> {
    match unit {
        FigureUnit::Api => {
            let name = tokens.take_name("API", &Api::ALL.map(Api::name))?;
            Ok(Some(name.to_owned()))
        }
        FigureUnit::Function => {
            let what = "the name of a library function, like \"std::io::copy\",";
            let (name, at) = tokens.take_text(what)?;
            if name.is_empty() || tokens.peek() == ":" {
                return Err(SyntaxProblem::at(
                    at,
                    format!("{what} is needed here, in quotes"),
                ));
            }
            Ok(Some(name))
        }
        FigureUnit::Status | FigureUnit::Signal if tokens.takes(NONE) => Ok(Some(NONE.to_owned())),
        _ => Ok(None),
    }
}

fn range(tokens: &mut Tokens<'_>, unit: FigureUnit) -> Result<Test, SyntaxProblem> {
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
        return Err(SyntaxProblem::at(at, why));
    }
    let end = if is_inclusive {
        Bound::Included(last)
    } else {
        Bound::Excluded(last)
    };
    Ok(Test::Within(Bound::Included(first), end))
}

/// Words that are not units.
const KEYWORDS: [&str; 4] = ["and", "or", "not", "in"];

fn number(tokens: &mut Tokens<'_>, unit: FigureUnit) -> Result<u64, SyntaxProblem> {
    let (at, digits) = (tokens.at(), tokens.peek());
    if unit == FigureUnit::Signal && digits.starts_with(is_letter) {
        return signal_number(tokens);
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
    value::number(digits, suffix, unit).map_err(|why| SyntaxProblem::at(at, why))
}

fn signal_number(tokens: &mut Tokens<'_>) -> Result<u64, SyntaxProblem> {
    let (at, word) = (tokens.at(), tokens.advance());
    signal::number(word)
        .map(|signal| signal.unsigned_abs().into())
        .ok_or_else(|| {
            let names: Vec<&str> = signal::names().chain([NONE]).collect();
            SyntaxProblem::at(at, unknown("signal", word, &names))
        })
}
