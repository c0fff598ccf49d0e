//! Calls about mappings that move no data.

use super::specs;
use crate::syscalls::spec::{
    FilledMemory::{AboveHeap, Any, Discarded, Moved},
    Spec, array,
};

pub(super) const CALLS: &[Spec] = specs! {
    "brk" [Memory] is_without_file: true, filled: AboveHeap;
    "get_mempolicy" [Memory];
    "madvise" [Memory] is_without_file: true, filled: Discarded;
    "map_shadow_stack" [Memory];
    "mbind" [Memory];
    "migrate_pages" [Memory];
    "mincore" [Memory] filled: Any;
    "mlock" [Memory] is_without_file: true;
    "mlock2" [Memory];
    "mlockall" [Memory];
    "move_pages" [Memory];
    "mprotect" [Memory] is_without_file: true;
    "mremap" [Memory] is_without_file: true, filled: Moved;
    "mseal" [Memory];
    "munlock" [Memory] is_without_file: true;
    "munlockall" [Memory];
    "pkey_mprotect" [Memory];
    "process_madvise" [Desc Memory] filled: Any;
    "remap_file_pages" [Memory] filled: array(0, 1, 1);
    "set_mempolicy" [Memory];
    "set_mempolicy_home_node" [Memory];
    "shmat" [Memory Ipc] filled: Any;
    "shmdt" [Memory Ipc] filled: Any;
};
