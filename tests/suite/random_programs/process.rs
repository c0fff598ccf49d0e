//! Compares what a report states about one process with what that process did.

use std::collections::BTreeSet;

use zc_tests::truth::{BUFFER, MAPPING, SEQUENCE, Sums, UsedBytes, UsedSums, may_be_zeros};
use zctrace::report::{BufferTotals, Certainty, DestinationTotals, End, Process, Report};

use super::statements::{CHANGED, Judged, KnownProgram, StatedStep, TOTALS, name, used};

/// The least bytes of which equal sums say something (rule 6).
const MIN_OF_TOTALS: u64 = 4096;

/// How many first bytes of two files must be the same for that.
const FIRST_BYTES: usize = 8;

/// What is stated about one process.
pub(super) struct ProcessJudge<'a> {
    process: &'a Process,
    known: &'a KnownProgram<'a>,
    sees_memory: bool,
    /// Whether calls could not find out what is known of their memory.
    has_unknown: bool,
    steps: Vec<StatedStep>,
    judged: Judged,
}

impl<'a> ProcessJudge<'a> {
    pub(super) fn new(process: &'a Process, report: &Report, known: &'a KnownProgram<'a>) -> Self {
        let transfers = report.transfers_of(process);
        let losses = ["unknown_origins", "calls_without_files"];
        Self {
            process,
            known,
            sees_memory: report.backend == "ebpf",
            has_unknown: losses.iter().any(|loss| report.losses.contains_key(*loss)),
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

    /// The steps between these files, made in one of these ways.
    fn steps_between(&self, from: &str, to: &str, how: &[&str]) -> Vec<&StatedStep> {
        let is_meant =
            |step: &&StatedStep| step.from == from && step.to == to && how.contains(&step.how);
        self.steps.iter().filter(is_meant).collect()
    }

    /// What is said to be in no transfer of the buffers of one file, by the file it was written to.
    fn buffers_of(&self, from: &str) -> impl Iterator<Item = (String, &BufferTotals)> {
        self.process.destinations.iter().flat_map(move |one| {
            let of_source = one
                .buffers
                .iter()
                .filter(move |sums| name(&sums.from) == from);
            of_source.map(|sums| (one.file.as_ref().map(name).unwrap_or_default(), sums))
        })
    }

    /// Of those that were written to this file, the bytes that are the same, not compared, changed and
    /// used for something else.
    fn buffers_between(&self, from: &str, to: &str) -> [u64; 4] {
        let of_ends = self.buffers_of(from).filter(|(file, _)| file == to);
        let all = of_ends.map(|(_, one)| {
            [
                one.same_bytes,
                one.uncompared_bytes,
                one.changed_bytes,
                one.other_use_bytes,
            ]
        });
        all.fold([0; 4], |sums, more| {
            [0, 1, 2, 3].map(|place| sums[place] + more[place])
        })
    }

    fn steps_of(&self, how: &str) -> Vec<StatedStep> {
        let steps = self.steps.iter().filter(|step| step.how == how);
        steps.cloned().collect()
    }

    /// Whether zctrace may lack buffers of a file, within the limits that it documents.
    fn may_lack(&self, from: &str) -> bool {
        let mut sources = self.process.sources.iter();
        self.has_unknown
            || self.known.truth.forgetful.contains(&self.process.pid)
            || sources.any(|one| {
                let is_it = one.file.as_ref().is_none_or(|file| name(file) == from);
                one.forgotten_buffers > 0 && is_it
            })
    }

    /// Rules 1 to 5.
    fn judge_moves(&mut self) {
        let truth = self.known.stated_sums(self.process.pid);
        let stated = self.steps.iter();
        let stated = stated.map(|step| (step.from.clone(), step.to.clone(), step.how));
        let known = truth.keys();
        let mut keys: BTreeSet<(String, String, &str)> = known
            .map(|(from, to, how)| ((*from).to_owned(), (*to).to_owned(), *how))
            .chain(stated)
            .collect();
        keys.retain(|(.., how)| ![TOTALS, CHANGED].contains(how));
        for (from, to, how) in keys {
            let none = Sums::default();
            let sums = truth.get(&(&from, &to, how)).copied().unwrap_or(&none);
            let steps = self.steps_between(&from, &to, &[how]);
            let bytes: u64 = steps.iter().map(|step| step.bytes).sum();
            self.judged.count(how, u64::from(bytes > 0), bytes);
            let class = match how {
                BUFFER if self.sees_memory => self.false_of_buffers(&from, &to, bytes, sums),
                _ => self.is_false(&to, how, bytes, sums),
            };
            if let Some(class) = class {
                let left: Vec<_> = self
                    .buffers_of(&from)
                    .filter(|(file, _)| *file == to)
                    .collect();
                let steps = self.steps_between(&from, &to, &[BUFFER, TOTALS, CHANGED]);
                let text = format!(
                    "{from} -> {to} by {how}: {bytes} stated, {sums:?} true; {steps:?}, {left:?}"
                );
                self.fail(class, text);
            }
            if how == BUFFER {
                self.judge_inferred(&from, &to, sums);
            }
        }
    }

    /// Counts the inferred statements about two files that are wrong, and what is said of the bytes
    /// that were read from one and written to the other. Both can be judged only by the addresses.
    fn judge_inferred(&mut self, from: &str, to: &str, truth: &Sums) {
        let steps = self.steps_between(from, to, &[BUFFER, SEQUENCE, TOTALS]);
        let steps: Vec<StatedStep> = steps.into_iter().cloned().collect();
        let said: u64 = steps.iter().map(|step| step.bytes).sum();
        let [named, written] = &mut self.judged.said;
        (*named, *written) = (*named + said.min(truth.intact), *written + truth.intact);
        let inferred = steps
            .iter()
            .filter(|step| step.certainty == Certainty::Inferred);
        for step in inferred {
            let [wrong, all] = &mut self.judged.inferred;
            (*wrong, *all) = (*wrong + u64::from(step.bytes > truth.bytes), *all + 1);
        }
    }

    /// What is false about a statement, if anything.
    fn is_false(&self, to: &str, how: &str, bytes: u64, truth: &Sums) -> Option<&'static str> {
        let mut into = self.process.destinations.iter().filter(|one| is(one, to));
        let is_forgetful = self.may_lack("");
        let checks: &[(bool, &str)] = match how {
            SEQUENCE => &[
                (bytes > truth.bytes, "sequence: too high"),
                (self.sees_memory && bytes > 0, "sequence: memory was seen"),
            ],
            BUFFER | MAPPING if !self.sees_memory => &[(bytes > 0, "memory: it was not seen")],
            MAPPING => &[
                (bytes > truth.bytes && !is_forgetful, "mapping: too high"),
                (
                    bytes < truth.seen && !into.any(|one| one.unseen_mappings > 0),
                    "mapping: too low",
                ),
            ],
            _ => &[
                (bytes > truth.bytes, "call: too high"),
                (bytes < truth.bytes, "call: too low"),
            ],
        };
        first_true(checks)
    }

    /// Rule 3: what is false about what went from buffers of one file to another, if anything.
    fn false_of_buffers(
        &self,
        from: &str,
        to: &str,
        bytes: u64,
        truth: &Sums,
    ) -> Option<&'static str> {
        let sum = |how: &[&str], of: fn(&StatedStep) -> u64| {
            let steps = self.steps_between(from, to, how).into_iter();
            steps.map(of).sum::<u64>()
        };
        let observed = sum(&[BUFFER, TOTALS], |step| step.observed);
        let changed = sum(&[CHANGED], |step| step.bytes);
        let totals = self.steps.iter().filter(|step| step.how == TOTALS);
        let totals: u64 = totals
            .filter(|step| step.to == to)
            .map(|step| step.bytes)
            .sum();
        let left = self.buffers_between(from, to);
        let [same, uncompared, differing, other_use] = left;
        let of_memory = self.steps_between(from, to, &[BUFFER]);
        let read = used(&self.known.truth.read, self.process.pid, from);
        // Of a socket, `recvmmsg` may have read bytes that zctrace cannot count.
        let is_read_known = !from.starts_with("ino:") || self.says_bytes("recvmmsg").is_some();
        let is_more = bytes > read.memory_bytes && is_read_known;
        let in_no_transfer: u64 = left.iter().sum();
        let is_transfer = bytes > 0 || observed > 0;
        let [compared_left, has_entry] =
            [same + uncompared + differing, changed].map(|bytes| bytes > 0);
        first_true(&[
            (observed > truth.bytes, "observed: of no such bytes"),
            (
                observed > 0 && truth.once_intact == 0,
                "observed: all were changed",
            ),
            (
                bytes.max(observed) + in_no_transfer > truth.bytes,
                "buffer: too high",
            ),
            (
                // Rule 6 may have joined the transfer to bytes of its own, or found another source.
                bytes + totals + in_no_transfer < truth.seen && !self.may_lack(from),
                "buffer: too low",
            ),
            (
                // After a second file, it is not known which bytes were written to which.
                differing > truth.changed + truth.other_use,
                "changed: nothing was",
            ),
            (
                // An operation of a ring may complete when the next one has filled the memory.
                other_use > truth.other_use
                    && !self.known.truth.kinds.contains_key("ring_write_async"),
                "changed: no other use",
            ),
            (
                has_entry && (same == 0 || differing == 0),
                "changed: no such words",
            ),
            (
                has_entry && changed != same + uncompared + differing,
                "changed: other bytes",
            ),
            (has_entry && is_transfer, "changed: and a transfer"),
            (
                is_transfer && compared_left,
                "buffer: in no transfer either",
            ),
            (
                // Zeros tell nothing if not all was compared.
                same > 0 && differing == 0 && (uncompared == 0 || !may_be_zeros(from)),
                "buffer: the same, and in no transfer",
            ),
            (
                is_more && of_memory.iter().any(|step| step.observed > 0),
                "buffer: observed, and more than was read",
            ),
            (
                bytes > 0 && !is_more && observed == 0 && self.leans(from) == Some(false),
                "buffer: leans on nothing",
            ),
            (
                !is_transfer
                    && uncompared > 0
                    && same + differing + other_use == 0
                    && self.leans(from) == Some(true),
                "buffer: leans, and in no transfer",
            ),
        ])
    }

