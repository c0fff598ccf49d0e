//! How large the maps of the kernel side are.

use zc_ebpf::BUCKETS;

use crate::backend::{Limits, Recorded};

/// Room for the events of as many tasks as may be alive at once, and as much again for messages
/// about files: at most 4 MiB, or 8 MiB with more than two processors. A process sends about 1.6 KB
/// and a processor starts fewer than 2,000 processes a second, so user space has more than half a
/// second to read them. It is no larger because the kernel clears it at the start, and a fork
/// copies its page tables.
pub fn events_bytes(max_tasks: u32, processors: usize) -> u32 {
    let most = if processors > 2 { 1 << 23 } else { 1 << 22 };
    let bytes = max_tasks.saturating_mul(512).clamp(1 << 14, most);
    bytes.next_power_of_two()
}

/// Room for the first rows of an epoch, twice as many as there mostly are. It comes on top of the
/// limit, so there is none where the limit is small.
pub const fn near_rows(max_rows: u32) -> u32 {
    const MAX_NEAR_ROWS: u32 = 8192;
    if max_rows < 4 * MAX_NEAR_ROWS {
        0
    } else {
        MAX_NEAR_ROWS
    }
}

/// Size of the ring buffer of samples: room for about a thousand stacks, each of which user space
/// unwinds in some 50 us.
pub const SAMPLES_BYTES: u32 = 1 << 24;

/// Size of the ring buffer of `--paths`. It is read five times a second, and when an eighth is used.
pub const TOUCH_EVENTS_BYTES: u32 = 1 << 26;

/// How many kinds of calls `--paths` counts. Beyond that, each call has a message.
pub const TOUCH_CALLS: u32 = 1 << 17;

/// Size of the ring buffer of `--syncs`. It is read five times a second, and when an eighth is used. A
/// call that makes or moves a name sends some 300 bytes.
pub const SYNC_EVENTS_BYTES: u32 = 1 << 23;

/// How many slots there are for tasks: a power of two, as the programs expect.
pub const fn task_slots(limits: Limits) -> u32 {
    limits.max_tasks.next_power_of_two()
}

/// Room for rows with more calls than [`FEW_CALLS`](zc_ebpf::FEW_CALLS): most have fewer. There is
/// room for the first of them elsewhere.
pub const fn busy_rows(max_rows: u32) -> u32 {
    max_rows.div_ceil(4)
}

/// Room for samples, if there are any.
pub const fn samples_bytes(recorded: Recorded) -> u32 {
    if recorded.has_callers() {
        SAMPLES_BYTES
    } else {
        1 << 12
    }
}

/// Room for the sizes of calls, if they are recorded: for all buckets of 60 calls that move bytes, more
/// than there are.
pub fn sizes_entries(recorded: Recorded) -> u32 {
    if recorded.has_sizes() {
        // A few hundred.
        60 * u32::try_from(BUCKETS).unwrap_or(1)
    } else {
        1
    }
}

/// While a generation of the map of files begins, it has those that are kept twice. The inode that
/// all `anon_inode` files share has an entry, too.
pub fn files_entries(max_files: u32) -> u32 {
    max_files.saturating_mul(2).max(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_of_events_grows_with_tasks_and_processors_within_limits() {
        let by_tasks = [1, 16, 1000, 16_384, u32::MAX].map(|tasks| events_bytes(tasks, 2));
        assert_eq!(by_tasks, [14, 14, 19, 22, 22].map(|bits| 1 << bits));
        let by_processors = [1, 2, 3, usize::MAX].map(|count| events_bytes(16_384, count));
        assert_eq!(by_processors, [22, 22, 23, 23].map(|bits| 1 << bits));
    }

    #[test]
    fn by_default_no_table_is_rounded_up_to_twice_its_entries() {
        let limits = Limits::default();
        for entries in [
            limits.max_rows,
            files_entries(limits.max_files),
            limits.max_tasks,
        ] {
            assert!(entries.is_power_of_two(), "{entries}");
        }
    }
}
