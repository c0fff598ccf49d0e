//! Calls about mappings that move no data.

use super::specs;
use crate::syscalls::Spec;

pub(super) const CALLS: &[Spec] = specs! {
    "brk" [Memory] no_file fills_above_heap;
    "get_mempolicy" [Memory];
    "madvise" [Memory] no_file fills_array(0, 1, 1);
    "map_shadow_stack" [Memory];
    "mbind" [Memory];
    "migrate_pages" [Memory];
    "mincore" [Memory];
    "mlock" [Memory] no_file;
    "mlock2" [Memory];
    "mlockall" [Memory];
    "move_pages" [Memory];
    "mprotect" [Memory] no_file;
    "mremap" [Memory] no_file fills_array(0, 1, 1);
    "mseal" [Memory];
    "munlock" [Memory] no_file;
    "munlockall" [Memory];
    "pkey_mprotect" [Memory];
    "process_madvise" [Desc Memory];
    "remap_file_pages" [Memory] fills_array(0, 1, 1);
    "set_mempolicy" [Memory];
    "set_mempolicy_home_node" [Memory];
    "shmat" [Memory Ipc] fills_any;
    "shmdt" [Memory Ipc] fills_any;
};
