//! The calls that explain why one run took longer than another. They decide nothing, because times
//! vary with the load of the machine.

use std::{cmp::Reverse, collections::BTreeMap};

use serde::Serialize;

use super::list::{Steadiness, steadiness_of};
use crate::{counts::CallSums, report::Report};

/// A call that took longer in the run that took longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallTimes {
    /// The name of the call.
    pub syscall: String,
    /// How many returned, in both runs.
    pub calls: [u64; 2],
    /// The sums of their times, in both runs.
    pub total_ns: [u64; 2],
}

/// How many calls are named.
const MAX_CALLS: usize = 3;
/// Runs whose wall times differ by less than this, or by less than this fraction of the longer one,
/// need no explanation.
const MIN_DIFFERENCE_NS: u64 = 1_000_000;
const MIN_FRACTION_OF_WALL: u64 = 4;
/// A call explains a difference if at least this fraction of it was in the call.
const MIN_FRACTION_OF_DIFFERENCE: u64 = 10;

/// The calls that explain the difference in wall time between two runs, those that explain most
/// first. Calls by which threads wait for each other are left out: what they wait for explains it.
pub(super) fn call_times(reports: [&Report; 2]) -> Vec<CallTimes> {
    let [Some(before), Some(after)] = reports.map(|report| report.wall_ns) else {
        return Vec::new();
    };
    let difference = before.abs_diff(after);
    let are_alike = reports[0].backend == reports[1].backend
        && reports[0].counted == reports[1].counted
        && reports[0].paths == reports[1].paths;
    if !are_alike
        || difference < MIN_DIFFERENCE_NS
        || difference < before.max(after) / MIN_FRACTION_OF_WALL
    {
        return Vec::new();
    }
    let longer_by = |call: &CallTimes| {
        let [first, second] = call.total_ns;
        if before > after {
            first.saturating_sub(second)
        } else {
            second.saturating_sub(first)
        }
    };
    let mut calls = times_of_both(reports);
    calls.retain(|call| longer_by(call) >= difference / MIN_FRACTION_OF_DIFFERENCE);
    calls.sort_by_key(|call| Reverse(longer_by(call)));
    calls.truncate(MAX_CALLS);
    calls
}

/// The calls of which both runs know how long they took.
fn times_of_both(reports: [&Report; 2]) -> Vec<CallTimes> {
    let none = [CallSums::NONE; 2];
    let mut sums: BTreeMap<String, [CallSums; 2]> = BTreeMap::new();
    for (side, report) in reports.into_iter().enumerate() {
        for row in report.totals.all_calls() {
            sums.entry(row.name).or_insert(none)[side] += row.counts.sums;
        }
    }
    let both = sums.into_iter().filter_map(|(syscall, [before, after])| {
        Some(CallTimes {
            syscall,
            calls: [before.calls, after.calls],
            total_ns: [before.total_ns?, after.total_ns?],
        })
    });
    both.filter(|call| steadiness_of(&call.syscall) == Steadiness::Steady)
        .collect()
}
