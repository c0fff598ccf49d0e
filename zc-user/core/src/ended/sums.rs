//! Sums over transfers of the same shape, and over what was done with files. Both keep only a
//! limited number of files apart.

use crate::trace::sum_known;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

use crate::transfer::{
    self, Api, Attempt, Certainty, DestinationTotals, End, Evidence, Hop, Merged, SourceTotals,
    Transfer, sum_counts,
};

/// So many ends of transfers are told apart for each program and interface, and so many files of
/// everything that was read or written.
const MOST_NAMED: usize = 16;

/// How far files are told apart. Each is used until there are too many of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Level {
    /// Every file.
    File,
    /// Files of the same path are one: a file that is created again and again.
    Path,
    /// Files of the same kind and filesystem are one.
    Kind,
}

impl Level {
    const ALL: [Self; 3] = [Self::File, Self::Path, Self::Kind];

    fn end(self, end: &End) -> End {
        let of_kind = || End {
            kind: end.kind.clone(),
            fs: end.fs.clone(),
            ..End::default()
        };
        match self {
            // Pipes and connections have no names that tell anything.
            _ if end.path.is_none() => of_kind(),
            Self::File => end.clone(),
            Self::Path => End {
                path: end.path.clone(),
                ..of_kind()
            },
            Self::Kind => of_kind(),
        }
    }
}

/// Finds the place of something by the first level on which it has one, or on which there is room.
fn find_place<K: Hash + Eq, G: Hash + Eq>(
    places: &mut HashMap<K, usize>,
    named: &mut HashMap<(G, Level), usize>,
    key: impl Fn(Level) -> K,
    group: impl Fn() -> G,
    next: usize,
) -> (Level, usize) {
    for level in Level::ALL {
        let key = key(level);
        if let Some(&found) = places.get(&key) {
            return (level, found);
        }
        let count = named.entry((group(), level)).or_default();
        if *count < MOST_NAMED || level == Level::Kind {
            *count += 1;
            places.insert(key, next);
            return (level, next);
        }
    }
    unreachable!("the last level takes everything")
}

/// Sums over transfers, by shape.
#[derive(Debug, Clone, Default)]
pub(crate) struct TransferSums {
    sums: Vec<Transfer>,
    places: HashMap<TransferKey, usize>,
    named: HashMap<(GroupKey, Level), usize>,
}

/// The names of the processes, and the interface.
type GroupKey = (Vec<Option<String>>, Api);

/// What transfers must have in common to be summed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TransferKey {
    group: GroupKey,
    evidence: Evidence,
    certainty: Certainty,
    has_bytes: bool,
    ends: [End; 2],
    /// Each call and its errno.
    attempts: Vec<[String; 2]>,
    hops: Vec<HopKey>,
    /// What explains them. On the last level this may differ.
    reason: Option<String>,
    part_of: Vec<usize>,
}

type HopKey = (Api, Evidence, Certainty, bool, [End; 2]);

impl TransferKey {
    fn from_transfer(transfer: &Transfer, programs: &[Option<String>], level: Level) -> Self {
        let attempt = |attempt: &Attempt| [attempt.syscall.clone(), attempt.errno.clone()];
        let hop = |hop: &Hop| {
            let ends = [&hop.from, &hop.to].map(|end| level.end(end));
            (
                hop.api,
                hop.evidence,
                hop.certainty,
                hop.bytes.is_some(),
                ends,
            )
        };
        Self {
            group: (programs.to_vec(), transfer.api),
            evidence: transfer.evidence,
            certainty: transfer.certainty,
            has_bytes: transfer.bytes.is_some(),
            ends: [&transfer.from, &transfer.to].map(|end| level.end(end)),
            attempts: transfer.attempts.iter().map(attempt).collect(),
            hops: transfer.hops.iter().map(hop).collect(),
            reason: transfer
                .reason
                .as_ref()
                .map(|reason| reason.text.clone())
                .filter(|_| level != Level::Kind),
            part_of: transfer.part_of.clone(),
        }
    }
}

impl TransferSums {
    /// Adds a transfer; its `part_of` are places in these sums. Returns its own.
    pub(crate) fn add(&mut self, transfer: Transfer, programs: &[Option<String>]) -> usize {
        let shape = |level| TransferKey::from_transfer(&transfer, programs, level);
        let group = || (programs.to_vec(), transfer.api);
        let (level, place) = find_place(
            &mut self.places,
            &mut self.named,
            shape,
            group,
            self.sums.len(),
        );
        match self.sums.get_mut(place) {
            Some(sum) => add_alike(sum, transfer),
            None => self.sums.push(sum_of_one(transfer, programs, level)),
        }
        place
    }

