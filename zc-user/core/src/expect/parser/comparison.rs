//! A figure, and what it is compared with.

use super::{Kind, Parser, Problem};
use crate::{
    expect::{
        ast::{Comparison, Equality, Figure, Number, Op, Range, Test},
        field::Dimension,
        value,
    },
    report::Api,
    signal, suggest,
};

/// Stands for a status, or a signal, that there is not.
pub(in crate::expect) const NONE: &str = "none";
/// Words that are no units.
const KEYWORDS: [&str; 4] = ["and", "or", "not", "in"];

impl Parser {
    pub(super) fn comparison(&mut self) -> Result<Comparison, Problem> {
        let figure = self.figure()?;
        let test = self.test(&figure)?;
        Ok(Comparison { figure, test })
    }

    fn test(&mut self, figure: &Figure) -> Result<Test, Problem> {
        let dimension = figure.dimension();
        if self.take_word("in") {
            if matches!(dimension, Dimension::Api | Dimension::Signal) {
                return Err(self.problem(format!("{figure} is {}: there are no ranges of them", dimension.name())));
            }
            return self.range(dimension).map(Test::In);
        }
        let op = self.op(figure)?;
        let equality = match op {
            Op::Equal => Some(Equality::Equal),
            Op::NotEqual => Some(Equality::NotEqual),
            _ => None,
        };
        if matches!(dimension, Dimension::Api | Dimension::Signal) && equality.is_none() {
            let at = self.tokens[self.next - 1].at;
            return Err(Problem::at(at, format!("{figure} is {}: only == and != compare it", dimension.name())));
        }
        match (dimension, equality) {
            (Dimension::Api, Some(equality)) => self.api().map(|api| Test::Word(equality, api)),
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
                    return Err(Problem::at(at, "before a range stands 'in', not a sign"));
                }
                if let Some(most) = dimension.most().filter(|most| number.amount > *most) {
                    return Err(Problem::at(at, format!("{} is at most {most}", dimension.name())));
                }
                Ok(Test::Number(op, number))
            }
        }
    }

    fn op(&mut self, figure: &Figure) -> Result<Op, Problem> {
        let Kind::Sign(sign) = *self.peek() else {
            let found = self.peek().describe();
            let example = figure.dimension().example();
            return Err(self.problem(format!("{found} cannot stand here: {figure} is compared, as in '{figure} == {example}'")));
        };
        if sign == "=" {
            return Err(self.problem("to compare, write '=='"));
        }
        let op = Op::ALL.iter().find(|(known, _)| *known == sign).map(|(_, op)| *op);
        let op = op.ok_or_else(|| self.problem(format!("'{sign}' compares nothing: write one of == != < <= > >= in")))?;
        self.advance();
        Ok(op)
    }

    fn range(&mut self, dimension: Dimension) -> Result<Range, Problem> {
        let at = self.at();
        let first = self.number(dimension)?;
        let is_inclusive = self.take_if_sign("..=");
        if !is_inclusive && !self.take_if_sign("..") {
            let example = dimension.example();
            return Err(self
                .problem(format!("after 'in' stands a range, like {first}..={example} (with its last) or {first}..{example}")));
        }
        let last = self.number(dimension)?;
        if first.amount > last.amount || (first.amount == last.amount && !is_inclusive) {
            return Err(Problem::at(at, format!("there is nothing in {}", Range { first, last, is_inclusive })));
        }
        Ok(Range { first, last, is_inclusive })
    }

    fn number(&mut self, dimension: Dimension) -> Result<Number, Problem> {
        let token = self.advance();
        let Kind::Number(digits) = token.kind else {
            let (needs, example) = (dimension.name(), dimension.example());
            return Err(Problem::at(token.at, format!("{needs} is needed here, like {example}, not {}", token.kind.describe())));
        };
        let unit = match self.peek() {
            Kind::Word(word) if KEYWORDS.contains(&word.to_lowercase().as_str()) && !KEYWORDS.contains(&word.as_str()) => {
                return Err(self.problem(format!("'{word}' is written in small letters: '{}'", word.to_lowercase())));
            }
            Kind::Word(word) if !KEYWORDS.contains(&word.as_str()) => Some((word.clone(), self.at())),
            _ => None,
        };
        if unit.is_some() {
            self.advance();
        }
        value::number(&digits, token.at, unit.as_ref().map(|(unit, at)| (unit.as_str(), *at)), dimension)
    }

    fn api(&mut self) -> Result<String, Problem> {
        let names = || Api::ALL.into_iter().map(Api::name);
        let token = self.advance();
        let all = names().collect::<Vec<_>>().join(", ");
        let Kind::Word(word) = token.kind else {
            return Err(Problem::at(token.at, format!("the name of an API is needed here: one of {all}")));
        };
        if names().any(|name| name == word) {
            return Ok(word);
        }
        let near = suggest::nearest(&word, names());
        let hint = near.map_or_else(|| format!("; there is {all}"), |near| suggest::hint(Some(near)));
        Err(Problem::at(token.at, format!("unknown API '{word}'{hint}")))
    }

    fn signal(&mut self) -> Result<Number, Problem> {
        let token = self.advance();
        let Kind::Word(word) = token.kind else { return Err(Problem::at(token.at, "a signal is needed here")) };
        if let Some(signal) = signal::number(&word) {
            return Ok(Number { amount: u64::from(signal.unsigned_abs()), dimension: Dimension::Signal });
        }
        let near = suggest::nearest(&word, signal::names().chain([NONE]));
        Err(Problem::at(token.at, format!("unknown signal '{word}'{}", suggest::hint(near))))
    }
}
