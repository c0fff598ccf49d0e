//! The flow of bytes of a report as a graph: programs, what they read and what they wrote. It has
//! only what is worth drawing: the largest nodes, and one for all the others.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use crate::{
    render::{
        calls::named,
        text,
        transfers::{end_kind, end_label, is_file},
    },
    report::{Api, Certainty, DestinationTotals, End, Process, Report, SourceTotals, Transfer},
    units::sum_all,
};
use zctrace_core::text::{is_library, plural};

/// How many files, pipes and sockets have a node of their own: the largest.
const MAX_FILES: usize = 8;
/// How many programs have. If there are more processes, those of the same name share a node.
const MAX_PROGRAMS: usize = 8;
/// Fewer bytes that are in no transfer are a message, or what a program reads for itself.
const MIN_OTHER_BYTES: u64 = 4096;
/// A file or program that is in no transfer, and with less than this fraction of the largest flow,
/// has no node of its own: modules of Python beside what the program is about.
const MIN_FRACTION_OF_OTHER: u64 = 20;

/// How bytes went from one node to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FlowWay {
    /// By this interface, so surely.
    Transfer(Api, Certainty),
    /// Read and kept, or written from the program's own memory.
    Other,
}

/// A program, or something that it read or wrote.
#[derive(Debug)]
pub(super) struct FlowNode {
    pub(super) is_program: bool,
    /// Its whole name.
    pub(super) name: String,
    /// What it is, if the name does not say it.
    pub(super) nature: String,
    /// The bytes that came in and that went out. `None`: unknown for a part of them.
    pub(super) bytes: [Option<u64>; 2],
}

/// An edge between two nodes, by their index.
#[derive(Debug)]
pub(super) struct FlowEdge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) way: FlowWay,
    /// `None`: unknown.
    pub(super) bytes: Option<u64>,
}

/// The graph; empty if nothing is known to have moved.
#[derive(Debug)]
pub(super) struct FlowGraph {
    pub(super) nodes: Vec<FlowNode>,
    /// Those with the most bytes first.
    pub(super) edges: Vec<FlowEdge>,
}

/// What a node stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum NodeKey<'a> {
    /// A program by the name that is shown.
    Program(String),
    MorePrograms(usize),
    File(&'a End),
    MoreRead(usize),
    MoreWritten(usize),
}

/// The bytes from one node to another. `None`: unknown.
type Flows<'a> = BTreeMap<(NodeKey<'a>, NodeKey<'a>, FlowWay), Option<u64>>;

impl FlowGraph {
    /// The graph of this report.
    pub(super) fn from_report(report: &Report) -> Self {
        let of_process = |name: Option<&str>, pid| match report.totals.processes {
            1 => text::known(name, text::escape),
            _ => named(name, pid),
        };
        let mut flows = FlowCollector::new(report).flows(&of_process);
        if sums(&flows).keys().filter(|key| key.is_program()).count() > MAX_PROGRAMS {
            let by_name = |name: Option<&str>, _| text::known(name, text::escape);
            flows = FlowCollector::new(report).flows(&by_name);
        }
        drop_small(&mut flows);
        Self::from_flows(&join_small(flows))
    }

    fn from_flows(flows: &Flows<'_>) -> Self {
        let sums = sums(flows);
        let mut keys: Vec<&NodeKey<'_>> = sums.keys().copied().collect();
        keys.sort_by_key(|key| (key.is_for_many(), Reverse(sums[key].bytes)));
        let places: BTreeMap<&NodeKey<'_>, usize> = keys
            .iter()
            .enumerate()
            .map(|(place, key)| (*key, place))
            .collect();
        let index = |key: &NodeKey<'_>| places[key];
        let mut nodes: Vec<FlowNode> = keys.iter().map(|key| key.node()).collect();
        let mut edges = Vec::new();
        for ((from, to, way), &bytes) in flows {
            let (from, to) = (index(from), index(to));
            for (node, side) in [(to, 0), (from, 1)] {
                let sum = &mut nodes[node].bytes[side];
                *sum = sum_all([*sum, bytes]);
            }
            edges.push(FlowEdge {
                from,
                to,
                way: *way,
                bytes,
            });
        }
        edges.sort_by_key(|edge| Reverse(edge.bytes));
        Self { nodes, edges }
    }
}

