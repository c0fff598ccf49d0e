//! Flows that meet in a pipe or a connection between two processes: chains.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap, HashSet},
};

use super::{
    activity::Activity,
    flow::{Flow, sum_bytes},
    pipes::Joined,
};
use crate::{
    report::Api,
    trace::{File, FileId, FileKind, Process, Row},
};

/// Flows of which each begins where the one before it ended, in another process.
#[derive(Debug)]
pub(super) struct Chain<'f, 'a> {
    pub(super) hops: Vec<Hop<'f, 'a>>,
}

/// One process's part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hop<'f, 'a> {
    pub(super) process: &'a Process,
    pub(super) flow: &'f Flow<'a>,
}

/// The chains of a trace.
///
/// Two flows of two processes belong together if nothing else was ever written into what is between them, nothing else was read out of
/// it, and all these bytes are exactly as many.
pub(super) fn chains<'f, 'a>(activities: &[Activity<'a>], joined: &'f [Joined<'a>], files: &[File]) -> Vec<Chain<'f, 'a>> {
    let hops: Vec<Hop> = activities
        .iter()
        .zip(joined)
        .flat_map(|(activity, joined)| joined.flows.iter().map(|flow| Hop { process: activity.process, flow }))
        .collect();
    let between = Between::of(files);
    let (written, read) = (totals(activities, written_rows), totals(activities, read_rows));
    let mut into: HashMap<FileId, Vec<usize>> = HashMap::new();
    let mut out: HashMap<FileId, Vec<usize>> = HashMap::new();
    for (index, hop) in hops.iter().enumerate().filter(|(_, hop)| hop.flow.api != Api::Tee) {
        if let Some(outlet) = between.outlet(hop.flow.to) {
            into.entry(outlet).or_default().push(index);
        }
        if let Some(from) = hop.flow.from.file() {
            out.entry(from).or_default().push(index);
        }
    }
    let mut next: HashMap<usize, usize> = HashMap::new();
    for (outlet, into) in into {
        if let (&[first], Some(&[second])) = (into.as_slice(), out.get(&outlet).map(Vec::as_slice)) {
            let [into, out] = [hops[first].flow, hops[second].flow];
            let all = [into.bytes, out.bytes, written.get(&into.to).copied().flatten(), read.get(&outlet).copied().flatten()];
            let is_all = all[0].is_some_and(|bytes| bytes > 0) && all.iter().all(|bytes| *bytes == all[0]);
            if is_all && hops[first].process.pid != hops[second].process.pid {
                next.insert(first, second);
            }
        }
    }
    let inner: HashSet<usize> = next.values().copied().collect();
    let starts: BTreeSet<usize> = next.keys().copied().filter(|index| !inner.contains(index)).collect();
    let chain =
        |start| Chain { hops: std::iter::successors(Some(start), |index| next.get(index).copied()).map(|i| hops[i]).collect() };
    starts.into_iter().map(chain).collect()
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
    let taken = |rows: &Vec<&'a Row>| rows.iter().copied().filter(|row| row.call.name != "tee").collect();
    reads.chain(activity.copies.iter().map(|((from, _), rows)| (*from, taken(rows)))).collect()
}

/// An address as the other end may have it: a socket of IPv6 shows an IPv4 address as `[::ffff:127.0.0.1]:80`.
fn address(address: &str) -> Cow<'_, str> {
    match address.strip_prefix("[::ffff:").and_then(|rest| rest.split_once(']')) {
        Some((host, port)) if host.contains('.') => format!("{host}{port}").into(),
        _ => address.into(),
    }
}

/// Where what is written into a file comes out.
#[derive(Debug)]
struct Between<'a> {
    files: &'a [File],
    /// Unix sockets by inode.
    unix: HashMap<u64, FileId>,
    /// TCP sockets by their own address and their peer's.
    tcp: HashMap<(Cow<'a, str>, Cow<'a, str>), FileId>,
}

impl<'a> Between<'a> {
    fn of(files: &'a [File]) -> Self {
        let ids = || (0..).map(FileId).zip(files);
        let is_unix =
            |file: &File| matches!(file.kind, Some(FileKind::UnixStream | FileKind::UnixSeqpacket | FileKind::UnixDatagram));
        Self {
            files,
            unix: ids().filter(|(_, file)| is_unix(file)).filter_map(|(id, file)| Some((file.identity?.inode, id))).collect(),
            tcp: ids()
                .filter(|(_, file)| file.kind == Some(FileKind::Tcp))
                .filter_map(|(id, file)| Some(((address(file.local.as_deref()?), address(file.peer.as_deref()?)), id)))
                .collect(),
        }
    }

    fn outlet(&self, id: FileId) -> Option<FileId> {
        let file = self.files.get(usize::try_from(id.0).ok()?)?;
        match file.kind? {
            FileKind::Pipe => Some(id),
            FileKind::Tcp => self.tcp.get(&(address(file.peer.as_deref()?), address(file.local.as_deref()?))).copied(),
            _ => self.unix.get(&file.peer_inode?).copied(),
        }
    }
}
