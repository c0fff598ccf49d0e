//! Flows between a source and a destination of one process with equal byte counts. For backends
//! that do not see memory.
//!
//! If one thread reads and another writes, or an io_uring does both, or a buffer lies in a mapping
//! that the backend does not see, no call connects the two ends. They are connected here if all of
//! this holds:
//!
//! - the bytes that nothing else explains are exactly as many at both ends, and at least
//!   [`LEAST_BYTES`];
//! - no third file of the process has the same number: it is unlikely that counts agree to the byte
//!   by chance;
//! - the first bytes read and the first bytes written do not differ, if the backend shows them;
//! - no call moves a vector, of which a log shows only the beginning;
//! - with fewer than [`MANY_CALLS`] writes, every kind of write begins as a read does.
//!
//! A loop that is known in part gets the rest of both ends, if the rests are equal. The figure is
//! low: bytes that were read meanwhile from other files may be among those written, bytes that a
//! thread wrote to another file right after it had read the source may be the source's, and bytes
//! that it wrote to the destination right after it had read another file may be that file's, so all
//! are subtracted. It is no lower bound, because the program may have changed or replaced the
//! bytes.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ptr,
};

use super::{
    activity::Activity,
    flow::{Flow, Source, first_moved, first_order, is_by_ring, moving_calls, sum_bytes},
    inference::{LEAST_BYTES, MANY_CALLS, ReadMeanwhile, claimed, is_worth_adding},
};
use crate::{
    trace::{FileId, FirstBytes, Row},
    transfer::{Api, Evidence},
};

/// The bytes of a file that no flow explains yet.
#[derive(Debug)]
struct Unexplained<'a> {
    file: FileId,
    bytes: u64,
    /// The rows that are in no flow yet.
    rows: Vec<&'a Row>,
    /// For a source, when its first bytes had been read; for a destination, when the first write
    /// began.
    order: Option<u64>,
    is_mapping: bool,
}

/// Adds the flows that equal byte counts show.
pub(super) fn add<'a>(flows: &mut Vec<Flow<'a>>, activity: &Activity<'a>) {
    complete_loops(flows, activity);
    add_equal(flows, activity);
}

/// Completes loops that have the same number of unexplained bytes at both ends, and are the only
/// loop at these ends.
fn complete_loops<'a>(flows: &mut [Flow<'a>], activity: &Activity<'a>) {
    let (sources, destinations) = ends(flows, activity, 1);
    let by_file = |files: Vec<Unexplained<'a>>| {
        files
            .into_iter()
            .map(|end| (end.file, end))
            .collect::<HashMap<_, _>>()
    };
    let (sources, destinations) = (by_file(sources), by_file(destinations));
    let agrees = |from, to| {
        let ends = sources.get(&from).zip(destinations.get(&to));
        from != to
            && ends.is_some_and(|(source, destination)| {
                source.bytes == destination.bytes && source.agrees_with(destination)
            })
    };
    let ends_of = |flow: &Flow<'_>| Some((flow.read_from()?, flow.written_to()?));
    let found = flows
        .iter()
        .filter_map(ends_of)
        .filter(|(from, to)| agrees(*from, *to))
        .map(|(from, _)| from);
    let (counts, read_meanwhile) = (
        LoopCounts::of(flows),
        read_meanwhile(flows, &found.collect(), activity),
    );
    let in_turn = InTurn::of(flows, activity);
    for flow in flows.iter_mut().filter(|flow| flow.is_loop()) {
        let (Some(from), Some(to)) = (flow.read_from(), flow.written_to()) else {
            continue;
        };
        let (Some(source), Some(destination)) = (sources.get(&from), destinations.get(&to)) else {
            continue;
        };
        let doubtful = read_meanwhile.bytes_during(
            from,
            all(&activity.reads, from),
            all(&activity.writes, to),
        );
        let bytes = source
            .bytes
            .saturating_sub(doubtful)
            .saturating_sub(in_turn.bytes_apart(from, to));
        let is_worth = is_worth_adding(bytes, flow.bytes.unwrap_or(0));
        if agrees(from, to) && is_worth && counts.is_only_loop(from, to) {
            flow.infer(bytes, Evidence::Totals, &source.rows, &destination.rows);
        }
    }
}

/// How many loops begin and end at each file.
#[derive(Debug, Default)]
struct LoopCounts {
    from: HashMap<FileId, usize>,
    to: HashMap<FileId, usize>,
    between: HashSet<(FileId, FileId)>,
}

