//! Sums over transfers of the same shape, and over what was done with files. Both keep only a
//! limited number of files apart.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    iter,
};

use crate::{
    ends::End,
    transfer::{Api, Attempt, Edge, Merged, Transfer},
    units::sum_all,
    verdict_words::verdict_of_many,
};

/// So many pairs of paths are told apart for each program and interface, and so many paths of
/// everything that was read or written. All others are summed by kind.
const MAX_NAMED: usize = 16;

impl End {
    /// The same without what tells files of one path apart: a file may be created again and again.
    /// Pipes and connections have no names that tell anything, so only their kind remains.
    fn by_path(&self) -> Self {
        Self {
            path: self.path.clone(),
            ..self.by_kind()
        }
    }

    fn by_kind(&self) -> Self {
        Self {
            kind: self.kind.clone(),
            fs: self.fs.clone(),
            ..Self::default()
        }
    }
}

/// Sums over transfers, by shape.
#[derive(Debug, Clone, Default)]
pub(crate) struct TransferSums {
    sums: Vec<Transfer>,
    places: HashMap<TransferShape, usize>,
    /// How many sums each group has whose ends have paths.
    named: HashMap<TransferGroup, usize>,
}

/// The names of the processes, and the interface.
type TransferGroup = (Vec<Option<String>>, Api);

/// What transfers must have in common to be summed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TransferShape {
    group: TransferGroup,
    /// Its edge and those of its hops, without their bytes.
    edges: Vec<Edge>,
    /// Each call and its errno.
    attempts: Vec<[String; 2]>,
    /// What explains them.
    reason: Option<String>,
    part_of: Vec<usize>,
}

impl TransferShape {
    fn from_transfer(transfer: &Transfer, programs: &[Option<String>]) -> Self {
        let attempt = |attempt: &Attempt| [attempt.syscall.clone(), attempt.errno.clone()];
        let edge = |edge: &Edge| Edge {
            bytes: edge.bytes.map(|_| 0),
            certainty: edge.evidence.certainty(),
            ..edge.clone()
        };
        let hops = transfer.hops.iter().map(|hop| &hop.edge);
        Self {
            group: (programs.to_vec(), transfer.api),
            edges: iter::once(&transfer.edge).chain(hops).map(edge).collect(),
            attempts: transfer.attempts.iter().map(attempt).collect(),
            reason: transfer.reason.as_ref().map(|reason| reason.text.clone()),
            part_of: transfer.part_of.clone(),
        }
    }

    fn has_paths(&self) -> bool {
        let mut ends = self.edges.iter().flat_map(|edge| [&edge.from, &edge.to]);
        ends.any(|end| end.path.is_some())
    }
}

impl TransferSums {
    /// Adds a transfer, and returns the place of its sum.
    pub(crate) fn add(&mut self, transfer: Transfer, programs: &[Option<String>]) -> usize {
        let named = sum_of_one(transfer, programs);
        let shape = TransferShape::from_transfer(&named, programs);
        let has_place = self.places.contains_key(&shape);
        let (sum, shape) = if has_place || !shape.has_paths() || self.take_room(&shape.group) {
            (named, shape)
        } else {
            let sum = by_kind(named);
            let shape = TransferShape::from_transfer(&sum, programs);
            (sum, shape)
        };
        let next = self.sums.len();
        let place = *self.places.entry(shape).or_insert(next);
        match self.sums.get_mut(place) {
            Some(known) => known.add_alike(&sum),
            None => self.sums.push(sum),
        }
        place
    }

    /// Takes the room for one more sum with paths. Whether there was any.
    fn take_room(&mut self, group: &TransferGroup) -> bool {
        let count = self.named.entry(group.clone()).or_default();
        *count += 1;
        *count <= MAX_NAMED
    }

    pub(crate) fn into_transfers(self) -> impl Iterator<Item = Transfer> {
        self.sums.into_iter().map(|sum| Transfer {
            verdict: verdict_of_many(&sum),
            ..sum
        })
    }
}

/// The sum over one transfer.
fn sum_of_one(transfer: Transfer, programs: &[Option<String>]) -> Transfer {
    let merged = Merged {
        transfers: 1,
        programs: programs.to_vec(),
        same_ends: true,
    };
    let sum = Transfer {
        verdict: String::new(),
        callers: None,
        merged: Some(merged),
        ..transfer
    };
    with_ends(sum, End::by_path)
}

/// The same sum, which says only of what kind its ends are.
fn by_kind(mut sum: Transfer) -> Transfer {
    (sum.reason, sum.hint) = (None, None);
    if let Some(merged) = &mut sum.merged {
        merged.same_ends = false;
    }
    with_ends(sum, End::by_kind)
}

fn with_ends(mut transfer: Transfer, end: fn(&End) -> End) -> Transfer {
    let hops = transfer.hops.iter_mut().map(|hop| &mut hop.edge);
    for edge in hops.chain([&mut transfer.edge]) {
        (edge.from, edge.to) = (end(&edge.from), end(&edge.to));
    }
    transfer
}

impl Transfer {
    /// Adds one of the same shape.
    fn add_alike(&mut self, more: &Self) {
        self.add_figures(more);
        self.bytes = sum_all([self.bytes, more.bytes]);
        self.observed_bytes = sum_all([self.observed_bytes, more.observed_bytes]);
        self.compared_words += more.compared_words;
        self.changed_words += more.changed_words;
        self.certainty = self.certainty.max(more.certainty);
        for (attempt, more) in self.attempts.iter_mut().zip(&more.attempts) {
            attempt.calls += more.calls;
        }
        for (hop, more) in self.hops.iter_mut().zip(&more.hops) {
            hop.bytes = sum_all([hop.bytes, more.bytes]);
        }
        // How many calls moved something is not kept.
        self.mean_bytes = self
            .mean_bytes
            .filter(|_| self.mean_bytes == more.mean_bytes);
        self.hint = self.hint.take().filter(|_| self.hint == more.hint);
        if let (Some(merged), Some(more)) = (&mut self.merged, &more.merged) {
            merged.transfers += more.transfers;
            merged.same_ends &= more.same_ends;
        }
    }
}

/// What was read, or written, by file.
pub(crate) type SumsByFile<T> = BTreeMap<Option<End>, T>;

/// The file that this one is summed as: the path, as long as there is room for one more.
fn summed_as<T>(sums: &SumsByFile<T>, file: Option<&End>) -> Option<End> {
    let named = file.map(End::by_path);
    let paths = sums.keys().flatten().filter(|end| end.path.is_some());
    if paths.count() < MAX_NAMED || sums.contains_key(&named) {
        named
    } else {
        file.map(End::by_kind)
    }
}

/// Adds what a process read from a file, or wrote to it. `add` adds to what is known of that file.
pub(crate) fn add_by_file<T>(
    sums: &mut SumsByFile<T>,
    more: T,
    file: fn(&mut T) -> &mut Option<End>,
    add: fn(&mut T, T),
) {
    let mut more = more;
    let summed = summed_as(sums, file(&mut more).as_ref());
    file(&mut more).clone_from(&summed);
    match sums.entry(summed) {
        Entry::Occupied(mut sum) => add(sum.get_mut(), more),
        Entry::Vacant(place) => {
            place.insert(more);
        }
    }
}
