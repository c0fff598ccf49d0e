//! [`CallTable`]: the table of `strace -c`, which has the number of calls and errors of each name.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
};

use crate::{
    syscalls::{Abi, Call, Selection},
    trace::{Ends, Process, Row, Thread},
};

/// The tables of a log.
#[derive(Debug, Default)]
pub struct CallTable {
    /// The columns of the table that is being read, in any order (`-U`); empty: none is.
    columns: Vec<String>,
    /// Whether its calls are those of 32-bit programs.
    is_32_bit: bool,
    /// The sums of each call. The table does not say bytes.
    rows: BTreeMap<Call, Row>,
}

impl CallTable {
    /// Reads a line; `false` if it is none of a table.
    pub fn push(&mut self, line: &[u8]) -> bool {
        if line.contains(&b'(') {
            return false;
        }
        let line = String::from_utf8_lossy(line).replace("% time", "time");
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(mode) = line.strip_prefix("System call usage summary for ") {
            self.is_32_bit = mode.starts_with("32 bit");
        } else if ["calls", "errors", "syscall"]
            .iter()
            .all(|column| words.contains(column))
        {
            self.columns = words.into_iter().map(str::to_owned).collect();
        } else if self.columns.is_empty() || !line.starts_with("------") {
            return self.push_row(&words).is_some();
        }
        true
    }

    /// Adds a row. The cell of the errors is empty if there are none.
    fn push_row(&mut self, words: &[&str]) -> Option<()> {
        let has_errors = words.len() == self.columns.len();
        let columns = self.columns.iter().map(String::as_str);
        let columns = columns.filter(|column| has_errors || *column != "errors");
        let by_column: HashMap<&str, &str> = columns.zip(words.iter().copied()).collect();
        if by_column.len() != words.len() {
            return None;
        }
        let name = *by_column.get("syscall")?;
        let calls = by_column.get("calls")?.parse().ok()?;
        let errors = by_column
            .get("errors")
            .map_or(Ok(0), |errors| errors.parse());
        let errors = errors.ok().filter(|errors| *errors <= calls)?;
        if name == "total" {
            *self = Self {
                rows: mem::take(&mut self.rows),
                ..Self::default()
            };
            return Some(());
        }
        let abi = [Abi::NATIVE, Abi::COMPAT][usize::from(self.is_32_bit)];
        let call = Call::new(name.to_owned(), abi);
        let row = self
            .rows
            .entry(call.clone())
            .or_insert_with(|| Row::unmeasured(call, Ends::default()));
        row.calls = row.calls.saturating_add(calls);
        row.errors = row.errors.saturating_add(errors);
        Some(())
    }

    /// How many calls the tables have.
    pub fn calls(&self) -> u64 {
        let calls = self.rows.values().map(|row| row.calls);
        calls.fold(0, u64::saturating_add)
    }

    /// A process with the calls of the tables, as far as they are selected.
    pub fn into_process(self, selection: &Selection) -> Process {
        let rows = self.rows.into_values();
        Process {
            threads: vec![Thread {
                rows: rows
                    .filter(|row| selection.contains(&row.call.name))
                    .collect(),
                ..Thread::default()
            }],
            ..Process::default()
        }
    }
}
