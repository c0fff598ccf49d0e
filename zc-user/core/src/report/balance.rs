//! Whether the bytes of a report add up, whatever was traced. Debug builds try it with each report.

use std::collections::BTreeMap;

use super::Report;
use crate::{
    ends::End,
    transfer::{Api, DestinationTotals, Transfer},
};

/// The rules that a report violates, each a sentence.
///
/// For each destination, the bytes in transfers and those of the program's own memory add up to the
/// written bytes, and so do the calls. The bytes in transfers are the sum of the transfers to it, so
/// that no written byte has two sources.
pub fn violations(report: &Report) -> Vec<String> {
    let mut violations = Vec::new();
    for process in &report.processes {
        let mut transferred: BTreeMap<Option<&End>, [u64; 2]> = BTreeMap::new();
        for one in &process.destinations {
            violations.extend(why_unbalanced(one));
            let [stated, _] = transferred.entry(one.file.as_ref()).or_default();
            *stated = stated.saturating_add(one.transferred_bytes);
        }
        for (to, bytes) in report.transfers_of(process).flat_map(arrived_bytes) {
            let [_, summed] = transferred.entry(Some(to)).or_default();
            *summed = summed.saturating_add(bytes);
        }
        let mut sums = transferred.values();
        if sums.any(|[stated, summed]| stated != summed) {
            violations.push(format!(
                "bytes in transfers, and the sum of the transfers: {transferred:?}"
            ));
        }
    }
    // The files of merged processes are told apart in another way than the ends of their transfers.
    let (mut stated, mut summed) = (0_u64, 0_u64);
    for one in report.merged.iter().flat_map(|merged| &merged.destinations) {
        violations.extend(why_unbalanced(one));
        stated = stated.saturating_add(one.transferred_bytes);
    }
    for transfer in &report.transfers {
        if transfer.crosses_processes() {
            if transfer.hops.iter().any(|hop| hop.bytes < transfer.bytes) {
                violations.push(format!(
                    "more bytes arrived than passed through a hop: {transfer:?}"
                ));
            }
        } else if transfer.merged.is_some() {
            for (_, bytes) in arrived_bytes(transfer) {
                summed = summed.saturating_add(bytes);
            }
        }
    }
    if summed != stated {
        violations.push(format!(
            "transfers of ended processes add up to {summed}, not to {stated}"
        ));
    }
    violations
}

/// The destination of each step of a transfer, and the bytes that it wrote there. A reflink writes
/// nothing.
fn arrived_bytes(transfer: &Transfer) -> Vec<(&End, u64)> {
    if transfer.api == Api::Reflink || !transfer.is_transfer() {
        return Vec::new();
    }
    if transfer.hops.is_empty() {
        return vec![(&transfer.to, transfer.bytes.unwrap_or(0))];
    }
    let hops = transfer.hops.iter();
    hops.map(|hop| (&hop.to, hop.bytes.unwrap_or(0))).collect()
}

/// What is wrong with the sums of a destination, if anything.
fn why_unbalanced(one: &DestinationTotals) -> Option<String> {
    let own = one.own_memory_bytes;
    let bytes = own.map(|own| own.saturating_add(one.transferred_bytes));
    let calls = one.transferred_calls + one.own_memory_calls;
    let buffers = one.buffers.iter().map(|buffers| buffers.bytes);
    let in_buffers = buffers.fold(0, u64::saturating_add);
    let is_balanced = bytes == one.written_bytes
        && calls == one.written_calls
        && own.is_none_or(|own| in_buffers <= own);
    (!is_balanced).then(|| format!("what was written does not add up: {one:?}"))
}
