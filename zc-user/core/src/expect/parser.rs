//! Tokens -> tree: whether figures hold, joined by `and`, `or`, `not` and parentheses.

mod comparison;
mod figure;

use super::{
    ast::Expr,
    error::Problem,
    lexer::{Kind, Token, tokens},
};

pub(super) use comparison::NONE;

/// How deep parentheses and `not` may be nested.
const DEEPEST: usize = 64;

/// The tree of a text.
pub(super) fn parse(text: &str) -> Result<Expr, Problem> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let expr = parser.any()?;
    match parser.peek() {
        Kind::End => Ok(expr),
        Kind::Sign("=" | "==" | "!=" | "<" | "<=" | ">" | ">=") => {
            Err(parser.problem("one comparison at a time: join two with 'and', or write a range: 'in 1..=10'"))
        }
        other => Err(parser.problem(format!("{} cannot stand here: 'and', 'or' or the end is expected", other.describe()))),
    }
}

/// The tokens, and how far they are read.
struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

impl Parser {
    /// Something, or something else, ...
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
        Ok(if rest.is_empty() { first } else { join(std::iter::once(first).chain(rest).collect()) })
    }

    fn not(&mut self) -> Result<Expr, Problem> {
        let is_not = self.peek() == &Kind::Word("not".into());
        if !is_not && self.peek() != &Kind::Sign("(") {
            return Ok(Expr::Comparison(Box::new(self.comparison()?)));
        }
        if self.depth == DEEPEST {
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
        // The last one is the end, which is never passed.
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

    /// Whether the next token is this word; if it is, it is read.
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

    /// The next token must be this sign.
    fn take_sign(&mut self, sign: &str) -> Result<(), Problem> {
        if self.take_if_sign(sign) {
            return Ok(());
        }
        Err(self.problem(format!("'{sign}' is expected here, not {}", self.peek().describe())))
    }

    /// A problem with the next token.
    fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::at(self.at(), message)
    }
}
