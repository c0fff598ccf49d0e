//! [`ProcessSums`]: a process that is put together from its tasks. Pure.

use zc_ebpf::hook;

use super::counts::TaskCounts;
use crate::{
    backend::ebpf::read::events::sum_of,
    syscalls::Call,
    trace::{Counters, Fault, LastCall, OtherCalls, Process, Thread},
};

/// The kernel's raw counters of a task.
pub type RawCounters = zc_ebpf::TaskCounters;

/// A task, by what its events have said.
#[derive(Debug, Clone, Default)]
pub struct SeenTask {
    pub program: u32,
    pub tid: u32,
    pub pid: u32,
    pub ppid: Option<u32>,
    pub comm: String,
    pub started_ns: Option<u64>,
    /// Its counters when its program began: what was used before is not part of that. In a part of
    /// the trace, those at the beginning of that. `None`: unknown.
    pub baseline: Option<RawCounters>,
    /// In a part of the trace: its calls without rows before.
    pub other_calls_before: Option<OtherCalls>,
    pub ended: Option<TaskEnd>,
    /// Whether its end was seen before the epoch ended whose rows were read last.
    pub is_final: bool,
    /// Whether it is gone, and the message of its end was lost.
    pub lacks_end: bool,
}

/// How a task ended.
#[derive(Debug, Clone)]
pub struct TaskEnd {
    pub time_ns: u64,
    /// The [slot](zc_ebpf::Task::slot) of the call that it was in when it began to exit, and when it
    /// entered that, ns. `None`: it was in none, or that is not known.
    pub last_call: Option<(u32, u64)>,
    pub counters: RawCounters,
    pub other_calls: OtherCalls,
    /// Whether it made an `io_uring`. If a thread of the kernel polls that, operations may be counted
    /// for the task after its end.
    pub made_ring: bool,
    /// The fault that killed it, and the slot of the call that it had entered last.
    pub fault: Option<(Fault, u32)>,
}

impl TaskEnd {
    /// `hooks` are those of the [`zc_ebpf::Task`].
    pub fn new(
        time_ns: u64,
        counters: RawCounters,
        other_calls: &zc_ebpf::OtherCallSums,
        hooks: u32,
    ) -> Self {
        Self {
            time_ns,
            last_call: None,
            counters,
            other_calls: sum_of(other_calls),
            made_ring: hooks & hook::RING_CREATE != 0,
            fault: None,
        }
    }
}

/// What a task has used up to a moment.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    /// `None`: unknown.
    pub counters: Option<RawCounters>,
    /// Its calls without rows.
    pub other_calls: OtherCalls,
    /// Whether its end had been seen.
    pub has_ended: bool,
}

impl Used {
    /// What a task had used when its program began.
    pub const fn at_start(task: &SeenTask) -> Self {
        Self {
            counters: task.baseline,
            other_calls: OtherCalls::NONE,
            has_ended: false,
        }
    }

    /// What a task used in all.
    pub const fn at_end(end: &TaskEnd) -> Self {
        Self {
            counters: Some(end.counters),
            other_calls: end.other_calls,
            has_ended: true,
        }
    }
}

impl SeenTask {
    /// The task in a part of the trace that begins when it had used so much, or before it began, and
    /// ends at `until_ns`.
    #[must_use]
    pub fn limited_to_part(&self, used: Option<&Used>, until_ns: u64) -> Self {
        Self {
            baseline: used.map_or(self.baseline, |used| used.counters),
            other_calls_before: used.map(|used| used.other_calls),
            ended: self.ended_by(until_ns).cloned(),
            ..self.clone()
        }
    }

    /// Whether it began up to this moment.
    pub fn began_by(&self, until_ns: u64) -> bool {
        self.started_ns
            .is_none_or(|started_ns| started_ns <= until_ns)
    }

    /// Its end, if that was up to this moment.
    pub fn ended_by(&self, until_ns: u64) -> Option<&TaskEnd> {
        self.ended.as_ref().filter(|end| end.time_ns <= until_ns)
    }

    /// Whether nothing will be counted for it any more.
    pub fn can_be_taken(&self) -> bool {
        let made_ring = self.ended.as_ref().map(|end| end.made_ring);
        self.is_final && made_ring.map_or(self.lacks_end, |made_ring| !made_ring)
    }
}

/// The call in this slot, entered at one moment and not over at another one. 0: that is unknown.
pub fn last_call(slot: u32, entered_ns: u64, ended_ns: u64) -> LastCall {
    let is_known = entered_ns != 0;
    LastCall {
        call: Call::from_slot(slot),
        lasted_ns: is_known.then(|| ended_ns.saturating_sub(entered_ns)),
    }
}

/// A process that is put together from its tasks.
#[derive(Debug)]
pub struct ProcessSums {
    pub process: Process,
    /// The sum of their counters; `None` if those of a task are unknown.
    raw: Option<RawCounters>,
}

impl ProcessSums {
    /// One without tasks; `executed` is what is known from its exec.
    pub fn new(executed: Option<Process>) -> Self {
        Self {
            process: executed.unwrap_or_default(),
            raw: Some(RawCounters::default()),
        }
    }