impl NodeKey<'_> {
    const fn is_program(&self) -> bool {
        matches!(self, Self::Program(_) | Self::MorePrograms(_))
    }

    const fn is_for_many(&self) -> bool {
        matches!(
            self,
            Self::MorePrograms(_) | Self::MoreRead(_) | Self::MoreWritten(_)
        )
    }

    fn node(&self) -> FlowNode {
        let (name, nature) = match self {
            Self::Program(name) => (name.clone(), String::new()),
            Self::MorePrograms(more) => (
                plural(*more as u64, "more program", "more programs"),
                String::new(),
            ),
            // Those that were merged have no names.
            Self::File(end) if end.name().is_none() && end_kind(end) == "regular" => {
                ("many files".to_owned(), String::new())
            }
            Self::File(end) => {
                let (label, kind) = (end_label(end), text::escape(end_kind(end)));
                let nature = if label == kind { String::new() } else { kind };
                (label, nature)
            }
            Self::MoreRead(more) => (format!("{more} more, read"), String::new()),
            Self::MoreWritten(more) => (format!("{more} more, written"), String::new()),
        };
        FlowNode {
            is_program: self.is_program(),
            name,
            nature,
            bytes: [Some(0); 2],
        }
    }
}

/// What goes over all edges of a node.
#[derive(Debug, Clone, Copy, Default)]
struct NodeSum {
    bytes: u64,
    is_in_transfer: bool,
}

/// All nodes.
fn sums<'f, 'a>(flows: &'f Flows<'a>) -> BTreeMap<&'f NodeKey<'a>, NodeSum> {
    let mut sums: BTreeMap<&NodeKey<'a>, NodeSum> = BTreeMap::new();
    for ((from, to, way), bytes) in flows {
        for key in [from, to] {
            let sum = sums.entry(key).or_default();
            sum.bytes = sum.bytes.saturating_add(bytes.unwrap_or(0));
            sum.is_in_transfer |= *way != FlowWay::Other;
        }
    }
    sums
}

/// What is shown of a process, by its name and id.
type ShownName<'n> = &'n dyn Fn(Option<&str>, u32) -> String;

/// What ends have in common that share a node.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EndKey<'a> {
    Texts([&'a str; 2]),
    Inodes([u64; 2]),
}

/// Adds up the flows of a report.
struct FlowCollector<'a> {
    report: &'a Report,
    processes: BTreeMap<u32, &'a Process>,
    /// The end that stands for all of its kind and path, or for both of a connection, by its
    /// addresses or inodes.
    ends: BTreeMap<EndKey<'a>, &'a End>,
    flows: Flows<'a>,
    /// How many bytes a program read of a file.
    read: BTreeMap<(NodeKey<'a>, NodeKey<'a>), Option<u64>>,
}

impl<'a> FlowCollector<'a> {
    fn new(report: &'a Report) -> Self {
        let processes = report.processes.iter();
        Self {
            report,
            processes: processes.map(|process| (process.pid, process)).collect(),
            ends: BTreeMap::new(),
            flows: BTreeMap::new(),
            read: BTreeMap::new(),
        }
    }

