//! Reads the sums of the kernel side from its maps.
//!
//! That happens while tasks count, too, so that what they did does not fill the maps
//! ([`Maps::take`]), and once more in the end ([`Maps::read`]).

use std::{collections::BTreeMap, io};

use aya::maps::{Array, HashMap as KernelHashMap, MapData, MapError, PerCpuArray};
use zc_ebpf::{
    CallId, ErrnoKey, ODD_EPOCH, OTHER_CALLS_BLOCKS, OTHER_CALLS_IN_BLOCK, OtherCallsBlock, RowKey,
    Task, TaskSlot, other, phase,
};

use super::{
    counts::{Counts, UNFINISHED, calls_of, known_fills},
    events::sum_of,
    table::{ArrayTable, Table},
};
use crate::{
    histogram::Histogram,
    syscalls::Call,
    trace::{Ends, FailedPath, FailedPaths, GivenPath, Loss, OtherCalls, Row, Times},
};

/// The maps that are read.
pub struct Maps {
    pub tasks: Array<MapData, TaskSlot>,
    /// Address of a `task_struct` -> index in `tasks`.
    pub task_slots: KernelHashMap<MapData, u64, u32>,
    /// The first rows of an epoch, those of further calls without files, and those of further calls
    /// with files.
    pub rows: [Table<RowKey, zc_ebpf::Row>; 3],
    /// Further calls of rows that have many, for the first such rows of an epoch.
    pub near_busy_rows: ArrayTable<zc_ebpf::NearBusyRow>,
    /// Those of other rows that have many.
    pub busy_rows: Table<RowKey, zc_ebpf::BusyRow>,
    /// What calls wrote from more files than a row has room for.
    pub parts: Table<RowKey, zc_ebpf::Part>,
    /// The errnos of calls without files, and of those with.
    pub errnos: [Table<ErrnoKey, u64>; 2],
    /// The calls without rows, by [`spec_slot`](zc_ebpf::spec_slot).
    pub other_calls: PerCpuArray<MapData, OtherCallsBlock>,
    /// The failed calls by path.
    pub failed_paths: Table<zc_ebpf::FailedPath, u64>,
    pub losses: PerCpuArray<MapData, u64>,
}

impl Maps {
    /// The live tasks that are in scope.
    pub fn live_tasks(&self) -> Result<Vec<Task>, MapError> {
        let mut tasks = Vec::new();
        for entry in &self.task_slots {
            let (address, index) = entry?;
            let slot = self.tasks.get(&index, 0)?;
            // The slot may be another task's by now.
            if slot.address == address && slot.task.phase == phase::ACTIVE {
                tasks.push(slot.task);
            }
        }
        Ok(tasks)
    }

    /// Adds what the maps have to the counts. It stays in the maps.
    pub fn read(&self, counts: &mut Counts) -> io::Result<()> {
        let mut rows = Vec::new();
        for table in &self.rows {
            table.for_each(|key, row| rows.extend(NewRow::of_new(key, row)))?;
        }
        self.for_each_near_busy(|key, busy| rows.extend(NewRow::of_busy(key, busy)))?;
        self.busy_rows
            .for_each(|key, busy| rows.extend(NewRow::of_busy(key, busy)))?;
        add_rows(counts, rows);
        self.parts.for_each(|key, part| {
            counts.add_part(
                RowKey {
                    call: without_epoch(key.call),
                    ..key
                },
                part,
            );
        })?;
        for table in &self.errnos {
            table.for_each(|key, count| {
                counts.add_errno(
                    ErrnoKey {
                        call: without_epoch(key.call),
                        ..key
                    },
                    *count,
                );
            })?;
        }
        Ok(())
    }

