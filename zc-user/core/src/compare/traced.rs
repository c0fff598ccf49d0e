//! What the traced run of a command says.

use std::collections::BTreeMap;

use serde::Serialize;

use super::api::Work;
use crate::report::{Counted, Exit, Report, Totals};

/// What the traced run of a command says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Traced {
    /// Name of the backend.
    pub backend: String,
    /// Whether every number is exact; if not they are lower bounds, and `losses` says why.
    pub exact: bool,
    /// Ways in which numbers were lost, with how often.
    pub losses: BTreeMap<String, u64>,
    /// What the report lacks without being wrong.
    pub notes: Vec<String>,
    /// How it ended.
    pub exit: Exit,
    /// Which calls were counted.
    pub counted: Option<Counted>,
    /// How often these returned, of all processes.
    pub syscalls: u64,
    /// Mean of what a call moved that some API of `apis` made: of transfers, each call that moved some at the destination, to less than a
    /// byte; of what was only read or written, also the calls that met its end. If not all calls that move data were counted, the
    /// mean of the counted ones that succeeded. `None`: they do not tell, or moved nothing.
    pub bytes_per_call: Option<f64>,
    /// The APIs that did the work, the one that moved most first: those of the transfers, else what was only read or only written. Empty
    /// if nothing was moved. `None`: unknown, since calls that move data were not counted, or so little was read (64 KiB) that the loader
    /// may have done it.
    pub apis: Option<Vec<String>>,
    /// All counts of the report.
    pub totals: Totals,
}

impl Traced {
    /// What this report says.
    pub(super) fn of(report: Report) -> Self {
        let Work { apis, bytes_per_call } = Work::of(&report);
        Self {
            counted: report.counted,
            syscalls: report.totals.syscalls.iter().map(|call| call.calls).sum(),
            bytes_per_call,
            apis,
            backend: report.backend,
            exact: report.exact,
            losses: report.losses,
            notes: report.notes,
            exit: report.exit,
            totals: report.totals,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{compare::sample::report, report::sample::row, trace::Row};

    fn traced(rows: Vec<Row>) -> Traced {
        Traced::of(report(rows))
    }

    #[test]
    fn calls_are_all_bytes_per_call_are_of_those_that_moved_some() {
        let found = traced(vec![
            row("read").called(3).bytes(4096),
            row("write").called(1).bytes(4096),
            row("sendfile").failed(libc::EINVAL, 5),
            row("mmap").called(7).requested(1 << 20),
        ]);
        assert_eq!(found.syscalls, 16);
        assert_eq!(found.bytes_per_call, Some(2048.0));
    }

    #[test]
    fn without_bytes_there_is_no_mean() {
        assert_eq!(traced(vec![row("mmap").called(7)]).bytes_per_call, None);
        assert_eq!(traced(vec![row("read").bytes(0).failed(libc::EIO, 1)]).bytes_per_call, None);
    }
}
