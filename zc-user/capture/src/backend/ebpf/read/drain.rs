//! Reads the sums of the kernel side from its maps.
//!
//! This happens once at the end, and also while tasks count, so that what they did does not fill the
//! maps.

use std::{collections::BTreeMap, io, iter};

use aya::{
    Ebpf, Pod,
    maps::{Array, HashMap as KernelHashMap, MapData, MapError, PerCpuArray, PerCpuValues},
    util::nr_cpus,
};
use rustix::thread::{MembarrierCommand, membarrier};
use zc_ebpf::{
    CallId, LOSSES, ODD_EPOCH, OTHER_CALLS_BLOCKS, OTHER_CALLS_IN_BLOCK, OtherCallsBlock, PART,
    PathKey, PathSums, RowKey, SizeKey, Task, TaskSlot, maps, phase, zeroed,
};

use super::{
    events::{Message, calls_of, sourced_bytes, sum_of},
    table::Table,
};
use crate::{
    backend::ebpf::load::{loader::take_map, unavailable::EbpfUnavailable},
    histogram::Histogram,
    syscalls::Call,
    trace::{Ends, OtherCalls, Row, Times},
};

/// The maps that are read.
pub struct Maps {
    tasks: Array<MapData, TaskSlot>,
    /// Address of a `task_struct` -> index in `tasks`.
    task_slots: KernelHashMap<MapData, u64, u32>,
    /// The first rows of an epoch.
    near_rows: KernelHashMap<MapData, RowKey, zc_ebpf::Row>,
    /// Further calls of rows that have many, for the first such rows of an epoch.
    near_busy_rows: Array<MapData, zc_ebpf::NearBusyRow>,
    far: FarRows,
    /// The calls without rows, by [`spec_slot`](zc_ebpf::spec_slot).
    other_calls: PerCpuArray<MapData, OtherCallsBlock>,
    /// The failed calls by path.
    failed_paths: KernelHashMap<MapData, PathKey, PathSums>,
    /// The calls by the bytes that they moved.
    sizes: KernelHashMap<MapData, SizeKey, u64>,
    /// The threads that may work for a closure.
    woken: KernelHashMap<MapData, u64, u32>,
    losses: PerCpuArray<MapData, u64>,
}

/// The maps of the rows for which there was no room in the first ones.
struct FarRows {
    /// 0: there are none.
    are_used: Array<MapData, u32>,
    /// Those of calls without files, and those of calls with files.
    rows: [KernelHashMap<MapData, RowKey, zc_ebpf::Row>; 2],
    /// Further calls of rows that have many.
    busy: KernelHashMap<MapData, RowKey, zc_ebpf::BusyRow>,
}

/// Which rows of the maps are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadRows {
    /// All, and they stay there.
    SoFar,
    /// Those of an epoch, 0 or [`ODD_EPOCH`], which are removed. It must be over, see
    /// [`zc_ebpf::maps::EPOCH`].
    Epoch(CallId),
    /// All, and they are removed: counting has ended.
    All,
}

impl ReadRows {
    /// Whether what has this call or slot in its key is one of them.
    fn contain(self, call: CallId) -> bool {
        match self {
            Self::Epoch(epoch) => call & ODD_EPOCH == epoch,
            Self::SoFar | Self::All => true,
        }
    }

    fn are_taken(self) -> bool {
        self != Self::SoFar
    }
}

impl Maps {
    /// The maps of these programs.
    pub fn take_from(ebpf: &mut Ebpf) -> Result<Self, EbpfUnavailable> {
        Ok(Self {
            tasks: take_map(ebpf, maps::TASKS)?,
            task_slots: take_map(ebpf, maps::TASK_SLOTS)?,
            near_rows: take_map(ebpf, maps::NEAR_ROWS)?,
            near_busy_rows: take_map(ebpf, maps::NEAR_BUSY_ROWS)?,
            far: FarRows {
                are_used: take_map(ebpf, maps::HAS_FAR_ROWS)?,
                rows: [
                    take_map(ebpf, maps::ROWS)?,
                    take_map(ebpf, maps::FILE_ROWS)?,
                ],
                busy: take_map(ebpf, maps::BUSY_ROWS)?,
            },
            other_calls: take_map(ebpf, maps::OTHER_CALLS)?,
            failed_paths: take_map(ebpf, maps::FAILED_PATHS)?,
            sizes: take_map(ebpf, maps::SIZES)?,
            woken: take_map(ebpf, maps::WOKEN)?,
            losses: take_map(ebpf, maps::LOSSES)?,
        })
    }

