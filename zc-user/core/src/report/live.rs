//! [`LiveReport`]: what the live view shows every second of a trace. The sums of a [`Report`](super::Report) by
//! call, which take most of its time, are not among it.

use super::{FileTotals, Transfer, fold::is_exact, sums};
use crate::{trace::Trace, transfer::analyse_trace};

/// What was found in a trace, without the sums by call.
#[derive(Debug)]
pub struct LiveReport {
    /// As [`Report::transfers`](super::Report::transfers).
    pub transfers: Vec<Transfer>,
    /// For each of the trace's processes: the places of the transfers within it.
    pub transfers_of_processes: Vec<Vec<usize>>,
    /// As [`Report::files`](super::Report::files).
    pub files: Vec<FileTotals>,
    /// As [`Report::exact`](super::Report::exact).
    pub is_exact: bool,
}

impl LiveReport {
    /// Derives it from a trace.
    pub fn from_trace(trace: &Trace) -> Self {
        let analysis = analyse_trace(trace);
        Self {
            transfers: analysis.transfers,
            transfers_of_processes: analysis.transfers_of_processes,
            files: sums::file_totals(trace),
            is_exact: is_exact(trace),
        }
    }
}
