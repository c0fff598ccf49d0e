//! Compares the statements of a report with the addresses that the programs used.

use crate::harness::last_programs;
use std::{
    collections::BTreeMap,
    fmt::{self, Display},
};

use zc_tests::truth::{BUFFER, MAPPING, SEQUENCE, Sums, Truth};
use zctrace::report::{Api, DestinationTotals, End, Evidence, Hop, Process, Report, Transfer};

/// The least bytes of which equal sums say something (rule 6).
const LEAST_OF_TOTALS: u64 = 4096;

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
    pub(super) failures: Vec<FalseStatement>,
}

impl Judged {
    pub(super) fn add(&mut self, other: Self) {
        for (kind, [count, bytes]) in other.statements {
            self.count(kind, count, bytes);
        }
        self.failures.extend(other.failures);
    }

    fn count(&mut self, kind: impl Into<String>, count: u64, bytes: u64) {
        let sums = self.statements.entry(kind.into()).or_default();
        *sums = [sums[0] + count, sums[1] + bytes];
    }

    /// Whether there were statements of this kind.
    pub(super) fn has(&self, kind: &str) -> bool {
        self.statements.contains_key(kind)
    }
}

impl Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, [count, bytes]) in &self.statements {
            writeln!(f, "{kind}: {count} statements of {bytes} bytes checked")?;
        }
        write!(f, "{} false statements", self.failures.len())
    }
}

/// The name of an end in the truth.
fn name(end: &End) -> String {
    let file = end.path.as_deref().and_then(|path| path.rsplit('/').next());
    match (end.kind.as_deref(), file, end.inode) {
        (Some("regular"), Some(file), _) => file.to_owned(),
        (_, _, Some(inode)) => format!("ino:{}", inode.number),
        (kind, file, _) => format!("{kind:?} {file:?}"),
    }
}

/// How bytes were moved, in the words of the truth.
fn how(api: Api, evidence: Evidence) -> &'static str {
    match (evidence, api) {
        (Evidence::Buffer | Evidence::Reused, _) => BUFFER,
        (Evidence::Mapping, _) => MAPPING,
        (Evidence::Sequence, _) => SEQUENCE,
        (Evidence::Totals, _) => "totals",
        // The rings' only call that names two files.
        (Evidence::Call, Api::IoUring) => "splice",
        (Evidence::Call, api) => api.name(),
    }
}

/// A statement about one process: so many bytes went from one file to another.
#[derive(Debug, Clone, PartialEq)]
struct StatedStep {
    pid: u32,
    from: String,
    to: String,
    how: &'static str,
    bytes: u64,
    /// How many calls made it, without those that moved nothing. `None`: that is not stated.
    calls: Option<u64>,
}

impl StatedStep {
    fn of_hop(hop: &Hop) -> Self {
        Self {
            pid: hop.pid,
            from: name(&hop.from),
            to: name(&hop.to),
            how: how(hop.api, hop.evidence),
            bytes: hop.bytes.unwrap_or(0),
            calls: None,
        }
    }

    /// The steps of a transfer.
    fn of_transfer(one: &Transfer) -> Vec<Self> {
        if one.hops.is_empty() {
            let idle = one.retries.values().chain(one.errors.values());
            let idle = one.zero_calls + idle.sum::<u64>();
            vec![Self {
                pid: one.pids[0],
                from: name(&one.from),
                to: name(&one.to),
                how: how(one.api, one.evidence),
                bytes: one.bytes.unwrap_or(0),
                calls: one.calls.map(|calls| calls - idle),
            }]
        } else {
            one.hops.iter().map(Self::of_hop).collect()
        }
    }
}

/// The truth of one program.
struct KnownProgram<'a> {
    truth: &'a Truth,
    /// What all its processes wrote to a file, and took out of it.
    written: BTreeMap<&'a str, u64>,
    taken: BTreeMap<&'a str, u64>,
}

