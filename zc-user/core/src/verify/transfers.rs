//! The transfers of two reports of the same command.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{
    report::{Api, Attempt, Certainty, End, Evidence, Report, Transfer},
    syscall::Call,
};

/// What went from one end to another by one interface, under both backends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Where it came from: path or kind.
    pub from: String,
    /// Where it went, likewise.
    pub to: String,
    /// The interface.
    pub api: Api,
    /// What each backend saw; `None`: no such transfer.
    pub figures: [Option<Figures>; 2],
    /// Whether that is the same; of what one of them inferred, whether it can be true if what the other proved is.
    pub equal: bool,
}

/// The figures of all transfers between two ends by one interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// How sure it is: as the least sure of them.
    pub certainty: Certainty,
    /// Bytes that arrived, or at least so many if they are inferred.
    pub bytes: Option<u64>,
    /// Those of them that are proven.
    pub proven_bytes: Option<u64>,
    /// Calls that took part.
    pub calls: u64,
    /// What was tried before.
    pub attempts: Vec<Attempt>,
    /// Whether calls name both ends of all of them.
    #[serde(skip)]
    pub is_by_call: bool,
}

type Key = (String, String, Api);

/// Compares the transfers, across processes and within them. Ends are known by their paths, those that have none by their kind: other
/// names (ports, inode numbers) change from run to run.
///
/// What both proved must be the same. What one of them inferred, or did not recognise, must leave room for what the other proved: one
/// backend knows more than the other.
pub(super) fn compare(reports: [&Report; 2]) -> Vec<Moved> {
    let [mut first, mut second] = reports.map(sums);
    let keys: BTreeSet<Key> = first.keys().chain(second.keys()).cloned().collect();
    let rooms = reports.map(rooms);
    let cannot_know =
        |key: &Key| reports.iter().any(|report| !knows_rings(report)) && reports.iter().any(|report| is_by_ring(report, key));
    let moved = |key: Key| {
        let figures = [first.remove(&key), second.remove(&key)];
        let rooms = rooms.each_ref().map(|rooms| rooms.get(&key.1).copied().unwrap_or(Some(0)));
        let equal = agree(&figures, rooms) || (figures.contains(&None) && cannot_know(&key));
        let (from, to, api) = key;
        Moved { from, to, api, figures, equal }
    };
    keys.into_iter().map(moved).collect()
}

/// Whether both can be true, if so many bytes that came to this end are not proven in each.
fn agree(figures: &[Option<Figures>; 2], rooms: [Option<u64>; 2]) -> bool {
    let is_exact = |one: &Figures| one.certainty == Certainty::Exact;
    // The calls of one side say that something went this way; no report misses them.
    let is_call = |one: &Figures| is_exact(one) && one.is_by_call;
    match figures {
        [Some(first), Some(second)] if is_exact(first) && is_exact(second) => first == second,
        [Some(first), Some(second)] if is_call(first) || is_call(second) => {
            first.bytes == second.bytes && first.attempts == second.attempts
        }
        [Some(first), Some(second)] => first.leaves_room_for(second, rooms[0]) && second.leaves_room_for(first, rooms[1]),
        [Some(one), None] => !is_call(one) && Figures::default().leaves_room_for(one, rooms[1]),
        [None, Some(one)] => !is_call(one) && Figures::default().leaves_room_for(one, rooms[0]),
        [None, None] => true,
    }
}

impl Figures {
    /// Whether as many bytes as in the other may have gone this way, if so many that came to this end are not proven.
    fn leaves_room_for(&self, other: &Self, room: Option<u64>) -> bool {
        let (Some(room), Some(other)) = (room, other.bytes) else { return true };
        self.proven_bytes.unwrap_or(0).saturating_add(room) >= other
    }
}

/// By end, how many bytes came there that are not proven to come from anywhere; `None`: unknown.
fn rooms(report: &Report) -> BTreeMap<String, Option<u64>> {
    let mut rooms: BTreeMap<String, Option<u64>> = BTreeMap::new();
    for one in report.processes.iter().flat_map(|process| &process.destinations) {
        let Some(file) = &one.file else { continue };
        let unproven = one.written_bytes.map(|written| written.saturating_sub(one.proven_bytes));
        let room = rooms.entry(name(file)).or_insert(Some(0));
        *room = room.zip(unproven).and_then(|(a, b)| a.checked_add(b));
    }
    rooms
}

/// Whether the backend sees what `io_uring` does: strace does not.
fn knows_rings(report: &Report) -> bool {
    report.processes.iter().any(|process| !process.io_uring.is_empty())
}

/// Whether an operation of `io_uring` took part in a transfer.
fn is_by_ring(report: &Report, key: &Key) -> bool {
    let is_operation = |name: &String| Call::native(name.clone()).as_ring_operation().is_some();
    transfers(report).any(|transfer| key_of(transfer) == *key && transfer.calls_by_syscall.keys().any(is_operation))
}

fn transfers(report: &Report) -> impl Iterator<Item = &Transfer> {
    report.transfers.iter().chain(report.processes.iter().flat_map(|process| &process.transfers))
}

fn key_of(transfer: &Transfer) -> Key {
    (name(&transfer.from), name(&transfer.to), transfer.api)
}

