//! By which kernel API a command moved its bytes, and how many at a time.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
};

use super::half::{Half, Side};
use crate::{
    report::{Api, Counted, Report, Syscall},
    syscall::{Call, Fds, Spec, TABLE},
    transfer::api_of_call,
};

/// What moved less than one part in so many of all known bytes is not worth its name.
const NEGLIGIBLE: u64 = 10;

/// What is only read or only written, up to so many bytes, says nothing of a command's work: the loader looks at libraries, the C
/// library at a locale, and a program prints a line.
const NOISE_BYTES: u64 = 64 << 10;

/// How a command did its work.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Work {
    /// The APIs that did it, the one that moved most first; those of which the bytes are unknown come last. Empty if nothing was moved.
    pub(super) apis: Option<Vec<String>>,
    /// Mean of what one of their calls moved, if they all tell.
    pub(super) bytes_per_call: Option<f64>,
}

/// What one API moved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moved {
    pub(super) api: &'static str,
    /// `None`: its calls do not tell.
    pub(super) bytes: Option<u64>,
    /// By each of its calls; `None`: unknown.
    pub(super) mean_bytes: Option<f64>,
}

impl Work {
    /// That of the transfers, and of calls that are an API by themselves. What was only read, or only written, is the command's work if
    /// there is nothing else, or less.
    pub(super) fn of(report: &Report) -> Self {
        if report.counted.as_ref().is_some_and(|counted| !counts_all_data(counted)) {
            // Of a part of the work nobody can tell what it was a part of; how much those calls moved, they say themselves.
            return Self { apis: None, bytes_per_call: mean_of_calls(&report.totals.syscalls) };
        }
        let (mut moved, halves) = moved(report);
        let is_alone = moved.is_empty();
        let least = moved.iter().filter_map(|moved| moved.bytes).fold(0, u64::saturating_add).max(NOISE_BYTES);
        let is_work = |half: &&Half<'_>| match half.bytes() {
            // No loader writes.
            Some(bytes) => bytes > least || (is_alone && half.side == Side::Written && bytes > 0),
            None => is_alone,
        };
        moved.extend(halves.iter().filter(is_work).filter_map(Half::moved));
        if moved.is_empty() {
            let is_idle = halves.iter().all(|half| half.bytes() == Some(0));
            return Self { apis: is_idle.then(Vec::new), bytes_per_call: None };
        }
        let apis = ranked(&moved);
        moved.retain(|moved| apis.iter().any(|api| api == moved.api));
        Self { bytes_per_call: mean_of(&moved), apis: Some(apis) }
    }
}

/// Whether every call that moves bytes was counted.
fn counts_all_data(counted: &Counted) -> bool {
    TABLE.iter().filter(|spec| moves_bytes(spec)).all(|spec| counted.contains(spec.name))
}

fn moves_bytes(spec: &Spec) -> bool {
    !matches!(spec.fds, Fds::None | Fds::On(_)) || spec.name == "io_uring_enter"
}

