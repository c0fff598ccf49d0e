//! Rule 8: chains of transfers from process to process, through pipes and connections.
//!
//! Only a conduit of which every byte in and every byte out was seen joins two steps. If one step
//! put in everything, the chain has what the other one took on. If one step took everything on and
//! wrote none of it twice, the chain has what each step put in. Otherwise there is no chain.
//!
//! The ends of a TCP connection are found by their addresses, which other connections may have, too. So
//! a chain through TCP is inferred.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
};

use super::Step;
use crate::{
    syscalls::{Fds, data_calls},
    trace::{File, FileId, FileIdentity, FileKind, OpenBefore, Trace},
    transfer::Api,
    units::sum_all,
};

/// What went into a conduit and came out of it; `None`: some call does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) written: Option<u64>,
    pub(crate) read: Option<u64>,
    /// Whether a call was cut off that may have written more.
    pub(crate) is_cut_off: bool,
}

impl Moved {
    pub(crate) const NOTHING: Self = Self {
        written: Some(0),
        read: Some(0),
        is_cut_off: false,
    };

    pub(crate) fn add_moved(&mut self, more: Self) {
        self.written = sum_all([self.written, more.written]);
        self.read = sum_all([self.read, more.read]);
        self.is_cut_off |= more.is_cut_off;
    }
}

/// Adds what others moved through each conduit; through further ones only if there `is_room`.
pub(crate) fn add_conduits(
    sums: &mut BTreeMap<FileId, Moved>,
    more: &BTreeMap<FileId, Moved>,
    is_room: bool,
) {
    for (&file, &moved) in more {
        if is_room || sums.contains_key(&file) {
            sums.entry(file).or_insert(Moved::NOTHING).add_moved(moved);
        }
    }
}

/// The pipes and connections of a trace.
#[derive(Debug)]
pub(super) struct Conduits<'a> {
    /// What all processes moved.
    moved: BTreeMap<FileId, Moved>,
    /// The ends of connections. `None`: several files have the same.
    sockets: HashMap<SocketKey<'a>, Option<FileId>>,
    /// Whether no call that moves bytes is missing, and each has its files.
    is_complete: bool,
    trace: &'a Trace,
}

impl<'a> Conduits<'a> {
    /// The conduits of a trace in which processes `moved` so many bytes.
    pub(super) fn new(trace: &'a Trace, moved: BTreeMap<FileId, Moved>, has_all: bool) -> Self {
        let mut sockets = HashMap::new();
        for (id, file) in (0..).map(FileId).zip(&trace.files) {
            if let Some(key) = SocketKey::own_key(file) {
                let known = sockets.entry(key);
                known.and_modify(|one| *one = None).or_insert(Some(id));
            }
        }
        let mut losses = trace.losses.iter();
        let lost = losses.any(|(loss, &count)| count > 0 && loss.touches_transfers());
        Self {
            moved,
            sockets,
            is_complete: has_all && !lost && counts_all(trace),
            trace,
        }
    }

    fn find_file(&self, id: FileId) -> Option<&'a File> {
        id.in_files(&self.trace.files)
    }

    /// Whether others than the traced processes may use a pipe or socket, or it may have held bytes
    /// before the launch. Of several that were summed, nobody knows which bytes went through which.
    fn is_shared(&self, id: FileId) -> bool {
        let Some(file) = self.find_file(id).filter(|file| file.sum.is_none()) else {
            return true;
        };
        // A named stream socket only listens: each connection has two ends. Anybody may write into a
        // named pipe, or send datagrams to a name.
        let may_have_others = matches!(file.kind, Some(FileKind::Pipe | FileKind::UnixDatagram));
        let has_name = may_have_others && file.path.is_some();
        let was_open = match (&self.trace.inherited, file.identity) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(before), Some(FileIdentity { device, inode, .. })) => {
                before.contains(&OpenBefore { device, inode })
            }
        };
        has_name || was_open
    }

    /// The file where the bytes written into this one come out.
    fn find_outlet(&self, id: FileId) -> Option<FileId> {
        let file = self.find_file(id)?;
        if file.kind == Some(FileKind::Pipe) {
            Some(id)
        } else {
            *self.sockets.get(&SocketKey::of_peer(file)?)?
        }
    }

    /// The bytes that went through a conduit, if every byte in and every byte out was seen.
    pub(super) fn seen_completely(&self, inlet: FileId, outlet: FileId) -> Option<u64> {
        let moved = |file| self.moved.get(&file).copied().unwrap_or(Moved::NOTHING);
        let (into, out) = (moved(inlet), moved(outlet));
        let is_seen = self.is_complete
            && !into.is_cut_off
            && !out.is_cut_off
            && !self.is_shared(inlet)
            && !self.is_shared(outlet);
        let written = into.written.filter(|_| is_seen && into.written == out.read);
        written.filter(|written| *written > 0)
    }
}

/// Whether two files are the ends of one connection, so that what goes into one comes out of the other.
pub(super) fn are_connected(one: &File, other: &File) -> bool {
    let peer = SocketKey::of_peer(one);
    peer.is_some() && peer == SocketKey::own_key(other)
}

/// Whether what is written to a file of this kind may come out elsewhere.
pub(super) fn may_be_conduit(kind: Option<FileKind>) -> bool {
    use FileKind::{Pipe, Tcp, UnixDatagram, UnixSeqpacket, UnixStream};
    kind.is_none_or(|kind| matches!(kind, Pipe | Tcp | UnixStream | UnixDatagram | UnixSeqpacket))
}

/// Whether every call that moves bytes was counted. Unknown for a recorded log, so false there.
fn counts_all(trace: &Trace) -> bool {
    let Some(counted) = &trace.counted else {
        return false;
    };
    let mut calls = data_calls();
    calls.all(|spec| match spec.fds {
        Fds::Reads(_) | Fds::Writes(_) | Fds::Pipe(_) | Fds::Copies { .. } => {
            counted.contains(spec.name)
        }
        _ => true,
    })
}