impl LoopCounts {
    fn of(flows: &[Flow<'_>]) -> Self {
        let mut counts = Self::default();
        for (from, to) in flows
            .iter()
            .filter_map(|flow| Some((flow.read_from(), flow.written_to()?)))
        {
            *counts.to.entry(to).or_default() += 1;
            if let Some(from) = from {
                *counts.from.entry(from).or_default() += 1;
                counts.between.insert((from, to));
            }
        }
        counts
    }

    /// Whether no loop begins at the one or ends at the other, apart from one between the two.
    fn is_only_loop(&self, from: FileId, to: FileId) -> bool {
        let between = usize::from(self.between.contains(&(from, to)));
        let count = |counts: &HashMap<FileId, usize>, file| counts.get(&file).copied().unwrap_or(0);
        count(&self.from, from) == between && count(&self.to, to) == between
    }
}

/// The bytes that threads wrote after they had read a source, and that no loop has.
#[derive(Debug, Default)]
struct InTurn {
    between: HashMap<(FileId, FileId), u64>,
    from: HashMap<FileId, u64>,
    to: HashMap<FileId, u64>,
}

impl InTurn {
    /// Where memory shows the source of most writes, the order of the others says too little.
    fn of(flows: &[Flow<'_>], activity: &Activity<'_>) -> Self {
        let mut in_turn = Self::default();
        if activity.sees_memory {
            return in_turn;
        }
        for (&from, by_destination) in activity
            .threads
            .iter()
            .flat_map(|thread| &thread.writes_after)
        {
            for (&to, rows) in by_destination {
                let sum = in_turn.between.entry((from, to)).or_default();
                *sum = rows
                    .iter()
                    .map(|row| row.paired_bytes)
                    .fold(*sum, u64::saturating_add);
            }
        }
        for flow in flows.iter().filter(|flow| flow.is_loop()) {
            let known = flow
                .read_from()
                .and_then(|from| in_turn.between.get_mut(&(from, flow.to)));
            if let Some(bytes) = known {
                *bytes = bytes.saturating_sub(flow.bytes.unwrap_or(0));
            }
        }
        for (&(from, to), &bytes) in &in_turn.between {
            for sum in [
                in_turn.from.entry(from).or_default(),
                in_turn.to.entry(to).or_default(),
            ] {
                *sum = sum.saturating_add(bytes);
            }
        }
        in_turn
    }

    /// The bytes of a source that may have gone to other destinations than this, and those of the
    /// destination that may have come from other sources.
    fn bytes_apart(&self, from: FileId, to: FileId) -> u64 {
        let sum = |sums: &HashMap<FileId, u64>, file| sums.get(&file).copied().unwrap_or(0);
        let together = self.between.get(&(from, to)).copied().unwrap_or(0);
        (sum(&self.from, from).saturating_sub(together))
            .saturating_add(sum(&self.to, to).saturating_sub(together))
    }
}

/// Adds flows between ends with equal byte counts.
fn add_equal<'a>(flows: &mut Vec<Flow<'a>>, activity: &Activity<'a>) {
    let (mut sources, destinations) = ends(flows, activity, LEAST_BYTES);
    sources.extend(mappings(activity));
    let counts = LoopCounts::of(flows);
    let mut by_bytes: HashMap<u64, (Vec<&Unexplained>, Vec<&Unexplained>)> = HashMap::new();
    for source in &sources {
        by_bytes.entry(source.bytes).or_default().0.push(source);
    }
    for destination in &destinations {
        by_bytes
            .entry(destination.bytes)
            .or_default()
            .1
            .push(destination);
    }
    let mut found: Vec<_> = by_bytes
        .values()
        .filter_map(|ends| match (ends.0.as_slice(), ends.1.as_slice()) {
            (&[source], &[destination])
                if source.can_be_source_of(destination)
                    && counts.is_only_loop(source.file, destination.file) =>
            {
                Some((source, destination))
            }
            _ => None,
        })
        .collect();
    found.sort_by_key(|(source, destination)| (source.file, destination.file));
    let read_meanwhile = read_meanwhile(
        flows,
        &found.iter().map(|(source, _)| source.file).collect(),
        activity,
    );
    let in_turn = InTurn::of(flows, activity);
    for (source, destination) in found {
        let calls = if source.is_mapping {
            source.rows.as_slice()
        } else {
            all(&activity.reads, source.file)
        };
        let doubtful = read_meanwhile.bytes_during(
            source.file,
            calls,
            all(&activity.writes, destination.file),
        );
        let bytes = source
            .bytes
            .saturating_sub(doubtful)
            .saturating_sub(in_turn.bytes_apart(source.file, destination.file));
        if bytes > 0 {
            add_flow(flows, source, destination, bytes);
        }
    }
}

/// All calls on one file.
fn all<'s, 'a>(sides: &'s BTreeMap<Option<FileId>, Vec<&'a Row>>, file: FileId) -> &'s [&'a Row] {
    sides
        .get(&Some(file))
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// What was read or mapped and is in no flow, without the sources in `found`, of which all bytes
/// are about to be in one.
fn read_meanwhile(
    flows: &[Flow<'_>],
    found: &HashSet<FileId>,
    activity: &Activity<'_>,
) -> ReadMeanwhile {
    let claimed = claimed(flows, |flow| flow.from.file());
    let left = |file: Option<FileId>, bytes: Option<u64>| {
        let bytes = bytes.unwrap_or(u64::MAX);
        let Some(file) = file else { return bytes };
        if found.contains(&file) {
            0
        } else {
            bytes.saturating_sub(claimed.get(&file).copied().unwrap_or(0))
        }
    };
    let read = activity
        .reads
        .iter()
        .map(|(&file, rows)| (file, rows.as_slice(), left(file, sum_bytes(rows))));
    let mapped = activity.mappings.iter().map(|(&file, rows)| {
        let requested = rows
            .iter()
            .map(|row| row.requested_bytes)
            .reduce(|a, b| a?.checked_add(b?))
            .flatten();
        (Some(file), rows.as_slice(), left(Some(file), requested))
    });
    ReadMeanwhile::of(mapped.chain(read), activity)
}

/// The files read and the files written of which at least this many bytes are unexplained.
fn ends<'a>(
    flows: &[Flow<'a>],
    activity: &Activity<'a>,
    least_bytes: u64,
) -> (Vec<Unexplained<'a>>, Vec<Unexplained<'a>>) {
    let mut ends = (
        unexplained(
            &activity.reads,
            flows,
            activity,
            Flow::read_from,
            first_moved,
        ),
        unexplained(
            &activity.writes,
            flows,
            activity,
            Flow::written_to,
            first_order,
        ),
    );
    for files in [&mut ends.0, &mut ends.1] {
        files.retain(|end| end.bytes >= least_bytes);
    }
    ends
}

impl Unexplained<'_> {
    /// Whether this can be the source of the other: a different file that had been read from before
    /// the other was first written to, and that begins with the same bytes. The time when a read
    /// began says nothing: it may wait for what another thread is about to write.
    fn can_be_source_of(&self, other: &Self) -> bool {
        let is_earlier = self
            .order
            .zip(other.order)
            .is_none_or(|(source, destination)| source < destination);
        self.file != other.file
            && is_earlier
            && self.agrees_with(other)
            && (moving_calls(&other.rows) >= MANY_CALLS || self.has_all_of(other))
    }

    /// Whether each kind of write begins as some kind of read does, as far as known. With many
    /// calls, one kind may begin in the middle of another.
    fn has_all_of(&self, other: &Self) -> bool {
        let known: Vec<FirstBytes> = self
            .rows
            .iter()
            .map(|row| row.first_bytes)
            .filter(|bytes| !bytes.is_unknown())
            .collect();
        let is_read = |row: &&Row| {
            known.is_empty()
                || known
                    .iter()
                    .any(|bytes| !bytes.differs_from(&row.first_bytes))
        };
        other.rows.iter().all(is_read)
    }

    /// Whether the first bytes are the same, as far as known. Those of a mapping are unknown. A log
    /// shows how a vector begins, but not what its other elements have to do with what was read, so
    /// vectors never agree.
    fn agrees_with(&self, other: &Self) -> bool {
        if self
            .rows
            .iter()
            .chain(&other.rows)
            .any(|row| row.call.spec().requested.is_vector())
        {
            return false;
        }
        match [self, other].map(|end| first_bytes(&end.rows)) {
            [Some(source), Some(destination)] => !source.differs_from(&destination),
            [None, Some(_)] => self.is_mapping,
            [_, None] => true,
        }
    }
}

/// The unexplained bytes of each file that was read (or written). Files with a call that does not
/// say its bytes are left out.
fn unexplained<'a>(
    sides: &BTreeMap<Option<FileId>, Vec<&'a Row>>,
    flows: &[Flow<'a>],
    activity: &Activity<'a>,
    end: fn(&Flow<'a>) -> Option<FileId>,
    order: fn(&[&Row]) -> Option<u64>,
) -> Vec<Unexplained<'a>> {
    let claimed = claimed(flows, end);
    let used: HashSet<*const Row> = flows
        .iter()
        .flat_map(Flow::rows)
        .map(ptr::from_ref)
        .collect();
    let end = |(&file, rows): (&Option<FileId>, &Vec<&'a Row>)| {
        let file = file.filter(|&file| activity.carries_bytes(file))?;
        let claimed = claimed.get(&file).copied().unwrap_or(0);
        let bytes = sum_bytes(rows)?.saturating_sub(claimed);
        let order = order(rows);
        let rows = rows
            .iter()
            .copied()
            .filter(|row| !used.contains(&ptr::from_ref(*row)))
            .collect();
        Some(Unexplained {
            file,
            bytes,
            rows,
            order,
            is_mapping: false,
        })
    };
    sides.iter().filter_map(end).collect()
}

/// The first bytes that these rows moved. `None`: unknown.
fn first_bytes(rows: &[&Row]) -> Option<FirstBytes> {
    let moved = rows.iter().filter(|row| row.moved_order.is_some());
    moved
        .min_by_key(|row| row.moved_order)
        .map(|row| row.first_bytes)
        .filter(|first_bytes| !first_bytes.is_unknown())
}

/// Files that were mapped once, with the bytes that were mapped. None if the backend sees memory,
/// because then it knows which buffers lie in mappings.
fn mappings<'a>(activity: &Activity<'a>) -> impl Iterator<Item = Unexplained<'a>> {
    let is_mapped_once = |rows: &[&Row]| rows.iter().map(|row| row.calls).sum::<u64>() == 1;
    let mapped = activity
        .mappings
        .iter()
        .filter(|(file, _)| !activity.sees_memory && !activity.is_program(**file));
    let mapped = mapped.filter(move |(_, rows)| is_mapped_once(rows));
    mapped.filter_map(|(&file, rows)| {
        let requested = rows
            .iter()
            .map(|row| row.requested_bytes)
            .reduce(|a, b| a?.checked_add(b?))
            .flatten();
        let end = |bytes| Unexplained {
            file,
            bytes,
            rows: rows.clone(),
            order: first_order(rows),
            is_mapping: true,
        };
        requested.filter(|&bytes| bytes >= LEAST_BYTES).map(end)
    })
}

