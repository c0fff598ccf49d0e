//! Statements of a report about random programs, the truth of a program, and what was compared.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
};

use zc_tests::truth::{BUFFER, MAPPING, SEQUENCE, Sums, Truth, UsedBytes, UsedSums};
use zctrace::report::{Api, Certainty, End, Evidence, Hop, Transfer};

/// How many false statements are shown one by one.
const SHOWN: usize = 5;

/// How bytes were moved, where only the sums show it, or where some were changed on the way.
pub(super) const TOTALS: &str = "totals";
pub(super) const CHANGED: &str = "changed";

/// A false statement.
#[derive(Debug, Clone)]
pub(super) struct FalseStatement {
    /// What kind of statement it is.
    pub(super) class: String,
    /// The seed of the program.
    pub(super) seed: u64,
    /// What is stated, and what is true.
    pub(super) text: String,
}

/// How much was compared, and which statements were false.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// By kind of statement: how many, and their bytes.
    statements: BTreeMap<String, [u64; 2]>,
    /// How many inferred statements say more bytes than there were, and how many there are.
    pub(super) inferred: [u64; 2],
    /// The bytes that were written as they had been read, as far as their file is said, and all.
    pub(super) said: [u64; 2],
    pub(super) failures: Vec<FalseStatement>,
}

impl Judged {
    pub(super) fn add(&mut self, other: Self) {
        for (kind, [count, bytes]) in other.statements {
            self.count(kind, count, bytes);
        }
        for (sums, more) in [
            (&mut self.inferred, other.inferred),
            (&mut self.said, other.said),
        ] {
            *sums = [sums[0] + more[0], sums[1] + more[1]];
        }
        self.failures.extend(other.failures);
    }

    pub(super) fn count(&mut self, kind: impl Into<String>, count: u64, bytes: u64) {
        let sums = self.statements.entry(kind.into()).or_default();
        *sums = [sums[0] + count, sums[1] + bytes];
    }

    pub(super) fn fail(
        &mut self,
        class: impl Into<String>,
        known: &KnownProgram<'_>,
        text: String,
    ) {
        self.failures.push(FalseStatement {
            class: class.into(),
            seed: known.truth.seed,
            text,
        });
    }

    /// Whether there were statements of this kind.
    pub(super) fn has(&self, kind: &str) -> bool {
        self.statements
            .get(kind)
            .is_some_and(|[count, _]| *count > 0)
    }
}

impl Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, [count, bytes]) in &self.statements {
            writeln!(f, "{kind}: {count} statements of {bytes} bytes checked")?;
        }
        for FalseStatement { class, seed, text } in self.failures.iter().take(SHOWN) {
            writeln!(f, "false, in the program with seed {seed}: {class}: {text}")?;
        }
        let ([wrong, inferred], [said, written]) = (self.inferred, self.said);
        writeln!(f, "inferred: {wrong} wrong of {inferred}")?;
        writeln!(
            f,
            "said: {said} of {written} bytes that were read and written"
        )?;
        write!(f, "{} false statements", self.failures.len())
    }
}

/// The name of an end in the truth.
pub(super) fn name(end: &End) -> String {
    let file = end.path.as_deref().and_then(|path| path.rsplit('/').next());
    match (end.kind.as_deref(), file, end.inode) {
        (Some("regular"), Some(file), _) => file.to_owned(),
        (_, _, Some(inode)) => format!("ino:{}", inode.number),
        (kind, file, _) => format!("{kind:?} {file:?}"),
    }
}

/// How bytes were moved, in the words of the truth.
fn evidence_name(api: Api, evidence: Evidence) -> &'static str {
    match (evidence, api) {
        (Evidence::Buffer | Evidence::Reused, _) => BUFFER,
        (Evidence::Mapping, _) => MAPPING,
        (Evidence::Sequence, _) => SEQUENCE,
        (Evidence::Totals, _) => TOTALS,
        (Evidence::Changed, _) => CHANGED,
        (Evidence::Addresses, _) => "addresses",
        // The rings' only call that names two files.
        (Evidence::Call, Api::IoUring) => "splice",
        (Evidence::Call, api) => api.name(),
    }
}

