//! Pipes and connections: what all processes wrote into them and read from them ([`Conduits`]), and
//! the flows of several processes that meet in them ([`chains`]).
//!
//! A conduit delivers all bytes that come in. So if one flow brings `a` bytes, another takes `b`,
//! and `w` were written in all, then at least `a + b - w` bytes went from the one to the other. If
//! one of them has all the bytes (`a = w` or `b = w`), this number is exact: `cat in | tee out`.
//! Otherwise it is a lower bound: an HTTP server writes a header before the file, and a client
//! keeps what follows it.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet, hash_map::Entry},
};

use super::{
    activity::Activity,
    flow::{Flow, sum_bytes, sum_known},
};
use crate::{
    syscalls::{Fds, data_calls},
    trace::{File, FileId, FileIdentity, FileKind, OpenBefore, Process, Row, Trace},
    transfer::{Api, Certainty, Evidence},
};

/// How much went into each file and came out of it, and which sockets are the two ends of a
/// connection.
#[derive(Debug)]
pub(super) struct Conduits<'a> {
    files: &'a [File],
    written: HashMap<FileId, Option<u64>>,
    read: HashMap<FileId, Option<u64>>,
    /// Unix sockets by inode. `None`: several have the same.
    unix: HashMap<u64, Option<FileId>>,
    /// TCP sockets by their own address and that of their peer, likewise.
    tcp: HashMap<(Cow<'a, str>, Cow<'a, str>), Option<FileId>>,
    /// Whether no selected call is missing, and every call has its files.
    has_all_files: bool,
    /// Whether, in addition, every call that moves bytes was selected.
    is_complete: bool,
    /// Pipes and connections that something may still go through, unless this is the end of the
    /// trace.
    open: HashSet<FileId>,
    /// Whether nothing is known of the pipes and sockets that the command inherited.
    may_inherit_any: bool,
    /// Pipes and sockets that the command may have inherited. They may hold bytes from before, and
    /// others may use them.
    inherited: HashSet<FileId>,
    /// Pipes and connections that a call wrote to when it was cut off, so that nobody knows how
    /// much went in.
    cut_off: HashSet<FileId>,
}