    /// Moves what the maps have of this epoch, 0 or [`ODD_EPOCH`], to the counts. Returns the
    /// number of rows, including empty ones. The epoch must be over, see [`zc_ebpf::maps::EPOCH`].
    pub fn take(&self, epoch: CallId, counts: &mut Counts) -> io::Result<usize> {
        let is_of_epoch = |call: CallId| call & ODD_EPOCH == epoch;
        let (mut rows, mut count) = (Vec::new(), 0);
        for table in &self.rows {
            table.take(
                |key| is_of_epoch(key.call),
                |key, row| {
                    count += 1;
                    rows.extend(NewRow::of_new(key, row));
                },
            )?;
        }
        let mut add_busy = |key, busy: &zc_ebpf::BusyRow| {
            count += 1;
            rows.extend(NewRow::of_busy(key, busy));
        };
        self.take_near_busy(epoch, &mut add_busy)?;
        self.busy_rows.take(|key| is_of_epoch(key.call), add_busy)?;
        add_rows(counts, rows);
        self.parts.take(
            |key| is_of_epoch(key.call),
            |key, part| {
                counts.add_part(
                    RowKey {
                        call: without_epoch(key.call),
                        ..key
                    },
                    part,
                );
            },
        )?;
        for table in &self.errnos {
            table.take(
                |key| is_of_epoch(key.call),
                |key, errors| {
                    counts.add_errno(
                        ErrnoKey {
                            call: without_epoch(key.call),
                            ..key
                        },
                        *errors,
                    );
                },
            )?;
        }
        Ok(count)
    }

    /// Calls the function with every near busy row.
    fn for_each_near_busy(&self, mut row: impl FnMut(RowKey, &zc_ebpf::BusyRow)) -> io::Result<()> {
        self.near_busy_rows.for_each(|_, near| {
            if near.is_taken != 0 {
                row(near.key, &near.busy);
            }
        })
    }

    /// Calls the function with every near busy row of this epoch, and leaves its place to others.
    fn take_near_busy(
        &self,
        epoch: CallId,
        mut row: impl FnMut(RowKey, &zc_ebpf::BusyRow),
    ) -> io::Result<()> {
        let mut places = Vec::new();
        self.near_busy_rows.for_each(|place, near| {
            if near.is_taken != 0 && near.key.call & ODD_EPOCH == epoch {
                row(near.key, &near.busy);
                places.push(place);
            }
        })?;
        places
            .into_iter()
            .try_for_each(|place| self.near_busy_rows.set(place, &zc_ebpf::NearBusyRow::FREE))
    }

    /// How many calls returned so far, and the bytes that they moved. `taken` has what was moved
    /// out of the maps.
    pub fn calls_and_bytes(&self, taken: &Counts) -> io::Result<(u64, u64)> {
        let (mut calls, mut bytes) = taken.calls_and_bytes();
        let mut add = |key: RowKey, row: &zc_ebpf::Row| {
            calls += calls_of(key.call, row.calls);
            bytes = bytes.saturating_add(row.bytes);
        };
        for table in &self.rows {
            table.for_each(&mut add)?;
        }
        self.for_each_near_busy(|key, busy| add(key, &busy.row))?;
        self.busy_rows.for_each(|key, busy| add(key, &busy.row))?;
        let others = self.other_calls(&[])?;
        Ok((
            calls + others.values().map(|sums| sums.calls).sum::<u64>(),
            bytes,
        ))
    }

    /// The calls that have no rows. One that a live task is in counts as unfinished.
    pub fn other_calls(&self, live: &[Task]) -> io::Result<BTreeMap<Call, OtherCalls>> {
        let mut by_call = BTreeMap::new();
        for block in 0..OTHER_CALLS_BLOCKS {
            let on_cpus = self.other_calls.get(&block, 0).map_err(io::Error::other)?;
            for (place, slot) in (block * OTHER_CALLS_IN_BLOCK..)
                .take(OTHER_CALLS_IN_BLOCK as usize)
                .enumerate()
            {
                let mut sum = OtherCalls::NONE;
                for on_cpu in on_cpus.iter() {
                    sum += sum_of(&on_cpu.calls[place]);
                }
                if !sum.is_none() {
                    by_call.insert(Call::from_slot(slot), sum);
                }
            }
        }
        for task in live.iter().filter(|task| task.other != other::NONE) {
            *by_call
                .entry(Call::from_slot(task.slot))
                .or_insert(OtherCalls::NONE) += UNFINISHED;
        }
        Ok(by_call)
    }

