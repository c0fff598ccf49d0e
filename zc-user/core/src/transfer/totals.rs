//! Sources and destinations of one process that agree in their bytes alone.
//!
//! Where one thread reads and another writes, where an io_uring does both, or where a backend does not see that a buffer lies in a
//! mapping, no call connects the two ends. They are connected here if the bytes that nothing else explains are exactly as many at both
//! ends, at least [`LEAST_BYTES`], and no third file of the process has as many: chance does not agree to the byte.
//!
//! A loop that is known in part already is all that its two ends did, if as much is left of both.
//!
//! Bytes that differ say no: a backend may show the first ones of each call.
//!
//! What was read meanwhile from other files may be among the bytes: the figure is less by that.
//!
//! For backends that do not see memory. The others know more: equal sums say nothing against that.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ptr;

use super::{
    activity::Activity,
    balance::are_worth_adding,
    doubt::Doubt,
    flow::{Flow, Source, first_moved, first_order, is_by_ring, sum_bytes},
    left::taken,
};
use crate::{
    trace::{FileId, Head, Row},
    transfer::{Api, Evidence},
};

/// Fewer bytes agree by chance too easily.
const LEAST_BYTES: u64 = 4096;

/// What is left of a file once everything certain is explained.
#[derive(Debug)]
struct Rest<'a> {
    file: FileId,
    bytes: u64,
    /// The rows of no flow yet.
    rows: Vec<&'a Row>,
    /// For a source, when the first of its bytes had been read; for a destination, when the first of them began to be written.
    order: Option<u64>,
    is_mapping: bool,
}

/// Adds the flows that totals show.
pub(super) fn add<'a>(flows: &mut Vec<Flow<'a>>, activity: &Activity<'a>) {
    complete(flows, activity);
    add_equal(flows, activity);
}

/// The loops of which as much is left at both ends, and that are the only ones there.
fn complete<'a>(flows: &mut [Flow<'a>], activity: &Activity<'a>) {
    let (sources, destinations) = ends(flows, activity, 1);
    let by_file = |rests: Vec<Rest<'a>>| rests.into_iter().map(|rest| (rest.file, rest)).collect::<HashMap<_, _>>();
    let (sources, destinations) = (by_file(sources), by_file(destinations));
    let agrees = |from, to| {
        let ends = sources.get(&from).zip(destinations.get(&to));
        from != to && ends.is_some_and(|(source, destination)| source.bytes == destination.bytes && source.begins_as(destination))
    };
    let ends_of = |flow: &Flow<'_>| Some((flow.read_from()?, flow.written_to()?));
    let found = flows.iter().filter_map(ends_of).filter(|(from, to)| agrees(*from, *to)).map(|(from, _)| from);
    let (known, doubt) = (Known::of(flows), doubt(flows, &found.collect(), activity));
    for flow in flows.iter_mut().filter(|flow| flow.is_loop()) {
        let (Some(from), Some(to)) = (flow.read_from(), flow.written_to()) else { continue };
        let (Some(source), Some(destination)) = (sources.get(&from), destinations.get(&to)) else { continue };
        let bytes = source.bytes.saturating_sub(doubt.meanwhile(from, all(&activity.reads, from), all(&activity.writes, to)));
        let is_worth = are_worth_adding(bytes, flow.bytes.unwrap_or(0));
        if agrees(from, to) && is_worth && known.no_other(from, to) {
            flow.infer(bytes, Evidence::Totals, &source.rows, &destination.rows);
        }
    }
}

/// How many loops begin and end where: what is left of a loop is no transfer of its own, but one with the same ends.
#[derive(Debug, Default)]
struct Known {
    from: HashMap<FileId, usize>,
    to: HashMap<FileId, usize>,
    between: HashSet<(FileId, FileId)>,
}