    /// Adds a task with its counters at its end.
    pub fn add(
        &mut self,
        serial: u32,
        task: SeenTask,
        raw: Option<RawCounters>,
        counted: TaskCounts,
    ) {
        let process = &mut self.process;
        // A process has the name of its first task. After an exec by another thread, that thread
        // has the process id.
        if serial == task.program || task.tid == task.pid {
            process.pid = task.pid;
            process.comm = (!task.comm.is_empty()).then(|| task.comm.clone());
            process.ppid = process.ppid.or(task.ppid);
        }
        let raw = raw.zip(task.baseline);
        let raw = raw.map(|(raw, baseline)| combined(&raw, &baseline, u64::saturating_sub));
        let raw = raw.map(|raw| within_life(raw, &task));
        self.raw = self
            .raw
            .zip(raw)
            .map(|(sum, raw)| combined(&sum, &raw, u64::saturating_add));
        let thread = counted.into_thread();
        let fault = task.ended.as_ref().and_then(|end| end.fault);
        let other_calls = task.ended.as_ref().map(|end| end.other_calls);
        let other_calls_before = task.other_calls_before.unwrap_or(OtherCalls::NONE);
        process.threads.push(Thread {
            tid: task.tid,
            comm: (!task.comm.is_empty()).then_some(task.comm),
            counters: raw.as_ref().map(adjusted_counters),
            started_ns: task.started_ns,
            ended_ns: task.ended.as_ref().map(|end| end.time_ns),
            fault: fault.map(|(fault, _)| fault),
            call_before_fault: fault.map(|(_, slot)| Call::from_slot(slot)),
            last_call: task.ended.as_ref().map_or(thread.last_call, |end| {
                let (slot, entered_ns) = end.last_call?;
                Some(last_call(slot, entered_ns, end.time_ns))
            }),
            other_calls: other_calls
                .or(thread.other_calls)
                .map(|sums| sums.since(other_calls_before)),
            ..thread
        });
    }

    /// The process with its counters.
    pub fn finish(self) -> Process {
        Process {
            counters: self.raw.as_ref().map(adjusted_counters),
            ..self.process
        }
    }
}

/// The counters of a task that lived from its start to its end. The kernel adds run time at clock ticks and
/// when another task runs, so the baseline lacks some of what was before, and the difference has it.
fn within_life(raw: RawCounters, task: &SeenTask) -> RawCounters {
    let ended_ns = task.ended.as_ref().map(|end| end.time_ns);
    // A part of the trace may begin later.
    let is_whole = task.other_calls_before.is_none();
    let life_ns = ended_ns.zip(task.started_ns).filter(|_| is_whole);
    let life_ns = life_ns.map(|(ended_ns, started_ns)| ended_ns.saturating_sub(started_ns));
    let most_ns = life_ns.map_or(u64::MAX, |ns| ns.saturating_sub(raw.run_delay_ns));
    RawCounters {
        runtime_ns: raw.runtime_ns.min(most_ns),
        ..raw
    }
}

/// Combines the counters of two sets one by one.
fn combined(one: &RawCounters, other: &RawCounters, by: fn(u64, u64) -> u64) -> RawCounters {
    RawCounters {
        user_ns: by(one.user_ns, other.user_ns),
        system_ns: by(one.system_ns, other.system_ns),
        runtime_ns: by(one.runtime_ns, other.runtime_ns),
        run_delay_ns: by(one.run_delay_ns, other.run_delay_ns),
        voluntary_switches: by(one.voluntary_switches, other.voluntary_switches),
        involuntary_switches: by(one.involuntary_switches, other.involuntary_switches),
        minor_faults: by(one.minor_faults, other.minor_faults),
        major_faults: by(one.major_faults, other.major_faults),
    }
}

/// CPU time as the kernel reports it everywhere: the run time is exact, and the user and system
/// times, which the timer tick samples, only say how to divide it (`cputime_adjust` of the kernel's
/// kernel/sched/cputime.c).
fn adjusted_counters(raw: &RawCounters) -> Counters {
    let sampled = u128::from(raw.user_ns) + u128::from(raw.system_ns);
    let system_ns = if raw.system_ns == 0 {
        0
    } else {
        let share = u128::from(raw.runtime_ns) * u128::from(raw.system_ns) / sampled;
        u64::try_from(share).unwrap_or(raw.runtime_ns)
    };
    Counters {
        user_ns: raw.runtime_ns - system_ns,
        system_ns,
        run_delay_ns: Some(raw.run_delay_ns),
        voluntary_switches: raw.voluntary_switches,
        involuntary_switches: raw.involuntary_switches,
        minor_faults: raw.minor_faults,
        major_faults: raw.major_faults,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_run_time_is_divided_like_the_sampled_times() {
        let raw = RawCounters {
            runtime_ns: 1000,
            user_ns: 300,
            system_ns: 100,
            ..RawCounters::default()
        };
        let counters = adjusted_counters(&raw);
        assert_eq!((counters.user_ns, counters.system_ns), (750, 250));
    }
}