/// The only file of which exactly this many bytes were mapped.
pub(super) fn mapped_source(activity: &Activity<'_>, bytes: u64) -> Option<FileId> {
    let mut found = mappings(activity)
        .filter(|end| end.bytes == bytes)
        .map(|end| end.file);
    found.next().filter(|_| found.next().is_none())
}

/// Adds a flow, or adds the bytes to a loop that is known in part.
fn add_flow<'a>(
    flows: &mut Vec<Flow<'a>>,
    source: &Unexplained<'a>,
    destination: &Unexplained<'a>,
    bytes: u64,
) {
    let from = Source::File(source.file);
    let known = flows
        .iter_mut()
        .find(|flow| flow.is_loop() && flow.from == from && flow.to == destination.file);
    match known {
        Some(flow) if !source.is_mapping => {
            if is_worth_adding(bytes, flow.bytes.unwrap_or(0)) {
                flow.infer(bytes, Evidence::Totals, &source.rows, &destination.rows);
            }
        }
        _ => flows.push(Flow {
            reading: source.rows.clone(),
            writing: destination.rows.clone(),
            ..Flow::inferred(
                source.file,
                destination.file,
                api(source, destination),
                Evidence::Totals,
                bytes,
            )
        }),
    }
}

fn api(source: &Unexplained<'_>, destination: &Unexplained<'_>) -> Api {
    if source.is_mapping {
        Api::MmapWrite
    } else if source
        .rows
        .iter()
        .chain(&destination.rows)
        .any(|row| is_by_ring(row))
    {
        Api::IoUring
    } else {
        Api::ReadWrite
    }
}