impl<'a> Conduits<'a> {
    /// The conduits of a trace.
    pub(super) fn of(trace: &'a Trace, activities: &[Activity<'a>]) -> Self {
        let has_all_files = has_all_files(trace, activities);
        let ids = || (0..).map(FileId).zip(&trace.files);
        let unix = ids()
            .filter(|(_, file)| is_unix(file))
            .filter_map(|(id, file)| Some((file.identity?.inode, id)));
        let tcp = ids()
            .filter(|(_, file)| file.kind == Some(FileKind::Tcp))
            .filter_map(|(id, file)| {
                Some((
                    (
                        address(file.local.as_deref()?),
                        address(file.peer.as_deref()?),
                    ),
                    id,
                ))
            });
        let [of_merged_in, of_merged_out] = trace.settled.conduit_bytes();
        Self {
            files: &trace.files,
            written: totals(activities, written_rows, of_merged_in),
            read: totals(activities, read_rows, of_merged_out),
            unix: unique(unix),
            tcp: unique(tcp),
            has_all_files,
            is_complete: has_all_files && counts_all(trace),
            open: HashSet::new(),
            may_inherit_any: trace.inherited.is_none(),
            inherited: inherited(trace),
            cut_off: activities
                .iter()
                .flat_map(|activity| activity.cut_off.iter().flatten().copied())
                .chain(trace.settled.cut_off())
                .collect(),
        }
    }

    /// Notes that the trace goes on, and that something may still go through these.
    pub(super) fn leave_open(&mut self, open: HashSet<FileId>) {
        self.open = open;
    }

    /// Whether every counted call is in a row with its files.
    pub(super) fn has_all_files(&self) -> bool {
        self.has_all_files
    }

    /// All bytes that were written into a file, by all processes. `None`: some call does not say.
    pub(super) fn written(&self, file: FileId) -> Option<u64> {
        self.written.get(&file).copied().unwrap_or(Some(0))
    }

    /// All bytes that were taken out of a file, likewise.
    pub(super) fn read(&self, file: FileId) -> Option<u64> {
        self.read.get(&file).copied().unwrap_or(Some(0))
    }

    /// Whether no call that moves bytes is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether the trace has everything that went into a conduit and came out of it. A pipe with a
    /// name is never closed, because processes that are not traced can open it. One that the
    /// command inherited is not closed, either: others have it open, too, and it may have held
    /// bytes before.
    pub(super) fn is_closed(&self, file: FileId) -> bool {
        let is_named_pipe = self
            .file(file)
            .is_some_and(|file| file.kind == Some(FileKind::Pipe) && file.path.is_some());
        let is_shared = is_named_pipe || self.may_inherit_any || self.inherited.contains(&file);
        self.is_complete
            && !is_shared
            && !self.open.contains(&file)
            && !self.cut_off.contains(&file)
    }

    /// Whether the command inherited the conduit. Then bytes that came out may have been there
    /// before, even if the numbers agree.
    pub(super) fn is_inherited(&self, file: FileId) -> bool {
        self.inherited.contains(&file)
    }

    /// Whether the bytes that came out of a conduit that is not closed are likely to be those that
    /// went in, if as many did. Samples must not differ, and there must be some if the command
    /// inherited it. There are only samples of what calls read to memory and wrote from there.
    fn may_carry(&self, inlet: FileId, outlet: FileId) -> bool {
        let written = self
            .file(inlet)
            .and_then(|file| file.streams.written.as_ref());
        let read = self
            .file(outlet)
            .and_then(|file| file.streams.read.as_ref());
        let is_inherited = self.is_inherited(inlet) || self.is_inherited(outlet);
        match written
            .zip(read)
            .filter(|(written, read)| written.bytes == read.bytes)
        {
            Some((written, read)) => written.sum == read.sum,
            None => !is_inherited,
        }
    }

    /// Whether what is written to this file may come out elsewhere in the trace.
    pub(super) fn is_conduit(&self, file: FileId) -> bool {
        let kind = self.file(file).and_then(|file| file.kind);
        kind.is_none_or(|kind| {
            matches!(
                kind,
                FileKind::Pipe
                    | FileKind::Tcp
                    | FileKind::UnixStream
                    | FileKind::UnixDatagram
                    | FileKind::UnixSeqpacket
            )
        })
    }

    /// The file where the bytes written into this one come out.
    pub(super) fn outlet(&self, id: FileId) -> Option<FileId> {
        let file = self.file(id)?;
        match file.kind? {
            FileKind::Pipe => Some(id),
            FileKind::Tcp => *self.tcp.get(&(
                address(file.peer.as_deref()?),
                address(file.local.as_deref()?),
            ))?,
            _ => *self.unix.get(&file.peer_inode?)?,
        }
    }

    fn file(&self, id: FileId) -> Option<&'a File> {
        self.files.get(usize::try_from(id.0).ok()?)
    }
}

/// The files of the trace that were open before the launch.
fn inherited(trace: &Trace) -> HashSet<FileId> {
    let Some(before) = trace.inherited.as_ref().filter(|before| !before.is_empty()) else {
        return HashSet::new();
    };
    let is_inherited = |file: &File| {
        file.identity
            .is_some_and(|FileIdentity { device, inode, .. }| {
                before.contains(&OpenBefore { device, inode })
            })
    };
    (0..)
        .map(FileId)
        .zip(&trace.files)
        .filter(|(_, file)| is_inherited(file))
        .map(|(id, _)| id)
        .collect()
}

