//! What `zctrace diff` shows: what changed between two reports, in calls, errors, bytes, and the
//! interfaces that moved the bytes.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Not,
};

use serde::Serialize;

use super::{
    call_times::{CallTimes, call_times},
    comparison::{Difference, DifferenceState, compare_figures},
    descriptor_flags::{DescriptorFlags, descriptor_flags},
    tolerance::Tolerances,
};
use crate::{
    report::{self, Api, Certainty, FailedPath, Report, Transfer},
    units::sum_all,
};

/// The version of its JSON. Within a version no field changes its meaning.
pub const SCHEMA: u32 = 1;

/// What changed from one report to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The two reports.
    pub sides: [Side; 2],
    /// The answer.
    pub outcome: DiffOutcome,
    /// How many figures were compared.
    pub compared: usize,
    /// The sums of the calls that were compared.
    pub calls: [u64; 2],
    /// The figures that differ, or that cannot be compared. What differs in every run is not
    /// compared: times, switches, faults, and calls by which threads wait for each other.
    pub figures: Vec<Difference>,
    /// The ways of moving bytes that differ, or that cannot be compared.
    pub transfers: Vec<WayDifference>,
    /// The calls that explain a difference in wall time. They decide nothing.
    pub call_times: Vec<CallTimes>,
    /// The files of both runs that descriptors with different flags used. They decide nothing.
    pub descriptor_flags: Vec<DescriptorFlags>,
    /// The calls that fail now, and that did not fail with this error on this path before. They
    /// explain figures that differ, and decide nothing: a temporary file has another name in every
    /// run. Steps of a search that found its file elsewhere are left out. `None`: unknown.
    pub new_failures: Option<Vec<FailedPath>>,
}

/// One of the two reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Side {
    /// Its command.
    pub command: Vec<String>,
    /// Name of the backend.
    pub backend: String,
    /// Whether its counts are exact.
    pub exact: bool,
    /// Whether it is of a recorded log, as in [`Report::from_log`].
    #[serde(skip_serializing_if = "Not::not")]
    pub from_log: bool,
    /// From the command's successful exec to its end.
    pub wall_ns: Option<u64>,
    /// CPU time of all processes.
    pub cpu_ns: Option<u64>,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffOutcome {
    /// Nothing changed.
    Same,
    /// Something did.
    Changed,
    /// Nothing is known to have changed, but something cannot be compared.
    Inconclusive,
}

impl DiffOutcome {
    /// What `zctrace diff` exits with: 0, 1 or 3, as `zctrace check`.
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::Same => 0,
            Self::Changed => 1,
            Self::Inconclusive => 3,
        }
    }
}

/// The transfers by one interface between ends of these kinds, in both reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WayDifference {
    /// The interface.
    pub api: Api,
    /// The kind of the source; `None`: unknown.
    pub from: Option<String>,
    /// The kind of the destination; `None`: unknown.
    pub to: Option<String>,
    /// Their sums; `None`: there are none.
    pub sums: [Option<WaySums>; 2],
    /// Whether it is known that they differ: [`DifferenceState::Beyond`] or
    /// [`DifferenceState::Unknown`].
    pub state: DifferenceState,
}

/// Sums over transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WaySums {
    /// How many there are.
    pub transfers: u64,
    /// Their bytes. `None`: unknown for one of them.
    pub bytes: Option<u64>,
    /// How many of them were observed.
    pub observed_bytes: Option<u64>,
    /// That of the least certain one.
    pub certainty: Certainty,
}

impl WaySums {
    fn add(&mut self, transfer: &Transfer) {
        self.transfers += transfer.transfer_count();
        self.bytes = sum_all([self.bytes, transfer.bytes]);
        self.observed_bytes = sum_all([self.observed_bytes, transfer.observed_bytes]);
        self.certainty = self.certainty.max(transfer.certainty);
    }
}

impl Diff {
    /// Compares two reports.
    pub fn new(before: &Report, after: &Report) -> Self {
        let found = compare_figures([before, after], &Tolerances::default());
        let transfers = way_differences([before, after]);
        let states = found.differing.iter().map(|figure| figure.state);
        let mut states = states.chain(transfers.iter().map(|way| way.state));
        let outcome = if states.clone().any(|state| state == DifferenceState::Beyond) {
            DiffOutcome::Changed
        } else if states.any(|state| state == DifferenceState::Unknown) {
            DiffOutcome::Inconclusive
        } else {
            DiffOutcome::Same
        };
        Self {
            schema: SCHEMA,
            sides: [before, after].map(Side::from_report),
            outcome,
            compared: found.compared,
            calls: found.calls,
            figures: found.differing,
            transfers,
            call_times: call_times([before, after]),
            descriptor_flags: descriptor_flags([before, after]),
            new_failures: new_failures([before, after]),
        }
    }
}

impl Side {
    /// How far its counts can be trusted, as [`Report::bound`] says it.
    pub fn bound(&self) -> &'static str {
        report::trust_bound(self.exact, self.from_log)
    }

    fn from_report(report: &Report) -> Self {
        Self {
            command: report.command.clone(),
            backend: report.backend.clone(),
            exact: report.exact,
            from_log: report.from_log,
            wall_ns: report.wall_ns,
            cpu_ns: report.totals.usage.cpu_ns(),
        }
    }
}

