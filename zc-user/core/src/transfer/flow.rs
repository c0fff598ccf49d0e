//! [`Flow`]: bytes that went from one file to another within a process, and the calls that show it.
//! Rules 1 to 6 make them.

use std::collections::BTreeMap;

use zc_ebpf::is_restart;

use super::{
    buffers::{WritePart, moving_calls},
    facts::{ProcessFacts, sum_bytes},
};
use crate::{
    syscalls::{Call, FICLONE, FICLONERANGE},
    trace::{Content, FileId, Input, Row, SourcedBytes, Words},
    transfer::{Api, Certainty, Evidence},
};

/// Bytes that went from one file to another within a process.
#[derive(Debug, Clone)]
pub(super) struct Flow<'a> {
    pub(super) from: FileId,
    pub(super) to: FileId,
    pub(super) api: Api,
    pub(super) evidence: Evidence,
    /// Bytes that arrived. `None`: the calls do not say.
    pub(super) bytes: Option<u64>,
    /// How many of these were observed. `None`: their number is unknown.
    pub(super) observed_bytes: Option<u64>,
    /// The words that were compared.
    pub(super) words: Words,
    /// The calls that read or mapped the source; none if those at the destination name it.
    pub(super) reading: Vec<&'a Row>,
    /// Whether only some of these belong to it, and it is not known which.
    pub(super) has_other_reads: bool,
    /// The calls at the destination, or those that name both ends.
    pub(super) writing: Vec<&'a Row>,
    /// Calls at the destination that failed or wrote nothing, if all that wrote there belong to
    /// this flow.
    pub(super) idle_writing: Vec<&'a Row>,
    /// What calls wrote together with bytes of other files. Their rows are not here.
    pub(super) parts: Vec<WritePart<'a>>,
    /// Calls that failed or moved nothing before these calls were tried, in order.
    pub(super) attempts: Vec<&'a Row>,
    /// The legs into a pipe and out of it, if one lies between the ends. The calls are theirs.
    pub(super) hops: Vec<Self>,
}

/// What flows through memory are told apart by: source, destination, and how.
type FlowKey = (FileId, FileId, Evidence, Api);

impl<'a> Flow<'a> {
    /// A flow of calls that name both ends (rule 1).
    pub(super) fn by_copies(from: FileId, to: FileId, api: Api, writing: Vec<&'a Row>) -> Self {
        let bytes = sum_bytes(&writing);
        Self {
            from,
            to,
            api,
            evidence: Evidence::Call,
            bytes,
            observed_bytes: bytes,
            words: Words::default(),
            reading: Vec::new(),
            has_other_reads: false,
            writing,
            idle_writing: Vec::new(),
            parts: Vec::new(),
            attempts: Vec::new(),
            hops: Vec::new(),
        }
    }

    /// The legs: the hops, or the flow itself.
    pub(super) fn legs(&self) -> &[Self] {
        if self.hops.is_empty() {
            std::slice::from_ref(self)
        } else {
            &self.hops
        }
    }

    /// The rows that are only about this flow and its attempts, and all those at its source.
    pub(super) fn own_rows(&self) -> impl Iterator<Item = &'a Row> {
        let mut all = Vec::new();
        for leg in self.legs() {
            let rows = leg.reading.iter().chain(&leg.writing);
            all.extend(rows.chain(&leg.idle_writing));
        }
        all.into_iter()
    }

    /// When the destination was first written to, as [`Row::order`].
    pub(super) fn first_write_order(&self) -> Option<u64> {
        let last = self.legs().last()?;
        // Unknown orders are the least.
        last.writing.iter().map(|row| row.order).min().flatten()
    }

    /// How sure it is: as the weakest part of it.
    pub(super) fn weakest_certainty(&self) -> Certainty {
        let is_observed = self.observed_bytes == self.bytes;
        match self.evidence.certainty() {
            Certainty::Observed if !is_observed => Certainty::Inferred,
            certainty => certainty,
        }
    }

    /// Whether it is a transfer, and not only said to be changed on the way.
    pub(super) fn is_transfer(&self) -> bool {
        self.evidence != Evidence::Changed
    }

    /// Whether the bytes were read into memory and written from there.
    pub(super) fn is_loop(&self) -> bool {
        !matches!(self.evidence, Evidence::Call | Evidence::Mapping)
    }
}

/// The interface of a call that names both ends.
pub(crate) fn api_of_call(call: &Call) -> Option<Api> {
    Some(match call.name.as_ref() {
        "sendfile" | "sendfile64" => Api::Sendfile,
        "splice" => Api::Splice,
        "tee" => Api::Tee,
        "copy_file_range" => Api::CopyFileRange,
        FICLONE | FICLONERANGE => Api::Reflink,
        _ if call.as_ring_operation().is_some() => Api::IoUring,
        _ => return None,
    })
}