    /// The sums.
    pub(crate) fn described(&self) -> Vec<Transfer> {
        self.sums
            .iter()
            .map(|sum| Transfer {
                verdict: transfer::verdict_of_many(sum),
                ..sum.clone()
            })
            .collect()
    }
}

/// The sum over one transfer.
fn sum_of_one(transfer: Transfer, programs: &[Option<String>], level: Level) -> Transfer {
    let is_exact_kind = level != Level::Kind || transfer.ends_without_paths();
    let hops = transfer.hops.into_iter().map(|hop| Hop {
        from: level.end(&hop.from),
        to: level.end(&hop.to),
        ..hop
    });
    Transfer {
        from: level.end(&transfer.from),
        to: level.end(&transfer.to),
        hops: hops.collect(),
        reason: transfer.reason.filter(|_| level != Level::Kind),
        hint: transfer.hint.filter(|_| level != Level::Kind),
        verdict: String::new(),
        callers: None,
        merged: Some(Merged {
            transfers: 1,
            programs: programs.to_vec(),
            same_ends: is_exact_kind,
        }),
        ..transfer
    }
}

impl Transfer {
    fn ends_without_paths(&self) -> bool {
        self.from.path.is_none() && self.to.path.is_none()
    }
}

/// Adds a transfer of the same shape.
fn add_alike(to: &mut Transfer, more: Transfer) {
    let add_counts = |sums: &mut BTreeMap<String, u64>, more| {
        *sums = sum_counts(std::mem::take(sums), more);
    };
    to.bytes = sum_known(to.bytes, more.bytes);
    to.calls = sum_known(to.calls, more.calls);
    add_counts(&mut to.calls_by_syscall, more.calls_by_syscall);
    if to.calls.is_none() {
        to.calls_by_syscall.clear();
    }
    add_counts(&mut to.retries, more.retries);
    add_counts(&mut to.errors, more.errors);
    for (attempt, more) in to.attempts.iter_mut().zip(&more.attempts) {
        attempt.calls += more.calls;
    }
    // How many calls moved something is not kept.
    to.mean_bytes = to.mean_bytes.filter(|_| to.mean_bytes == more.mean_bytes);
    to.crossings = sum_known(to.crossings, more.crossings);
    to.user_memory_bytes = sum_known(to.user_memory_bytes, more.user_memory_bytes);
    to.short_calls += more.short_calls;
    to.zero_calls += more.zero_calls;
    to.total_ns = sum_known(to.total_ns, more.total_ns);
    to.hint = to.hint.take().filter(|_| to.hint == more.hint);
    for (hop, more) in to.hops.iter_mut().zip(&more.hops) {
        hop.bytes = sum_known(hop.bytes, more.bytes);
    }
    if let Some(merged) = &mut to.merged {
        merged.transfers += 1;
    }
}

/// Sums by file.
#[derive(Debug, Clone)]
pub(crate) struct ByFile<T> {
    sums: Vec<T>,
    places: HashMap<Option<End>, usize>,
    named: HashMap<((), Level), usize>,
}

impl<T> Default for ByFile<T> {
    fn default() -> Self {
        Self {
            sums: Vec::new(),
            places: HashMap::new(),
            named: HashMap::new(),
        }
    }
}

impl<T: OfFile> ByFile<T> {
    pub(crate) fn add(&mut self, mut one: T) {
        let file = one.file().clone();
        let key = |level: Level| file.as_ref().map(|file| level.end(file));
        let (level, place) = find_place(
            &mut self.places,
            &mut self.named,
            key,
            || (),
            self.sums.len(),
        );
        *one.file() = key(level);
        match self.sums.get_mut(place) {
            Some(sum) => sum.add(one),
            None => self.sums.push(one),
        }
    }

    /// The sums, those with the most bytes first.
    pub(crate) fn into_sorted(mut self) -> Vec<T> {
        self.sums.sort_by_key(|sum| Reverse(sum.bytes()));
        self.sums
    }
}

/// Figures about one file.
pub(crate) trait OfFile {
    /// The file.
    fn file(&mut self) -> &mut Option<End>;
    /// The bytes by which they are ordered.
    fn bytes(&self) -> Option<u64>;
    /// Adds the figures of another one.
    fn add(&mut self, more: Self);
}

impl OfFile for SourceTotals {
    fn file(&mut self) -> &mut Option<End> {
        &mut self.file
    }

    fn bytes(&self) -> Option<u64> {
        self.read_bytes
    }

    fn add(&mut self, more: Self) {
        self.add(&more);
    }
}

impl OfFile for DestinationTotals {
    fn file(&mut self) -> &mut Option<End> {
        &mut self.file
    }

    fn bytes(&self) -> Option<u64> {
        self.written_bytes
    }

    fn add(&mut self, more: Self) {
        self.add(more);
    }
}
