//! Parses tokens to a tree: comparisons of figures, joined by `and`, `or`, `not` and parentheses.

mod figure;

use super::{
    ast::{Comparison, Equality, Expr, Figure, NONE, Op, Range, Test},
    field::Dimension,
    lexer::{Kind, Problem, Token, tokens},
    value::{self, Number},
};
use crate::{
    report::Api,
    signal,
    words::{did_you_mean, nearest},
};

#[cfg(test)]
pub(super) use figure::{why_not_by_caller, why_not_by_file, why_not_by_path};

/// Whether figures of this dimension are words, which are only equal or not.
const fn is_of_words(dimension: Dimension) -> bool {
    matches!(
        dimension,
        Dimension::Api | Dimension::Function | Dimension::Signal
    )
}

/// Limit for the nesting of parentheses and `not`.
const MAX_DEPTH: usize = 64;

/// Parses a text.
pub(super) fn parse(text: &str) -> Result<Expr, Problem> {
    let mut parser = Parser {
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
        other => Err(parser.problem(format!(
            "expected 'and', 'or' or the end, not {}",
            other.describe()
        ))),
    }
}

/// The tokens, and the position in them.
struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

impl Parser {
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
        let first = part(self)?;
        let mut rest = Vec::new();
        while self.take_word(word) {
            rest.push(part(self)?);
        }
        Ok(if rest.is_empty() {
            first
        } else {
            join(std::iter::once(first).chain(rest).collect())
        })
    }

    fn not(&mut self) -> Result<Expr, Problem> {
        let is_not = self.peek() == &Kind::Word("not".into());
        if !is_not && self.peek() != &Kind::Sign("(") {
            return Ok(Expr::Comparison(Box::new(self.comparison()?)));
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

    fn token(&self) -> &Token {
        // The last token is the end, and `next` never passes it.
        &self.tokens[self.next]
    }

    fn peek(&self) -> &Kind {
        &self.token().kind
    }

    fn at(&self) -> usize {
        self.token().at
    }

    fn advance(&mut self) -> Token {
        let token = self.token().clone();
        if token.kind != Kind::End {
            self.next += 1;
        }
        token
    }

    /// Reads the next token if it is this word.
    fn take_word(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Kind::Word(found) if found == word);
        if is_it {
            self.advance();
        }
        is_it
    }

    /// The same for a sign.
    fn take_if_sign(&mut self, sign: &str) -> bool {
        let is_it = matches!(self.peek(), Kind::Sign(found) if *found == sign);
        if is_it {
            self.advance();
        }
        is_it
    }

    /// Reads the next token, which must be this sign.
    fn take_sign(&mut self, sign: &str) -> Result<(), Problem> {
        if self.take_if_sign(sign) {
            return Ok(());
        }
        Err(self.problem(format!(
            "'{sign}' is expected here, not {}",
            self.peek().describe()
        )))
    }

    /// A problem with the next token.
    fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::at(self.at(), message)
    }
}

/// Words that are not units.
const KEYWORDS: [&str; 4] = ["and", "or", "not", "in"];

impl Parser {
    fn comparison(&mut self) -> Result<Comparison, Problem> {
        let figure = self.figure()?;
        let test = self.test(&figure)?;
        Ok(Comparison { figure, test })
    }

    fn test(&mut self, figure: &Figure) -> Result<Test, Problem> {
        let dimension = figure.dimension();
        if self.take_word("in") {
            if is_of_words(dimension) {
                return Err(self.problem(format!(
                    "{figure} is {}: it cannot be compared with a range",
                    dimension.name()
                )));
            }
            return self.range(dimension).map(Test::In);
        }
        let op = self.op(figure)?;
        let equality = match op {
            Op::Equal => Some(Equality::Equal),
            Op::NotEqual => Some(Equality::NotEqual),
            _ => None,
        };
        if is_of_words(dimension) && equality.is_none() {
            let at = self.tokens[self.next - 1].at;
            return Err(Problem::at(
                at,
                format!(
                    "{figure} is {}: only == and != compare it",
                    dimension.name()
                ),
            ));
        }
        match (dimension, equality) {
            (Dimension::Api, Some(equality)) => self.api().map(|api| Test::Word(equality, api)),
            (Dimension::Function, Some(equality)) => {
                self.function().map(|name| Test::Name(equality, name))
            }
            (Dimension::Status | Dimension::Signal, Some(equality)) if self.take_word(NONE) => {
                Ok(Test::Word(equality, NONE.to_owned()))
            }
            (Dimension::Signal, _) if matches!(self.peek(), Kind::Word(_)) => {
                self.signal().map(|signal| Test::Number(op, signal))
            }
            _ => {
                let at = self.at();
                let number = self.number(dimension)?;
                if matches!(self.peek(), Kind::Sign(".." | "..=")) {
                    return Err(Problem::at(at, "a range needs 'in' instead of an operator"));
                }
                if let Some(most) = dimension.most().filter(|most| number.amount > *most) {
                    return Err(Problem::at(
                        at,
                        format!("{} is at most {most}", dimension.name()),
                    ));
                }
                Ok(Test::Number(op, number))
            }
        }
    }