impl Known {
    fn of(flows: &[Flow<'_>]) -> Self {
        let mut known = Self::default();
        for (from, to) in flows.iter().filter_map(|flow| Some((flow.read_from(), flow.written_to()?))) {
            *known.to.entry(to).or_default() += 1;
            if let Some(from) = from {
                *known.from.entry(from).or_default() += 1;
                known.between.insert((from, to));
            }
        }
        known
    }

    /// Whether no loop leads from the one or to the other but that between them.
    fn no_other(&self, from: FileId, to: FileId) -> bool {
        let between = usize::from(self.between.contains(&(from, to)));
        let count = |counts: &HashMap<FileId, usize>, file| counts.get(&file).copied().unwrap_or(0);
        count(&self.from, from) == between && count(&self.to, to) == between
    }
}

/// The ends that agree to the byte.
fn add_equal<'a>(flows: &mut Vec<Flow<'a>>, activity: &Activity<'a>) {
    let (mut sources, destinations) = ends(flows, activity, LEAST_BYTES);
    sources.extend(mappings(activity));
    let known = Known::of(flows);
    let mut by_bytes: HashMap<u64, (Vec<&Rest>, Vec<&Rest>)> = HashMap::new();
    for source in &sources {
        by_bytes.entry(source.bytes).or_default().0.push(source);
    }
    for destination in &destinations {
        by_bytes.entry(destination.bytes).or_default().1.push(destination);
    }
    let mut found: Vec<_> = by_bytes
        .values()
        .filter_map(|ends| match (ends.0.as_slice(), ends.1.as_slice()) {
            (&[source], &[destination])
                if source.can_be_source_of(destination) && known.no_other(source.file, destination.file) =>
            {
                Some((source, destination))
            }
            _ => None,
        })
        .collect();
    found.sort_by_key(|(source, destination)| (source.file, destination.file));
    let doubt = doubt(flows, &found.iter().map(|(source, _)| source.file).collect(), activity);
    for (source, destination) in found {
        let calls = if source.is_mapping { source.rows.as_slice() } else { all(&activity.reads, source.file) };
        let doubtful = doubt.meanwhile(source.file, calls, all(&activity.writes, destination.file));
        let bytes = source.bytes.saturating_sub(doubtful);
        if bytes > 0 {
            connect(flows, source, destination, bytes);
        }
    }
}

/// All calls on one file.
fn all<'s, 'a>(sides: &'s BTreeMap<Option<FileId>, Vec<&'a Row>>, file: FileId) -> &'s [&'a Row] {
    sides.get(&Some(file)).map(Vec::as_slice).unwrap_or_default()
}

/// What was read, or mapped, and is in no flow, nor will be in one as a whole.
fn doubt(flows: &[Flow<'_>], found: &HashSet<FileId>, activity: &Activity<'_>) -> Doubt {
    let taken = taken(flows, |flow| flow.from.file());
    let left = |file: FileId, bytes: Option<u64>| {
        let is_found = found.contains(&file);
        if is_found { 0 } else { bytes.unwrap_or(u64::MAX).saturating_sub(taken.get(&file).copied().unwrap_or(0)) }
    };
    let read =
        activity.reads.iter().filter_map(|(file, rows)| Some(((*file)?, rows.as_slice(), left((*file)?, sum_bytes(rows)))));
    let mapped = activity.mappings.iter().map(|(&file, rows)| {
        let requested = rows.iter().map(|row| row.requested_bytes).reduce(|a, b| a?.checked_add(b?)).flatten();
        (file, rows.as_slice(), left(file, requested))
    });
    Doubt::of(mapped.chain(read), activity)
}

/// What is left of the files that were read, and of those that were written, where it is enough.
fn ends<'a>(flows: &[Flow<'a>], activity: &Activity<'a>, least_bytes: u64) -> (Vec<Rest<'a>>, Vec<Rest<'a>>) {
    let mut ends = (
        rests(&activity.reads, flows, activity, Flow::read_from, first_moved),
        rests(&activity.writes, flows, activity, Flow::written_to, first_order),
    );
    for rests in [&mut ends.0, &mut ends.1] {
        rests.retain(|rest| rest.bytes >= least_bytes);
    }
    ends
}

