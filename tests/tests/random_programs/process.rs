//! Compares what a report states about one process with what that process did.

use std::collections::BTreeMap;

use zc_tests::truth::{BUFFER, MAPPING, SEQUENCE, Sums};
use zctrace::report::{DestinationTotals, End, Process, Report};

use super::statements::{Judged, KnownProgram, StatedStep, name};

/// The least bytes of which equal sums say something (rule 6).
const LEAST_OF_TOTALS: u64 = 4096;

/// What is stated about one process.
pub(super) struct ProcessJudge<'a> {
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
    pub(super) fn new(process: &'a Process, report: &Report, known: &'a KnownProgram<'a>) -> Self {
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

    /// Judges all statements about the process.
    pub(super) fn judge_all(mut self) -> Judged {
        self.judge_moves();
        self.judge_calls();
        self.judge_totals();
        self.judge_destinations();
        self.judge_sources();
        self.judged
    }

    fn fail(&mut self, class: &str, text: String) {
        self.judged.fail(class, self.known, text);
    }

    /// The bytes that are said to be changed in the buffers of one file.
    fn changed(&self, from: &str, to: &str) -> u64 {
        let to = self.process.destinations.iter().filter(|one| is(one, to));
        let changed = to
            .flat_map(|one| &one.buffers)
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
            if let Some(class) = self.is_false(&from, how, bytes, changed, sums) {
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
    fn is_false(
        &self,
        from: &str,
        how: &str,
        bytes: u64,
        changed: u64,
        truth: &Sums,
    ) -> Option<&'static str> {
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
                // A buffer that is found changed is the program's own from then on.
                (
                    bytes + changed < truth.seen && !is_forgetful && !self.known.has_changed(from),
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
            for changed in &one.buffers {
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
            let changed: u64 = one.buffers.iter().map(|changed| changed.bytes).sum();
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