    fn flows(mut self, shown_name: ShownName<'_>) -> Flows<'a> {
        let report = self.report;
        // Those over several processes consist of those within each.
        for transfer in report
            .transfers
            .iter()
            .filter(|one| !one.crosses_processes())
        {
            let program = self.program_of(transfer, shown_name);
            let [from, to] = [&transfer.from, &transfer.to].map(|end| self.file(end));
            for (certainty, bytes) in by_certainty(transfer) {
                let way = FlowWay::Transfer(transfer.api, certainty);
                self.add(from.clone(), program.clone(), way, bytes);
                self.add(program.clone(), to.clone(), way, bytes);
            }
        }
        for process in &report.processes {
            let program = NodeKey::Program(shown_name(process.name(), process.pid));
            self.add_others(&program, &process.sources, &process.destinations);
        }
        if let Some(merged) = &report.merged {
            let program =
                NodeKey::Program(plural(merged.programs, "ended program", "ended programs"));
            self.add_others(&program, &merged.sources, &merged.destinations);
        }
        self.leave_out_repeated();
        self.flows
    }

    fn program_of(&self, transfer: &Transfer, shown_name: ShownName<'_>) -> NodeKey<'a> {
        if let Some(merged) = &transfer.merged {
            let name = merged.programs.first().and_then(Option::as_deref);
            return NodeKey::Program(text::known(name, text::escape));
        }
        let pid = transfer.pids.first().copied().unwrap_or_default();
        let process = self.processes.get(&pid);
        NodeKey::Program(shown_name(process.and_then(|process| process.name()), pid))
    }

    /// The node of a file. Both ends of a connection are one, and files of the same path: of merged
    /// processes no more is known.
    fn file(&mut self, end: &'a End) -> NodeKey<'a> {
        let key = match (&end.local, &end.peer, &end.path, end.inode, end.peer_inode) {
            (Some(local), Some(peer), ..) => {
                let mut addresses = [local.as_str(), peer.as_str()];
                addresses.sort_unstable();
                EndKey::Texts(addresses)
            }
            (.., Some(own), Some(peer)) => {
                let mut inodes = [own.number, peer];
                inodes.sort_unstable();
                EndKey::Inodes(inodes)
            }
            (_, _, Some(path), ..) => EndKey::Texts([end_kind(end), path.as_str()]),
            _ => return NodeKey::File(end),
        };
        NodeKey::File(self.ends.entry(key).or_insert(end))
    }

    fn add(&mut self, from: NodeKey<'a>, to: NodeKey<'a>, way: FlowWay, bytes: Option<u64>) {
        let sum = self.flows.entry((from, to, way)).or_insert(Some(0));
        *sum = sum_all([*sum, bytes]);
    }

    /// What a program read and kept, and wrote from its own memory.
    fn add_others(
        &mut self,
        program: &NodeKey<'a>,
        sources: &'a [SourceTotals],
        destinations: &'a [DestinationTotals],
    ) {
        for source in sources {
            let Some(end) = &source.file else { continue };
            let file = self.file(end);
            let read = self.read.entry((file.clone(), program.clone()));
            let sum = read.or_insert(Some(0));
            *sum = sum_all([*sum, source.read_bytes]);
            if !end.path.as_deref().is_some_and(is_library) {
                let kept = source.kept_bytes.or(Some(0));
                self.add(file, program.clone(), FlowWay::Other, kept);
            }
        }
        for destination in destinations {
            if let Some(end) = &destination.file {
                let file = self.file(end);
                let own = destination.own_memory_bytes.or(Some(0));
                self.add(program.clone(), file, FlowWay::Other, own);
            }
        }
    }

    /// What was changed on the way is also among what was kept and what comes from own memory. What
    /// was written several times was read once.
    fn leave_out_repeated(&mut self) {
        let pairs: BTreeSet<_> = self
            .flows
            .keys()
            .map(|(a, b, _)| (a.clone(), b.clone()))
            .collect();
        for (from, to) in pairs {
            let pair = |way| (from.clone(), to.clone(), way);
            let both = pair(FlowWay::Transfer(Api::ALL[0], Certainty::Observed));
            let transfers = self.flows.range_mut(both..pair(FlowWay::Other));
            let (mut changed, mut moved) = (0_u64, Vec::new());
            for ((.., way), bytes) in transfers {
                if let Some(bytes) = bytes {
                    if matches!(way, FlowWay::Transfer(_, Certainty::Changed)) {
                        changed = changed.saturating_add(*bytes);
                    } else {
                        moved.push(bytes);
                    }
                }
            }
            let read = self
                .read
                .get(&(from.clone(), to.clone()))
                .copied()
                .flatten();
            limit(moved, read.filter(|read| *read > 0));
            if let Some(Some(other)) = self.flows.get_mut(&pair(FlowWay::Other)) {
                *other = other.saturating_sub(changed);
            }
        }
    }
}

/// The bytes of a transfer that were observed and those that were inferred each have an edge.
fn by_certainty(transfer: &Transfer) -> Vec<(Certainty, Option<u64>)> {
    match (transfer.certainty, transfer.bytes, transfer.observed_bytes) {
        (Certainty::Inferred, Some(bytes), Some(observed @ 1..)) => vec![
            (Certainty::Observed, Some(observed)),
            (Certainty::Inferred, Some(bytes.saturating_sub(observed))),
        ],
        (certainty, bytes, _) => vec![(certainty, bytes)],
    }
}

/// Makes figures smaller, each by the same share, so that they are at most this together.
fn limit(figures: Vec<&mut u64>, most: Option<u64>) {
    let sum: u128 = figures.iter().map(|bytes| u128::from(**bytes)).sum();
    if let Some(most) = most.filter(|most| u128::from(*most) < sum) {
        for bytes in figures {
            let share = u128::from(*bytes) * u128::from(most) / sum;
            *bytes = u64::try_from(share).unwrap_or(most);
        }
    }
}

/// Leaves out what moved nothing, and messages; a small file counts if the program wrote a larger one.
fn drop_small(flows: &mut Flows<'_>) {
    let is_large = |bytes: &Option<u64>| bytes.is_some_and(|bytes| bytes >= MIN_OTHER_BYTES);
    let large = flows.iter().filter(|(_, bytes)| is_large(bytes));
    let writers: BTreeSet<NodeKey<'_>> = large.map(|((from, ..), _)| from.clone()).collect();
    flows.retain(|(from, to, way), bytes| match way {
        FlowWay::Transfer(..) => *bytes != Some(0),
        FlowWay::Other => {
            let is_stored = matches!(to, NodeKey::File(end) if is_file(end));
            is_large(bytes) || is_stored && *bytes != Some(0) && writers.contains(from)
        }
    });
}

/// Joins all but the largest files, and all but the largest programs.
fn join_small(flows: Flows<'_>) -> Flows<'_> {
    let (files, programs) = (
        small(&flows, false, MAX_FILES),
        small(&flows, true, MAX_PROGRAMS),
    );
    let distinct = |keys: Vec<&NodeKey<'_>>| {
        let small = keys.into_iter().filter(|key| files.contains(key));
        small.collect::<BTreeSet<_>>().len()
    };
    let read = distinct(flows.keys().map(|(from, ..)| from).collect());
    let written = distinct(flows.keys().map(|(_, to, _)| to).collect());
    let mut joined: Flows<'_> = BTreeMap::new();
    for ((from, to, way), bytes) in flows {
        let [from, to] = [
            (from, NodeKey::MoreRead(read)),
            (to, NodeKey::MoreWritten(written)),
        ]
        .map(|(key, more)| match &key {
            key if programs.contains(key) => NodeKey::MorePrograms(programs.len()),
            key if files.contains(key) => more,
            _ => key,
        });
        let sum = joined.entry((from, to, way)).or_insert(Some(0));
        *sum = sum_all([*sum, bytes]);
    }
    joined
}

/// All programs, or all files, but those that are worth a node.
fn small<'a>(flows: &Flows<'a>, are_programs: bool, most: usize) -> BTreeSet<NodeKey<'a>> {
    let largest = flows.values().copied().flatten().max().unwrap_or(0);
    let mut all: Vec<(&NodeKey<'a>, NodeSum)> = sums(flows).into_iter().collect();
    all.retain(|(key, _)| key.is_program() == are_programs);
    all.sort_by_key(|(_, sum)| Reverse(sum.bytes));
    let is_small =
        |sum: NodeSum| !sum.is_in_transfer && sum.bytes < largest / MIN_FRACTION_OF_OTHER;
    let enumerated = all.into_iter().enumerate();
    let small: Vec<&NodeKey<'a>> = enumerated
        .filter(|(index, (_, sum))| *index >= most || is_small(*sum))
        .map(|(_, (key, _))| key)
        .collect();
    // To join a single one would save nothing.
    let small = small.iter().filter(|_| small.len() > 1);
    small.map(|key| (*key).clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::files::{Scene, scene};

    /// The edges of the graph, those with the most bytes first.
    fn edges(report: &Report) -> Vec<String> {
        let graph = FlowGraph::from_report(report);
        let name = |node: usize| &graph.nodes[node].name;
        let edge = |edge: &FlowEdge| {
            let way = match edge.way {
                FlowWay::Transfer(api, certainty) => format!("{} {certainty:?}", api.name()),
                FlowWay::Other => "other".to_owned(),
            };
            let bytes = text::known(edge.bytes, |bytes| bytes.to_string());
            format!("{} -> {}: {bytes} {way}", name(edge.from), name(edge.to))
        };
        graph.edges.iter().map(edge).collect()
    }

    #[test]
    fn a_transfer_goes_through_its_program_and_the_rest_has_edges_of_its_own() {
        let report = scene("cp: copy_file_range in->out 1 1048576").report();
        let way = "1048576 copy_file_range Observed";
        assert_eq!(
            edges(&report),
            [format!("cp -> out: {way}"), format!("in -> cp: {way}")]
        );
        let report = scene("x: read in 2 300000, write - 1 5, write out 3 200000").report();
        let found = edges(&report);
        assert_eq!(found, ["in -> x: 300000 other", "x -> out: 200000 other"]);
        assert!(edges(&scene("x: stat - 1 0").report()).is_empty());
    }

    #[test]
    fn the_sure_part_of_a_transfer_has_an_edge_of_its_own() {
        let mut report = scene("cp: copy_file_range in->out 1 1048576").report();
        let transfer = &mut report.transfers[0];
        transfer.certainty = Certainty::Inferred;
        transfer.observed_bytes = Some(1_048_574);
        let found = edges(&report);
        assert_eq!(found[0], "cp -> out: 1048574 copy_file_range Observed");
        assert_eq!(found[2], "cp -> out: 2 copy_file_range Inferred");
    }

    #[test]
    fn what_was_read_once_and_written_twice_came_in_once() {
        let tee = "tee: read pipe 10 1000000, write pipe>out 10 1000000, write pipe>log 10 1000000";
        let found = edges(&scene(tee).report());
        let came = found.iter().filter(|edge| edge.starts_with("pipe -> tee"));
        assert_eq!(
            came.collect::<Vec<_>>(),
            ["pipe -> tee: 1000000 read+write Observed"]
        );
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn both_ends_of_a_connection_are_one_node() {
        let mut scene = Scene::new();
        let [client, server] = scene.connection("10.0.0.1:80", "10.0.0.2:5000");
        scene.name("client", client);
        scene.name("server", server);
        scene.run("httpd: sendfile page->server 1 1000000");
        scene.run("curl: recvfrom client 10 1000000, write client>out 10 1000000");
        let graph = FlowGraph::from_report(&scene.report());
        assert_eq!(graph.nodes.len(), 5, "{graph:?}");
    }

    #[test]
    fn both_ends_of_a_pair_of_sockets_are_one_node_and_small_files_beside_a_large_one_count() {
        let mut scene = Scene::new();
        let [one, other] = scene.socketpair();
        scene.name("one", one);
        scene.name("other", other);
        scene.run("rsync: read in 10 1000000, write one 10 1000000");
        scene
            .run("copy: read other 10 1000000, write out 9 990000, write a 1 1000, write b 1 1000");
        let graph = FlowGraph::from_report(&scene.report());
        let names: Vec<&str> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names.len(), 6, "{names:?}");
        assert!(names.contains(&"2 more, written"), "{names:?}");
    }

    #[test]
    fn files_of_one_path_are_one_node() {
        let mut report =
            scene("cp: copy_file_range in->out 1 1048576, copy_file_range in->copy 1 1048576")
                .report();
        let from = &mut report.transfers[1].from;
        (from.inode, from.size) = (None, None);
        let graph = FlowGraph::from_report(&report);
        assert_eq!(graph.nodes.len(), 4, "{graph:?}");
    }

    #[test]
    fn the_graph_is_small_however_much_there_is() {
        let mut scene = Scene::new();
        for process in 0..40 {
            let files = (0..30).map(|file| {
                format!(
                    "copy_file_range a{file}->b{process}x{file} 1 {}",
                    9000 + file
                )
            });
            let files: Vec<String> = files.collect();
            scene.run(&format!("p{process}: {}", files.join(", ")));
        }
        let graph = FlowGraph::from_report(&scene.report());
        assert!(
            graph.nodes.len() <= MAX_FILES + MAX_PROGRAMS + 3,
            "{graph:?}"
        );
        let names: BTreeSet<&str> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
        assert!(names.contains("32 more programs"), "{names:?}");
        let bytes = |is_from: bool| {
            let edges = graph.edges.iter();
            let of_programs = edges
                .filter(|edge| graph.nodes[if is_from { edge.from } else { edge.to }].is_program);
            of_programs.filter_map(|edge| edge.bytes).sum::<u64>()
        };
        assert_eq!(bytes(true), bytes(false), "nothing is lost");
    }
}