impl Rest<'_> {
    /// Whether this can be the source of the other: another file, of which something was there before the other began to be written, and
    /// that begins as the other does. Beginnings of calls alone do not tell: a thread waits in `read` for what another is about to write
    /// to a socket that leads there.
    fn can_be_source_of(&self, other: &Self) -> bool {
        let is_earlier = self.order.zip(other.order).is_none_or(|(source, destination)| source < destination);
        self.file != other.file && is_earlier && self.begins_as(other)
    }

    /// Whether the first bytes are the same, as far as both are known. What a mapping begins with is not.
    fn begins_as(&self, other: &Self) -> bool {
        match [self, other].map(|rest| head(&rest.rows)) {
            [Some(source), Some(destination)] => !source.differs_from(&destination),
            [None, Some(_)] => self.is_mapping,
            [_, None] => true,
        }
    }
}

/// What is left of each file that was read (or written), unless some call on it does not tell its bytes.
fn rests<'a>(
    sides: &BTreeMap<Option<FileId>, Vec<&'a Row>>,
    flows: &[Flow<'a>],
    activity: &Activity<'a>,
    end: fn(&Flow<'a>) -> Option<FileId>,
    order: fn(&[&Row]) -> Option<u64>,
) -> Vec<Rest<'a>> {
    let taken = taken(flows, end);
    let used: HashSet<*const Row> = flows.iter().flat_map(Flow::rows).map(ptr::from_ref).collect();
    let rest = |(&file, rows): (&Option<FileId>, &Vec<&'a Row>)| {
        let file = file.filter(|&file| activity.carries_bytes(file))?;
        let taken = taken.get(&file).copied().unwrap_or(0);
        let bytes = sum_bytes(rows)?.saturating_sub(taken);
        let order = order(rows);
        let rows = rows.iter().copied().filter(|row| !used.contains(&ptr::from_ref(*row))).collect();
        Some(Rest { file, bytes, rows, order, is_mapping: false })
    };
    sides.iter().filter_map(rest).collect()
}

/// The first bytes that these rows moved; `None`: unknown.
fn head(rows: &[&Row]) -> Option<Head> {
    let moved = rows.iter().filter(|row| row.moved_order.is_some());
    moved.min_by_key(|row| row.moved_order).map(|row| row.head).filter(|head| !head.is_unknown())
}

/// Mapped files, with the bytes that were mapped. Nothing, where the backend sees which buffers lie in mappings.
fn mappings<'a>(activity: &Activity<'a>) -> impl Iterator<Item = Rest<'a>> {
    let mapped = activity.mappings.iter().filter(|(file, _)| !activity.sees_memory && !activity.is_program(**file));
    mapped.filter_map(|(&file, rows)| {
        let requested = rows.iter().map(|row| row.requested_bytes).reduce(|a, b| a?.checked_add(b?)).flatten();
        let rest = |bytes| Rest { file, bytes, rows: rows.clone(), order: first_order(rows), is_mapping: true };
        requested.filter(|&bytes| bytes >= LEAST_BYTES).map(rest)
    })
}

/// The only file of which exactly so many bytes were mapped.
pub(super) fn mapped_source(activity: &Activity<'_>, bytes: u64) -> Option<FileId> {
    let mut found = mappings(activity).filter(|rest| rest.bytes == bytes).map(|rest| rest.file);
    found.next().filter(|_| found.next().is_none())
}

/// One flow more; if the same loop is known in part already, what is known becomes all of it.
fn connect<'a>(flows: &mut Vec<Flow<'a>>, source: &Rest<'a>, destination: &Rest<'a>, bytes: u64) {
    let from = Source::File(source.file);
    let known = flows.iter_mut().find(|flow| flow.is_loop() && flow.from == from && flow.to == destination.file);
    match known {
        Some(flow) if !source.is_mapping => {
            if are_worth_adding(bytes, flow.bytes.unwrap_or(0)) {
                flow.infer(bytes, Evidence::Totals, &source.rows, &destination.rows);
            }
        }
        _ => flows.push(Flow {
            reading: source.rows.clone(),
            writing: destination.rows.clone(),
            ..Flow::inferred(source.file, destination.file, api(source, destination), Evidence::Totals, bytes)
        }),
    }
}

fn api(source: &Rest<'_>, destination: &Rest<'_>) -> Api {
    if source.is_mapping {
        Api::MmapWrite
    } else if source.rows.iter().chain(&destination.rows).any(|row| is_by_ring(row)) {
        Api::IoUring
    } else {
        Api::ReadWrite
    }
}