fn sums(report: &Report) -> BTreeMap<Key, Figures> {
    let mut sums: BTreeMap<Key, Figures> = BTreeMap::new();
    for transfer in transfers(report) {
        add(sums.entry(key_of(transfer)), transfer);
    }
    for figures in sums.values_mut() {
        figures.attempts.sort();
    }
    sums
}

fn add(entry: std::collections::btree_map::Entry<'_, Key, Figures>, transfer: &Transfer) {
    let none =
        Figures { certainty: Certainty::Exact, bytes: Some(0), proven_bytes: Some(0), is_by_call: true, ..Figures::default() };
    let sum = entry.or_insert(none);
    sum.certainty = sum.certainty.max(transfer.certainty);
    sum.is_by_call &= transfer.evidence == Some(Evidence::Call);
    sum.proven_bytes = sum.proven_bytes.zip(transfer.proven_bytes).and_then(|(a, b)| a.checked_add(b));
    sum.bytes = sum.bytes.zip(transfer.bytes).and_then(|(a, b)| a.checked_add(b));
    sum.calls += transfer.calls;
    sum.attempts.extend(transfer.attempts.iter().cloned());
}

fn name(end: &End) -> String {
    end.path.clone().or_else(|| end.kind.clone()).unwrap_or_else(|| "unknown file".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::{
            Options,
            sample::files::{Scene, copy, read, write, written_after, written_held},
        },
        trace::Row,
    };

    fn report(rows: impl Fn(crate::trace::FileId, crate::trace::FileId) -> Vec<Row>) -> Report {
        let mut scene = Scene::new();
        let (from, to) = (scene.regular("in"), scene.socketpair()[0]);
        scene.process("copier", rows(from, to));
        Report::from_trace(&scene.trace, &Options::default())
    }

    #[test]
    fn the_same_transfers_agree() {
        let one = report(|from, to| vec![copy("sendfile", from, to, 2, 100)]);
        let [moved] = compare([&one, &one]).try_into().expect("is one");
        assert!(moved.equal);
        assert_eq!((moved.from.as_str(), moved.to.as_str(), moved.api), ("in", "unix-stream", Api::Sendfile));
    }

    #[test]
    fn other_bytes_attempts_or_interfaces_do_not() {
        let one = report(|from, to| vec![copy("sendfile", from, to, 2, 100)]);
        let others = [
            report(|from, to| vec![copy("sendfile", from, to, 2, 99)]),
            report(|from, to| vec![copy("splice", from, to, 2, 100)]),
            report(|from, to| vec![copy("splice", from, to, 0, 0).failed(libc::EINVAL, 1), copy("sendfile", from, to, 2, 100)]),
        ];
        for other in others {
            assert!(!compare([&one, &other]).iter().all(|moved| moved.equal), "{other:?}");
        }
    }

    /// A report of a backend that proves this many bytes, and infers this many more.
    fn of(proven: u64, inferred: u64, written: u64) -> Report {
        report(|from, to| {
            let rest = written - proven - inferred;
            vec![
                read("read", from, 16, proven + inferred),
                written_held("write", from, to, 16, proven, proven),
                written_after("write", from, to, 16, inferred, inferred),
                write("write", to, 16, rest),
            ]
        })
    }

    #[test]
    fn what_one_infers_must_leave_room_for_what_the_other_proves() {
        let exact = of(10_000, 0, 10_000);
        let pairs = [
            (&exact, of(0, 10_000, 10_000), true),
            (&exact, of(0, 9_000, 10_000), true),
            (&exact, of(0, 0, 10_000), true),
            // As much more was written, and one of them says that it came from there.
            (&of(5_000, 0, 10_000), of(0, 9_000, 10_000), true),
            (&exact, of(9_000, 0, 9_000), false),
            (&exact, of(0, 12_000, 12_000), false),
        ];
        for (first, second, agree) in pairs {
            for reports in [[first, &second], [&second, first]] {
                let all = compare(reports);
                assert_eq!(all.iter().all(|moved| moved.equal), agree, "{all:?}");
            }
        }
    }

    #[test]
    fn what_one_proves_to_come_from_elsewhere_contradicts_a_guess() {
        let proven = report(|from, to| vec![read("read", from, 16, 10_000), written_held("write", from, to, 16, 10_000, 10_000)]);
        let mut guess = of(0, 10_000, 10_000);
        guess.processes[0].transfers[0].from.path = Some("other".into());
        assert!(compare([&proven, &guess]).iter().any(|moved| !moved.equal));
    }

    #[test]
    fn what_an_io_uring_moved_one_backend_may_not_know() {
        let mut scene = Scene::new();
        let (from, to) = (scene.regular("in"), scene.regular("out"));
        scene.process("copier", vec![]);
        let blind = Report::from_trace(&scene.trace, &Options::default());
        scene.trace.processes[0].threads[0].ring_rows = vec![copy("io_uring:splice", from, to, 2, 100)];
        let seeing = Report::from_trace(&scene.trace, &Options::default());
        for reports in [[&seeing, &blind], [&blind, &seeing]] {
            let [moved] = compare(reports).try_into().expect("is one");
            assert!(moved.equal && moved.api == Api::IoUring, "{moved:?}");
        }
        scene.trace.processes[0].threads[0].ring_rows = vec![copy("io_uring:splice", from, to, 2, 99)];
        let other = Report::from_trace(&scene.trace, &Options::default());
        assert!(!compare([&seeing, &other])[0].equal);
    }
}