/// Whether no counted call is missing, and each has its files.
fn has_all_files(trace: &Trace, activities: &[Activity<'_>]) -> bool {
    let lost = trace
        .losses
        .iter()
        .any(|(loss, &count)| count > 0 && loss.touches_transfers());
    let has_unseen = activities
        .iter()
        .any(|activity| activity.has_unseen_operations);
    !lost
        && !has_unseen
        && !trace.settled.lacks_files()
        && trace.calls_without_files == 0
        && !activities.iter().any(lacks_files)
}

/// Whether it moved bytes of files that are not known.
pub(super) fn lacks_files(activity: &Activity<'_>) -> bool {
    let sides = [&activity.reads, &activity.writes];
    activity.cut_off.contains(&None)
        || sides.iter().any(|side| {
            side.get(&None)
                .is_some_and(|rows| sum_bytes(rows) != Some(0))
        })
}

/// Whether every call that moves bytes was counted. Unknown for a recorded log, so false there.
fn counts_all(trace: &Trace) -> bool {
    let moves = |fds| {
        matches!(
            fds,
            Fds::Reads(_) | Fds::Writes(_) | Fds::Pipe(_) | Fds::Copies { .. }
        )
    };
    let counted = trace.counted.as_ref();
    counted.is_some_and(|counted| {
        data_calls()
            .filter(|spec| moves(spec.fds))
            .all(|spec| counted.contains(spec.name))
    })
}

/// The values by their keys. `None` if a key has several.
fn unique<K: std::hash::Hash + Eq, V>(
    pairs: impl Iterator<Item = (K, V)>,
) -> HashMap<K, Option<V>> {
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

/// Gives the rows of an activity by file: those that write, or those that read.
type RowsByFile<'a> = fn(&Activity<'a>) -> Vec<(FileId, Vec<&'a Row>)>;

/// The bytes written into (or read from) each file, by all processes. `None`: some call does not
/// say.
fn totals<'a>(
    activities: &[Activity<'a>],
    rows: RowsByFile<'a>,
    mut totals: HashMap<FileId, Option<u64>>,
) -> HashMap<FileId, Option<u64>> {
    for (file, rows) in activities.iter().flat_map(rows) {
        let sum = totals.entry(file).or_insert(Some(0));
        *sum = sum_known(*sum, sum_bytes(&rows));
    }
    totals
}

pub(super) fn written_rows<'a>(activity: &Activity<'a>) -> Vec<(FileId, Vec<&'a Row>)> {
    let writes = activity
        .writes
        .iter()
        .filter_map(|(file, rows)| Some(((*file)?, rows.clone())));
    let lent = activity
        .lent
        .iter()
        .map(|(file, rows)| (*file, rows.clone()));
    let copies = activity
        .copies
        .iter()
        .map(|((_, to), rows)| (*to, rows.clone()));
    writes.chain(lent).chain(copies).collect()
}

/// The rows that take bytes out of each file. `tee` takes nothing out.
pub(super) fn read_rows<'a>(activity: &Activity<'a>) -> Vec<(FileId, Vec<&'a Row>)> {
    let reads = activity
        .reads
        .iter()
        .filter_map(|(file, rows)| Some(((*file)?, rows.clone())));
    let is_tee = |row: &Row| {
        matches!(
            row.call.as_ring_operation().unwrap_or(&row.call.name),
            "tee"
        )
    };
    let taken = |rows: &Vec<&'a Row>| rows.iter().copied().filter(|row| !is_tee(row)).collect();
    reads
        .chain(
            activity
                .copies
                .iter()
                .map(|((from, _), rows)| (*from, taken(rows))),
        )
        .collect()
}

/// The address in the form that both ends share: an IPv6 socket shows an IPv4 address as
/// `[::ffff:127.0.0.1]:80`.
fn address(address: &str) -> Cow<'_, str> {
    match address
        .strip_prefix("[::ffff:")
        .and_then(|rest| rest.split_once(']'))
    {
        Some((host, port)) if host.contains('.') => format!("{host}{port}").into(),
        _ => address.into(),
    }
}

/// Both ends of all connections of which one end is used. Wider than `Conduits::outlet`: a file too
/// many is kept, none too few.
pub fn used_connections(files: &[File], is_used: impl Fn(FileId) -> bool) -> HashSet<FileId> {
    /// What the two ends of a connection have in common.
    #[derive(PartialEq, Eq, Hash)]
    enum Connection<'a> {
        /// The inode of one of them, which the other one names.
        Unix(u64),
        /// Both addresses.
        Tcp([Cow<'a, str>; 2]),
    }
    let mut ends: HashMap<Connection<'_>, Vec<FileId>> = HashMap::new();
    for (id, file) in (0..).map(FileId).zip(files) {
        let inodes = [
            file.identity
                .map(|identity| identity.inode)
                .filter(|_| is_unix(file)),
            file.peer_inode,
        ];
        let mut addresses =
            [file.local.as_deref(), file.peer.as_deref()].map(|one| one.map(address));
        addresses.sort_unstable();
        let tcp = match addresses {
            [Some(one), Some(other)] => Some(Connection::Tcp([one, other])),
            _ => None,
        };
        for connection in inodes
            .into_iter()
            .flatten()
            .map(Connection::Unix)
            .chain(tcp)
        {
            ends.entry(connection).or_default().push(id);
        }
    }
    ends.into_values()
        .filter(|ids| ids.len() > 1 && ids.iter().any(|id| is_used(*id)))
        .flatten()
        .collect()
}

fn is_unix(file: &File) -> bool {
    matches!(
        file.kind,
        Some(FileKind::UnixStream | FileKind::UnixSeqpacket | FileKind::UnixDatagram)
    )
}

/// Flows of several processes: each begins where the one before it ended.
#[derive(Debug)]
pub(super) struct Chain<'f, 'a> {
    pub(super) hops: Vec<Hop<'f, 'a>>,
    /// What went from end to end.
    pub(super) carried: Carried,
}

/// The part of one process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hop<'f, 'a> {
    pub(super) process: &'a Process,
    pub(super) flow: &'f Flow<'a>,
}

