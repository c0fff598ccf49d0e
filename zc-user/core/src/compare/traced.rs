//! The traced run of a command: by which interfaces it moved its bytes, and how many at a time.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use serde::Serialize;

use crate::{
    report::{Api, Exit, Report, Totals},
    syscalls::Selection,
    transfer::Transfer,
};

/// The figures of a command's traced run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Traced {
    /// Name of the backend.
    pub backend: String,
    /// Whether every number is exact. If not, they are lower bounds, and `losses` says why.
    pub exact: bool,
    /// How numbers were lost, and how often.
    pub losses: BTreeMap<String, u64>,
    /// What the report lacks without being wrong, each a sentence.
    pub notes: Vec<String>,
    /// How it ended.
    pub exit: Exit,
    /// Which calls were counted.
    pub counted: Option<Selection>,
    /// How many counted calls returned, over all processes.
    pub syscalls: u64,
    /// Mean bytes of the calls that moved bytes for its transfers, precise to less than a byte.
    /// `None`: unknown, or there are no transfers.
    pub bytes_per_call: Option<f64>,
    /// The interfaces of its transfers, the one that moved most first, unknown bytes last. `None`:
    /// there are no transfers.
    pub apis: Option<Vec<String>>,
    /// All counts of the report.
    pub totals: Totals,
}

impl Traced {
    /// Takes from a report what a comparison shows.
    pub(super) fn from_report(report: Report) -> Self {
        // Those over several processes consist of those within each.
        let all = report.transfers.iter();
        let transfers: Vec<&Transfer> = all
            .filter(|transfer| !transfer.crosses_processes() && transfer.is_transfer())
            .collect();
        Self {
            syscalls: report.totals.syscalls.iter().map(|call| call.calls).sum(),
            bytes_per_call: bytes_per_call(&transfers),
            apis: Some(names_by_bytes(&transfers)).filter(|names| !names.is_empty()),
            counted: report.counted,
            backend: report.backend,
            exact: report.exact,
            losses: report.losses,
            notes: report.notes,
            exit: report.exit,
            totals: report.totals,
        }
    }
}

/// The names of the interfaces, the one that moved most first.
fn names_by_bytes(transfers: &[&Transfer]) -> Vec<String> {
    let apis: BTreeSet<Api> = transfers.iter().map(|transfer| transfer.api).collect();
    let bytes = |api: Api| {
        let moved = transfers.iter().filter(|transfer| transfer.api == api);
        let bytes = moved.filter_map(|transfer| transfer.bytes);
        bytes.fold(0, u64::saturating_add)
    };
    let mut apis: Vec<Api> = apis.into_iter().collect();
    apis.sort_by_key(|api| Reverse(bytes(*api)));
    apis.into_iter().map(|api| api.name().to_owned()).collect()
}

/// The mean of all calls that moved bytes; `None` if unknown for one of them. A reflink shares
/// blocks and moves no bytes.
#[expect(
    clippy::cast_precision_loss,
    reason = "a mean is not a count: an error in its 16th digit does not matter"
)]
fn bytes_per_call(transfers: &[&Transfer]) -> Option<f64> {
    let (mut bytes, mut calls) = (0.0, 0.0);
    for transfer in transfers {
        if transfer.api != Api::Reflink && transfer.bytes != Some(0) {
            let moved = transfer.bytes? as f64;
            bytes += moved;
            calls += moved / transfer.mean_bytes? as f64;
        }
    }
    (calls > 0.0).then(|| bytes / calls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::files::scene;

    #[test]
    fn the_transfers_give_the_interfaces_and_the_size_of_calls() {
        let scene = scene(
            "copier: copy_file_range in->out 4 1M +1, sendfile in->log 1 18, \
             ioctl(FICLONE) in->out 1 0, read in 1 1M, write log 1 100",
        );
        let report = scene.report();
        let counted: u64 = report.totals.syscalls.iter().map(|row| row.calls).sum();
        let found = Traced::from_report(report);
        let apis = found.apis.unwrap_or_default();
        assert_eq!(apis, ["copy_file_range", "sendfile", "reflink"]);
        assert_eq!(found.syscalls, counted);
        let mean = found.bytes_per_call.expect("they moved bytes");
        assert!((mean - 209_718.8).abs() < 0.1, "{mean}");
    }

    #[test]
    fn without_transfers_there_is_no_interface() {
        let found = Traced::from_report(scene("wc: read in 4 1M").report());
        assert_eq!((found.apis, found.bytes_per_call), (None, None));
    }
}
