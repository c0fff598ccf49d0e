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

pub(super) fn parse(text: &str) -> Result<Expr, SyntaxError> {
    let mut tokens = Tokens::new(text);
    let expr = parse_any(&mut tokens, Nesting::default())?;
    if tokens.peek().is_empty() {
        return Ok(expr);
    }
    Err(tokens.error_expecting("'and', 'or' or the end"))
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

fn parse_any(tokens: &mut Tokens<'_>, nesting: Nesting) -> Result<Expr, SyntaxError> {
    parse_joined(tokens, nesting, "or", parse_all)
}

fn parse_all(tokens: &mut Tokens<'_>, nesting: Nesting) -> Result<Expr, SyntaxError> {
    parse_joined(tokens, nesting, "and", parse_not)
}

fn parse_joined(
    tokens: &mut Tokens<'_>,
    nesting: Nesting,
    word: &str,
    part: OperandParser,
) -> Result<Expr, SyntaxError> {
    let mut parts = vec![part(tokens, nesting)?];
    while tokens.take_if(word) {
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

fn parse_not(tokens: &mut Tokens<'_>, mut nesting: Nesting) -> Result<Expr, SyntaxError> {
    if nesting.depth > MAX_DEPTH {
        return Err(SyntaxError::at_offset(
            tokens.token_offset(),
            "nested too deeply",
        ));
    }
    nesting.depth += 1;
    if tokens.take_if("not") {
        nesting.is_negated = !nesting.is_negated;
        return parse_not(tokens, nesting);
    }
    if tokens.take_if("(") {
        let inner = parse_any(tokens, nesting)?;
        tokens.take_required(")")?;
        return Ok(inner);
    }
    parse_comparison(tokens, nesting.is_negated)
}

fn parse_comparison(tokens: &mut Tokens<'_>, is_negated: bool) -> Result<Expr, SyntaxError> {
    let at = tokens.token_offset();
    let figure = figure::parse_figure(tokens)?;
    let (wanted, is_unequal) = if figure.subject.is_a_condition() {
        (NOTHING, false)
    } else {
        parse_wanted(tokens, &figure)?
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
fn parse_wanted(
    tokens: &mut Tokens<'_>,
    figure: &FigureExpr,
) -> Result<(Wanted, bool), SyntaxError> {
    let unit = figure.unit;
    let operators = if unit.is_of_words() {
        &OPERATORS[..2]
    } else {
        &OPERATORS
    };
    let Some(operator) = operators.iter().find(|one| tokens.take_if(one)) else {
        let (text, what, all) = (&figure.text, unit.name(), operators.join(" "));
        return Err(tokens.error_expecting(&format!("{text} is {what}: one of {all}")));
    };
    if *operator == "in" {
        return Ok((parse_range(tokens, unit)?, false));
    }
    let is_unequal = *operator == "!=";
    if let ("==" | "!=", Some(word)) = (*operator, parse_word(tokens, unit)?) {
        return Ok((Wanted::Word(word), is_unequal));
    }
    let at = tokens.token_offset();
    let number = parse_number(tokens, unit)?;
    if unit == FigureUnit::Status && number > 255 {
        return Err(SyntaxError::at_offset(at, "an exit status is at most 255"));
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
fn parse_word(tokens: &mut Tokens<'_>, unit: FigureUnit) -> Result<Option<String>, SyntaxError> {
    let word = match unit {
        FigureUnit::Api => tokens.take_name("API", &Api::ALL.map(Api::name))?,
        FigureUnit::Signal => {
            let names: Vec<&str> = signal::names().chain([NONE]).collect();
            tokens.take_name("signal", &names)?
        }
        FigureUnit::Function if tokens.take_if(NONE) => NONE,
        FigureUnit::Function => {
            let what = "the name of a library function, like \"std::io::copy\",";
            tokens.take_quoted(what)?.0
        }
        _ => return Ok(None),
    };
    Ok(Some(word.to_owned()))
}

/// A range that includes its end.
fn parse_range(tokens: &mut Tokens<'_>, unit: FigureUnit) -> Result<Wanted, SyntaxError> {
    let at = tokens.token_offset();
    let first = parse_number(tokens, unit)?;
    if !tokens.take_if("..=") {
        let (first, example) = (tokens.written_since(at), unit.example());
        return Err(tokens.error_expecting(&format!("a range, {first}..={example},")));
    }
    let last = parse_number(tokens, unit)?;
    if first > last {
        let why = format!("the range {} is empty", tokens.written_since(at));
        return Err(SyntaxError::at_offset(at, why));
    }
    Ok(Wanted::Within(
        Bound::Included(first),
        Bound::Included(last),
    ))
}

/// Words that are not units.
const KEYWORDS: [&str; 4] = ["and", "or", "not", "in"];

fn parse_number(tokens: &mut Tokens<'_>, unit: FigureUnit) -> Result<u64, SyntaxError> {
    let (at, digits) = (tokens.token_offset(), tokens.peek());
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        let what = format!("{}, like {},", unit.name(), unit.example());
        return Err(tokens.error_expecting(&what));
    }
    tokens.advance();
    let next = tokens.peek();
    let suffix = if next.starts_with(is_letter) && !KEYWORDS.contains(&next) {
        tokens.advance()
    } else {
        ""
    };
    value::number(digits, suffix, unit).map_err(|why| SyntaxError::at_offset(at, why))
}
