//! The pure part of `--verify`: compares two reports of the same command, one by each backend.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::report::{Api, Attempt, Certainty, End, Evidence, Report, Syscall, Transfer};

/// The counts of both backends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The command.
    pub command: Vec<String>,
    /// Names of the two backends.
    pub backends: [String; 2],
    /// Whether each of them counted exactly.
    pub exact: [bool; 2],
    /// Whether they agree in all of that.
    pub equal: bool,
    /// Every call that either of them saw, by name and ABI.
    pub rows: Vec<CallRow>,
    /// Every transfer that either of them found.
    pub transfers: Vec<TransferRow>,
}

/// One call under both backends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallRow {
    /// Name of the call.
    pub name: String,
    /// Its ABI.
    pub abi: String,
    /// What each backend counted.
    pub figures: [CallFigures; 2],
    /// Whether they agree.
    pub equal: bool,
}

/// The figures that must not depend on the backend. Times are left out, since tracing slows the
/// command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CallFigures {
    /// How often the call returned.
    pub calls: u64,
    /// How often it failed, by errno name.
    pub errnos: BTreeMap<String, u64>,
    /// Sum of the bytes that it returned as moved.
    pub bytes: Option<u64>,
    /// Sum of the bytes that it asked for.
    pub requested_bytes: Option<u64>,
}

impl Comparison {
    /// Compares the totals and the transfers of two reports on the same command.
    pub fn new(first: &Report, second: &Report) -> Self {
        let calls = [first, second].map(|report| report.totals.syscalls.as_slice());
        let names: BTreeSet<(&str, &str)> = calls
            .iter()
            .flat_map(|calls| {
                calls
                    .iter()
                    .map(|call| (call.name.as_str(), call.abi.as_str()))
            })
            .collect();
        let rows: Vec<CallRow> = names
            .into_iter()
            .map(|name| CallRow::new(name, calls))
            .collect();
        let transfers = compare_transfers([first, second]);
        Self {
            command: first.command.clone(),
            backends: [first, second].map(|report| report.backend.clone()),
            exact: [first, second].map(|report| report.exact),
            equal: rows.iter().all(|row| row.equal) && transfers.iter().all(|moved| moved.equal),
            rows,
            transfers,
        }
    }
}

impl CallRow {
    fn new((name, abi): (&str, &str), calls: [&[Syscall]; 2]) -> Self {
        let figures = calls.map(|calls| {
            let call = calls
                .iter()
                .find(|call| call.name == name && call.abi == abi);
            call.map(CallFigures::of).unwrap_or_default()
        });
        Self {
            name: name.to_owned(),
            abi: abi.to_owned(),
            equal: figures[0].agrees_with(&figures[1]),
            figures,
        }
    }
}

impl CallFigures {
    /// Whether they are equal where both are known. What a backend cannot know is `None`: strace
    /// does not show the vector of a failed `readv`, for instance.
    fn agrees_with(&self, other: &Self) -> bool {
        let agree = |a: Option<u64>, b: Option<u64>| a.zip(b).is_none_or(|(a, b)| a == b);
        self.calls == other.calls
            && self.errnos == other.errnos
            && agree(self.bytes, other.bytes)
            && agree(self.requested_bytes, other.requested_bytes)
    }

    fn of(call: &Syscall) -> Self {
        Self {
            calls: call.calls,
            errnos: call.errnos.clone(),
            bytes: call.bytes,
            requested_bytes: call.requested_bytes,
        }
    }
}

/// The transfers from one end to another by one API, under both backends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransferRow {
    /// The source, by path or kind.
    pub from: String,
    /// The destination, likewise.
    pub to: String,
    /// The API.
    pub api: Api,
    /// What each backend found; `None`: no such transfer.
    pub figures: [Option<TransferFigures>; 2],
    /// Whether they agree. An inferred transfer agrees if it can be true together with what the
    /// other backend proved.
    pub equal: bool,
}

/// The sums of all transfers between two ends by one API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransferFigures {
    /// That of the least certain transfer.
    pub certainty: Certainty,
    /// Bytes that arrived, see [`Transfer::bytes`].
    pub bytes: Option<u64>,
    /// Calls that took part; `None`: they cannot be divided.
    pub calls: Option<u64>,
    /// Attempts that failed before.
    pub attempts: Vec<Attempt>,
    /// Whether the calls name both ends in all of them.
    #[serde(skip)]
    pub is_by_call: bool,
}

type Key = (String, String, Api);

