//! Rule 6: at the end, one file was read and another written by the same number of bytes that
//! nothing else explains.

use std::collections::BTreeMap;

use super::{
    facts::{ProcessFacts, RowsByFile, sum_bytes},
    flow::{Flow, reads_of, used_rows},
};
use crate::{
    trace::{FIRST_BYTES, FileId, Row, sum_known},
    transfer::{Api, Evidence},
};

/// Fewer bytes are equal by chance too often.
const MIN_BYTES: u64 = 4096;

/// Adds what only the sums show to the flows of the rules before. Where one of these has the same ends
/// and interface, it becomes longer.
pub(super) fn add_flows_by_totals<'a>(flows: &mut Vec<Flow<'a>>, facts: &ProcessFacts<'a>) {
    for found in flows_by_totals(facts, flows) {
        let is_same = |flow: &&mut Flow<'_>| {
            (flow.from, flow.to, flow.api) == (found.from, found.to, found.api)
                && flow.evidence == Evidence::Buffer
        };
        match flows.iter_mut().find(is_same) {
            Some(flow) => continue_flow(flow, found, facts),
            None => flows.push(found),
        }
    }
}

/// Adds what the sums show of the rest of a flow.
fn continue_flow<'a>(flow: &mut Flow<'a>, rest: Flow<'a>, facts: &ProcessFacts<'a>) {
    let knows_writing = sum_bytes(&rest.writing) == rest.bytes;
    flow.bytes = sum_known(flow.bytes, rest.bytes);
    flow.evidence = rest.evidence;
    for row in rest.writing {
        if !flow.writing.iter().any(|known| std::ptr::eq(*known, row)) {
            flow.writing.push(row);
        }
    }
    let once = flow.bytes.filter(|_| knows_writing);
    flow.reading = reads_of(flow.from, once, facts);
}

/// The flows that only the sums show.
fn flows_by_totals<'a>(facts: &ProcessFacts<'a>, flows: &[Flow<'a>]) -> Vec<Flow<'a>> {
    let Some([read, written]) = unexplained_on_both_sides(facts, flows) else {
        return Vec::new();
    };
    // The files of either side by what is left of them.
    let mut by_bytes: BTreeMap<u64, [Vec<FileId>; 2]> = BTreeMap::new();
    for (side, rests) in [read, written].into_iter().enumerate() {
        for (id, bytes) in rests {
            by_bytes.entry(bytes).or_default()[side].push(id);
        }
    }
    let mut found = Vec::new();
    for (&bytes, sides) in by_bytes.range(MIN_BYTES..) {
        if let [&[from], &[to]] = sides.each_ref().map(Vec::as_slice)
            && from != to
            && ![from, to].iter().any(|file| facts.is_sum(*file))
            && !facts.are_connected(from, to)
            && facts
                .words
                .get(&(from, to))
                .is_none_or(|word| *word == Some(Evidence::Buffer))
            && !facts.cut_off.contains(&Some(to))
            && !has_another(facts, bytes, [from, to])
            && begins_as_its_source(from, to, facts)
        {
            found.push(flow_of_sums(from, to, bytes, facts));
        }
    }
    found
}

/// Whether another file has this number, by whatever calls and rules.
fn has_another(facts: &ProcessFacts<'_>, bytes: u64, ends: [FileId; 2]) -> bool {
    let is_another = |(file, rows): (&Option<FileId>, &Vec<&Row>)| {
        file.is_none_or(|file| !ends.contains(&file)) && sum_bytes(rows) == Some(bytes)
    };
    facts.all_reads.iter().any(is_another) || facts.all_writes.iter().any(is_another)
}

fn flow_of_sums<'a>(from: FileId, to: FileId, bytes: u64, facts: &ProcessFacts<'a>) -> Flow<'a> {
    let reading = used_rows(facts.reads.get(&Some(from)));
    let writing: Vec<&Row> = used_rows(facts.writes.get(&Some(to)))
        .into_iter()
        .filter(|row| row.bytes != Some(0) && is_left(row, to, facts))
        .collect();
    let mut rows = reading.iter().chain(&writing);
    let api = if writing.iter().any(|row| row.call.name == "vmsplice") {
        Api::Vmsplice
    } else if rows.any(|row| row.call.as_ring_operation().is_some()) {
        Api::IoUring
    } else {
        Api::ReadWrite
    };
    let once = Some(bytes).filter(|bytes| sum_bytes(&writing) == Some(*bytes));
    Flow {
        evidence: Evidence::Totals,
        bytes: Some(bytes),
        observed_bytes: Some(0),
        reading: reads_of(from, once, facts),
        ..Flow::by_copies(from, to, api, writing)
    }
}

/// Whether the first bytes that were written are the first ones that were read, and were not written
/// before.
fn begins_as_its_source(from: FileId, to: FileId, facts: &ProcessFacts<'_>) -> bool {
    let rows = [(&facts.reads, from), (&facts.writes, to)];
    let [Some(read), Some(written)] = rows.map(|(rows, file)| first_row(rows.get(&Some(file))))
    else {
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

/// Whether all bytes of a write to a file are in no transfer, and were not changed on the way.
fn is_left(row: &Row, to: FileId, facts: &ProcessFacts<'_>) -> bool {
    let from = row.ends.input.filter(|_| row.input_bytes > 0);
    from.is_none_or(|from| facts.evidence(from, to).is_none())
}

/// What is left of the bytes read from each file, and of those written to each. `None`: for some
/// file that is not known.
fn unexplained_on_both_sides(
    facts: &ProcessFacts<'_>,
    flows: &[Flow<'_>],
) -> Option<[BTreeMap<FileId, u64>; 2]> {
    let mut sides = [&facts.reads, &facts.writes].map(|rows| bytes_by_file(rows, facts));
    let [read, written] = &mut sides;
    let (Some(read), Some(written)) = (read, written) else {
        return None;
    };
    let mut take = |from: Option<FileId>, to: FileId, bytes: u64| {
        for (side, id) in [(&mut *read, from), (&mut *written, Some(to))] {
            if let Some(rest) = id.and_then(|id| side.get_mut(&id)) {
                // What was written twice leaves a rest that nobody knows.
                *rest = rest.saturating_sub(bytes);
            }
        }
    };
    let in_memory = |flow: &&Flow<'_>| flow.evidence != Evidence::Call;
    for flow in flows.iter().filter(in_memory) {
        // What a mapping gave was not read.
        let from = (flow.evidence != Evidence::Mapping).then_some(flow.from);
        take(from, flow.to, flow.bytes?);
    }
    let [read, written] = sides;
    Some([read?, written?])
}

/// The bytes of each file. `None`: unknown for one of them.
fn bytes_by_file(rows: &RowsByFile<'_>, facts: &ProcessFacts<'_>) -> Option<BTreeMap<FileId, u64>> {
    let mut totals = BTreeMap::new();
    for (&id, rows) in rows {
        let bytes = sum_bytes(rows);
        match id {
            Some(id) if facts.carries_bytes(id) => {
                totals.insert(id, bytes?);
            }
            Some(_) => {}
            None if bytes == Some(0) => {}
            None => return None,
        }
    }
    Some(totals)
}