/// A statement about one process: so many bytes went from one file to another.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StatedStep {
    pub(super) pid: u32,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) how: &'static str,
    pub(super) bytes: u64,
    /// How many of them were observed, as far as that is stated.
    pub(super) observed: u64,
    pub(super) certainty: Certainty,
    /// How many words were compared. `None`: that is not stated of hops.
    pub(super) words: Option<u64>,
    /// How many calls made it, without those that moved nothing. `None`: that is not stated.
    pub(super) calls: Option<u64>,
}

impl StatedStep {
    fn of_hop(hop: &Hop) -> Self {
        let bytes = hop.bytes.unwrap_or(0);
        let is_observed = hop.certainty == Certainty::Observed;
        Self {
            pid: hop.pid,
            from: name(&hop.from),
            to: name(&hop.to),
            how: evidence_name(hop.api, hop.evidence),
            bytes,
            observed: if is_observed { bytes } else { 0 },
            certainty: hop.certainty,
            words: None,
            calls: None,
        }
    }

    /// The steps of a transfer.
    pub(super) fn of_transfer(one: &Transfer) -> Vec<Self> {
        if one.hops.is_empty() {
            let idle = one.retries.values().chain(one.errors.values());
            let idle = one.zero_calls + idle.sum::<u64>();
            vec![Self {
                pid: one.pids[0],
                from: name(&one.from),
                to: name(&one.to),
                how: evidence_name(one.api, one.evidence),
                bytes: one.bytes.unwrap_or(0),
                observed: one.observed_bytes.unwrap_or(0),
                certainty: one.certainty,
                words: Some(one.compared_words),
                calls: one.calls.map(|calls| calls - idle),
            }]
        } else {
            one.hops.iter().map(Self::of_hop).collect()
        }
    }
}

/// The truth of one program.
pub(super) struct KnownProgram<'a> {
    pub(super) truth: &'a Truth,
    /// What all its processes wrote to a file, and took out of it.
    written: BTreeMap<&'a str, u64>,
    pub(super) taken: BTreeMap<&'a str, u64>,
}

impl<'a> KnownProgram<'a> {
    pub(super) fn new(truth: &'a Truth) -> Self {
        let (mut written, mut taken) = (BTreeMap::new(), BTreeMap::new());
        for used in &truth.written {
            *written.entry(used.file.as_str()).or_default() += used.sums.bytes;
        }
        for used in &truth.read {
            *taken.entry(used.file.as_str()).or_default() += used.sums.bytes;
        }
        for moved in truth.moved.iter().filter(|moved| moved.how == "tee") {
            *taken.entry(&moved.from).or_default() -= moved.sums.bytes;
        }
        Self {
            truth,
            written,
            taken,
        }
    }

    /// Where the bytes come out that are written to a file.
    pub(super) fn outlet<'f>(&'f self, file: &'f str) -> &'f str {
        for [one, other] in &self.truth.connections {
            match file {
                _ if file == one => return other,
                _ if file == other => return one,
                _ => {}
            }
        }
        file
    }

    /// How many bytes went into this file and came out again, if all did.
    pub(super) fn went_through(&self, inlet: &str) -> Option<u64> {
        let written = self.written.get(inlet).copied();
        written.filter(|_| written == self.taken.get(self.outlet(inlet)).copied())
    }

    /// Whether a report can say that a step wrote no byte twice. What is inferred may be written
    /// again as bytes of no known origin, so only if the process wrote nothing else there.
    pub(super) fn is_written_once(&self, step: &StatedStep) -> bool {
        step.certainty == Certainty::Observed
            || used(&self.truth.written, step.pid, &step.to).bytes == step.bytes
    }

    /// What the truth says about a process, by files and how.
    pub(super) fn stated_sums(&self, pid: u32) -> BTreeMap<(&'a str, &'a str, &'a str), &'a Sums> {
        let moved = self.truth.moved.iter().filter(|moved| moved.pid == pid);
        moved
            .map(|moved| {
                let key = (moved.from.as_str(), moved.to.as_str(), moved.how.as_str());
                (key, &moved.sums)
            })
            .collect()
    }
}

/// What a process read from a file, or wrote to it.
pub(super) fn used(all: &[UsedBytes], pid: u32, file: &str) -> UsedSums {
    let mut all = all.iter();
    let found = all.find(|used| used.pid == pid && used.file == file);
    found.map(|used| used.sums.clone()).unwrap_or_default()
}