/// Rule 1: one flow for each pair of ends and interface.
pub(super) fn flows_by_call<'a>(facts: &ProcessFacts<'a>) -> Vec<Flow<'a>> {
    let mut by_key: BTreeMap<(FileId, FileId, Api), Vec<&Row>> = BTreeMap::new();
    for (&(from, to), rows) in &facts.copies {
        for &row in rows {
            if let Some(api) = api_of_call(&row.call) {
                by_key.entry((from, to, api)).or_default().push(row);
            }
        }
    }
    let flows = by_key.into_iter();
    flows
        .map(|((from, to, api), rows)| Flow::by_copies(from, to, api, rows))
        .collect()
}

/// Rules 2 to 5: what was written from memory that a read had filled or that maps a file.
pub(super) fn flows_from_memory<'a>(facts: &ProcessFacts<'a>) -> Vec<Flow<'a>> {
    let mut by_key: BTreeMap<FlowKey, Vec<WritePart<'a>>> = BTreeMap::new();
    for piece in &facts.pieces {
        if let Some(evidence) = facts.evidence_between(piece.from, piece.to) {
            let reads = facts.reads.get(&Some(piece.from.file()));
            let api = match api_of_loop(reads.map_or(&[], Vec::as_slice), &[&piece.call]) {
                Api::ReadWrite | Api::IoUring if evidence == Evidence::Mapping => Api::MmapWrite,
                api => api,
            };
            let key = (piece.from.file(), piece.to, evidence, api);
            by_key.entry(key).or_default().push(piece.clone());
        }
    }
    let mut flows = Vec::new();
    for (key, pieces) in by_key {
        flows.push(flow_of_pieces(key, pieces, facts));
    }
    flows
}

fn flow_of_pieces<'a>(
    (from, to, evidence, api): FlowKey,
    pieces: Vec<WritePart<'a>>,
    facts: &ProcessFacts<'a>,
) -> Flow<'a> {
    let (mut sourced, mut uncompared_bytes) = (SourcedBytes::default(), 0_u64);
    for piece in &pieces {
        sourced += piece.sourced;
        if matches!(piece.from, Input::Buffer(_, Content::Uncompared)) {
            uncompared_bytes = uncompared_bytes.saturating_add(piece.bytes);
        }
    }
    let observed_bytes = match evidence.certainty() {
        Certainty::Observed => sourced.bytes - uncompared_bytes,
        Certainty::Inferred | Certainty::Changed => 0,
    };
    let (reading, has_other_reads) = if evidence == Evidence::Mapping {
        (
            facts.mappings.get(&from).cloned().unwrap_or_default(),
            false,
        )
    } else {
        let reads = used_rows(facts.reads.get(&Some(from)));
        // Some may have been written twice.
        let has_all = sourced.repeated_bytes == 0 && sum_bytes(&reads) == Some(sourced.bytes);
        (reads, !has_all)
    };
    let writing = pieces.iter().filter_map(|piece| piece.row).collect();
    let parts = pieces.into_iter().filter(|piece| piece.row.is_none());
    Flow {
        evidence,
        bytes: Some(sourced.bytes),
        observed_bytes: Some(observed_bytes),
        words: sourced.words,
        reading,
        has_other_reads,
        parts: parts.collect(),
        ..Flow::by_copies(from, to, api, writing)
    }
}

/// The interface of a loop through memory with these calls.
pub(super) fn api_of_loop(reads: &[&Row], writes: &[&Call]) -> Api {
    let moving = reads.iter().filter(|row| moving_calls(&[row]) > 0);
    let mut calls = moving.map(|row| &row.call).chain(writes.iter().copied());
    if writes.iter().any(|call| call.name == "vmsplice") {
        Api::Vmsplice
    } else if calls.any(|call| call.as_ring_operation().is_some()) {
        Api::IoUring
    } else {
        Api::ReadWrite
    }
}

/// The rows, without those of which every call failed for good.
pub(super) fn used_rows<'a>(rows: Option<&Vec<&'a Row>>) -> Vec<&'a Row> {
    let rows = rows.into_iter().flatten().copied();
    rows.filter(|row| !only_failed(row)).collect()
}

/// Gives the calls that wrote nothing to a file to the flow that has all others.
pub(super) fn add_idle_writes<'a>(flows: &mut [Flow<'a>], facts: &ProcessFacts<'a>) {
    for flow in flows.iter_mut().filter(|flow| flow.is_loop()) {
        let Some(rows) = facts.writes.get(&Some(flow.to)) else {
            continue;
        };
        let (idle, moving): (Vec<&Row>, Vec<&Row>) = used_rows(Some(rows))
            .into_iter()
            .partition(|row| row.bytes == Some(0));
        if moving_calls(&moving) == moving_calls(&flow.writing) {
            flow.idle_writing = idle;
        }
    }
}

/// Whether all calls of the row failed, and not only with errnos that mean "try again".
pub(super) fn only_failed(row: &Row) -> bool {
    row.errors > 0 && row.calls == row.errors && row.errnos.keys().any(|&errno| !is_retry(errno))
}

/// Whether programs simply repeat a call that failed with this errno: `EAGAIN`, `EINTR`, and the
/// restarts that only tracers see.
pub(super) fn is_retry(errno: u32) -> bool {
    errno == libc::EAGAIN.unsigned_abs() || errno == libc::EINTR.unsigned_abs() || is_restart(errno)
}
