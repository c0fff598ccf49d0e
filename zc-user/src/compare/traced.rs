//! What the traced run of a command says.

use std::collections::BTreeMap;

use serde::Serialize;

use super::api::apis_of;
use crate::report::{Exit, Report, Syscall, Totals};

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
    /// How often the counted calls returned, of all processes.
    pub syscalls: u64,
    /// Mean of what a call moved that succeeded, of those that tell; `None` if there is none, or if calls moved bytes and did not tell
    /// how many.
    pub bytes_per_call: Option<f64>,
    /// The APIs that did the work, the one that moved most first.
    pub apis: Vec<String>,
    /// All counts of the report.
    pub totals: Totals,
}

impl Traced {
    /// What this report says.
    pub(super) fn of(report: Report) -> Self {
        Self {
            syscalls: report.totals.syscalls.iter().map(|call| call.calls).sum(),
            bytes_per_call: bytes_per_call(&report.totals.syscalls),
            apis: apis_of(&report),
            backend: report.backend,
            exact: report.exact,
            losses: report.losses,
            notes: report.notes,
            exit: report.exit,
            totals: report.totals,
        }
    }
}

/// Calls that move bytes and do not tell how many.
const SILENT: &[&str] = &["sendmmsg", "recvmmsg", "recvmmsg_time64", "io_uring_enter"];

#[expect(clippy::cast_precision_loss, reason = "a mean is no count: its error in the 16th digit does not matter")]
fn bytes_per_call(calls: &[Syscall]) -> Option<f64> {
    let succeeded = |call: &Syscall| call.calls.saturating_sub(call.errors);
    if calls.iter().any(|call| SILENT.contains(&call.name.as_str()) && succeeded(call) > 0) {
        return None;
    }
    let telling = || calls.iter().filter_map(|call| Some((call.bytes?, succeeded(call)))).filter(|(_, calls)| *calls > 0);
    let bytes = telling().try_fold(0_u64, |sum, (bytes, _)| sum.checked_add(bytes))?;
    let calls: u64 = telling().map(|(_, calls)| calls).sum();
    (calls > 0).then(|| bytes as f64 / calls as f64)
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
            row("write").called(1).bytes(4096).failed(libc::EAGAIN, 5),
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

    #[test]
    fn bytes_that_were_moved_in_silence_make_the_mean_unknown() {
        assert_eq!(traced(vec![row("read").called(1).bytes(832), row("io_uring_enter").called(9)]).bytes_per_call, None);
        let failed = traced(vec![row("read").called(1).bytes(832), row("io_uring_enter").failed(libc::EPERM, 1)]);
        assert_eq!(failed.bytes_per_call, Some(832.0));
    }
}
