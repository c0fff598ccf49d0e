//! Compares the statements of a report with the truth.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::{self, Display},
};

use zc_tests::truth::{Moved, Truth, Way};
use zctrace::report::{
    Api, Certainty, DestinationTotals, End, Evidence, Hop, Process, Report, Transfer,
};

/// A false statement.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    /// What kind of statement it is.
    pub(super) class: String,
    /// The seed and the theme of the program.
    pub(super) of: (u64, usize),
    /// What is stated, and what is true.
    pub(super) text: String,
}

/// How much was compared, and which statements were false.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// Exact statements, and their bytes.
    pub(super) exact: u64,
    exact_bytes: u64,
    /// Inferred statements, and their bytes.
    inferred: u64,
    inferred_bytes: u64,
    /// Accounts of files that were read or written, and their bytes.
    accounts: u64,
    account_bytes: u64,
    /// Bytes that were written and came from another end.
    movable_bytes: u64,
    /// Reports that say that all their transfers are exact.
    exact_reports: u64,
    pub(super) failures: Vec<Failure>,
}

impl Judged {
    pub(super) fn add(&mut self, other: Self) {
        self.exact += other.exact;
        self.exact_bytes += other.exact_bytes;
        self.inferred += other.inferred;
        self.inferred_bytes += other.inferred_bytes;
        self.accounts += other.accounts;
        self.account_bytes += other.account_bytes;
        self.movable_bytes += other.movable_bytes;
        self.exact_reports += other.exact_reports;
        self.failures.extend(other.failures);
    }
}

impl Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} exact statements of {} bytes checked",
            self.exact, self.exact_bytes
        )?;
        writeln!(
            f,
            "{} inferred statements of {} bytes checked",
            self.inferred, self.inferred_bytes
        )?;
        writeln!(
            f,
            "{} accounts of {} bytes checked",
            self.accounts, self.account_bytes
        )?;
        writeln!(
            f,
            "{} bytes moved from one end to another",
            self.movable_bytes
        )?;
        writeln!(f, "{} reports exact as a whole", self.exact_reports)?;
        write!(f, "{} false statements", self.failures.len())
    }
}

/// The name of an end in the truth.
fn name(end: &End) -> String {
    let file = end.path.as_deref().and_then(|path| path.rsplit('/').next());
    match (end.kind.as_deref(), file, end.inode) {
        (Some(End::MEMORY), ..) => End::MEMORY.to_owned(),
        (Some("regular"), Some(file), _) => file.to_owned(),
        (_, _, Some(inode)) => format!("ino:{}", inode.number),
        (kind, file, _) => format!("{kind:?} {file:?}"),
    }
}

/// How bytes were moved, in the words of the truth.
fn manner(api: Api, evidence: Option<Evidence>) -> &'static str {
    match api {
        Api::ReadWrite => "memory",
        Api::IoUring if evidence != Some(Evidence::Call) => "memory",
        // A flow can have splices by system calls and by rings.
        Api::IoUring | Api::Splice => "splice",
        Api::MmapWrite => "mapping",
        Api::Sendfile => "sendfile",
        Api::Tee => "tee",
        Api::Vmsplice => "vmsplice",
        Api::CopyFileRange => "copy_file_range",
        Api::Reflink => "reflink",
    }
}

/// A manner of the truth, without the difference between calls and rings, which reports do not
/// make.
fn plain(manner: &str) -> &str {
    if manner == "ring-splice" {
        "splice"
    } else {
        manner
    }
}

