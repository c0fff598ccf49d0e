//! Counts calls by the bytes that they moved. Unless that is asked for, the verifier removes all of this.

use aya_ebpf::{bindings::BPF_F_NO_PREALLOC, macros::map, maps::HashMap};
use zc_ebpf::{SizeKey, Task, bucket_of, recorded};

use crate::{kernel::argument, maps::records, rows::find_or_make};

/// Many tasks count in the same entry.
#[map]
static SIZES: HashMap<SizeKey, u64> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// The call in [`Task::outcome`] returned to its caller. Counts it by its size, if it moved bytes or
/// could have.
#[inline(always)]
pub fn count_by_size(task: &Task) {
    let outcome = &task.outcome;
    if records(recorded::SIZES) && outcome.returns_bytes != 0 && outcome.errno == 0 {
        count_size(task);
    }
}

/// Counts the call in [`Task::outcome`] by its size. Where there is no room it is missing, and user
/// space sees that from the number of calls. A global function, so that the verifier checks it once.
/// The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn count_size(task: *const Task) -> u32 {
    let Some(task) = argument::as_ref(task).filter(|_| records(recorded::SIZES)) else {
        return 0;
    };
    let key = SizeKey {
        call: task.outcome.call,
        bucket: bucket_of(task.outcome.result as u64) as u32,
    };
    if let Some(calls) = find_or_make(&SIZES, &key, &0) {
        calls.fetch_add(1);
    }
    0
}
