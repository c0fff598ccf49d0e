//! The transfers of two reports of the same command.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    report::{Api, Attempt, End, Report, Transfer},
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
    /// Whether that is the same.
    pub equal: bool,
}

/// The figures of all transfers between two ends by one interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Bytes that arrived.
    pub bytes: Option<u64>,
    /// Calls that took part.
    pub calls: u64,
    /// What was tried before.
    pub attempts: Vec<Attempt>,
}

type Key = (String, String, Api);

/// Compares the transfers, across processes and within them. Ends are known by their paths, those that have none by their kind: other
/// names (ports, inode numbers) change from run to run.
pub(super) fn compare(reports: [&Report; 2]) -> Vec<Moved> {
    let [mut first, mut second] = reports.map(sums);
    let keys: std::collections::BTreeSet<Key> = first.keys().chain(second.keys()).cloned().collect();
    let cannot_know =
        |key: &Key| reports.iter().any(|report| !knows_rings(report)) && reports.iter().any(|report| is_by_ring(report, key));
    let moved = |key: Key| {
        let figures = [first.remove(&key), second.remove(&key)];
        let equal = figures[0] == figures[1] || (figures.contains(&None) && cannot_know(&key));
        let (from, to, api) = key;
        Moved { from, to, api, figures, equal }
    };
    keys.into_iter().map(moved).collect()
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
    let sum = entry.or_insert(Figures { bytes: Some(0), ..Figures::default() });
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
            sample::files::{Scene, copy},
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