    /// Whether some words of all that was written from buffers of a file were the same, and none
    /// was changed. `None`: the words of hops are not stated, nor are those of what rule 6 says came
    /// from elsewhere, and of the same words, it is not stated which are zeros.
    fn leans(&self, from: &str) -> Option<bool> {
        let mut totals = self.steps.iter().filter(|step| step.how == TOTALS);
        if may_be_zeros(from) || totals.any(|step| step.from != from) {
            return None;
        }
        let left: Vec<&BufferTotals> = self.buffers_of(from).map(|(_, sums)| sums).collect();
        let of_memory =
            |step: &&StatedStep| step.from == from && [BUFFER, TOTALS].contains(&step.how);
        let words = self.steps.iter().filter(of_memory).map(|step| step.words);
        // Those of transfers are the same.
        let compared = words.sum::<Option<u64>>()?;
        let is_any_same = compared > 0 || left.iter().any(|sums| sums.same_bytes > 0);
        Some(is_any_same && left.iter().all(|sums| sums.changed_bytes == 0))
    }

    /// The calls of transfers are those that wrote their bytes, and the reads that filled the
    /// buffers, each once.
    fn judge_calls(&mut self) {
        let (pid, truth) = (self.process.pid, self.known.stated_sums(self.process.pid));
        for step in self.steps.clone() {
            let (from, to) = (step.from.as_str(), step.to.as_str());
            let read = used(&self.known.truth.read, pid, from);
            let written = used(&self.known.truth.written, pid, to);
            let none = Sums::default();
            let sums = truth.get(&(from, to, step.how)).copied().unwrap_or(&none);
            let (all, once, writes) = match step.how {
                BUFFER => (sums.bytes, sums.once, sums.calls),
                // The sums are all that is known.
                SEQUENCE | TOTALS => (written.memory_bytes, step.bytes, written.memory_calls),
                _ => continue,
            };
            let Some(calls) = step.calls else { continue };
            self.judged.count("calls", 1, step.bytes);
            if once.min(step.bytes) < read.memory_bytes {
                self.fail(
                    "calls: not all that was read",
                    format!("{step:?}; {read:?}, {sums:?}"),
                );
            }
            // Otherwise it is a part of the calls.
            let true_calls = writes + read.memory_calls;
            if step.bytes == all && calls != true_calls {
                self.fail("calls", format!("{step:?}; {true_calls} are true"));
            }
        }
    }

