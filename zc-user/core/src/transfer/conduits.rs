//! [`Conduits`]: what all processes put into pipes and connections, and took out of them.

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
};

use super::{activity::Activity, flow::sum_bytes};
use crate::{
    syscall::{Fds, TABLE},
    trace::{File, FileId, FileKind, Row, Trace},
};

/// What went into files and came out of them, and which ends belong together.
///
/// A conduit hands on bytes in the order in which they came. So where all that came in is from one source, all that comes out is, too:
/// that is proven if no way in or out can have been missed.
#[derive(Debug)]
pub(super) struct Conduits<'a> {
    files: &'a [File],
    written: HashMap<FileId, Option<u64>>,
    read: HashMap<FileId, Option<u64>>,
    /// Unix sockets by inode; `None`: there were several.
    unix: HashMap<u64, Option<FileId>>,
    /// TCP sockets by their own address and their peer's, likewise.
    tcp: HashMap<(Cow<'a, str>, Cow<'a, str>), Option<FileId>>,
    /// Whether no call can be missing, and none lacks its files.
    has_all_files: bool,
    /// Whether, moreover, every call that moves bytes was counted.
    is_complete: bool,
}

impl<'a> Conduits<'a> {
    /// Of this trace.
    pub(super) fn of(trace: &'a Trace, activities: &[Activity<'a>]) -> Self {
        let has_all_files = has_all_files(trace, activities);
        let ids = || (0..).map(FileId).zip(&trace.files);
        let is_unix =
            |file: &File| matches!(file.kind, Some(FileKind::UnixStream | FileKind::UnixSeqpacket | FileKind::UnixDatagram));
        let unix = ids().filter(|(_, file)| is_unix(file)).filter_map(|(id, file)| Some((file.identity?.inode, id)));
        let tcp = ids()
            .filter(|(_, file)| file.kind == Some(FileKind::Tcp))
            .filter_map(|(id, file)| Some(((address(file.local.as_deref()?), address(file.peer.as_deref()?)), id)));
        Self {
            files: &trace.files,
            written: totals(activities, written_rows),
            read: totals(activities, read_rows),
            unix: unique(unix),
            tcp: unique(tcp),
            has_all_files,
            is_complete: has_all_files && counts_all(trace),
        }
    }

    /// Whether every counted call stands in a row with its files.
    pub(super) fn has_all_files(&self) -> bool {
        self.has_all_files
    }

    /// Everything that was written into a file, by all processes. `None`: some call does not tell.
    pub(super) fn written(&self, file: FileId) -> Option<u64> {
        self.written.get(&file).copied().unwrap_or(Some(0))
    }

    /// Everything that was taken out of a file, likewise.
    pub(super) fn read(&self, file: FileId) -> Option<u64> {
        self.read.get(&file).copied().unwrap_or(Some(0))
    }

    /// Whether the trace has all that went into a conduit and came out of it. A pipe with a name is open to everybody.
    pub(super) fn is_closed(&self, file: FileId) -> bool {
        let is_named_pipe = self.file(file).is_some_and(|file| file.kind == Some(FileKind::Pipe) && file.path.is_some());
        self.is_complete && !is_named_pipe
    }

    /// Where what is written into a file comes out.
    pub(super) fn outlet(&self, id: FileId) -> Option<FileId> {
        let file = self.file(id)?;
        match file.kind? {
            FileKind::Pipe => Some(id),
            FileKind::Tcp => *self.tcp.get(&(address(file.peer.as_deref()?), address(file.local.as_deref()?)))?,
            _ => *self.unix.get(&file.peer_inode?)?,
        }
    }

    fn file(&self, id: FileId) -> Option<&'a File> {
        self.files.get(usize::try_from(id.0).ok()?)
    }
}

/// Whether no counted call is missing, nor its file.
fn has_all_files(trace: &Trace, activities: &[Activity<'_>]) -> bool {
    let moved = |rows: &Vec<&Row>| sum_bytes(rows) != Some(0);
    let lacks_files = |activity: &Activity<'_>| {
        let sides = [&activity.reads, &activity.writes];
        sides.iter().any(|side| side.get(&None).is_some_and(moved))
    };
    let lost = trace.losses.iter().any(|(loss, &count)| count > 0 && loss.touches_transfers());
    let has_unseen = activities.iter().any(|activity| activity.has_unseen_operations);
    !lost && !has_unseen && trace.calls_without_files == 0 && !activities.iter().any(lacks_files)
}

/// Whether every call that moves bytes was counted. Of a log that somebody recorded, nobody knows.
fn counts_all(trace: &Trace) -> bool {
    let moves = |fds| matches!(fds, Fds::Reads(_) | Fds::Writes(_) | Fds::Pipe(_) | Fds::Copies { .. });
    let counted = trace.counted.as_ref();
    counted.is_some_and(|counted| TABLE.iter().filter(|spec| moves(spec.fds)).all(|spec| counted.contains(spec.name)))
}

/// The values by their keys; `None` where a key has several.
fn unique<K: std::hash::Hash + Eq, V>(pairs: impl Iterator<Item = (K, V)>) -> HashMap<K, Option<V>> {
    let mut found = HashMap::new();
    for (key, value) in pairs {
        match found.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(Some(value));
            }
            Entry::Occupied(mut entry) => *entry.get_mut() = None,
        }
    }
    found
}

/// The rows of an activity by file: those that write, or those that read.
type RowsByFile<'a> = fn(&Activity<'a>) -> Vec<(FileId, Vec<&'a Row>)>;

/// What was written into (or read from) each file, by all processes. `None`: some call does not tell.
fn totals<'a>(activities: &[Activity<'a>], rows: RowsByFile<'a>) -> HashMap<FileId, Option<u64>> {
    let mut totals: HashMap<FileId, Option<u64>> = HashMap::new();
    for (file, rows) in activities.iter().flat_map(rows) {
        let sum = totals.entry(file).or_insert(Some(0));
        *sum = sum.zip(sum_bytes(&rows)).and_then(|(a, b)| a.checked_add(b));
    }
    totals
}

fn written_rows<'a>(activity: &Activity<'a>) -> Vec<(FileId, Vec<&'a Row>)> {
    let writes = activity.writes.iter().filter_map(|(file, rows)| Some(((*file)?, rows.clone())));
    let lent = activity.lent.iter().map(|(file, rows)| (*file, rows.clone()));
    let copies = activity.copies.iter().map(|((_, to), rows)| (*to, rows.clone()));
    writes.chain(lent).chain(copies).collect()
}

/// `tee` takes nothing out.
fn read_rows<'a>(activity: &Activity<'a>) -> Vec<(FileId, Vec<&'a Row>)> {
    let reads = activity.reads.iter().filter_map(|(file, rows)| Some(((*file)?, rows.clone())));
    let is_tee = |row: &Row| matches!(row.call.as_ring_operation().unwrap_or(&row.call.name), "tee");
    let taken = |rows: &Vec<&'a Row>| rows.iter().copied().filter(|row| !is_tee(row)).collect();
    reads.chain(activity.copies.iter().map(|((from, _), rows)| (*from, taken(rows)))).collect()
}

/// An address as the other end may have it: a socket of IPv6 shows an IPv4 address as `[::ffff:127.0.0.1]:80`.
fn address(address: &str) -> Cow<'_, str> {
    match address.strip_prefix("[::ffff:").and_then(|rest| rest.split_once(']')) {
        Some((host, port)) if host.contains('.') => format!("{host}{port}").into(),
        _ => address.into(),
    }
}