    fn op(&mut self, figure: &Figure) -> Result<Op, Problem> {
        let Kind::Sign(sign) = *self.peek() else {
            let found = self.peek().describe();
            let example = figure.dimension().example();
            return Err(self.problem(format!(
                "expected a comparison, as in '{figure} == {example}', not {found}"
            )));
        };
        if sign == "=" {
            return Err(self.problem("to compare, write '=='"));
        }
        let op = Op::ALL
            .iter()
            .find(|(known, _)| *known == sign)
            .map(|(_, op)| *op);
        let op = op.ok_or_else(|| {
            self.problem(format!(
                "'{sign}' is not an operator: write one of == != < <= > >= in"
            ))
        })?;
        self.advance();
        Ok(op)
    }

    fn range(&mut self, dimension: Dimension) -> Result<Range, Problem> {
        let at = self.at();
        let first = self.number(dimension)?;
        let is_inclusive = self.take_if_sign("..=");
        if !is_inclusive && !self.take_if_sign("..") {
            let example = dimension.example();
            return Err(
                self.problem(format!("'in' needs a range: {first}..={example} includes its end, {first}..{example} does not"))
            );
        }
        let last = self.number(dimension)?;
        if first.amount > last.amount || (first.amount == last.amount && !is_inclusive) {
            return Err(Problem::at(
                at,
                format!(
                    "the range {} is empty",
                    Range {
                        first,
                        last,
                        is_inclusive
                    }
                ),
            ));
        }
        Ok(Range {
            first,
            last,
            is_inclusive,
        })
    }

    fn number(&mut self, dimension: Dimension) -> Result<Number, Problem> {
        let token = self.advance();
        let Kind::Number(digits) = token.kind else {
            let (needs, example) = (dimension.name(), dimension.example());
            return Err(Problem::at(
                token.at,
                format!(
                    "{needs} is needed here, like {example}, not {}",
                    token.kind.describe()
                ),
            ));
        };
        let unit = match self.peek() {
            Kind::Word(word)
                if KEYWORDS.contains(&word.to_lowercase().as_str())
                    && !KEYWORDS.contains(&word.as_str()) =>
            {
                return Err(self.problem(format!(
                    "'{word}' must be in lower case: '{}'",
                    word.to_lowercase()
                )));
            }
            Kind::Word(word) if !KEYWORDS.contains(&word.as_str()) => {
                Some((word.clone(), self.at()))
            }
            _ => None,
        };
        if unit.is_some() {
            self.advance();
        }
        value::number(
            &digits,
            token.at,
            unit.as_ref().map(|(unit, at)| (unit.as_str(), *at)),
            dimension,
        )
    }

    fn api(&mut self) -> Result<String, Problem> {
        let names = || Api::ALL.into_iter().map(Api::name);
        let token = self.advance();
        let all = names().collect::<Vec<_>>().join(", ");
        let Kind::Word(word) = token.kind else {
            return Err(Problem::at(
                token.at,
                format!("the name of an API is needed here: one of {all}"),
            ));
        };
        if names().any(|name| name == word) {
            return Ok(word);
        }
        let near = nearest(&word, names());
        let hint = near.map_or_else(
            || format!("; APIs are {all}"),
            |near| did_you_mean(Some(near)),
        );
        Err(Problem::at(token.at, format!("unknown API '{word}'{hint}")))
    }

    /// The name of a library function, in quotes.
    fn function(&mut self) -> Result<String, Problem> {
        let token = self.advance();
        match token.kind {
            Kind::Quoted(name) | Kind::Word(name)
                if !name.is_empty() && self.peek() != &Kind::Sign(":") =>
            {
                Ok(name)
            }
            Kind::Word(_) | Kind::Quoted(_) => {
                let example = Dimension::Function.example();
                Err(Problem::at(
                    token.at,
                    format!(
                        "the name of a library function is needed here, in quotes, like {example}"
                    ),
                ))
            }
            other => {
                let (needs, example) = (Dimension::Function.name(), Dimension::Function.example());
                Err(Problem::at(
                    token.at,
                    format!(
                        "{needs} is needed here, like {example}, not {}",
                        other.describe()
                    ),
                ))
            }
        }
    }

    fn signal(&mut self) -> Result<Number, Problem> {
        let token = self.advance();
        let Kind::Word(word) = token.kind else {
            return Err(Problem::at(token.at, "a signal is needed here"));
        };
        if let Some(signal) = signal::number(&word) {
            return Ok(Number {
                amount: u64::from(signal.unsigned_abs()),
                dimension: Dimension::Signal,
            });
        }
        let near = nearest(&word, signal::names().chain([NONE]));
        Err(Problem::at(
            token.at,
            format!("unknown signal '{word}'{}", did_you_mean(near)),
        ))
    }
}
