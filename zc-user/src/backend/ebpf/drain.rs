//! What the kernel side summed up, taken out of its maps.

use std::collections::HashMap;

use aya::maps::{HashMap as KernelHashMap, MapData, MapError, PerCpuArray};
use zc_ebpf::{ErrnoKey, NO_CALL, RowKey, Task, phase};

use crate::{
    histogram::Histogram,
    syscall::Call,
    trace::{Ends, Loss, Row, Times},
};

/// The maps that are read when a trace ends.
pub struct Maps {
    pub tasks: KernelHashMap<MapData, u64, Task>,
    pub rows: KernelHashMap<MapData, RowKey, zc_ebpf::Row>,
    pub errnos: KernelHashMap<MapData, ErrnoKey, u64>,
    pub losses: PerCpuArray<MapData, u64>,
}

impl Maps {
    /// The tasks that are followed now and in scope.
    pub fn living(&self) -> Result<Vec<Task>, MapError> {
        let tasks: Vec<Task> = self.tasks.iter().map(|entry| entry.map(|(_, task)| task)).collect::<Result<_, _>>()?;
        Ok(tasks.into_iter().filter(|task| task.phase == phase::ACTIVE).collect())
    }

    /// All rows by the serial number of their task. Calls that `living` tasks are in are unfinished ones.
    pub fn rows(&self, living: &[Task]) -> Result<HashMap<u32, Vec<Row>>, MapError> {
        let mut sums: HashMap<(u32, u32), Row> = HashMap::new();
        for entry in &self.rows {
            let (key, row) = entry?;
            add(sums.entry((key.task, key.call)).or_insert_with(|| empty(key.call)), &row);
        }
        for entry in &self.errnos {
            let (key, count) = entry?;
            let row = sums.entry((key.task, key.call)).or_insert_with(|| empty(key.call));
            *row.errnos.entry(key.errno).or_default() += count;
        }
        for task in living {
            // A call that a signal ended, and that was not taken up again so far, has not returned either.
            let call = if task.call == NO_CALL { task.interrupted } else { task.call };
            if call != NO_CALL {
                sums.entry((task.serial, call)).or_insert_with(|| empty(call)).unfinished += 1;
            }
        }
        let mut by_task: HashMap<u32, Vec<Row>> = HashMap::new();
        for ((task, _), row) in sums {
            by_task.entry(task).or_default().push(row);
        }
        Ok(by_task)
    }

    /// What the kernel side lost.
    pub fn losses(&self) -> Result<Vec<(Loss, u64)>, MapError> {
        use zc_ebpf::Loss as Kernel;
        [
            (Kernel::UnfollowedTask, Loss::UnfollowedTasks),
            (Kernel::UncountedCall, Loss::UncountedCalls),
            (Kernel::UncountedErrno, Loss::UncountedErrnos),
            (Kernel::LostEvent, Loss::LostEvents),
            (Kernel::ExitWithoutEntry, Loss::ExitsWithoutEntry),
        ]
        .into_iter()
        .map(|(kernel, loss)| Ok((loss, self.losses.get(&(kernel as u32), 0)?.iter().sum())))
        .collect()
    }
}

/// The row of a call that has not happened.
fn empty(id: zc_ebpf::CallId) -> Row {
    Row::new(Call::from_id(id), Ends::default())
}

fn add(sum: &mut Row, row: &zc_ebpf::Row) {
    sum.calls += row.calls;
    sum.errors += row.errors;
    sum.unfinished += row.unfinished;
    if let Some(bytes) = &mut sum.bytes {
        *bytes += row.bytes;
    }
    match &mut sum.requested_bytes {
        Some(_) if row.requested_unknown > 0 => sum.requested_bytes = None,
        Some(requested) => *requested += row.requested_bytes,
        None => {}
    }
    if row.min_ns == u64::MAX {
        return;
    }
    let times =
        sum.times.get_or_insert_with(|| Times { total_ns: 0, min_ns: u64::MAX, max_ns: 0, histogram: Histogram::default() });
    times.total_ns += row.total_ns;
    times.min_ns = times.min_ns.min(row.min_ns);
    times.max_ns = times.max_ns.max(row.max_ns);
    times.histogram.add_buckets(&row.histogram);
}