/// What went from the source of a chain to the end of a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Carried {
    /// Exact, or what is inferred if `certainty` says so.
    pub(super) bytes: u64,
    /// The proven part of `bytes`.
    pub(super) proven_bytes: u64,
    /// Exact if every hop is exact, nothing else can have gone in or out unseen, and in every
    /// conduit one of the two flows had all the bytes.
    pub(super) certainty: Certainty,
    /// The weakest evidence for any of the bytes.
    pub(super) evidence: Evidence,
}

/// A flow out of a conduit that meets a flow into it.
#[derive(Debug, Clone, Copy)]
struct Meeting {
    /// The index of the flow out of it.
    out: usize,
    /// All bytes that were written into the conduit.
    written_bytes: u64,
    /// All bytes that were read from it.
    read_bytes: u64,
    /// Whether the trace has all of both, see [`Conduits::is_closed`].
    is_closed: bool,
}

/// The chains of a trace, each as long as possible.
pub(super) fn chains<'f, 'a>(
    activities: &[Activity<'a>],
    flows: &'f [Vec<Flow<'a>>],
    conduits: &Conduits<'_>,
) -> Vec<Chain<'f, 'a>> {
    let hops = activities.iter().zip(flows);
    let hops: Vec<Hop> = hops
        .flat_map(|(activity, flows)| {
            flows.iter().map(|flow| Hop {
                process: activity.process,
                flow,
            })
        })
        .collect();
    let meetings = meetings(&hops, conduits);
    let mut search = Search {
        hops: &hops,
        meetings: &meetings,
        path: Vec::new(),
        chains: Vec::new(),
    };
    let is_inner: HashSet<usize> = meetings
        .values()
        .flatten()
        .map(|meeting| meeting.out)
        .collect();
    for start in
        (0..hops.len()).filter(|start| meetings.contains_key(start) && !is_inner.contains(start))
    {
        if let Some(carried) = Carried::of_flow(hops[start].flow) {
            search.extend(start, carried);
        }
    }
    search.chains
}

/// A depth-first search for all chains from a flow.
struct Search<'s, 'f, 'a> {
    hops: &'s [Hop<'f, 'a>],
    meetings: &'s HashMap<usize, Vec<Meeting>>,
    /// The flows of the current chain.
    path: Vec<usize>,
    chains: Vec<Chain<'f, 'a>>,
}

impl Search<'_, '_, '_> {
    fn extend(&mut self, hop: usize, carried: Carried) {
        self.path.push(hop);
        let mut has_next = false;
        let meetings = self.meetings;
        for meeting in meetings.get(&hop).into_iter().flatten() {
            let next = carried
                .through(meeting, self.hops[meeting.out].flow)
                .filter(|_| !self.path.contains(&meeting.out));
            if let Some(next) = next {
                has_next = true;
                self.extend(meeting.out, next);
            }
        }
        if !has_next && self.path.len() > 1 {
            let hops = self.path.iter().map(|&hop| self.hops[hop]).collect();
            self.chains.push(Chain { hops, carried });
        }
        self.path.pop();
    }
}

impl Carried {
    /// What a flow brings to its destination. `None`: nothing, or unknown.
    fn of_flow(flow: &Flow<'_>) -> Option<Self> {
        let (bytes, proven_bytes) = (flow.bytes?, flow.proven_bytes.unwrap_or(0));
        (bytes > 0).then_some(Self {
            bytes,
            proven_bytes,
            certainty: flow.certainty(),
            evidence: flow.evidence,
        })
    }