fn way_differences(reports: [&Report; 2]) -> Vec<WayDifference> {
    let mut all: BTreeMap<_, [Option<WaySums>; 2]> = BTreeMap::new();
    for (side, report) in reports.into_iter().enumerate() {
        for transfer in report.transfers.iter().filter(|one| one.is_transfer()) {
            let kinds = (transfer.from.kind.as_ref(), transfer.to.kind.as_ref());
            let sums = &mut all.entry((transfer.api, kinds)).or_default()[side];
            let none = WaySums {
                transfers: 0,
                bytes: Some(0),
                observed_bytes: Some(0),
                certainty: Certainty::Observed,
            };
            sums.get_or_insert(none).add(transfer);
        }
    }
    all.retain(|(api, _), [before, after]| !are_alike(*api, *before, *after));
    let mut differences = Vec::new();
    for ((api, (from, to)), sums) in all {
        let mut certainties = sums.iter().flatten().map(|sums| sums.certainty);
        let are_known = certainties.all(|certainty| certainty == Certainty::Observed)
            && reports.iter().all(|report| knows_all(report, api));
        differences.push(WayDifference {
            api,
            from: from.cloned(),
            to: to.cloned(),
            sums,
            state: if are_known {
                DifferenceState::Beyond
            } else {
                DifferenceState::Unknown
            },
        });
    }
    differences
}

/// Whether transfers by one interface are the same in both reports. Through memory, how many bytes
/// have a source varies with the sizes that calls deliver; the bytes of the calls are compared
/// by themselves.
fn are_alike(api: Api, before: Option<WaySums>, after: Option<WaySums>) -> bool {
    let (Some(before), Some(after)) = (before, after) else {
        return before.is_none() && after.is_none();
    };
    let is_through_memory = matches!(
        api,
        Api::ReadWrite | Api::MmapWrite | Api::Vmsplice | Api::IoUring
    );
    before.transfers == after.transfers && (is_through_memory || before.bytes == after.bytes)
}

/// The calls that fail now and did not before. What failed before must be known in full.
fn new_failures([before, after]: [&Report; 2]) -> Option<Vec<FailedPath>> {
    let all = |report: &Report| {
        let mut all = report.totals.failed_paths.clone()?;
        all.extend_from_slice(&report.totals.failed_without_path);
        Some(all)
    };
    let key = |one: &FailedPath| {
        let FailedPath {
            path, second_path, ..
        } = one;
        (
            one.syscall.clone(),
            one.errno.clone(),
            path.clone(),
            second_path.clone(),
        )
    };
    let earlier = all(before).filter(|_| before.totals.failed_paths_complete)?;
    let earlier: BTreeSet<_> = earlier.iter().map(key).collect();
    let is_new = |one: &FailedPath| !one.name_found && !earlier.contains(&key(one));
    Some(all(after)?.into_iter().filter(is_new).collect())
}

/// Whether the transfers of a report by this interface are all that there were.
fn knows_all(report: &Report, api: Api) -> bool {
    // A call that names both ends is a transfer by itself.
    let knows_calls = |names: &[&str]| {
        let counted = report.counted.as_ref();
        let counts = |name: &&str| counted.is_some_and(|counted| counted.contains(name));
        report.exact && report.calls_without_files == 0 && names.iter().all(counts)
    };
    match api {
        Api::Sendfile | Api::Splice | Api::Tee | Api::CopyFileRange => knows_calls(&[api.name()]),
        Api::Reflink => knows_calls(&["ioctl(FICLONE)", "ioctl(FICLONERANGE)"]),
        Api::ReadWrite | Api::MmapWrite | Api::Vmsplice | Api::IoUring => {
            report.sees_memory && knows_calls(&[])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        golden::{GoldenCase, check_golden},
        report::sample::files::Scene,
    };

    #[test]
    fn changes_are_told_from_what_is_not_known_as_the_golden_file_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/figures/tests/diffs.txt");
        check_golden(path, GoldenCase::Lines, |case| {
            let (before, after) = case.split_once("and\n").expect("two reports");
            let [before, after] = [before, after].map(|text| Scene::read(text).report());
            let diff = Diff::new(&before, &after);
            assert!(diff.compared >= 4, "{diff:?}");
            let figures = diff.figures.iter().map(|figure| figure.metric.clone());
            let way = |way: &WayDifference| {
                let bytes = way.sums.map(|sums| sums.and_then(|sums| sums.bytes));
                format!("{} {bytes:?} {:?}", way.api.name(), way.state)
            };
            let mut lines: Vec<String> = figures.chain(diff.transfers.iter().map(way)).collect();
            for failure in diff.new_failures.iter().flatten() {
                let path = failure.path.as_deref().unwrap_or("no path");
                lines.push(format!(
                    "fails now: {} {path} ({})",
                    failure.errno, failure.syscall
                ));
            }
            for call in &diff.call_times {
                lines.push(format!(
                    "{} took {:?} ns in {:?} calls",
                    call.syscall, call.total_ns, call.calls
                ));
            }
            for file in &diff.descriptor_flags {
                lines.push(format!("{}: {:?}", file.path, file.open_flags));
            }
            let (outcome, status) = (diff.outcome, diff.outcome.exit_status());
            lines.push(format!("{outcome:?}, exit status {status}"));
            lines.join("\n")
        });
    }
}