/// Compares the transfers within and across processes. Ends are identified by path, or by kind if
/// they have no path, since ports and inode numbers change from run to run.
///
/// What both backends proved must be equal. Because one backend knows more than the other, what one
/// inferred or did not find only has to leave room for what the other proved.
fn compare_transfers(reports: [&Report; 2]) -> Vec<TransferRow> {
    let [mut first, mut second] = reports.map(sums);
    let keys: BTreeSet<Key> = first.keys().chain(second.keys()).cloned().collect();
    let rooms = reports.map(rooms);
    let cannot_know =
        |key: &Key| reports.iter().any(|report| !knows_rings(report)) && key.2 == Api::IoUring;
    let moved = |key: Key| {
        let figures = [first.remove(&key), second.remove(&key)];
        let rooms = rooms
            .each_ref()
            .map(|rooms| rooms.get(&key.1).copied().unwrap_or(Some(0)));
        let equal = agree(&figures, rooms) || (figures.contains(&None) && cannot_know(&key));
        let (from, to, api) = key;
        TransferRow {
            from,
            to,
            api,
            figures,
            equal,
        }
    };
    keys.into_iter().map(moved).collect()
}

/// Whether both can be true. `rooms`: how many bytes that arrived at this end each backend did not
/// prove.
fn agree(figures: &[Option<TransferFigures>; 2], rooms: [Option<u64>; 2]) -> bool {
    let is_exact = |one: &TransferFigures| one.certainty == Certainty::Observed;
    // The call itself names both ends, so that no report misses it.
    let is_call = |one: &TransferFigures| is_exact(one) && one.is_by_call;
    match figures {
        [Some(first), Some(second)] if is_exact(first) && is_exact(second) => {
            first.bytes == second.bytes && first.attempts == second.attempts
        }
        [Some(first), Some(second)] if is_call(first) || is_call(second) => {
            first.bytes == second.bytes && first.attempts == second.attempts
        }
        [Some(first), Some(second)] => {
            first.leaves_room_for(second, rooms[0]) && second.leaves_room_for(first, rooms[1])
        }
        [Some(one), None] => !is_call(one) && TransferFigures::NONE.leaves_room_for(one, rooms[1]),
        [None, Some(one)] => !is_call(one) && TransferFigures::NONE.leaves_room_for(one, rooms[0]),
        [None, None] => true,
    }
}

impl TransferFigures {
    /// No transfers.
    const NONE: Self = Self {
        certainty: Certainty::Observed,
        bytes: Some(0),
        calls: Some(0),
        attempts: Vec::new(),
        is_by_call: true,
    };

    /// Whether as many bytes as in `other` may have gone this way, given `room` unproven bytes at
    /// the destination.
    fn leaves_room_for(&self, other: &Self, room: Option<u64>) -> bool {
        let (Some(room), Some(other)) = (room, other.bytes) else {
            return true;
        };
        let observed = self.bytes.filter(|_| self.certainty == Certainty::Observed);
        observed.unwrap_or(0).saturating_add(room) >= other
    }
}

/// For each destination, how many bytes arrived without a proven source; `None`: unknown.
fn rooms(report: &Report) -> BTreeMap<String, Option<u64>> {
    let mut observed: BTreeMap<String, u64> = BTreeMap::new();
    let is_observed = |transfer: &&Transfer| {
        !transfer.crosses_processes() && transfer.certainty == Certainty::Observed
    };
    for transfer in report.transfers.iter().filter(is_observed) {
        *observed.entry(name(&transfer.to)).or_default() += transfer.bytes.unwrap_or(0);
    }
    let mut rooms: BTreeMap<String, Option<u64>> = BTreeMap::new();
    for one in report
        .processes
        .iter()
        .flat_map(|process| &process.destinations)
    {
        let Some(file) = &one.file else { continue };
        let unproven = one.written_bytes.map(|written| {
            let observed = observed.get(&name(file)).copied().unwrap_or(0);
            written.saturating_sub(observed)
        });
        let room = rooms.entry(name(file)).or_insert(Some(0));
        *room = room.zip(unproven).and_then(|(a, b)| a.checked_add(b));
    }
    rooms
}

/// Whether the report has operations of `io_uring`: strace does not see them.
fn knows_rings(report: &Report) -> bool {
    report
        .processes
        .iter()
        .any(|process| !process.io_uring.is_empty())
}

fn key_of(transfer: &Transfer) -> Key {
    (name(&transfer.from), name(&transfer.to), transfer.api)
}

fn sums(report: &Report) -> BTreeMap<Key, TransferFigures> {
    let mut sums: BTreeMap<Key, TransferFigures> = BTreeMap::new();
    for transfer in &report.transfers {
        add(sums.entry(key_of(transfer)), transfer);
    }
    for figures in sums.values_mut() {
        figures.attempts.sort();
    }
    sums
}

fn add(entry: std::collections::btree_map::Entry<'_, Key, TransferFigures>, transfer: &Transfer) {
    let sum = entry.or_insert(TransferFigures::NONE);
    sum.certainty = sum.certainty.max(transfer.certainty);
    sum.is_by_call &= transfer.evidence == Evidence::Call;
    sum.bytes = sum
        .bytes
        .zip(transfer.bytes)
        .and_then(|(a, b)| a.checked_add(b));
    sum.calls = sum.calls.zip(transfer.calls).map(|(a, b)| a + b);
    sum.attempts.extend(transfer.attempts.iter().cloned());
}

