//! [`CallTable`]: the table of `strace -c`, which has the number of calls and errors of each name.

use std::collections::BTreeMap;

use super::syntax::decimal;
use crate::{
    syscalls::{Abi, Call, Returned, Selection},
    trace::{Ends, Process, Row, Thread},
};

/// The tables of a log.
#[derive(Debug, Default)]
pub struct CallTable {
    /// The columns of the table that is being read; empty: none is.
    columns: Vec<String>,
    /// Whether its calls are those of 32-bit programs.
    is_32_bit: bool,
    /// Calls and errors by call.
    sums: BTreeMap<Call, (u64, u64)>,
}

impl CallTable {
    /// Reads a line; `false` if it is none of a table.
    pub fn push(&mut self, line: &[u8]) -> bool {
        let line = String::from_utf8_lossy(line);
        let line = line.trim();
        if let Some(mode) = line.strip_prefix("System call usage summary for ") {
            self.is_32_bit = mode.starts_with("32 bit");
            return true;
        }
        if let Some(columns) = header(line) {
            self.columns = columns;
            return true;
        }
        !self.columns.is_empty() && (line.starts_with("------") || self.push_row(line))
    }

    /// Adds a row. The cell of the errors is empty if there are none.
    fn push_row(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_whitespace().collect();
        let lacks_errors = words.len() + 1 == self.columns.len();
        let columns: Vec<&str> = self
            .columns
            .iter()
            .map(String::as_str)
            .filter(|column| !(lacks_errors && *column == "errors"))
            .collect();
        if words.len() != columns.len() {
            return false;
        }
        let cell = |name: &str| {
            columns
                .iter()
                .zip(&words)
                .find(|(column, _)| **column == name)
        };
        let number = |name: &str| {
            let (number, rest) = decimal(cell(name)?.1.as_bytes())?;
            rest.is_empty().then_some(number)
        };
        let (Some(name), Some(calls)) = (cell("syscall"), number("calls")) else {
            return false;
        };
        let errors = number("errors").unwrap_or(0);
        if *name.1 == "total" {
            self.columns.clear();
            self.is_32_bit = false;
        } else if errors <= calls {
            let abi = if self.is_32_bit {
                Abi::COMPAT
            } else {
                Abi::NATIVE
            };
            let sum = self
                .sums
                .entry(Call::new((*name.1).to_owned(), abi))
                .or_default();
            *sum = (sum.0.saturating_add(calls), sum.1.saturating_add(errors));
        }
        true
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// How many calls the tables have.
    pub fn calls(&self) -> u64 {
        let calls = self.sums.values().map(|(calls, _)| *calls);
        calls.fold(0, u64::saturating_add)
    }

    /// A process with the calls of the tables, as far as they are selected.
    pub fn into_process(self, selection: &Selection) -> Process {
        let selected = self.sums.into_iter();
        let selected = selected.filter(|(call, _)| selection.contains(&call.name));
        Process {
            threads: vec![Thread {
                rows: selected.map(row).collect(),
                ..Thread::default()
            }],
            ..Process::default()
        }
    }
}

/// A row without bytes: the table does not say them.
fn row((call, (calls, errors)): (Call, (u64, u64))) -> Row {
    let moves_bytes = call.spec().returned == Returned::Bytes;
    let row = Row::new(call, Ends::default());
    Row {
        calls,
        errors,
        bytes: row.bytes.filter(|_| !moves_bytes),
        requested_bytes: None,
        ..row
    }
}

/// The columns of a header: `% time     seconds  usecs/call     calls    errors syscall`, in any
/// order (`-U`).
fn header(line: &str) -> Option<Vec<String>> {
    let line = line.replace("% time", "time");
    let columns: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let has = |name: &str| columns.iter().any(|column| column == name);
    (has("calls") && has("syscall") && columns.len() <= 10 && !line.contains('('))
        .then_some(columns)
}
