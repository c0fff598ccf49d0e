//! Two reports of the same command, one by each backend, side by side. Pure.

mod transfers;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

pub use transfers::{Figures as MovedFigures, Moved};

use crate::report::{Report, Syscall};

/// What both backends counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The command.
    pub command: Vec<String>,
    /// Names of the two backends.
    pub backends: [String; 2],
    /// Whether each of them counted exactly.
    pub exact: [bool; 2],
    /// Whether both counted the same.
    pub equal: bool,
    /// Every call that either of them saw, by name and ABI.
    pub rows: Vec<Row>,
    /// Every transfer that either of them saw.
    pub transfers: Vec<Moved>,
}

/// One call under both backends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Name of the call.
    pub name: String,
    /// Whose numbering it came through.
    pub abi: String,
    /// What each backend counted.
    pub figures: [Figures; 2],
    /// Whether these are the same.
    pub equal: bool,
}

/// The figures that must not depend on the backend. Times do: what traces also slows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// How often the call returned.
    pub calls: u64,
    /// How often it failed, by errno name.
    pub errnos: BTreeMap<String, u64>,
    /// What it returned as moved.
    pub bytes: Option<u64>,
    /// What it asked for.
    pub requested_bytes: Option<u64>,
}

impl Comparison {
    /// Compares the totals and the transfers of two reports on the same command.
    pub fn new(first: &Report, second: &Report) -> Self {
        let calls = [first, second].map(|report| report.totals.syscalls.as_slice());
        let names: BTreeSet<(&str, &str)> =
            calls.iter().flat_map(|calls| calls.iter().map(|call| (call.name.as_str(), call.abi.as_str()))).collect();
        let rows: Vec<Row> = names.into_iter().map(|name| Row::new(name, calls)).collect();
        let transfers = transfers::compare([first, second]);
        Self {
            command: first.command.clone(),
            backends: [first, second].map(|report| report.backend.clone()),
            exact: [first, second].map(|report| report.exact),
            equal: rows.iter().all(|row| row.equal) && transfers.iter().all(|moved| moved.equal),
            rows,
            transfers,
        }
    }
}

impl Row {
    fn new((name, abi): (&str, &str), calls: [&[Syscall]; 2]) -> Self {
        let figures = calls.map(|calls| {
            let call = calls.iter().find(|call| call.name == name && call.abi == abi);
            call.map(Figures::of).unwrap_or_default()
        });
        Self { name: name.to_owned(), abi: abi.to_owned(), equal: figures[0].agrees_with(&figures[1]), figures }
    }
}

impl Figures {
    /// Whether nothing that both know differs. What one of them cannot know (strace does not show the vector of a `readv` that
    /// failed, say) is `None` there.
    fn agrees_with(&self, other: &Self) -> bool {
        let agree = |a: Option<u64>, b: Option<u64>| a.zip(b).is_none_or(|(a, b)| a == b);
        self.calls == other.calls
            && self.errnos == other.errnos
            && agree(self.bytes, other.bytes)
            && agree(self.requested_bytes, other.requested_bytes)
    }

    fn of(call: &Syscall) -> Self {
        Self { calls: call.calls, errnos: call.errnos.clone(), bytes: call.bytes, requested_bytes: call.requested_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(calls: u64, bytes: Option<u64>) -> Figures {
        Figures { calls, bytes, ..Figures::default() }
    }

    #[test]
    fn what_one_backend_cannot_know_is_no_difference() {
        assert!(figures(1, None).agrees_with(&figures(1, Some(5))));
        assert!(!figures(1, Some(4)).agrees_with(&figures(1, Some(5))));
        assert!(!figures(2, None).agrees_with(&figures(1, Some(5))));
    }
}