fn name(end: &End) -> String {
    end.path
        .clone()
        .or_else(|| end.kind.clone())
        .unwrap_or_else(|| "unknown file".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::{
            Options,
            sample::files::{Scene, copy, read, write, written_after, written_held},
        },
        trace::{FileId, Row},
    };

    fn figures(calls: u64, bytes: Option<u64>) -> CallFigures {
        CallFigures {
            calls,
            bytes,
            ..CallFigures::default()
        }
    }

    #[test]
    fn what_one_backend_cannot_know_is_not_a_difference() {
        assert!(figures(1, None).agrees_with(&figures(1, Some(5))));
        assert!(!figures(1, Some(4)).agrees_with(&figures(1, Some(5))));
        assert!(!figures(2, None).agrees_with(&figures(1, Some(5))));
    }

    fn report(rows: impl Fn(FileId, FileId) -> Vec<Row>) -> Report {
        let mut scene = Scene::new();
        let (from, to) = (scene.regular("in"), scene.socketpair()[0]);
        scene.process("copier", rows(from, to));
        Report::from_trace(&scene.trace, &Options::default())
    }

    #[test]
    fn equal_transfers_agree() {
        let one = report(|from, to| vec![copy("sendfile", from, to, 2, 100)]);
        let [moved] = compare_transfers([&one, &one]).try_into().expect("is one");
        assert!(moved.equal);
        assert_eq!(
            (moved.from.as_str(), moved.to.as_str(), moved.api),
            ("in", "unix-stream", Api::Sendfile)
        );
    }

    #[test]
    fn other_bytes_attempts_or_apis_disagree() {
        let one = report(|from, to| vec![copy("sendfile", from, to, 2, 100)]);
        let others = [
            report(|from, to| vec![copy("sendfile", from, to, 2, 99)]),
            report(|from, to| vec![copy("splice", from, to, 2, 100)]),
            report(|from, to| {
                vec![
                    copy("splice", from, to, 0, 0).failed(libc::EINVAL, 1),
                    copy("sendfile", from, to, 2, 100),
                ]
            }),
        ];
        for other in others {
            assert!(
                !compare_transfers([&one, &other])
                    .iter()
                    .all(|moved| moved.equal),
                "{other:?}"
            );
        }
    }

    /// The report of a backend that proves and infers this many of the written bytes.
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
    fn an_inferred_transfer_must_leave_room_for_a_proven_one() {
        let exact = of(10_000, 0, 10_000);
        let pairs = [
            (&exact, of(0, 10_000, 10_000), true),
            (&exact, of(0, 9_000, 10_000), true),
            (&exact, of(0, 0, 10_000), true),
            // 5,000 bytes more were written, and one backend infers that they came from there.
            (&of(5_000, 0, 10_000), of(0, 9_000, 10_000), true),
            (&exact, of(9_000, 0, 9_000), false),
            (&exact, of(0, 12_000, 12_000), false),
        ];
        for (first, second, agree) in pairs {
            for reports in [[first, &second], [&second, first]] {
                let all = compare_transfers(reports);
                assert_eq!(all.iter().all(|moved| moved.equal), agree, "{all:?}");
            }
        }
    }

    #[test]
    fn a_proven_source_contradicts_another_inferred_source() {
        let proven = report(|from, to| {
            vec![
                read("read", from, 16, 10_000),
                written_held("write", from, to, 16, 10_000, 10_000),
            ]
        });
        let mut guess = of(0, 10_000, 10_000);
        guess.transfers[0].from.path = Some("other".into());
        assert!(
            compare_transfers([&proven, &guess])
                .iter()
                .any(|moved| !moved.equal)
        );
    }

    #[test]
    fn a_transfer_by_io_uring_may_be_missing_from_one_backend() {
        let mut scene = Scene::new();
        let (from, to) = (scene.regular("in"), scene.regular("out"));
        scene.process("copier", vec![]);
        let blind = Report::from_trace(&scene.trace, &Options::default());
        scene.trace.processes[0].threads[0].ring_rows =
            vec![copy("io_uring:splice", from, to, 2, 100)];
        let seeing = Report::from_trace(&scene.trace, &Options::default());
        for reports in [[&seeing, &blind], [&blind, &seeing]] {
            let [moved] = compare_transfers(reports).try_into().expect("is one");
            assert!(moved.equal && moved.api == Api::IoUring, "{moved:?}");
        }
        scene.trace.processes[0].threads[0].ring_rows =
            vec![copy("io_uring:splice", from, to, 2, 99)];
        let other = Report::from_trace(&scene.trace, &Options::default());
        assert!(!compare_transfers([&seeing, &other])[0].equal);
    }
}