/// From one end to another, in one manner.
type Key = (String, String, &'static str);

/// A step of a way: the process, the end that it took bytes from, and the manner.
type Step = (u32, String, &'static str);

/// Everything that is stated about one way.
#[derive(Debug, Default)]
struct Claim {
    exact: u64,
    bytes: u64,
    proven: u64,
    has_inferred: bool,
    /// Whether it says that the program changed the bytes or put others in their place.
    is_changed: bool,
    evidence: Option<Evidence>,
}

impl Claim {
    fn add(&mut self, bytes: u64, proven: u64, certainty: Certainty, evidence: Option<Evidence>) {
        self.bytes += bytes;
        self.proven += proven;
        match certainty {
            Certainty::Exact => self.exact += bytes,
            Certainty::Inferred => self.has_inferred = true,
        }
        self.evidence = self.evidence.max(evidence);
    }

    /// What is false about it.
    ///
    /// `overlaid` are bytes that the program put in place of the source's, and `alike` those of
    /// them that have the same values.
    fn is_false(&self, truth: Moved, [overlaid, alike]: [u64; 2]) -> Option<&'static str> {
        let (kept, most) = (
            truth.kept() + alike,
            truth.most() + if self.is_changed { overlaid } else { alike },
        );
        if !self.has_inferred && self.bytes < truth.kept() {
            return Some("exact-too-low");
        }
        if self.exact > kept {
            Some("exact-too-high")
        } else if self.proven > kept {
            Some("proven-too-high")
        } else if self.bytes > most {
            Some("inferred-too-high")
        } else {
            None
        }
    }
}

/// The statements in a process's transfers, hop by hop.
fn claims(process: &Process, report: &Report) -> BTreeMap<Key, Claim> {
    let mut claims: BTreeMap<Key, Claim> = BTreeMap::new();
    let mut add = |(from, to): (&End, &End),
                   api,
                   evidence,
                   certainty,
                   bytes: Option<u64>,
                   proven: Option<u64>,
                   is_changed| {
        if let Some(bytes) = bytes.filter(|_| api != Api::Reflink) {
            let claim = claims
                .entry((name(from), name(to), manner(api, evidence)))
                .or_default();
            claim.add(bytes, proven.unwrap_or(0), certainty, evidence);
            claim.is_changed |= is_changed;
        }
    };
    for one in report.transfers_of(process) {
        if one.hops.is_empty() {
            let says = |words| one.verdict.contains(words);
            // What was copied in memory, or seen by no backend, must not be more than the truth
            // either.
            let is_changed = report.backend == "ebpf"
                && says("changed or replaced on the way")
                && !says("copied in memory");
            add(
                (&one.from, &one.to),
                one.api,
                one.evidence,
                one.certainty,
                one.bytes,
                one.proven_bytes,
                is_changed,
            );
        }
        for hop in &one.hops {
            add(
                (&hop.from, &hop.to),
                hop.api,
                Some(hop.evidence),
                hop.certainty,
                hop.bytes,
                hop.proven_bytes,
                false,
            );
        }
    }
    claims
}

/// The truth of one process.
#[derive(Default)]
struct Known<'a> {
    of: (u64, usize),
    legs: HashMap<(&'a str, &'a str, &'a str), Moved>,
    ways: Vec<&'a Way>,
    written: HashMap<&'a str, u64>,
    own: HashMap<&'a str, u64>,
    read: HashMap<&'a str, u64>,
    overlaid: HashMap<(&'a str, &'a str), [u64; 2]>,
}

impl Known<'_> {
    /// Bytes of a source that were read into memory, and not moved by a call that names both ends.
    fn read_to_memory(&self, from: &str) -> u64 {
        let is_call = |manner: &str| !matches!(manner, "memory" | "mapping");
        let by_calls = self
            .legs
            .iter()
            .filter(|((source, _, manner), _)| *source == from && is_call(manner));
        let by_calls: u64 = by_calls.map(|(_, moved)| moved.kept()).sum();
        self.read
            .get(from)
            .copied()
            .unwrap_or(0)
            .saturating_sub(by_calls)
    }
}

fn known(truths: &[Truth]) -> HashMap<u32, Known<'_>> {
    let mut all: HashMap<u32, Known> = HashMap::new();
    for truth in truths {
        for &pid in &truth.pids {
            let known = all.entry(pid).or_default();
            known.of = (truth.seed, truth.theme);
            known.ways = truth.ways.iter().collect();
            known.written = truth
                .written
                .iter()
                .filter(|at| at.pid == pid)
                .map(|at| (at.end.as_str(), at.bytes))
                .collect();
            known.own = truth
                .own
                .iter()
                .filter(|at| at.pid == pid)
                .map(|at| (at.end.as_str(), at.bytes))
                .collect();
            known.read = truth
                .read
                .iter()
                .filter(|at| at.pid == pid)
                .map(|at| (at.end.as_str(), at.bytes))
                .collect();
            for leg in truth.legs.iter().filter(|leg| leg.pid == pid) {
                let sum = known
                    .legs
                    .entry((&leg.from, &leg.to, plain(&leg.manner)))
                    .or_default();
                *sum = sum.plus(leg.moved);
            }
            for one in truth.overlaid.iter().filter(|one| one.pid == pid) {
                known
                    .overlaid
                    .insert((&one.from, &one.to), [one.bytes, one.alike]);
            }
        }
    }
    all
}

