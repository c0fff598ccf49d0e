//! Compares the statements of a report with the addresses that the programs used.

use zc_tests::truth::Truth;
use zctrace::report::{Certainty, Evidence, Report, Transfer};

use super::{
    process::ProcessJudge,
    statements::{CHANGED, Judged, KnownProgram, StatedStep},
};
use crate::harness::last_programs;

/// Judges everything that a report states about these programs.
pub(super) fn judge(report: &Report, truths: &[Truth]) -> Judged {
    let mut judged = Judged::default();
    let all: Vec<KnownProgram> = truths.iter().map(KnownProgram::new).collect();
    let of_pid = |pid| all.iter().find(|known| known.truth.pids.contains(&pid));
    for process in last_programs(report) {
        if let Some(known) = of_pid(process.pid) {
            judged.add(ProcessJudge::new(process, report, known).judge_all());
        }
    }
    for one in report.transfers.iter().filter(|one| !one.hops.is_empty()) {
        if let Some(known) = of_pid(one.pids[0]) {
            judged.judge_hops(one, known);
        }
    }
    for one in report.transfers.iter().filter(|one| !is_consistent(one)) {
        if let Some(known) = of_pid(one.pids[0]) {
            judged.fail("transfer: contradicts itself", known, format!("{one:?}"));
        }
    }
    judged.judge_missing_chains(report, &all);
    judged
}

impl Judged {
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
        let least_sure = one.hops.iter().map(|hop| hop.certainty).max();
        if weakest != Some(one.evidence) || least_sure != Some(one.certainty) {
            self.fail(
                format!("{kind}: not the weakest evidence"),
                known,
                format!("{one:?}"),
            );
        }
    }

    /// Rule 8: a file's bytes that went on through a conduit are in a chain. If other bytes went in,
    /// too, it must be known which reads the second step used, and that it wrote none of it twice.
    fn judge_missing_chains(&mut self, report: &Report, all: &[KnownProgram<'_>]) {
        let within = report.transfers.iter().filter(|one| one.pids.len() == 1);
        let steps: Vec<(&Transfer, StatedStep)> = within
            .flat_map(|one| {
                StatedStep::of_transfer(one)
                    .into_iter()
                    .map(move |step| (one, step))
            })
            .filter(|(_, step)| !matches!(step.how, "tee" | CHANGED) && step.bytes > 0)
            .collect();
        for known in all {
            let is_known = |step: &StatedStep| known.truth.pids.contains(&step.pid);
            let of_program = || steps.iter().filter(|(_, step)| is_known(step));
            for (first, into) in of_program().filter(|(_, step)| !step.from.starts_with("ino:")) {
                let outlet = known.outlet(&into.to);
                for (second, out) in of_program().filter(|(_, step)| step.from == outlet) {
                    let is_chain = into.pid != out.pid
                        && (known.went_through(&into.to) == Some(into.bytes)
                            || out.calls.is_some() && known.is_written_once(out))
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

/// Whether what a transfer says of its evidence, bytes and calls fits together.
fn is_consistent(one: &Transfer) -> bool {
    let is_changed = one.evidence == Evidence::Changed;
    let is_observed = one.observed_bytes == one.bytes && one.bytes > Some(0);
    let hops = one.hops.iter().map(|hop| hop.evidence);
    one.observed_bytes <= one.bytes
        && (one.certainty == Certainty::Changed) == is_changed
        && (one.bytes.unwrap_or(0) == 0 || (one.certainty == Certainty::Observed) == is_observed)
        && (one.calls.is_some() || one.crossings.is_none() && one.total_ns.is_none())
        && (!is_changed || one.part_of.is_empty() && one.hops.is_empty())
        && hops.clone().all(|evidence| evidence != Evidence::Changed)
        && (one.changed_words == 0 || is_changed)
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
