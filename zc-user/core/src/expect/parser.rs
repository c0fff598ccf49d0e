//! Parses tokens to a tree: comparisons of figures, joined by `and`, `or`, `not` and parentheses.

mod figure;

use std::ops::Bound;

use super::{
    ast::{Comparison, Expr, Figure, NONE, Test},
    field::Unit,
    lexer::{Kind, Problem, Token, tokens},
    value,
};
use crate::{
    report::Api,
    signal,
    words::{did_you_mean, nearest},
};

/// Limit for the nesting of parentheses and `not`.
const MAX_DEPTH: usize = 64;

/// Parses a text.
pub(super) fn parse(text: &str) -> Result<Expr, Problem> {
    let mut parser = Parser {
        text,
        tokens: tokens(text)?,
        next: 0,
        depth: 0,
    };
    let expr = parser.any()?;
    match parser.peek() {
        Kind::End => Ok(expr),
        Kind::Sign("=" | "==" | "!=" | "<" | "<=" | ">" | ">=") => Err(parser.problem(
            "one comparison at a time: join two with 'and', or write a range: 'in 1..=10'",
        )),
        _ => Err(parser.expected("expected 'and', 'or' or the end")),
    }
}

/// The tokens, and the position in them.
struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

impl Parser<'_> {
    fn any(&mut self) -> Result<Expr, Problem> {
        self.joined("or", Self::all, Expr::Any)
    }

    fn all(&mut self) -> Result<Expr, Problem> {
        self.joined("and", Self::not, Expr::All)
    }

    fn joined(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Result<Expr, Problem>,
        join: fn(Vec<Expr>) -> Expr,
    ) -> Result<Expr, Problem> {
        let mut parts = vec![part(self)?];
        while self.take_word(word) {
            parts.push(part(self)?);
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            _ => join(parts),
        })
    }

    fn not(&mut self) -> Result<Expr, Problem> {
        let is_not = self.peek() == &Kind::Word("not".into());
        if !is_not && self.peek() != &Kind::Sign("(") {
            return self.comparison();
        }
        if self.depth == MAX_DEPTH {
            return Err(self.problem("nested too deeply"));
        }
        self.depth += 1;
        self.advance();
        let inner = if is_not {
            Expr::Not(Box::new(self.not()?))
        } else {
            let inner = self.any()?;
            self.take_sign(")")?;
            inner
        };
        self.depth -= 1;
        Ok(inner)
    }

    fn peek(&self) -> &Kind {
        // The last token is the end, and `next` never passes it.
        &self.tokens[self.next].kind
    }

    fn at(&self) -> usize {
        self.tokens[self.next].at
    }

    fn advance(&mut self) -> Token {
        let token = self.tokens[self.next].clone();
        if token.kind != Kind::End {
            self.next += 1;
        }
        token
    }

    /// What was read since this offset, as it was written.
    fn written_since(&self, at: usize) -> &str {
        let end = self
            .next
            .checked_sub(1)
            .map_or(at, |last| self.tokens[last].end);
        self.text.get(at..end).unwrap_or_default()
    }

    /// Reads the next token if it is this word.
    fn take_word(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Kind::Word(found) if found == word);
        self.next += usize::from(is_it);
        is_it
    }

    /// The same for a sign.
    fn take_if_sign(&mut self, sign: &str) -> bool {
        let is_it = matches!(self.peek(), Kind::Sign(found) if *found == sign);
        self.next += usize::from(is_it);
        is_it
    }

    /// Reads the next token, which must be this sign.
    fn take_sign(&mut self, sign: &str) -> Result<(), Problem> {
        if self.take_if_sign(sign) {
            return Ok(());
        }
        Err(self.expected(&format!("'{sign}' is expected here")))
    }

    /// A problem with the next token.
    fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::at(self.at(), message)
    }

    /// The next token is not what is expected.
    fn expected(&self, what: &str) -> Problem {
        self.problem(format!("{what}, not {}", self.peek().describe()))
    }
}

/// Words that are not units.
const KEYWORDS: [&str; 4] = ["and", "or", "not", "in"];