    /// The calls that take a path and failed, and those that succeeded if they were recorded.
    pub fn failed_paths(&self) -> Result<FailedPaths, MapError> {
        let mut failed = FailedPaths {
            left_out: self.lost(zc_ebpf::Loss::UncountedPath)?,
            ..FailedPaths::default()
        };
        let add = |key: zc_ebpf::FailedPath, calls: &u64| {
            // The kernel side may have created an entry and not used it.
            if *calls > 0 {
                *failed.calls.entry(failed_path(&key)).or_default() += calls;
            }
        };
        self.failed_paths.for_each(add).map_err(MapError::IoError)?;
        Ok(failed)
    }

    /// How much the kernel side lost.
    pub fn losses(&self) -> Result<Vec<(Loss, u64)>, MapError> {
        use zc_ebpf::Loss as Kernel;
        [
            (Kernel::UnfollowedTask, Loss::UnfollowedTasks),
            (Kernel::UncountedCall, Loss::UncountedCalls),
            (Kernel::UncountedErrno, Loss::UncountedErrnos),
            (Kernel::LostEvent, Loss::LostEvents),
            (Kernel::SilentOperation, Loss::SilentOperations),
            (Kernel::OverflowedOperation, Loss::OverflowedOperations),
            (Kernel::OtherThread, Loss::OtherThreads),
            (Kernel::UnsampledCaller, Loss::UnsampledCallers),
            (Kernel::UnknownCode, Loss::UnknownCode),
        ]
        .into_iter()
        .map(|(kernel, loss)| Ok((loss, self.lost(kernel)?)))
        .chain([Ok((Loss::ForgottenBuffers, self.forgotten_buffers()?))])
        .collect()
    }

    fn forgotten_buffers(&self) -> Result<u64, MapError> {
        let [given_up, unknown] = [zc_ebpf::Loss::ForgottenBuffer, zc_ebpf::Loss::UnknownOrigin]
            .map(|loss| self.lost(loss));
        Ok(given_up? + unknown?)
    }

    /// A note on calls that were counted without their times, if there are any. They do not make
    /// any figure a lower bound.
    pub fn untimed_note(&self) -> Result<Option<String>, MapError> {
        let count = self.lost(zc_ebpf::Loss::UntimedCall)?;
        Ok((count > 0).then(|| {
            format!(
                "seccomp answered {count} calls before the kernel ran them; their times are unknown"
            )
        }))
    }

    /// How often this was lost.
    pub fn lost(&self, what: zc_ebpf::Loss) -> Result<u64, MapError> {
        Ok(self.losses.get(&(what as u32), 0)?.iter().sum())
    }
}

/// What the key of the kernel side says.
fn failed_path(key: &zc_ebpf::FailedPath) -> FailedPath {
    let text = usize::try_from(key.length)
        .ok()
        .and_then(|length| key.path.get(..length));
    let path = text.map(|text| GivenPath {
        text: String::from_utf8_lossy(text).into_owned(),
        is_cut: text.len() + 1 >= zc_ebpf::PATH_BYTES,
        is_below_descriptor: key.below_descriptor != 0,
    });
    FailedPath {
        call: Call::from_slot(key.slot),
        errno: key.errno,
        path,
    }
}

/// A row of the kernel side, in the form that takes less memory.
struct NewRow {
    key: RowKey,
    first_ns: u64,
    row: Row,
    /// Calls that lack their files.
    without_files: u64,
}

impl NewRow {
    /// A row with few calls.
    fn of_new(key: RowKey, row: &zc_ebpf::Row) -> Option<Self> {
        Self::from_kernel(key, row, |histogram| {
            let places = row
                .few
                .iter()
                .filter_map(|&few| usize::from(few).checked_sub(1));
            places.for_each(|place| histogram.add_to_bucket(place, 1));
        })
    }

    /// A row with many calls.
    fn of_busy(key: RowKey, busy: &zc_ebpf::BusyRow) -> Option<Self> {
        Self::from_kernel(key, &busy.row, |histogram| {
            histogram.add_buckets(&busy.histogram);
        })
    }