impl<'a> KnownProgram<'a> {
    fn new(truth: &'a Truth) -> Self {
        let (mut written, mut taken) = (BTreeMap::new(), BTreeMap::new());
        for used in &truth.written {
            *written.entry(used.file.as_str()).or_default() += used.bytes;
        }
        for used in &truth.read {
            *taken.entry(used.file.as_str()).or_default() += used.bytes;
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
    fn outlet<'f>(&'f self, file: &'f str) -> &'f str {
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
    fn went_through(&self, inlet: &str) -> Option<u64> {
        let written = self.written.get(inlet).copied();
        written.filter(|_| written == self.taken.get(self.outlet(inlet)).copied())
    }

    /// What the truth says about a process, by files and how.
    fn moved(&self, pid: u32) -> BTreeMap<(&'a str, &'a str, &'a str), &'a Sums> {
        let moved = self.truth.moved.iter().filter(|moved| moved.pid == pid);
        moved
            .map(|moved| {
                let key = (moved.from.as_str(), moved.to.as_str(), moved.how.as_str());
                (key, &moved.sums)
            })
            .collect()
    }
}

/// Judges everything that a report states about these programs.
pub(super) fn judge(report: &Report, truths: &[Truth]) -> Judged {
    let mut judged = Judged::default();
    let all: Vec<KnownProgram> = truths.iter().map(KnownProgram::new).collect();
    let of_pid = |pid| all.iter().find(|known| known.truth.pids.contains(&pid));
    for process in last_programs(report) {
        if let Some(known) = of_pid(process.pid) {
            let mut of_process = ProcessJudge::new(process, report, known);
            of_process.judge_moves();
            of_process.judge_calls();
            of_process.judge_totals();
            of_process.judge_destinations();
            of_process.judge_sources();
            judged.add(of_process.judged);
        }
    }
    for one in report.transfers.iter().filter(|one| !one.hops.is_empty()) {
        if let Some(known) = of_pid(one.pids[0]) {
            judged.judge_hops(one, known);
        }
    }
    judged.judge_missing_chains(report, &all);
    judged
}

impl Judged {
    fn fail(&mut self, class: impl Into<String>, known: &KnownProgram<'_>, text: String) {
        self.failures.push(FalseStatement {
            class: class.into(),
            seed: known.truth.seed,
            text,
        });
    }

    /// Rules 7 and 8: the bytes of a transfer with hops.
    fn judge_hops(&mut self, one: &Transfer, known: &KnownProgram<'_>) {
        let steps = StatedStep::of_transfer(one);
        let kind = if one.crosses_processes() {
            "chain"
        } else {
            "hop"
        };
        let stated = one.bytes.unwrap_or(0);
        self.count(kind, 1, stated);
        let truth = bytes_through(&steps, known);
        if truth != Ok(stated) {
            self.fail(
                format!("{kind} of {} steps", steps.len()),
                known,
                format!("stated {stated}, true {truth:?}: {steps:?}"),
            );
        }
        let weakest = one.hops.iter().map(|hop| hop.evidence).max();
        if weakest != Some(one.evidence) || one.certainty != one.evidence.certainty() {
            self.fail(
                format!("{kind}: not the weakest evidence"),
                known,
                format!("{one:?}"),
            );
        }
    }

    /// Rule 8: a file's bytes that went on through a conduit are in a chain.
    fn judge_missing_chains(&mut self, report: &Report, all: &[KnownProgram<'_>]) {
        let within = report.transfers.iter().filter(|one| one.pids.len() == 1);
        let steps: Vec<(&Transfer, StatedStep)> = within
            .flat_map(|one| {
                StatedStep::of_transfer(one)
                    .into_iter()
                    .map(move |step| (one, step))
            })
            .filter(|(_, step)| step.how != "tee" && step.bytes > 0)
            .collect();
        for known in all {
            let is_known = |step: &StatedStep| known.truth.pids.contains(&step.pid);
            let of_program = || steps.iter().filter(|(_, step)| is_known(step));
            for (first, into) in of_program().filter(|(_, step)| !step.from.starts_with("ino:")) {
                let outlet = known.outlet(&into.to);
                for (second, out) in of_program().filter(|(_, step)| step.from == outlet) {
                    let is_chain = into.pid != out.pid
                        && bytes_through(&[into.clone(), out.clone()], known).is_ok()
                        && out.bytes <= known.taken[outlet];
                    let share = first.part_of.iter().any(|way| second.part_of.contains(way));
                    if is_chain && !share {
                        self.fail("chain: missing", known, format!("{into:?}, {out:?}"));
                    }
                }
            }
        }
    }
}

/// How many bytes went all the way by these steps, or why that cannot be said.
fn bytes_through(steps: &[StatedStep], known: &KnownProgram<'_>) -> Result<u64, String> {
    let mut bytes = steps[0].bytes;
    for pair in steps.windows(2) {
        let [into, out] = pair else { unreachable!() };
        let outlet = known.outlet(&into.to);
        if outlet != out.from || !outlet.starts_with("ino:") {
            return Err(format!("{} does not lead to {}", into.to, out.from));
        }
        let Some(all) = known.went_through(&into.to) else {
            return Err(format!("not all that went into {} came out", into.to));
        };
        let twice = || (out.pid, out.from.clone(), out.to.clone());
        if bytes == all {
            bytes = out.bytes;
        } else if out.bytes != all || known.truth.twice.contains(&twice()) {
            return Err(format!("{bytes} in and {} out, of {all}", out.bytes));
        }
    }
    Ok(bytes)
}

/// What is stated about one process.
struct ProcessJudge<'a> {
    process: &'a Process,
    known: &'a KnownProgram<'a>,
    sees_memory: bool,
    /// Whether the report says that some mappings could not be looked up, or that buffers were
    /// forgotten.
    has_forgotten: bool,
    steps: Vec<StatedStep>,
    judged: Judged,
}

impl<'a> ProcessJudge<'a> {
    fn new(process: &'a Process, report: &Report, known: &'a KnownProgram<'a>) -> Self {
        let transfers = report.transfers_of(process);
        Self {
            process,
            known,
            sees_memory: report.backend == "ebpf",
            has_forgotten: report.losses.contains_key("forgotten_buffers"),
            steps: transfers.flat_map(StatedStep::of_transfer).collect(),
            judged: Judged::default(),
        }
    }

    fn fail(&mut self, class: &str, text: String) {
        self.judged.fail(class, self.known, text);
    }

    /// The bytes that are said to be changed in the buffers of one file.
    fn changed(&self, from: &str, to: &str) -> u64 {
        let to = self.process.destinations.iter().filter(|one| is(one, to));
        let changed = to
            .flat_map(|one| &one.changed)
            .filter(|changed| name(&changed.from) == from);
        changed.map(|changed| changed.bytes).sum()
    }

    /// Rules 1 to 5.
    fn judge_moves(&mut self) {
        let truth = self.known.moved(self.process.pid);
        let mut stated: BTreeMap<(String, String, &str), u64> = BTreeMap::new();
        for (from, to, how) in truth.keys() {
            stated.insert(((*from).to_owned(), (*to).to_owned(), how), 0);
        }
        for step in self.steps.iter().filter(|step| step.how != "totals") {
            let key = (step.from.clone(), step.to.clone(), step.how);
            *stated.entry(key).or_default() += step.bytes;
        }
        for ((from, to, how), bytes) in stated {
            let none = Sums::default();
            let sums = truth.get(&(&from, &to, how)).copied().unwrap_or(&none);
            let changed = if how == BUFFER {
                self.changed(&from, &to)
            } else {
                0
            };
            self.judged.count(how, u64::from(bytes > 0), bytes);
            if let Some(class) = self.is_false(how, bytes, changed, sums) {
                self.fail(
                    class,
                    format!(
                        "{} {from} -> {to} by {how}: stated {bytes}, {changed} changed; {} true, \
                         {} within the limits, {} perhaps changed",
                        self.process.pid, sums.bytes, sums.seen, sums.changed
                    ),
                );
            }
        }
    }

    /// What is false about a statement, if anything.
    fn is_false(&self, how: &str, bytes: u64, changed: u64, truth: &Sums) -> Option<&'static str> {
        let is_forgetful = self.known.truth.forgetful.contains(&self.process.pid);
        let checks: &[(bool, &str)] = match how {
            SEQUENCE => &[
                (bytes > truth.bytes, "sequence: too high"),
                (self.sees_memory && bytes > 0, "sequence: memory was seen"),
            ],
            BUFFER | MAPPING if !self.sees_memory => {
                &[(bytes + changed > 0, "memory: it was not seen")]
            }
            BUFFER => &[
                (bytes + changed > truth.bytes, "buffer: too high"),
                (changed > truth.changed, "buffer: not changed"),
                (
                    bytes + changed < truth.seen && !is_forgetful,
                    "buffer: too low",
                ),
            ],
            MAPPING => &[
                (bytes > truth.bytes && !is_forgetful, "mapping: too high"),
                (
                    bytes < truth.seen && !is_forgetful && !self.has_forgotten,
                    "mapping: too low",
                ),
            ],
            _ => &[
                (bytes > truth.bytes, "call: too high"),
                (bytes < truth.bytes, "call: too low"),
            ],
        };
        checks
            .iter()
            .find(|(is_false, _)| *is_false)
            .map(|(_, class)| *class)
    }

    /// The calls of transfers are those that wrote their bytes, and the reads that filled the
    /// buffers, each once.
    fn judge_calls(&mut self) {
        let truth = self.known.moved(self.process.pid);
        for step in self.steps.clone() {
            let key = (step.from.as_str(), step.to.as_str(), step.how);
            let Some((sums, calls)) = truth.get(&key).zip(step.calls) else {
                continue;
            };
            self.judged.count("calls", 1, step.bytes);
            // Otherwise it is a part of the calls.
            let is_all = step.bytes == sums.bytes && sums.changed == 0;
            let true_calls = sums.calls + sums.reads.len() as u64;
            if is_all && matches!(step.how, BUFFER) && calls != true_calls {
                self.fail("calls", format!("{step:?}; {true_calls} are true"));
            }
        }
    }

    /// What is read from a file, or written to it, and neither in a transfer but those by `totals`
    /// nor changed in a buffer.
    fn rests(&self, is_read: bool) -> BTreeMap<String, u64> {
        let Process {
            sources,
            destinations,
            ..
        } = self.process;
        let read = sources.iter().map(|one| (&one.file, one.read_bytes));
        let written = (destinations.iter()).map(|one| (&one.file, one.written_bytes));
        let mut rests: BTreeMap<String, u64> = BTreeMap::new();
        let mut add = |(file, bytes): (&Option<End>, Option<u64>)| {
            let file = file.as_ref().map(name).unwrap_or_default();
            *rests.entry(file).or_default() += bytes.unwrap_or(0);
        };
        if is_read {
            read.for_each(&mut add);
        } else {
            written.for_each(&mut add);
        }
        let mut take_away = |file: &str, bytes: u64| {
            if let Some(rest) = rests.get_mut(file) {
                *rest = rest.saturating_sub(bytes);
            }
        };
        let explained = self.steps.iter().filter(|step| step.how != "totals");
        for step in explained.filter(|step| !is_read || step.how != MAPPING) {
            take_away(if is_read { &step.from } else { &step.to }, step.bytes);
        }
        for one in destinations {
            let to = one.file.as_ref().map(name).unwrap_or_default();
            for changed in &one.changed {
                let from = name(&changed.from);
                take_away(if is_read { &from } else { &to }, changed.bytes);
            }
        }
        rests
    }

    /// Rule 6.
    fn judge_totals(&mut self) {
        let [read, written] = [true, false].map(|is_read| self.rests(is_read));
        let by_totals: Vec<StatedStep> = self
            .steps
            .iter()
            .filter(|step| step.how == "totals")
            .cloned()
            .collect();
        for step in by_totals {
            self.judged.count("totals", 1, step.bytes);
            let all = read.values().chain(written.values());
            let is_true = step.bytes >= LEAST_OF_TOTALS
                && read.get(&step.from) == Some(&step.bytes)
                && written.get(&step.to) == Some(&step.bytes)
                && all.filter(|rest| **rest == step.bytes).count() == 2;
            if !is_true {
                self.fail(
                    "totals",
                    format!("{step:?}; rests {read:?} and {written:?}"),
                );
            }
        }
    }

    /// Rule 9: what was written is in transfers or from the program's own memory.
    fn judge_destinations(&mut self) {
        let truth = &self.known.truth.written;
        for used in truth.iter().filter(|used| used.pid == self.process.pid) {
            self.judged.count("destinations", 1, used.bytes);
            let mut found = self.process.destinations.iter();
            let Some(one) = found.find(|one| is(one, &used.file)) else {
                self.fail("destination: missing", format!("{used:?}"));
                continue;
            };
            let into = self.steps.iter().filter(|step| step.to == used.file);
            let transferred: u64 = into.map(|step| step.bytes).sum();
            let changed: u64 = one.changed.iter().map(|changed| changed.bytes).sum();
            let rest = used.bytes.checked_sub(one.transferred_bytes);
            let known = one.written_bytes.or(self.says_bytes("sendmmsg"));
            let both_kinds = one.transferred_calls + one.own_memory_calls;
            let checks = [
                ("bytes", one.written_bytes == known.map(|_| used.bytes)),
                ("calls", one.written_calls == used.calls),
                ("sources", one.transferred_bytes == transferred),
                ("rest", one.own_memory_bytes == known.and(rest)),
                ("calls of both kinds", one.written_calls == both_kinds),
                ("changed", rest >= Some(changed)),
            ];
            let text = format!("true {used:?}; {transferred} in transfers; stated {one:?}");
            self.check_all("destination", &checks, &text);
        }
    }

    /// Rule 9: what was read is in transfers or kept.
    fn judge_sources(&mut self) {
        let truth = &self.known.truth.read;
        for used in truth.iter().filter(|used| used.pid == self.process.pid) {
            self.judged.count("sources", 1, used.bytes);
            let is_it = |file: &Option<End>| file.as_ref().map(name).as_ref() == Some(&used.file);
            let mut found = self.process.sources.iter();
            let Some(one) = found.find(|one| is_it(&one.file)) else {
                self.fail("source: missing", format!("{used:?}"));
                continue;
            };
            let out = self.steps.iter().filter(|step| step.from == used.file);
            let out = out.filter(|step| step.how != MAPPING);
            let out: u64 = out.map(|step| step.bytes).sum();
            let known = one.read_bytes.or(self.says_bytes("recvmmsg"));
            let kept = used.bytes.checked_sub(out);
            let checks = [
                ("bytes", one.read_bytes == known.map(|_| used.bytes)),
                ("kept", one.kept_bytes == known.and(kept)),
            ];
            let text = format!("true {used:?}; {out} in transfers; stated {one:?}");
            self.check_all("source", &checks, &text);
        }
    }

    fn check_all(&mut self, what: &str, checks: &[(&str, bool)], text: &str) {
        for (class, _) in checks.iter().filter(|(_, is_true)| !is_true) {
            self.fail(&format!("{what}: {class}"), text.to_owned());
        }
    }

    /// `None` if the program made this call, which does not say how many bytes it moved.
    fn says_bytes(&self, call: &str) -> Option<u64> {
        (!self.known.truth.kinds.contains_key(call)).then_some(0)
    }
}

fn is(one: &DestinationTotals, file: &str) -> bool {
    one.file.as_ref().is_some_and(|end| name(end) == file)
}
