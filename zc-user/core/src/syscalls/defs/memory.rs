//! Calls about mappings that move no data.

use super::specs;
use crate::syscalls::spec::{
    FilledMemory::{AboveHeap, Any},
    Spec, array,
};

pub(super) const CALLS: &[Spec] = specs! {
    "brk" [Memory] is_without_file: true, filled: AboveHeap;
    "get_mempolicy" [Memory];
    "madvise" [Memory] is_without_file: true, filled: array(0, 1, 1);
    "map_shadow_stack" [Memory];
    "mbind" [Memory];
    "migrate_pages" [Memory];
    "mincore" [Memory];
    "mlock" [Memory] is_without_file: true;
    "mlock2" [Memory];
    "mlockall" [Memory];
    "move_pages" [Memory];
    "mprotect" [Memory] is_without_file: true;
    "mremap" [Memory] is_without_file: true, filled: array(0, 1, 1);
    "mseal" [Memory];
    "munlock" [Memory] is_without_file: true;
    "munlockall" [Memory];
    "pkey_mprotect" [Memory];
    "process_madvise" [Desc Memory];
    "remap_file_pages" [Memory] filled: array(0, 1, 1);
    "set_mempolicy" [Memory];
    "set_mempolicy_home_node" [Memory];
    "shmat" [Memory Ipc] filled: Any;
    "shmdt" [Memory Ipc] filled: Any;
};