    /// The live tasks that are in scope.
    pub fn live_tasks(&self) -> io::Result<Vec<Task>> {
        let mut places = Vec::new();
        let place = |address, &index: &u32| places.push((address, index));
        self.task_slots.for_each(place)?;
        let mut tasks = Vec::new();
        for (address, index) in places {
            let slot = self.tasks.get(&index, 0).map_err(io::Error::other)?;
            // The slot may be another task's by now.
            if slot.address == address && slot.task.phase == phase::ACTIVE {
                tasks.push(slot.task);
            }
        }
        Ok(tasks)
    }

    /// Whether no task is followed, in scope or not.
    pub fn is_without_tasks(&self) -> bool {
        self.task_slots.keys().next().is_none()
    }

    /// Removes all that was counted, after [all rows](ReadRows::All) were taken. No program may run for
    /// a task.
    pub fn clear(&mut self) -> io::Result<()> {
        let unused = self.far.are_used.set(0, 0, 0);
        unused.map_err(io::Error::other)?;
        self.woken.clear()?;
        self.sizes.clear()?;
        for block in 0..OTHER_CALLS_BLOCKS {
            set_everywhere(&mut self.other_calls, block, zeroed())?;
        }
        (0..LOSSES).try_for_each(|loss| set_everywhere(&mut self.losses, loss, 0))
    }

    /// Passes these rows on, and the calls by path that belong to them. Returns how many rows there
    /// were, including empty ones.
    pub fn read(&self, rows: ReadRows, mut apply: impl FnMut(Message)) -> io::Result<usize> {
        let (mut found, mut parts, mut count) = (Vec::new(), Vec::new(), 0);
        let far = self.used_far_rows()?;
        for table in self.tables(far) {
            visit_rows(table, rows, |key, row| {
                count += 1;
                if key.call & PART == 0 {
                    found.extend(small_row(&key, row).map(|sums| (key, sums, row.without_files)));
                } else {
                    parts.push((key, *row));
                }
            })?;
        }
        let mut add_busy = |key, busy: &zc_ebpf::BusyRow| {
            count += 1;
            found.extend(busy_row(&key, busy).map(|sums| (key, sums, busy.row.without_files)));
        };
        self.visit_near_busy(rows, &mut add_busy)?;
        if let Some(far) = far {
            visit_rows(&far.busy, rows, add_busy)?;
        }
        // The files of the trace are in the order of their first use.
        found.sort_unstable_by_key(|(_, row, _)| row.order);
        for (key, row, without_files) in found {
            apply(Message::Row {
                key,
                row,
                without_files,
            });
        }
        for (key, part) in parts {
            apply(Message::Part(key, part));
        }
        self.read_paths(rows, apply)?;
        Ok(count)
    }

    /// The maps of the rows for which there was no room in the first ones; `None` if there are none.
    fn used_far_rows(&self) -> io::Result<Option<&FarRows>> {
        let are_used = self.far.are_used.get(&0, 0).map_err(io::Error::other)?;
        Ok(Some(&self.far).filter(|_| are_used != 0))
    }

