//! A case's own arguments.

use std::vec;

use anyhow::{Context, Result, bail};

/// The arguments after the case's name, taken one by one.
pub(crate) struct Parameters(vec::IntoIter<String>);

impl Parameters {
    /// All arguments of a case.
    pub(crate) fn new(arguments: impl Iterator<Item = String>) -> Self {
        Self(arguments.collect::<Vec<_>>().into_iter())
    }

    /// The next argument as a count that is at least 1, or `default` if there is none.
    pub(crate) fn count(&mut self, default: usize) -> Result<usize> {
        let Some(text) = self.0.next() else { return Ok(default) };
        let count = text.parse().ok().filter(|count| *count > 0);
        count.with_context(|| format!("{text:?} is not a count"))
    }

    /// The next argument as it stands.
    pub(crate) fn text(&mut self) -> Option<String> {
        self.0.next()
    }

    /// All arguments that are left.
    pub(crate) fn rest(self) -> Vec<String> {
        self.0.collect()
    }

    /// Refuses an argument that nobody asked for.
    pub(crate) fn end(mut self) -> Result<()> {
        match self.0.next() {
            None => Ok(()),
            Some(extra) => bail!("unexpected argument {extra:?}"),
        }
    }
}