impl Parser<'_> {
    fn comparison(&mut self) -> Result<Expr, Problem> {
        let at = self.at();
        let figure = self.figure()?;
        let test = self.test(&figure)?;
        Ok(Expr::Comparison(Box::new(Comparison {
            text: self.written_since(at).to_owned(),
            figure,
            test,
        })))
    }

    fn test(&mut self, figure: &Figure) -> Result<Test, Problem> {
        let (unit, what) = (figure.unit(), figure.unit().name());
        let text = &figure.text;
        if self.take_word("in") {
            if unit.is_of_words() {
                let why = format!("{text} is {what}: it cannot be compared with a range");
                return Err(self.problem(why));
            }
            return self.range(unit);
        }
        let at = self.at();
        let sign = self.operator(figure)?;
        let is_equality = matches!(sign, "==" | "!=");
        if unit.is_of_words() && !is_equality {
            let why = format!("{text} is {what}: only == and != compare it");
            return Err(Problem::at(at, why));
        }
        if let Some(word) = self.word(unit, is_equality)? {
            return Ok(if sign == "==" {
                Test::Word(word)
            } else {
                Test::NotWord(word)
            });
        }
        let at = self.at();
        let number = match self.peek() {
            Kind::Word(_) if unit == Unit::Signal => self.signal()?,
            _ => self.number(unit)?,
        };
        if matches!(self.peek(), Kind::Sign(".." | "..=")) {
            return Err(Problem::at(at, "a range needs 'in' instead of an operator"));
        }
        if let Some(most) = unit.most().filter(|most| number > *most) {
            return Err(Problem::at(at, format!("{what} is at most {most}")));
        }
        Ok(match sign {
            "==" => Test::Within(Bound::Included(number), Bound::Included(number)),
            "!=" => Test::Not(number),
            "<" => Test::Within(Bound::Unbounded, Bound::Excluded(number)),
            "<=" => Test::Within(Bound::Unbounded, Bound::Included(number)),
            ">" => Test::Within(Bound::Excluded(number), Bound::Unbounded),
            _ => Test::Within(Bound::Included(number), Bound::Unbounded),
        })
    }

    /// The word that a figure of this unit is compared with; `None`: it is compared with a number.
    fn word(&mut self, unit: Unit, is_equality: bool) -> Result<Option<String>, Problem> {
        match unit {
            Unit::Api => self.api().map(Some),
            Unit::Function => self.function().map(Some),
            Unit::Status | Unit::Signal if is_equality && self.take_word(NONE) => {
                Ok(Some(NONE.to_owned()))
            }
            _ => Ok(None),
        }
    }

    fn operator(&mut self, figure: &Figure) -> Result<&'static str, Problem> {
        let Kind::Sign(sign) = *self.peek() else {
            let (text, example) = (&figure.text, figure.unit().example());
            return Err(self.expected(&format!(
                "expected a comparison, as in '{text} == {example}'"
            )));
        };
        match sign {
            "=" => Err(self.problem("to compare, write '=='")),
            "==" | "!=" | "<" | "<=" | ">" | ">=" => {
                self.advance();
                Ok(sign)
            }
            _ => Err(self.problem(format!(
                "'{sign}' is not an operator: write one of == != < <= > >= in"
            ))),
        }
    }

    fn range(&mut self, unit: Unit) -> Result<Test, Problem> {
        let at = self.at();
        let first = self.number(unit)?;
        let is_inclusive = self.take_if_sign("..=");
        if !is_inclusive && !self.take_if_sign("..") {
            let (first, example) = (self.written_since(at), unit.example());
            return Err(
                self.problem(format!("'in' needs a range: {first}..={example} includes its end, {first}..{example} does not"))
            );
        }
        let last = self.number(unit)?;
        if first > last || (first == last && !is_inclusive) {
            let why = format!("the range {} is empty", self.written_since(at));
            return Err(Problem::at(at, why));
        }
        let end = if is_inclusive {
            Bound::Included(last)
        } else {
            Bound::Excluded(last)
        };
        Ok(Test::Within(Bound::Included(first), end))
    }

    fn number(&mut self, unit: Unit) -> Result<u64, Problem> {
        let (needs, example) = (unit.name(), unit.example());
        let Kind::Number(digits) = self.peek().clone() else {
            return Err(self.expected(&format!("{needs} is needed here, like {example}")));
        };
        let at = self.advance().at;
        let suffix = match self.peek().clone() {
            Kind::Word(word) if KEYWORDS.contains(&word.as_str()) => None,
            Kind::Word(word) if KEYWORDS.contains(&word.to_lowercase().as_str()) => {
                let lower = word.to_lowercase();
                let why = format!("'{word}' must be in lower case: '{lower}'");
                return Err(self.problem(why));
            }
            Kind::Word(word) => Some((word, self.advance().at)),
            _ => None,
        };
        let (suffix, suffix_at) = suffix.unwrap_or_default();
        value::number(&digits, at, (&suffix, suffix_at), unit)
    }

    fn api(&mut self) -> Result<String, Problem> {
        let token = self.advance();
        let all = Api::ALL.map(Api::name).join(", ");
        let Kind::Word(word) = token.kind else {
            let why = format!("the name of an API is needed here: one of {all}");
            return Err(Problem::at(token.at, why));
        };
        let names = Api::ALL.map(Api::name);
        if names.contains(&word.as_str()) {
            return Ok(word);
        }
        let hint = near_or(&word, names.into_iter(), || format!("APIs are {all}"));
        Err(Problem::at(token.at, format!("unknown API '{word}'{hint}")))
    }

    /// The name of a library function, in quotes.
    fn function(&mut self) -> Result<String, Problem> {
        let example = Unit::Function.example();
        let token = self.advance();
        match token.kind {
            Kind::Quoted(name) | Kind::Word(name)
                if !name.is_empty() && self.peek() != &Kind::Sign(":") =>
            {
                Ok(name)
            }
            Kind::Word(_) | Kind::Quoted(_) => Err(Problem::at(
                token.at,
                format!("the name of a library function is needed here, in quotes, like {example}"),
            )),
            other => Err(Problem::at(
                token.at,
                format!(
                    "the name of a library function is needed here, like {example}, not {}",
                    other.describe()
                ),
            )),
        }
    }

    fn signal(&mut self) -> Result<u64, Problem> {
        let token = self.advance();
        let Kind::Word(word) = token.kind else {
            return Err(Problem::at(token.at, "a signal is needed here"));
        };
        signal::number(&word)
            .map(|signal| signal.unsigned_abs().into())
            .ok_or_else(|| {
                let near = did_you_mean(nearest(&word, signal::names().chain([NONE])));
                Problem::at(token.at, format!("unknown signal '{word}'{near}"))
            })
    }
}

/// `; did you mean 'read'?`; if no name is near, all of them.
fn near_or<'a>(
    word: &str,
    names: impl Iterator<Item = &'a str>,
    all: impl FnOnce() -> String,
) -> String {
    nearest(word, names).map_or_else(|| format!("; {}", all()), |near| did_you_mean(Some(near)))
}