    /// The maps of rows with few calls.
    fn tables<'a>(
        &'a self,
        far: Option<&'a FarRows>,
    ) -> impl Iterator<Item = &'a KernelHashMap<MapData, RowKey, zc_ebpf::Row>> {
        iter::once(&self.near_rows).chain(far.into_iter().flat_map(|far| &far.rows))
    }

    /// Calls the function with these near busy rows. If the rows are removed, others can have their
    /// places.
    fn visit_near_busy(
        &self,
        rows: ReadRows,
        mut row: impl FnMut(RowKey, &zc_ebpf::BusyRow),
    ) -> io::Result<()> {
        let mut places = Vec::new();
        self.near_busy_rows.for_each(|place, near| {
            if near.is_taken != 0 && rows.contain(near.key.call) {
                row(without_epoch(near.key), &near.busy);
                places.push(place);
            }
        })?;
        places.retain(|_| rows.are_taken());
        self.near_busy_rows
            .set_all(&places, &zc_ebpf::NearBusyRow::FREE)
    }

    /// How many calls returned so far, and the bytes that they moved. `taken` are those that were taken
    /// out of the maps before.
    pub fn calls_and_bytes(&self, taken: (u64, u64)) -> io::Result<(u64, u64)> {
        let (mut calls, mut bytes) = taken;
        let mut add = |key: RowKey, row: &zc_ebpf::Row| {
            calls += calls_of(key.call, row.calls);
            bytes = bytes.saturating_add(row.bytes);
        };
        let far = self.used_far_rows()?;
        for table in self.tables(far) {
            table.for_each(&mut add)?;
        }
        self.visit_near_busy(ReadRows::SoFar, |key, busy| add(key, &busy.row))?;
        if let Some(far) = far {
            far.busy.for_each(|key, busy| add(key, &busy.row))?;
        }
        let others = self.other_calls()?;
        Ok((
            calls + others.values().map(|sums| sums.calls).sum::<u64>(),
            bytes,
        ))
    }

    /// The calls that have no rows, as far as they have returned or never will.
    pub fn other_calls(&self) -> io::Result<BTreeMap<Call, OtherCalls>> {
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
        Ok(by_call)
    }

    /// How many bytes each call moved, as far as there was room.
    pub fn sizes(&self) -> io::Result<BTreeMap<Call, Histogram>> {
        let mut by_call: BTreeMap<Call, Histogram> = BTreeMap::new();
        self.sizes.for_each(|key, &calls| {
            let sizes = by_call.entry(Call::from_id(key.call)).or_default();
            sizes.add_to_bucket(key.bucket as usize, calls);
        })?;
        Ok(by_call)
    }

    /// Passes the calls by path on.
    fn read_paths(&self, rows: ReadRows, mut apply: impl FnMut(Message)) -> io::Result<()> {
        let pass_on = |key: PathKey, sums: &PathSums| {
            // The kernel side may have created an entry and not used it.
            if sums.calls > 0 {
                let slot = key.slot & !ODD_EPOCH;
                apply(Message::Paths(Box::new(PathKey { slot, ..key }), *sums));
            }
        };
        if rows.are_taken() {
            let is_wanted = |key: &PathKey| rows.contain(key.slot);
            self.failed_paths.take_entries(is_wanted, pass_on)
        } else {
            self.failed_paths.for_each(pass_on)
        }
    }

    /// How often each [`zc_ebpf::KernelLoss`] happened.
    pub fn losses(&self) -> Result<[u64; LOSSES as usize], MapError> {
        let mut lost = [0; LOSSES as usize];
        for (loss, count) in (0..).zip(&mut lost) {
            *count = self.losses.get(&loss, 0)?.iter().sum();
        }
        Ok(lost)
    }

    /// How often this was lost.
    pub fn loss_count(&self, what: zc_ebpf::KernelLoss) -> Result<u64, MapError> {
        Ok(self.losses.get(&(what as u32), 0)?.iter().sum())
    }
}

/// Sets the value of each processor.
fn set_everywhere<V: Pod>(
    map: &mut PerCpuArray<MapData, V>,
    index: u32,
    value: V,
) -> io::Result<()> {
    let processors = nr_cpus().map_err(|(_, error)| error)?;
    let values = PerCpuValues::try_from(vec![value; processors])?;
    map.set(index, values, 0).map_err(io::Error::other)
}

/// Waits until all programs that run now have ended: `MEMBARRIER_CMD_GLOBAL` waits for a grace
/// period (`synchronize_rcu` in the kernel's kernel/sched/membarrier.c).
pub fn wait_for_programs() -> io::Result<()> {
    Ok(membarrier(MembarrierCommand::Global)?)
}