    /// The same, but at most so many bytes: lower bounds if there were more.
    fn limited_to(self, bytes: u64) -> Self {
        if self.bytes <= bytes {
            return self;
        }
        Self {
            bytes,
            proven_bytes: self.proven_bytes.min(bytes),
            certainty: Certainty::Inferred,
            ..self
        }
    }

    /// The part of it that a flow out of the conduit carries on. `None`: perhaps nothing.
    fn through(self, meeting: &Meeting, out: &Flow<'_>) -> Option<Self> {
        let Meeting {
            written_bytes,
            read_bytes,
            is_closed,
            ..
        } = *meeting;
        let again_bytes = out.again_bytes;
        let mut out = Self::of_flow(out)?.limited_to(taken_bytes(out));
        if again_bytes > 0 && self.bytes < written_bytes {
            // Some bytes left twice and others perhaps never, and not all of them came from this
            // source.
            out = out.limited_to(out.bytes.saturating_sub(again_bytes));
        }
        let overlap = |came: u64, went: u64| {
            came.checked_add(went)?
                .checked_sub(written_bytes)
                .filter(|&bytes| bytes > 0)
        };
        let weakest = self.evidence.max(out.evidence);
        if !is_closed {
            // Others may have written and read. Only if all figures agree, they are likely to be
            // the same bytes.
            let is_all = [self.bytes, out.bytes, read_bytes]
                .iter()
                .all(|&bytes| bytes == written_bytes);
            let evidence = weakest.max(Evidence::Totals);
            return is_all.then_some(Self {
                bytes: written_bytes,
                proven_bytes: 0,
                certainty: Certainty::Inferred,
                evidence,
            });
        }
        let is_whole = self.bytes == written_bytes || out.bytes == written_bytes;
        let are_exact = [self.certainty, out.certainty]
            .iter()
            .all(|&certainty| certainty == Certainty::Exact);
        Some(Self {
            bytes: overlap(self.bytes, out.bytes)?,
            proven_bytes: overlap(self.proven_bytes, out.proven_bytes).unwrap_or(0),
            certainty: if is_whole && are_exact {
                Certainty::Exact
            } else {
                Certainty::Inferred
            },
            evidence: weakest,
        })
    }
}

/// How many bytes a flow took out of its source. It may have written some twice, and `MSG_PEEK`
/// takes none out.
fn taken_bytes(flow: &Flow<'_>) -> u64 {
    if flow.reading.is_empty() {
        u64::MAX
    } else {
        sum_bytes(&flow.reading).unwrap_or(u64::MAX)
    }
}

/// Where flows of different processes meet, by the index of the flow into the conduit.
fn meetings(hops: &[Hop<'_, '_>], conduits: &Conduits<'_>) -> HashMap<usize, Vec<Meeting>> {
    // `tee` copies: its bytes also stay in the pipe where they were.
    let movers = || {
        hops.iter()
            .enumerate()
            .filter(|(_, hop)| hop.flow.api != Api::Tee)
    };
    let mut outs: HashMap<FileId, Vec<usize>> = HashMap::new();
    for (out, hop) in movers() {
        if let Some(from) = hop.flow.from.file() {
            outs.entry(from).or_default().push(out);
        }
    }
    let mut meetings = HashMap::new();
    for (into, hop) in movers() {
        let Some(outlet) = conduits.outlet(hop.flow.to) else {
            continue;
        };
        let (Some(written_bytes), Some(read_bytes)) =
            (conduits.written(hop.flow.to), conduits.read(outlet))
        else {
            continue;
        };
        // If more came out than went in, a process that is not traced wrote to the conduit.
        if read_bytes > written_bytes {
            continue;
        }
        let is_closed = conduits.is_closed(outlet) && conduits.is_closed(hop.flow.to);
        if !is_closed && !conduits.may_carry(hop.flow.to, outlet) {
            continue;
        }
        let of_others = outs
            .get(&outlet)
            .into_iter()
            .flatten()
            .filter(|&&out| hops[out].process.pid != hop.process.pid);
        let found: Vec<_> = of_others
            .map(|&out| Meeting {
                out,
                written_bytes,
                read_bytes,
                is_closed,
            })
            .collect();
        if !found.is_empty() {
            meetings.insert(into, found);
        }
    }
    meetings
}