/// What tells an end of a connection apart.
#[derive(Debug, PartialEq, Eq, Hash)]
enum SocketKey<'a> {
    /// The inode of a Unix socket.
    Unix(u64),
    /// The own address of a TCP socket, and that of its peer.
    Tcp(Cow<'a, str>, Cow<'a, str>),
}

impl<'a> SocketKey<'a> {
    fn own_key(file: &'a File) -> Option<Self> {
        use FileKind::{Tcp, UnixDatagram, UnixSeqpacket, UnixStream};
        match file.kind? {
            UnixStream | UnixSeqpacket | UnixDatagram => Some(Self::Unix(file.identity?.inode)),
            Tcp => Self::from_addresses(file.local.as_deref(), file.peer.as_deref()),
            _ => None,
        }
    }

    /// That of the other end.
    fn of_peer(file: &'a File) -> Option<Self> {
        match file.kind? {
            FileKind::Tcp => Self::from_addresses(file.peer.as_deref(), file.local.as_deref()),
            _ => file.peer_inode.map(Self::Unix),
        }
    }

    fn from_addresses(own: Option<&'a str>, peer: Option<&'a str>) -> Option<Self> {
        Some(Self::Tcp(plain_address(own?), plain_address(peer?)))
    }
}

/// The address in the form that both ends share: an IPv6 socket shows an IPv4 address as
/// `[::ffff:127.0.0.1]:80`.
fn plain_address(address: &str) -> Cow<'_, str> {
    let mapped = address.strip_prefix("[::ffff:");
    match mapped.and_then(|rest| rest.split_once(']')) {
        Some((host, port)) if host.contains('.') => format!("{host}{port}").into(),
        _ => address.into(),
    }
}

/// A chain: the indices of its steps, and the bytes that went from end to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StepChain {
    pub(super) steps: Vec<usize>,
    pub(super) bytes: u64,
}

/// So many chains with the same first step are found at most. Pipelines that divide and join again
/// and again have twice as many with each time; their steps are transfers all the same.
const MAX_CHAINS_OF_STEP: usize = 256;

/// Chains, each as long as possible, and whether there are more.
pub(super) fn find_chains(steps: &[Step], conduits: &Conduits<'_>) -> (Vec<StepChain>, bool) {
    let mut out_of: HashMap<FileId, Vec<usize>> = HashMap::new();
    let is_transfer = |index: &usize| steps[*index].transfer.is_transfer();
    let all: Vec<usize> = (0..steps.len()).filter(is_transfer).collect();
    for &index in &all {
        out_of.entry(steps[index].from).or_default().push(index);
    }
    let search = ChainSearch {
        steps,
        conduits,
        out_of,
    };
    let mut inner = HashSet::new();
    for &into in &all {
        let bytes = steps[into].transfer.bytes.unwrap_or(0);
        inner.extend(
            search
                .steps_after(into, bytes)
                .into_iter()
                .map(|(out, _)| out),
        );
    }
    let (mut chains, mut has_more) = (Vec::new(), false);
    for start in all.into_iter().filter(|start| !inner.contains(start)) {
        if let Some(bytes) = steps[start].transfer.bytes.filter(|bytes| *bytes > 0) {
            let steps = vec![start];
            has_more |= search.extend_chain(StepChain { steps, bytes }, &mut chains);
        }
    }
    (chains, has_more)
}

struct ChainSearch<'s> {
    steps: &'s [Step],
    conduits: &'s Conduits<'s>,
    /// The steps by their source.
    out_of: HashMap<FileId, Vec<usize>>,
}

impl ChainSearch<'_> {
    /// Adds the chains that begin with this one. Returns whether there are more.
    fn extend_chain(&self, first: StepChain, chains: &mut Vec<StepChain>) -> bool {
        let full = chains.len() + MAX_CHAINS_OF_STEP;
        let mut begun = vec![first];
        while let Some(StepChain { steps, bytes }) = begun.pop() {
            let mut next = self.steps_after(steps[steps.len() - 1], bytes);
            next.retain(|(next, _)| !steps.contains(next));
            if next.is_empty() && steps.len() > 1 {
                if chains.len() == full {
                    return true;
                }
                chains.push(StepChain { steps, bytes });
                continue;
            }
            // The last one is continued next.
            for (next, bytes) in next.into_iter().rev() {
                let steps = [steps.as_slice(), &[next]].concat();
                begun.push(StepChain { steps, bytes });
            }
        }
        false
    }

    /// The steps of other processes that took on what came through this step, `carried` bytes of
    /// the chain's source, and how many of these each has.
    fn steps_after(&self, into: usize, carried: u64) -> Vec<(usize, u64)> {
        let step = &self.steps[into];
        let mut after = Vec::new();
        let Some(outlet) = self.conduits.find_outlet(step.to) else {
            return after;
        };
        let Some(all) = self.conduits.seen_completely(step.to, outlet) else {
            return after;
        };
        for &out in self.out_of.get(&outlet).into_iter().flatten() {
            let other = &self.steps[out];
            let Some(taken) = other.transfer.bytes else {
                continue;
            };
            let (bytes, takes_part) = if carried == all {
                (taken, taken <= all)
            } else {
                (carried, taken == all && other.takes_all)
            };
            // `tee` leaves its bytes where they were.
            let apis = [step.transfer.api, other.transfer.api];
            let is_next = other.pid != step.pid && !apis.contains(&Api::Tee);
            if takes_part && is_next && bytes > 0 {
                after.push((out, bytes));
            }
        }
        after
    }
}