    /// `None` if the kernel side has created the row and not used it.
    fn from_kernel(
        key: RowKey,
        row: &zc_ebpf::Row,
        add_times: impl FnOnce(&mut Histogram),
    ) -> Option<Self> {
        let is_used = row.calls > 0 || row.unfinished > 0;
        let key = RowKey {
            call: without_epoch(key.call),
            ..key
        };
        let new = || {
            let sums = counted(&key, row, add_times);
            Self {
                key,
                first_ns: row.first_ns,
                row: sums,
                without_files: row.without_files,
            }
        };
        is_used.then(new)
    }
}

/// The row with the sums of the kernel side, still without its files and errnos.
fn counted(key: &RowKey, row: &zc_ebpf::Row, add_times: impl FnOnce(&mut Histogram)) -> Row {
    let mut sum = Row::new(Call::from_id(key.call), Ends::default());
    (sum.calls, sum.errors, sum.unfinished) = (row.calls, row.errors, row.unfinished);
    (sum.input_bytes, sum.fills) = (row.input_bytes, known_fills(row.fills));
    (sum.zero_calls, sum.short_calls) = (row.zero_calls, row.short_calls);
    sum.order = (row.first_ns > 0).then_some(row.first_ns);
    sum.bytes = sum.bytes.map(|_| row.bytes);
    sum.requested_bytes = sum
        .requested_bytes
        .filter(|_| row.requested_unknown == 0)
        .map(|_| row.requested_bytes);
    if row.min_ns != u64::MAX {
        let mut histogram = Histogram::default();
        add_times(&mut histogram);
        sum.times = Some(Times {
            total_ns: row.total_ns,
            min_ns: row.min_ns,
            max_ns: row.max_ns,
            histogram,
        });
    }
    sum
}

/// Adds rows in the order of their first calls: the files of the trace are in the order of their
/// first use.
fn add_rows(counts: &mut Counts, mut rows: Vec<NewRow>) {
    rows.sort_unstable_by_key(|new| new.first_ns);
    for NewRow {
        key,
        row,
        without_files,
        ..
    } in rows
    {
        counts.add_row(key, row, without_files);
    }
}

/// The call of a key of a map.
const fn without_epoch(call: CallId) -> CallId {
    call & !ODD_EPOCH
}

#[cfg(test)]
mod tests {
    use zc_ebpf::{BusyRow, FEW_CALLS, bucket_of};

    use super::*;

    const KEY: RowKey = RowKey {
        task: 1,
        call: ODD_EPOCH,
        ends: zc_ebpf::Ends::NONE,
    };

    #[test]
    fn the_times_of_the_first_calls_are_in_the_histogram() {
        let mut row = zc_ebpf::Row {
            calls: 3,
            min_ns: 100,
            max_ns: 900,
            total_ns: 1100,
            ..zc_ebpf::Row::EMPTY
        };
        // The second call has no time.
        let place = |ns| u16::try_from(bucket_of(ns) + 1).expect("small");
        (row.few[0], row.few[2]) = (place(100), place(900));
        let found = NewRow::of_new(KEY, &row).expect("it is used");
        let histogram = found.row.times.expect("it has times").histogram;
        assert_eq!(
            histogram.buckets().collect::<Vec<_>>(),
            [(bucket_of(100), 1), (bucket_of(900), 1)]
        );
        assert_eq!((found.key.call, found.row.calls), (0, 3));
        assert!(
            NewRow::of_new(KEY, &zc_ebpf::Row::EMPTY).is_none(),
            "a row that nobody has used"
        );
    }

    #[test]
    fn a_busy_row_has_the_times_of_its_own_calls() {
        let mut busy = BusyRow::EMPTY;
        (busy.row.calls, busy.row.min_ns, busy.histogram[7]) = (5, 7, 5);
        let found = NewRow::of_busy(KEY, &busy).expect("it is used");
        assert_eq!(found.row.times.expect("it has times").histogram.count(), 5);
        assert!(
            found.row.calls < FEW_CALLS as u64,
            "its first calls are in another row"
        );
    }
}