    /// Rule 6.
    fn judge_totals(&mut self) {
        for step in self.steps_of(TOTALS) {
            self.judged.count(TOTALS, 1, step.bytes);
            if let Some(class) = self.false_of_totals(&step) {
                self.fail(class, format!("{step:?}; {:?}", self.steps));
            }
        }
    }

    fn false_of_totals(&self, step: &StatedStep) -> Option<&'static str> {
        let (truth, pid, bytes) = (&self.known.truth, self.process.pid, step.bytes);
        let is_other =
            |used: &&UsedBytes| used.pid == pid && used.file != step.from && used.file != step.to;
        let mut others = truth.read.iter().chain(&truth.written).filter(is_other);
        // A call that moved nothing explains nothing.
        let mut steps = self
            .steps
            .iter()
            .filter(|other| *other != step && other.bytes > 0);
        let read = used(&truth.read, pid, &step.from);
        let written = used(&truth.written, pid, &step.to);
        let [first, first_written] = [&read, &written].map(first_bytes);
        let moved = self.known.stated_sums(pid);
        let buffers = moved.get(&(step.from.as_str(), step.to.as_str(), BUFFER));
        let is_joined = self.sees_memory && buffers.is_some_and(|sums| sums.bytes > 0);
        first_true(&[
            (bytes < MIN_OF_TOTALS, "totals: few"),
            (read.bytes != bytes, "totals: read others"),
            (written.bytes != bytes, "totals: wrote others"),
            (!is_joined && step.observed > 0, "totals: observed"),
            (
                others.any(|used| used.sums.bytes == bytes),
                "totals: another file in all",
            ),
            (
                steps.any(|other| other.from == step.from || other.to == step.to),
                "totals: explained",
            ),
            (
                self.buffers_between(&step.from, &step.to)[..3] != [0; 3],
                "totals: changed in buffers",
            ),
            (
                self.known.outlet(&step.from) == step.to && step.from.starts_with("ino:"),
                "totals: one connection",
            ),
            (
                // A call that failed may make the row of a later one the first, so of a true statement
                // the first bytes may be others.
                (first.is_none() || first != first_written) && !is_joined,
                "totals: other first bytes",
            ),
        ])
    }

    /// Rule 9: what was written is in transfers or from the program's own memory.
    fn judge_destinations(&mut self) {
        let truth = &self.known.truth.written;
        for used in truth.iter().filter(|used| used.pid == self.process.pid) {
            self.judged.count("destinations", 1, used.sums.bytes);
            let mut found = self.process.destinations.iter();
            let Some(one) = found.find(|one| is(one, &used.file)) else {
                self.fail("destination: missing", format!("{used:?}"));
                continue;
            };
            let into = self
                .steps
                .iter()
                .filter(|step| step.to == used.file && step.how != CHANGED);
            let transferred: u64 = into.map(|step| step.bytes).sum();
            let buffers: u64 = one.buffers.iter().map(buffer_bytes).sum();
            let rest = used.sums.bytes.checked_sub(one.transferred_bytes);
            let known = one.written_bytes.or(self.says_bytes("sendmmsg"));
            let both_kinds = one.transferred_calls + one.own_memory_calls;
            let checks = [
                ("bytes", one.written_bytes == known.map(|_| used.sums.bytes)),
                ("calls", one.written_calls == used.sums.calls),
                ("sources", one.transferred_bytes == transferred),
                ("rest", one.own_memory_bytes == known.and(rest)),
                ("calls of both kinds", one.written_calls == both_kinds),
                ("buffers", rest >= Some(buffers)),
            ];
            let text = format!("true {used:?}; {transferred} in transfers; stated {one:?}");
            self.check_all("destination", &checks, &text);
        }
    }

    /// Rule 9: what was read is in transfers or kept.
    fn judge_sources(&mut self) {
        let truth = &self.known.truth.read;
        for used in truth.iter().filter(|used| used.pid == self.process.pid) {
            self.judged.count("sources", 1, used.sums.bytes);
            let is_it = |file: &Option<End>| file.as_ref().map(name).as_ref() == Some(&used.file);
            let mut found = self.process.sources.iter();
            let Some(one) = found.find(|one| is_it(&one.file)) else {
                self.fail("source: missing", format!("{used:?}"));
                continue;
            };
            let out = self.steps.iter().filter(|step| step.from == used.file);
            let out = out.filter(|step| ![MAPPING, CHANGED].contains(&step.how));
            let out: u64 = out.map(|step| step.bytes).sum();
            let known = one.read_bytes.or(self.says_bytes("recvmmsg"));
            let kept = used.sums.bytes.checked_sub(out);
            let checks = [
                ("bytes", one.read_bytes == known.map(|_| used.sums.bytes)),
                ("kept", one.kept_bytes == known.and(kept)),
            ];
            let text = format!("true {used:?}; {out} in transfers; stated {one:?}");
            self.check_all("source", &checks, &text);
        }
        let forgotten = self.process.sources.iter().map(|one| one.forgotten_buffers);
        let is_crowded = self.known.truth.crowded.contains(&self.process.pid);
        if forgotten.sum::<u64>() > 0 && !is_crowded {
            self.fail(
                "source: forgotten, with room",
                format!("{:?}", self.process.sources),
            );
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

/// The first class of those that apply.
fn first_true(classes: &[(bool, &'static str)]) -> Option<&'static str> {
    let mut found = classes.iter().filter(|(is_it, _)| *is_it);
    found.next().map(|(_, class)| *class)
}

/// The first bytes that calls moved between a file and memory, if they are enough to tell it apart.
fn first_bytes(sums: &UsedSums) -> Option<Vec<u8>> {
    let (_, first) = sums.first.as_ref()?;
    first.get(..FIRST_BYTES).map(<[u8]>::to_vec)
}

fn buffer_bytes(sums: &BufferTotals) -> u64 {
    sums.same_bytes + sums.changed_bytes + sums.other_use_bytes + sums.uncompared_bytes
}

fn is(one: &DestinationTotals, file: &str) -> bool {
    one.file.as_ref().is_some_and(|end| name(end) == file)
}
