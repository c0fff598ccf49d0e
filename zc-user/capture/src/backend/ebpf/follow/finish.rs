//! Makes the trace of what a [`Store`] knows.

use std::mem;

use zctrace_core::text::plural;

use super::{
    counts::{UNDER_WAY, is_in_other_call},
    process_sums::last_call,
    reading::Reading,
    slow_calls,
    store::Store,
};
use crate::{
    backend::ebpf::{
        load::object::Sight,
        read::{caller_samples::Samples, events::sum_of},
    },
    trace::{Loss, Process, Thread, Trace},
};

impl Store {
    /// Fills in everything that was seen and counted, up to this reading; all rows must have been
    /// read. Callers are only named when the command has ended.
    pub fn finish(
        mut self,
        reading: &Reading,
        sight: &Sight,
        trace: &mut Trace,
        mut samples: Option<Samples>,
    ) {
        let Reading { totals, live } = reading;
        let alive = &live.counters;
        if let Some(samples) = &mut samples {
            samples.take_all(&mut |message| self.apply(message));
        }
        self.add_calls_under_way(&live.tasks);
        for task in &live.tasks {
            let mut sum = sum_of(&task.other_calls);
            if is_in_other_call(task) {
                sum += UNDER_WAY;
            }
            let counts = self.whole.task(task.serial);
            counts.set_other_calls(sum);
            if task.is_in_call() {
                counts.set_last_call(last_call(task.slot, task.entered_ns, live.read_ns));
            }
        }
        trace.notes.clone_from(&sight.notes);
        trace.notes.extend(self.files.unknown_note());
        trace.notes.extend(self.files.summed_note());
        trace.notes.extend(totals.notes());
        if let Some(attached) = &mut trace.attached {
            let returned = totals.loss_count(zc_ebpf::KernelLoss::UnderWayAtAttach);
            let (inside, unknown) = live.in_first_call();
            attached.under_way_at_attach = Some(returned + inside);
            if unknown > 0 {
                let threads = plural(unknown, "thread", "threads");
                trace.notes.push(format!(
                    "{threads} ran on a processor at the end, without a call that began or returned since the attach: they may have been in a call"
                ));
            }
            trace.notes.push(UNKNOWN_BEFORE.to_owned());
        }
        if !alive.is_empty() && !live.is_proc_ours {
            trace.notes.push(FOREIGN_PROC.to_owned());
        }
        let mut paths = mem::take(&mut self.whole.failed_paths);
        paths.left_out += totals.loss_count(zc_ebpf::KernelLoss::UncountedPath);
        trace.failed_paths = Some(paths);
        let slowest = mem::take(&mut self.slow_calls);
        let callers = samples.as_mut().map(Samples::take_slow_callers);
        let callers = callers.unwrap_or_default();
        trace.slow_calls = sight.recorded.slower_than_ns().map(|limit| {
            slow_calls::finish(slowest, limit, self.tasks.began_ns(), totals, &callers)
        });
        trace.sizes = totals.sizes().cloned();
        trace.files = self.files.into_placed();
        trace.other_calls = Some(totals.other_calls(&live.tasks));
        trace.sees_memory = sight.sees_memory;
        trace.losses = totals.losses();
        let without_files =
            self.calls_without_files + totals.loss_count(zc_ebpf::KernelLoss::UncountedPart);
        trace.losses.insert(Loss::CallsWithoutFiles, without_files);
        *trace.losses.entry(Loss::LostEvents).or_default() += self.unreadable;
        let held = mem::take(&mut self.descriptors);
        let (counted, ended, sums) = self.whole.into_parts();
        let (merged, sums) = sums.into_parts();
        let (processes, unseen_ends) = self.tasks.into_processes(counted, alive, ended);
        trace.losses.insert(Loss::UnseenEnds, unseen_ends);
        (trace.processes, trace.merged, trace.ended) = (processes, merged, sums);
        let is_lossy = [Loss::LostEvents, Loss::MissedProbes, Loss::UnfollowedTasks];
        let is_lossy = is_lossy
            .iter()
            .any(|loss| trace.losses.get(loss).is_some_and(|n| *n > 0));
        let root = trace.processes.first().map(|process| process.pid);
        trace.left_open = (sight.recorded.has_descriptors()).then(|| held.finish(root, is_lossy));
        if !sight.has_run_delays {
            forget_run_delays(trace);
        }
        let mut rows = threads(&trace.processes).flat_map(|thread| &thread.rows);
        if rows.any(|row| row.call.name == "io_uring_enter") {
            trace.notes.push(IO_WORKERS.to_owned());
            trace.notes.extend(unknown_operations_note(trace));
        }
        trace.notes.extend(samples.as_ref().and_then(Samples::note));
        trace.stacks = samples.and_then(|samples| samples.into_stacks(&mut trace.notes));
        let may_change = changes_directory(trace) || trace.attached.is_some();
        if let Some(paths) = &mut trace.failed_paths {
            paths.directory_may_change = may_change;
            paths.has_successes = sight.recorded.has_paths();
        }
    }
}

/// Makes those unknown that this kernel does not measure.
fn forget_run_delays(trace: &mut Trace) {
    for process in trace.all_processes_mut() {
        let threads = process.threads.iter_mut();
        let of_threads = threads.map(|thread| &mut thread.counters);
        for counters in of_threads.chain([&mut process.counters]).flatten() {
            counters.run_delay_ns = None;
        }
    }
}

/// Whether a process may have changed the directory in which its relative paths start.
fn changes_directory(trace: &Trace) -> bool {
    let rows = threads(trace.all_processes()).flat_map(|thread| &thread.rows);
    let rows = rows.map(|row| (&row.call, row.calls, row.errors));
    let others = trace.other_calls.iter().flatten();
    rows.chain(others.map(|(call, sums)| (call, sums.calls, sums.errors)))
        .any(|(call, calls, errors)| call.spec().changes_directory && calls > errors)
}

/// The kernel creates these threads without the tracepoint by which new tasks are followed.
const IO_WORKERS: &str = "CPU time, switches and faults of a process do not include the kernel's io_uring worker threads";

/// Memory was not seen before.
const UNKNOWN_BEFORE: &str =
    "bytes that a process read before the attach and wrote after it count as its own";

const FOREIGN_PROC: &str = "switches, faults and CPU time of processes that are still running are unknown: /proc belongs to another PID namespace; mount it again in this one";

/// A note on operations of `io_uring` that the kernel does not report, if there are any. Overflowed
/// ones are a loss of their own.
fn unknown_operations_note(trace: &Trace) -> Option<String> {
    let rows = threads(&trace.processes).flat_map(|thread| &thread.ring_rows);
    let unknown = rows.filter(|row| row.call.is_unknown_operation());
    let overflowed = trace.losses.get(&Loss::OverflowedOperations);
    let count = unknown
        .map(|row| row.calls)
        .sum::<u64>()
        .saturating_sub(overflowed.copied().unwrap_or(0));
    (count > 0)
        .then(|| format!("the bytes of {count} io_uring completions are unknown: the kernel does not report them for multishot operations"))
}

fn threads<'a>(
    processes: impl IntoIterator<Item = &'a Process>,
) -> impl Iterator<Item = &'a Thread> {
    processes.into_iter().flat_map(|process| &process.threads)
}
