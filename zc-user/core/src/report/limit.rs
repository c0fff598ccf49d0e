//! Which processes a report lists if there are very many.

use std::{cmp::Reverse, collections::BTreeSet};

use super::{Process, Report};

impl Report {
    /// How many entries `processes` lacks, one for each program of a process: all of them if only
    /// sums were asked for. Their figures are in the sums.
    pub fn processes_left_out(&self) -> u64 {
        let listed = u64::try_from(self.processes.len()).unwrap_or(u64::MAX);
        self.totals.programs.saturating_sub(listed)
    }

    /// Says how many processes are not listed: `46 of 50 processes are not listed`.
    pub(crate) fn left_out_words(&self) -> String {
        let what = if self.totals.programs == self.totals.processes {
            "processes"
        } else {
            "programs of processes"
        };
        let (left_out, all) = (self.processes_left_out(), self.totals.programs);
        format!("{left_out} of {all} {what} are not listed")
    }

    /// Lists at most so many processes: the launched one, and those with the most CPU time, as
    /// programs are ordered. If any is left out, a note says how many.
    pub fn limit_processes(&mut self, most: usize) {
        let listed = self.processes.len();
        // The trace may already lack some.
        if listed == 0 || (listed <= most && self.processes_left_out() == 0) {
            return;
        }
        let mut others: Vec<usize> = (1..listed).collect();
        others.sort_by_cached_key(|&index| Reverse(cpu_time_and_calls(&self.processes[index])));
        let kept: BTreeSet<usize> = others
            .into_iter()
            .take(most.saturating_sub(1))
            .chain([0])
            .collect();
        let mut index = 0..listed;
        self.processes
            .retain(|_| index.next().is_some_and(|index| kept.contains(&index)));
        self.notes.push(format!(
            "{}, those with the least CPU time: they are in the sums by program and in the \
             totals; --by process lists all.",
            self.left_out_words()
        ));
    }
}

/// CPU time, then calls, for a backend that does not know CPU times.
fn cpu_time_and_calls(process: &Process) -> (Option<u64>, u64) {
    (
        process.usage.cpu_ns(),
        process.syscalls.iter().map(|call| call.calls).sum(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Options, sample};

    #[test]
    fn the_launched_process_and_the_busiest_stay_in_their_order() {
        let whole = Report::from_trace(&sample::make(50), &Options::default());
        let mut report = whole.clone();
        report.limit_processes(50);
        assert_eq!(report, whole, "all are listed, without a note");
        report.limit_processes(4);
        assert_eq!(report.processes_left_out(), 46);
        let (first, others) = report.processes.split_first().expect("four are listed");
        assert_eq!((first, others.len()), (&whole.processes[0], 3));
        assert!(others.is_sorted_by_key(|process| process.pid));
        let left_out = whole.processes.iter().skip(1);
        let left_out = left_out.filter(|process| !others.contains(process));
        let least = others.iter().map(cpu_time_and_calls).min();
        assert!(left_out.map(cpu_time_and_calls).max() <= least);
        let [note] = report.notes.as_slice() else {
            panic!("{:?}", report.notes)
        };
        let said = "46 of 50 processes are not listed";
        assert!(note.starts_with(said), "{note}");
        assert_eq!(
            (&report.programs, &report.totals),
            (&whole.programs, &whole.totals)
        );
    }

    #[test]
    fn a_program_after_an_exec_that_is_not_listed_is_counted() {
        let mut trace = sample::make(50);
        for process in trace.processes.iter_mut().skip(1).step_by(2) {
            process.earlier = vec!["sh".to_owned()];
        }
        let mut report = Report::from_trace(&trace, &Options::default());
        let totals = &report.totals;
        assert_eq!((totals.processes, totals.programs), (25, 50));
        assert_eq!(report.processes_left_out(), 0);
        report.limit_processes(49);
        assert_eq!(report.processes_left_out(), 1);
        let note = report.notes.last().expect("one is left out");
        let said = "1 of 50 programs of processes are not listed";
        assert!(note.starts_with(said), "{note}");
    }
}
