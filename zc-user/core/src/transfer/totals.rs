//! Rule 6: a process read one file and wrote another by the same number of bytes, and nothing else
//! is known of where these came from and went to.

use std::collections::BTreeMap;

use super::{
    facts::{ProcessFacts, RowsByFile, sum_bytes},
    flow::{Flow, api_of_loop, used_rows},
};
use crate::{
    syscalls::Call,
    trace::{FIRST_BYTES, FileId, Row},
    transfer::Evidence,
};

/// Fewer bytes are equal by chance too often.
const MIN_BYTES: u64 = 4096;

/// Adds what only the sums show to the flows of the rules before.
pub(super) fn add_flows_by_totals<'a>(flows: &mut Vec<Flow<'a>>, facts: &ProcessFacts<'a>) {
    let sides = [&facts.all_reads, &facts.all_writes].map(|rows| files_by_bytes(rows, facts));
    let [Some(read), Some(written)] = sides else {
        return;
    };
    let mut found = Vec::new();
    for (bytes, from) in read.range(MIN_BYTES..) {
        let ([from], Some([to])) = (&from[..], written.get(bytes).map(Vec::as_slice)) else {
            continue;
        };
        found.extend(flow_by_totals([*from, *to], *bytes, flows, facts));
    }
    for all in found {
        flows.retain(|one| one.bytes == Some(0) || (one.from, one.to) != (all.from, all.to));
        flows.push(all);
    }
}

/// The flow that the equal sums of two files show, if nothing else explains them.
fn flow_by_totals<'a>(
    [from, to]: [FileId; 2],
    bytes: u64,
    flows: &[Flow<'a>],
    facts: &ProcessFacts<'a>,
) -> Option<Flow<'a>> {
    let moving = flows.iter().filter(|flow| flow.bytes != Some(0));
    let mut known = moving.filter(|flow| flow.from == from || flow.to == to);
    let part = known.next();
    let is_all = match part {
        None => true,
        Some(part) => {
            (part.from, part.to, part.evidence) == (from, to, Evidence::Buffer)
                && part.bytes <= bytes.checked_sub(MIN_BYTES)
                && known.next().is_none()
        }
    };
    let is_it = is_all
        && from != to
        && !facts.is_sum(from)
        && !facts.is_sum(to)
        && !facts.are_connected(from, to)
        && facts.words.contains_key(&(from, to)) == part.is_some()
        && !facts.cut_off.contains(&Some(to))
        && begins_as_its_source(from, to, facts);
    is_it.then(|| flow_of_sums([from, to], bytes, part, facts))
}

/// The files by the bytes of all their rows. `None`: for some file that is not known.
fn files_by_bytes(
    rows: &RowsByFile<'_>,
    facts: &ProcessFacts<'_>,
) -> Option<BTreeMap<u64, Vec<FileId>>> {
    let mut files: BTreeMap<u64, Vec<FileId>> = BTreeMap::new();
    for (file, rows) in rows {
        if file.is_some_and(|file| !facts.carries_bytes(file)) {
            continue;
        }
        let bytes = sum_bytes(rows)?;
        if bytes > 0 {
            files.entry(bytes).or_default().push((*file)?);
        }
    }
    Some(files)
}

/// The flow of all these bytes. Another rule may already know a part of them.
fn flow_of_sums<'a>(
    [from, to]: [FileId; 2],
    bytes: u64,
    part: Option<&Flow<'_>>,
    facts: &ProcessFacts<'a>,
) -> Flow<'a> {
    let reading = used_rows(facts.reads.get(&Some(from)));
    let mut writing = used_rows(facts.writes.get(&Some(to)));
    writing.retain(|row| row.bytes != Some(0));
    let calls: Vec<&Call> = writing.iter().map(|row| &row.call).collect();
    let api = api_of_loop(&reading, &calls);
    Flow {
        evidence: Evidence::Totals,
        bytes: Some(bytes),
        observed_bytes: part.map_or(Some(0), |part| part.observed_bytes),
        words: part.map(|part| part.words).unwrap_or_default(),
        reading,
        ..Flow::by_copies(from, to, api, writing)
    }
}

/// Whether the first bytes that were written are the first ones that were read, and were not written
/// before.
fn begins_as_its_source(from: FileId, to: FileId, facts: &ProcessFacts<'_>) -> bool {
    let read = first_row(facts.reads.get(&Some(from)));
    let written = first_row(facts.writes.get(&Some(to)));
    let (Some(read), Some(written)) = (read, written) else {
        return false;
    };
    let orders = read.order.zip(written.order);
    read.first_bytes.len() == FIRST_BYTES
        && read.first_bytes == written.first_bytes
        && orders.is_none_or(|(read, written)| read < written)
}

/// The first of these rows that moved bytes.
fn first_row<'a>(rows: Option<&Vec<&'a Row>>) -> Option<&'a Row> {
    let rows = rows.into_iter().flatten().copied();
    let moving = rows.filter(|row| row.bytes != Some(0));
    moving.min_by_key(|row| row.order)
}