/// The key without its epoch.
fn without_epoch(key: RowKey) -> RowKey {
    RowKey {
        call: key.call & !ODD_EPOCH,
        ..key
    }
}

/// Calls the function with these entries, without their epoch.
fn visit_rows<V: Pod>(
    table: &KernelHashMap<MapData, RowKey, V>,
    rows: ReadRows,
    mut entry: impl FnMut(RowKey, &V),
) -> io::Result<()> {
    let entry = |key, value: &V| entry(without_epoch(key), value);
    if rows.are_taken() {
        table.take_entries(|key| rows.contain(key.call), entry)
    } else {
        table.for_each(entry)
    }
}

/// A row with few calls.
fn small_row(key: &RowKey, row: &zc_ebpf::Row) -> Option<Row> {
    counted_row(key, row, |histogram| {
        let places = row
            .few
            .iter()
            .filter_map(|&few| usize::from(few).checked_sub(1));
        places.for_each(|place| histogram.add_to_bucket(place, 1));
    })
}

/// A row with many calls.
fn busy_row(key: &RowKey, busy: &zc_ebpf::BusyRow) -> Option<Row> {
    counted_row(key, &busy.row, |histogram| {
        histogram.add_buckets(&busy.histogram);
    })
}

/// The row with the sums of the kernel side, still without its files. `None` if the kernel side has
/// created it and not used it.
fn counted_row(
    key: &RowKey,
    row: &zc_ebpf::Row,
    add_times: impl FnOnce(&mut Histogram),
) -> Option<Row> {
    if row.calls == 0 && row.unfinished == 0 {
        return None;
    }
    let mut sum = Row::new(Call::from_id(key.call), Ends::default());
    (sum.calls, sum.unfinished) = (row.calls, row.unfinished);
    if key.errno != 0 {
        (sum.errors, sum.errnos) = (row.calls, [(key.errno, row.calls)].into());
    }
    sum.sourced = sourced_bytes(row);
    let first_bytes = (0..row.first_bytes).zip(row.first_word.to_le_bytes());
    sum.first_bytes.extend(first_bytes.map(|(_, byte)| byte));
    (sum.zero_calls, sum.short_calls) = (row.zero_calls, row.short_calls);
    sum.least_and_most_bytes = (row.max_bytes > 0).then_some([row.min_bytes, row.max_bytes]);
    sum.order = (row.first_ns > 0).then_some(row.first_ns);
    let is_timed = row.min_ns != u64::MAX;
    sum.total_ns = (is_timed || row.calls == 0).then_some(row.total_ns);
    sum.bytes = sum.bytes.map(|_| row.bytes);
    sum.requested_bytes = sum
        .requested_bytes
        .filter(|_| row.requested_unknown == 0)
        .map(|_| row.requested_bytes);
    if is_timed {
        let mut histogram = Histogram::default();
        add_times(&mut histogram);
        sum.times = Some(Times {
            min_ns: row.min_ns,
            max_ns: row.max_ns,
            histogram,
        });
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use zc_ebpf::{BusyRow, FEW_CALLS, bucket_of};

    use super::*;

    const KEY: RowKey = RowKey {
        task: 1,
        call: 0,
        errno: 0,
        ends: zc_ebpf::NumberedEnds::NONE,
    };

    #[test]
    fn a_row_has_the_times_of_its_own_calls() {
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
        let found = small_row(&KEY, &row).expect("it is used");
        assert_eq!(found.calls, 3);
        let histogram = found.times.expect("it has times").histogram;
        assert_eq!(
            histogram.buckets().collect::<Vec<_>>(),
            [(bucket_of(100), 1), (bucket_of(900), 1)]
        );
        let mut busy = BusyRow::EMPTY;
        (busy.row.calls, busy.row.min_ns, busy.histogram[7]) = (5, 7, 5);
        let found = busy_row(&KEY, &busy).expect("it is used");
        assert!(
            found.calls < FEW_CALLS as u64,
            "its first calls are in another row"
        );
        assert_eq!(found.times.expect("it has times").histogram.count(), 5);
        assert!(small_row(&KEY, &zc_ebpf::Row::EMPTY).is_none());
    }
}
