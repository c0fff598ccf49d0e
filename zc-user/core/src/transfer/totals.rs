//! Rule 6: at the end, one file was read and another written by the same number of bytes that
//! nothing else explains.

use std::collections::BTreeMap;

use super::{
    facts::{ProcessFacts, sum_bytes},
    flow::{Flow, SourceCalls, used_rows},
    rest::changed_by_files,
};
use crate::{
    trace::{FileId, Fills, Input, Row},
    transfer::{Api, Evidence},
};

/// Fewer bytes are equal by chance too often.
const LEAST_BYTES: u64 = 4096;

/// What is left of one file.
#[derive(Debug, Clone, Copy, Default)]
struct Unexplained {
    bytes: u64,
    /// Whether no transfer has any of its bytes, and no buffer that was changed or not compared.
    is_whole: bool,
}

/// The flows that only the sums show. `flows` are those of the rules before.
pub(super) fn flows_by_totals<'a>(facts: &ProcessFacts<'a>, flows: &[Flow<'a>]) -> Vec<Flow<'a>> {
    let Some([read, written]) = unexplained_on_both_sides(facts, flows) else {
        return Vec::new();
    };
    // What was changed on the way shows that equal sums are no copy. The kernel side does not tell
    // it from what was not compared.
    let changed = changed_by_files(facts);
    // The files of either side by what is left of them.
    let mut by_bytes: BTreeMap<u64, [Vec<(FileId, Unexplained)>; 2]> = BTreeMap::new();
    for (side, rests) in [read, written].into_iter().enumerate() {
        for (id, rest) in rests {
            by_bytes.entry(rest.bytes).or_default()[side].push((id, rest));
        }
    }
    let mut found = Vec::new();
    for (_, sides) in by_bytes.range(LEAST_BYTES..) {
        if let [[(from, source)], [(to, destination)]] = sides.each_ref().map(Vec::as_slice)
            && from != to
            && !facts.are_connected(*from, *to)
            && !changed.contains_key(&(*from, *to))
            && !facts.cut_off.contains(&Some(*to))
            && !has_another(facts, source.bytes, [*from, *to])
        {
            found.push(flow_of_sums(*from, *to, *source, *destination, facts));
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

fn flow_of_sums<'a>(
    from: FileId,
    to: FileId,
    source: Unexplained,
    destination: Unexplained,
    facts: &ProcessFacts<'a>,
) -> Flow<'a> {
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
    let knows_writing = destination.is_whole || sum_bytes(&writing) == Some(destination.bytes);
    Flow {
        evidence: Evidence::Totals,
        bytes: Some(source.bytes),
        reading: if source.is_whole {
            SourceCalls::All(reading)
        } else {
            SourceCalls::Some {
                fills: Fills::UNKNOWN,
                among: reading,
            }
        },
        knows_writing,
        ..Flow::by_copies(from, to, api, writing)
    }
}

/// Whether all bytes of a write to a file are in no transfer and no changed buffer.
fn is_left(row: &Row, to: FileId, facts: &ProcessFacts<'_>) -> bool {
    let is_changed = matches!(row.ends.input, Some(Input::ChangedBuffer(_)));
    let has_source = facts.source_in_memory(row.ends.input, to).is_some();
    row.input_bytes == 0 || !(is_changed || has_source)
}

/// What is left of the bytes read from each file, and of those written to each. `None`: for some
/// file that is not known.
fn unexplained_on_both_sides(
    facts: &ProcessFacts<'_>,
    flows: &[Flow<'_>],
) -> Option<[BTreeMap<FileId, Unexplained>; 2]> {
    let mut sides = [&facts.reads, &facts.writes].map(|rows| bytes_by_file(rows, facts));
    let [read, written] = &mut sides;
    let (Some(read), Some(written)) = (read, written) else {
        return None;
    };
    let mut take = |from: Option<FileId>, to: FileId, bytes: u64| {
        for (side, id) in [(&mut *read, from), (&mut *written, Some(to))] {
            if let Some(rest) = id.and_then(|id| side.get_mut(&id)) {
                // What was written twice leaves a rest that nobody knows.
                *rest = Unexplained {
                    bytes: rest.bytes.saturating_sub(bytes),
                    is_whole: false,
                };
            }
        }
    };
    let in_memory = |flow: &&Flow<'_>| flow.evidence != Evidence::Call;
    for flow in flows.iter().filter(in_memory) {
        // What a mapping gave was not read.
        let from = (flow.evidence != Evidence::Mapping).then_some(flow.from);
        take(from, flow.to, flow.bytes?);
    }
    for ((from, to), (bytes, _)) in changed_by_files(facts) {
        take(Some(from), to, bytes);
    }
    let [read, written] = sides;
    Some([read?, written?])
}

/// The bytes of each file. `None`: unknown for one of them.
fn bytes_by_file(
    rows: &super::facts::RowsByFile<'_>,
    facts: &ProcessFacts<'_>,
) -> Option<BTreeMap<FileId, Unexplained>> {
    let mut totals = BTreeMap::new();
    for (&id, rows) in rows {
        let bytes = sum_bytes(rows);
        match id {
            Some(id) if facts.carries_bytes(id) => {
                let rest = Unexplained {
                    bytes: bytes?,
                    is_whole: true,
                };
                totals.insert(id, rest);
            }
            Some(_) => {}
            None if bytes == Some(0) => {}
            None => return None,
        }
    }
    Some(totals)
}
