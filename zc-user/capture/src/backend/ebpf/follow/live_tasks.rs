//! [`LiveTasks`]: the tasks that are still running, and their counters.
//!
//! The kernel side reports the counters of a task when it ends. Those of tasks that are still
//! running when the trace ends are read from `/proc`: not by the crate `procfs`, since this runs
//! for every live task, every few milliseconds while tasks are ending, and that crate parses all 50
//! lines of `status` into a map for the two that are needed.

use std::{collections::HashMap, fs};

use zc_ebpf::{Task, state};

use super::process_sums::RawCounters;
use crate::{
    backend::{
        RunError, SpanCounters,
        ebpf::{load::object::Loaded, read::epochs::now_ns},
    },
    descendants::is_proc_ours,
    proc_stat::{NS_PER_TICK, name_and_fields, status_field},
};

/// The tasks that are alive at some moment.
#[derive(Clone)]
pub struct LiveTasks {
    /// When they were read: `CLOCK_MONOTONIC`, ns.
    pub read_ns: u64,
    /// Whether `/proc` belongs to the PID namespace of this process. If not, its ids are those of
    /// other processes.
    pub is_proc_ours: bool,
    pub tasks: Vec<Task>,
    /// The counters of those that are not about to end, by serial number; `None` if they cannot be
    /// read.
    pub counters: HashMap<u32, Option<RawCounters>>,
}

impl LiveTasks {
    /// Those of now. Their counters are unknown if `/proc` belongs to another PID namespace. To read
    /// them takes 3 files for each task.
    pub fn now(loaded: &Loaded, wanted: SpanCounters) -> Result<Self, RunError> {
        let is_proc_ours = is_proc_ours();
        let has_counters = wanted == SpanCounters::Read;
        let tasks = loaded.maps.live_tasks()?;
        let not_exiting = tasks.iter().filter(|task| task.exited_ns == 0);
        let counters = not_exiting.map(|task| {
            let counters =
                (is_proc_ours && has_counters).then(|| read_counters(task.pid, task.tid));
            (task.serial, counters.flatten())
        });
        Ok(Self {
            read_ns: now_ns(),
            is_proc_ours,
            counters: counters.collect(),
            tasks,
        })
    }

    /// How many are still in the call in which they were found, and of how many that is not known:
    /// they run on a processor.
    pub fn in_first_call(&self) -> (u64, u64) {
        let tasks = self.tasks.iter().filter(|_| self.is_proc_ours);
        let silent = tasks.filter(|task| task.state == state::FOUND);
        let (mut inside, mut unknown) = (0, 0);
        for call in silent.filter_map(current_call) {
            // It is "-1" where a task waits outside of a call.
            inside += u64::from(call.starts_with(|c: char| c.is_ascii_digit()));
            unknown += u64::from(call.starts_with("running"));
        }
        (inside, unknown)
    }
}

/// Which call a live task is in, by its `syscall` file in `/proc` (`man 5 proc_pid_syscall`).
fn current_call(task: &Task) -> Option<String> {
    let (pid, tid) = (task.pid, task.tid);
    fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()
}

/// `PF_EXITING` of the kernel's include/linux/sched.h.
const EXITING: u64 = 4;

/// The counters of a live task so far; `None` if it is gone or about to end. A thread that was
/// joined may still be about to end: the kernel finishes it a little later.
fn read_counters(pid: u32, tid: u32) -> Option<RawCounters> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{file}")).ok();
    let [flags, minor_faults, major_faults, user, system] = parse_stat(&read("stat")?)?;
    if flags & EXITING != 0 {
        return None;
    }
    let status = read("status")?;
    let field = |name| status_field(&status, name)?.parse().ok();
    let schedstat = read("schedstat").unwrap_or_default();
    let mut schedstat = schedstat.split_ascii_whitespace().map(str::parse);
    let (runtime_ns, run_delay_ns) = (schedstat.next(), schedstat.next());
    let (user_ns, system_ns) = (user * NS_PER_TICK, system * NS_PER_TICK);
    Some(RawCounters {
        user_ns,
        system_ns,
        // Without CONFIG_SCHED_INFO, the sampled times are all there is.
        runtime_ns: runtime_ns
            .and_then(Result::ok)
            .unwrap_or(user_ns + system_ns),
        run_delay_ns: run_delay_ns.and_then(Result::ok).unwrap_or(0),
        voluntary_switches: field("voluntary_ctxt_switches")?,
        involuntary_switches: field("nonvoluntary_ctxt_switches")?,
        minor_faults,
        major_faults,
    })
}

/// Parses `/proc/PID/stat` (`man 5 proc_pid_stat`): the kernel's `task_struct.flags`, minor and
/// major faults, user and system time in ticks.
fn parse_stat(text: &str) -> Option<[u64; 5]> {
    let fields: Vec<&str> = name_and_fields(text)?.1.collect();
    let number = |index: usize| fields.get(index)?.parse().ok();
    Some([number(6)?, number(7)?, number(9)?, number(11)?, number(12)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_looks_like_fields_is_skipped() {
        let text = "12 (a) 1 (b)) R 1 2 3 4 5 6 70 8 90 10 110 120 13 14";
        assert_eq!(parse_stat(text), Some([6, 70, 90, 110, 120]));
    }
}