/// Judges everything that a report states about these programs.
pub(super) fn judge(report: &Report, truths: &[Truth]) -> Judged {
    let mut judged = Judged::default();
    let known = known(truths);
    for process in &report.processes {
        if let Some(known) = known.get(&process.pid) {
            judged.of_claims(process, report, known);
            judged.of_ways(report.transfers_of(process), known);
            judged.of_accounts(process, report, known);
        }
    }
    for chain in report
        .transfers
        .iter()
        .filter(|transfer| transfer.crosses_processes())
    {
        let known = chain.hops.first().and_then(|hop| known.get(&hop.pid));
        judged.of_ways([chain], known.expect("all that move bytes are known"));
    }
    let moved = truths
        .iter()
        .flat_map(|truth| &truth.legs)
        .filter(|leg| leg.from != End::MEMORY);
    judged.movable_bytes = moved.map(|leg| leg.moved.kept()).sum();
    judged.of_report(report, truths);
    judged
}

impl Judged {
    fn fail(&mut self, class: String, of: (u64, usize), text: String) {
        self.failures.push(Failure { class, of, text });
    }

    fn count(&mut self, claim: &Claim) {
        if claim.has_inferred {
            self.inferred += 1;
            self.inferred_bytes += claim.bytes - claim.exact;
        } else {
            self.exact += 1;
        }
        self.exact_bytes += claim.exact;
    }

    fn of_claims(&mut self, process: &Process, report: &Report, known: &Known<'_>) {
        for ((from, to, manner), claim) in claims(process, report) {
            self.count(&claim);
            let truth = known
                .legs
                .get(&(from.as_str(), to.as_str(), manner))
                .copied()
                .unwrap_or_default();
            // The program may have copied bytes out of a mapping, or sent them in several manners.
            // An inference may mistake the manner.
            let most = known
                .legs
                .iter()
                .filter(|((f, t, _), _)| (*f, *t) == (&from, &to))
                .map(|(_, moved)| *moved);
            let truth = if claim.has_inferred && claim.exact == 0 {
                most.fold(Moved::default(), Moved::plus)
            } else {
                truth
            };
            let [overlaid, alike] = known
                .overlaid
                .get(&(from.as_str(), to.as_str()))
                .copied()
                .unwrap_or_default();
            let Some(how) = claim.is_false(truth, [overlaid, alike]) else {
                continue;
            };
            let stated = if how.starts_with("exact") {
                claim.exact
            } else if how.starts_with("proven") {
                claim.proven
            } else {
                claim.bytes
            };
            let true_bytes = if how.starts_with("inferred") {
                truth.most()
            } else {
                truth.kept()
            };
            let is_exhausted = || claim.exact >= known.read_to_memory(&from);
            let why = if how == "exact-too-low" && is_exhausted() {
                " (all of the source)"
            } else if stated > true_bytes && stated <= truth.most() {
                " (changed bytes)"
            } else if stated > true_bytes && stated <= truth.most() + overlaid {
                " (overlaid bytes)"
            } else {
                ""
            };
            let evidence = claim.evidence.map_or("none", Evidence::name);
            let class = format!("{how}: {manner} by {evidence}{why}");
            self.fail(
                class,
                known.of,
                format!("{from} -> {to}: stated {claim:?}, true {truth:?}, overlaid {overlaid}, {alike} of it alike"),
            );
        }
    }

