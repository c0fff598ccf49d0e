//! What must hold of the transfers of every report, whatever was traced.

use std::collections::BTreeMap;

use super::{Api, Certainty, DestinationTotals, End, Process, Report, Transfer};

/// The rules that a report breaks, each a sentence; none, if its books balance.
///
/// For each destination, what was written is what is attributed and what is not, in bytes and in calls, and what is attributed is the
/// sum of the transfers that lead there: so no written byte has two sources. An exact transfer has no byte that is not proven.
pub(crate) fn broken(report: &Report) -> Vec<String> {
    let mut broken = Vec::new();
    for process in &report.processes {
        of_transfers(&process.transfers, &mut broken);
        of_destinations(process, &mut broken);
        of_sources(process, &mut broken);
    }
    of_transfers(&report.transfers, &mut broken);
    for chain in report.transfers.iter().filter(|chain| chain.hops.iter().any(|hop| hop.bytes < chain.bytes)) {
        broken.push(format!("more bytes arrived than passed a hop: {chain:?}"));
    }
    let destinations = || report.processes.iter().flat_map(|process| &process.destinations);
    if report.transfers_exact && destinations().any(|one| one.proven_bytes < one.attributed_bytes) {
        broken.push("transfers are said to be exact, and some are not proven".to_owned());
    }
    broken
}

fn of_transfers(transfers: &[Transfer], broken: &mut Vec<String>) {
    for transfer in transfers {
        let holds = match transfer.certainty {
            Certainty::Exact => transfer.proven_bytes == transfer.bytes,
            Certainty::Inferred => transfer.proven_bytes <= transfer.bytes,
        };
        if !holds {
            broken.push(format!("what is proven does not agree with the certainty: {transfer:?}"));
        }
    }
}

/// Bytes, and those of them that are proven, by the end that they went to.
type Brought<'a> = BTreeMap<&'a End, [u64; 2]>;

fn of_destinations(process: &Process, broken: &mut Vec<String>) {
    let mut brought = Brought::new();
    for transfer in process.transfers.iter().filter(|transfer| transfer.api != Api::Reflink) {
        if transfer.hops.is_empty() {
            add(&mut brought, &transfer.to, [transfer.bytes, transfer.proven_bytes]);
        }
        for hop in &transfer.hops {
            add(&mut brought, &hop.to, [hop.bytes, hop.proven_bytes]);
        }
    }
    let mut attributed = Brought::new();
    for destination in &process.destinations {
        if !balances(destination) {
            broken.push(format!("what was written is not what is attributed and what is not: {destination:?}"));
        }
        if let Some(file) = &destination.file {
            add(&mut attributed, file, [Some(destination.attributed_bytes), Some(destination.proven_bytes)]);
        }
    }
    for sums in [&mut brought, &mut attributed] {
        sums.retain(|_, [bytes, _]| *bytes > 0);
    }
    if brought != attributed {
        broken.push(format!("transfers brought {brought:?}, and attributed is {attributed:?}"));
    }
}

fn add<'a>(sums: &mut Brought<'a>, to: &'a End, figures: [Option<u64>; 2]) {
    for (sum, bytes) in sums.entry(to).or_default().iter_mut().zip(figures) {
        *sum = sum.saturating_add(bytes.unwrap_or(0));
    }
}

fn balances(one: &DestinationTotals) -> bool {
    let bytes = match (one.written_bytes, one.unattributed_bytes) {
        (Some(written), Some(rest)) => one.attributed_bytes.checked_add(rest) == Some(written),
        (None, None) => true,
        _ => false,
    };
    let calls = one.attributed_calls.checked_add(one.unattributed_calls) == Some(one.written_calls);
    bytes && calls && one.proven_bytes <= one.attributed_bytes && one.memory_bytes <= one.unattributed_bytes.unwrap_or(0)
}

fn of_sources(process: &Process, broken: &mut Vec<String>) {
    let of_more = process.sources.iter().filter(|source| source.written_on_bytes > source.read_bytes);
    broken.extend(of_more.map(|source| format!("more was written on than was read: {source:?}")));
    let sides = [&process.unattributed.read, &process.unattributed.written];
    let unmoved = sides.into_iter().flatten().filter(|share| share.calls + share.partly_attributed_calls == 0);
    broken.extend(unmoved.map(|share| format!("no call moved these bytes: {share:?}")));
}