/// What went from one end to another, and the two halves of which the other end is not known.
fn moved(report: &Report) -> (Vec<Moved>, [Half<'_>; 2]) {
    let mut moved: Vec<Moved> = transfers(report).chain(direct_calls(report)).collect();
    let halves = [Half::of(report, Side::Read), Half::of(report, Side::Written)];
    let [read, written] = halves.each_ref().map(|half| half.where_file_is_known(false));
    match loop_of(&read, &written) {
        None => (moved, halves),
        Some(relay) => {
            moved.push(relay);
            (moved, halves.map(|half| half.where_file_is_known(true)))
        }
    }
}

fn transfers(report: &Report) -> impl Iterator<Item = Moved> {
    let transfers = report.processes.iter().flat_map(|process| &process.transfers);
    transfers.map(|transfer| Moved {
        api: transfer.api.name(),
        bytes: transfer.bytes,
        mean_bytes: transfer.mean_bytes.and_then(|bytes| mean(bytes, 1)),
    })
}

/// Calls that are an API by themselves, where no transfer has them.
fn direct_calls(report: &Report) -> impl Iterator<Item = Moved> {
    let transfers = report.processes.iter().flat_map(|process| &process.transfers);
    let in_transfers: HashSet<&String> = transfers.flat_map(|transfer| transfer.calls_by_syscall.keys()).collect();
    let operations_are_known = report.processes.iter().any(|process| !process.io_uring.is_empty());
    let others = report.totals.syscalls.iter().filter(move |call| call.calls > call.errors && !in_transfers.contains(&call.name));
    others.filter_map(move |call| {
        let api = match call.name.as_str() {
            "io_uring_enter" => (!operations_are_known).then_some(Api::IoUring)?,
            "vmsplice" => Api::Vmsplice,
            name => api_of_call(&Call::native(name.to_owned()))?,
        };
        Some(Moved { api: api.name(), bytes: call.bytes, mean_bytes: mean_of_call(call) })
    })
}

fn mean_of_call(call: &Syscall) -> Option<f64> {
    mean(call.bytes?, call.calls.saturating_sub(call.errors))
}

/// Mean of what the calls moved that succeeded; `None` if some moved bytes and do not tell how many.
fn mean_of_calls(calls: &[Syscall]) -> Option<f64> {
    let moving = calls.iter().filter(|call| call.calls > call.errors && moves_bytes(&Spec::of(&call.name)));
    let is_reflink = |call: &&Syscall| api_of_call(&Call::native(call.name.clone())) == Some(Api::Reflink);
    let mut sum: (u64, u64) = (0, 0);
    for call in moving.filter(|call| !is_reflink(call)) {
        sum = (sum.0.checked_add(call.bytes?)?, sum.1 + call.calls - call.errors);
    }
    mean(sum.0, sum.1)
}

/// Where the files are not known, about as many bytes in as out are taken for a loop through user memory. Beside its loop, a program
/// reads its libraries and writes its messages.
fn loop_of(read: &Half<'_>, written: &Half<'_>) -> Option<Moved> {
    let (from, to) = (read.bytes()?, written.bytes()?);
    let calls = read.calls().zip(written.calls()).map(|(reads, writes)| reads + writes);
    let mean_bytes = calls.zip(from.checked_add(to)).and_then(|(calls, bytes)| mean(bytes, calls));
    let is_loop = from > 0 && to > 0 && from / 2 <= to && to / 2 <= from;
    is_loop.then(|| Moved { api: Api::ReadWrite.name(), bytes: Some(from.min(to)), mean_bytes })
}

/// The names of the APIs that moved more than little.
fn ranked(all: &[Moved]) -> Vec<String> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for moved in all {
        let sum = sums.entry(moved.api).or_default();
        *sum = sum.saturating_add(moved.bytes.unwrap_or(0));
    }
    let total = sums.values().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
    let is_unknown = |api: &str| all.iter().any(|moved| moved.api == api && moved.bytes.is_none());
    let mut ranked: Vec<(&str, u64)> =
        sums.into_iter().filter(|&(api, bytes)| is_unknown(api) || is_worth_it(Some(bytes), total)).collect();
    ranked.sort_by_key(|&(_, bytes)| Reverse(bytes));
    ranked.into_iter().map(|(api, _)| api.to_owned()).collect()
}

/// Whether so many bytes are more than little of all; unknown ones may be.
pub(super) fn is_worth_it(bytes: Option<u64>, all: u64) -> bool {
    bytes.is_none_or(|bytes| bytes > 0 && bytes >= all / NEGLIGIBLE)
}

/// Mean of what a call moved, of all of these; `None` if one does not tell. Blocks that are shared are no bytes that were moved.
fn mean_of(all: &[Moved]) -> Option<f64> {
    let telling = || all.iter().filter(|moved| moved.api != Api::Reflink.name() && moved.bytes != Some(0));
    let mut sum = (0, 0.0);
    for moved in telling() {
        let bytes = moved.bytes?;
        sum = (sum.0 + bytes, sum.1 + mean(bytes, 1)? / moved.mean_bytes?);
    }
    (sum.0 > 0).then(|| mean(sum.0, 1).map(|bytes| bytes / sum.1))?
}

#[expect(clippy::cast_precision_loss, reason = "a mean is no count: its error in the 16th digit does not matter")]
pub(super) fn mean(bytes: u64, calls: u64) -> Option<f64> {
    (calls > 0).then(|| bytes as f64 / calls as f64)
}

#[cfg(test)]
mod tests;