    fn of_ways<'a>(
        &mut self,
        transfers: impl IntoIterator<Item = &'a Transfer>,
        known: &Known<'_>,
    ) {
        let mut claims: BTreeMap<(Vec<Step>, String), Claim> = BTreeMap::new();
        for one in transfers.into_iter().filter(|one| !one.hops.is_empty()) {
            let hop = |hop: &Hop| {
                (
                    hop.pid,
                    name(&hop.from),
                    manner(hop.api, Some(hop.evidence)),
                )
            };
            let claim = claims
                .entry((one.hops.iter().map(hop).collect(), name(&one.to)))
                .or_default();
            claim.add(
                one.bytes.unwrap_or(0),
                one.proven_bytes.unwrap_or(0),
                one.certainty,
                one.evidence,
            );
        }
        // Bytes that `vmsplice` puts into a pipe come from memory, where any bytes may be.
        for ((hops, to), claim) in claims
            .into_iter()
            .filter(|((hops, _), _)| hops[0].1 != End::MEMORY)
        {
            self.count(&claim);
            let is_it = |way: &&&Way| {
                let are_hops = way
                    .through
                    .iter()
                    .zip(&hops)
                    .all(|((pid, from, manner), hop)| {
                        // An inference may mistake the manner.
                        (*pid, from.as_str()) == (hop.0, hop.1.as_str())
                            && (claim.has_inferred || plain(manner) == hop.2)
                    });
                way.to == to && way.through.len() == hops.len() && are_hops
            };
            let truth = known
                .ways
                .iter()
                .filter(is_it)
                .map(|way| way.moved)
                .fold(Moved::default(), Moved::plus);
            if let Some(how) = claim.is_false(truth, [0, 0]) {
                let class = format!(
                    "{how}: a way of {} hops by {}",
                    hops.len(),
                    claim.evidence.map_or("none", Evidence::name)
                );
                self.fail(
                    class,
                    known.of,
                    format!("{hops:?} -> {to}: stated {claim:?}, true {truth:?}"),
                );
            }
        }
    }

    fn of_accounts(&mut self, process: &Process, report: &Report, known: &Known<'_>) {
        let brought: BTreeMap<String, u64> = claims(process, report).into_iter().fold(
            BTreeMap::new(),
            |mut all, ((_, to, _), claim)| {
                *all.entry(to).or_default() += claim.bytes;
                all
            },
        );
        let mut written: HashMap<&str, u64> = known.written.clone();
        for one in &process.destinations {
            let end = one.file.as_ref().map(name).unwrap_or_default();
            let Some(truth) = written.remove(end.as_str()) else {
                continue;
            };
            self.accounts += 1;
            self.account_bytes += truth;
            let broken = [
                (
                    "bytes",
                    one.written_bytes.is_some_and(|bytes| bytes != truth),
                ),
                ("balance", !balances(one)),
                (
                    "sources",
                    one.attributed_bytes != brought.get(&end).copied().unwrap_or(0),
                ),
                (
                    "memory",
                    one.memory_bytes > known.own.get(end.as_str()).copied().unwrap_or(0),
                ),
            ];
            for (what, _) in broken.into_iter().filter(|(_, is_broken)| *is_broken) {
                self.fail(
                    format!("account of what is written: {what}"),
                    known.of,
                    format!("true {truth}; stated {one:?}"),
                );
            }
        }
        for (end, truth) in written {
            self.fail(
                "account of what is written: missing".to_owned(),
                known.of,
                format!("{truth} bytes to {end}"),
            );
        }
        let mut read = known.read.clone();
        for one in &process.sources {
            let end = one.file.as_ref().map(name).unwrap_or_default();
            let Some(truth) = read.remove(end.as_str()) else {
                continue;
            };
            self.accounts += 1;
            self.account_bytes += truth;
            if one.read_bytes.is_some_and(|bytes| bytes != truth)
                || one.written_on_bytes > one.read_bytes
            {
                self.fail(
                    "account of what is read".to_owned(),
                    known.of,
                    format!("true {truth}; stated {one:?}"),
                );
            }
        }
        for (end, truth) in read {
            self.fail(
                "account of what is read: missing".to_owned(),
                known.of,
                format!("{truth} bytes of {end}"),
            );
        }
    }

    /// If a report says that all its transfers are exact, none of them is inferred, and no written
    /// byte is of unknown origin.
    fn of_report(&mut self, report: &Report, truths: &[Truth]) {
        if !report.transfers_exact {
            return;
        }
        self.exact_reports += 1;
        let inferred = report
            .transfers
            .iter()
            .find(|one| one.certainty == Certainty::Inferred);
        let mut destinations = report
            .processes
            .iter()
            .flat_map(|process| &process.destinations);
        let unknown = destinations.find(|one| one.unattributed_bytes != Some(one.memory_bytes));
        if inferred.is_some() || unknown.is_some() {
            let text = format!("exact as a whole, but {inferred:?} {unknown:?}");
            self.fail(
                "a report is not exact as a whole".to_owned(),
                (truths[0].seed, truths[0].theme),
                text,
            );
        }
    }
}

fn balances(one: &DestinationTotals) -> bool {
    let bytes = one.written_bytes.zip(one.unattributed_bytes);
    bytes.is_none_or(|(written, rest)| written == one.attributed_bytes + rest)
        && one.written_calls == one.attributed_calls + one.unattributed_calls
}
