//! Conservation of bytes: the sums that must add up in every report, whatever was traced.

use std::collections::BTreeMap;

use super::{Api, Certainty, DestinationTotals, End, Process, Report, Transfer};

/// The rules that a report violates, each a sentence.
///
/// For each destination, attributed and unattributed bytes add up to the written bytes, and so do the calls. The attributed bytes are the
/// sum of the transfers to it, so that no written byte has two sources. All bytes of an exact transfer are proven.
pub(crate) fn violations(report: &Report) -> Vec<String> {
    let mut violations = Vec::new();
    for process in &report.processes {
        of_transfers(&process.transfers, &mut violations);
        of_destinations(process, &mut violations);
        of_sources(process, &mut violations);
    }
    of_transfers(&report.transfers, &mut violations);
    for chain in report.transfers.iter().filter(|chain| chain.hops.iter().any(|hop| hop.bytes < chain.bytes)) {
        violations.push(format!("more bytes arrived than passed through a hop: {chain:?}"));
    }
    let destinations = || report.processes.iter().flat_map(|process| &process.destinations);
    if report.transfers_exact && destinations().any(|one| one.proven_bytes < one.attributed_bytes) {
        violations.push("transfers are marked as exact, but some bytes are not proven".to_owned());
    }
    violations
}

fn of_transfers(transfers: &[Transfer], violations: &mut Vec<String>) {
    for transfer in transfers {
        let holds = match transfer.certainty {
            Certainty::Exact => transfer.proven_bytes == transfer.bytes,
            Certainty::Inferred => transfer.proven_bytes <= transfer.bytes,
        };
        if !holds {
            violations.push(format!("the proven bytes contradict the certainty: {transfer:?}"));
        }
    }
}

/// Bytes by destination, and how many of them are proven.
type Brought<'a> = BTreeMap<&'a End, [u64; 2]>;

fn of_destinations(process: &Process, violations: &mut Vec<String>) {
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
            violations.push(format!("attributed and unattributed do not add up to written: {destination:?}"));
        }
        if let Some(file) = &destination.file {
            add(&mut attributed, file, [Some(destination.attributed_bytes), Some(destination.proven_bytes)]);
        }
    }
    for sums in [&mut brought, &mut attributed] {
        sums.retain(|_, [bytes, _]| *bytes > 0);
    }
    if brought != attributed {
        violations.push(format!("transfers add up to {brought:?}, but {attributed:?} is attributed"));
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

fn of_sources(process: &Process, violations: &mut Vec<String>) {
    let of_more = process.sources.iter().filter(|source| source.written_on_bytes > source.read_bytes);
    violations.extend(of_more.map(|source| format!("more was passed on than was read: {source:?}")));
    let sides = [&process.unattributed.read, &process.unattributed.written];
    let unmoved = sides.into_iter().flatten().filter(|share| share.calls + share.partly_attributed_calls == 0);
    violations.extend(unmoved.map(|share| format!("no call moved these bytes: {share:?}")));
}
