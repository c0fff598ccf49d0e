//! Reads the path of a file as its process sees it: from the file's name up to the root, across
//! mounts.

use aya_ebpf::{macros::map, maps::PerCpuArray};
use zc_ebpf::{ABSENT, NAME_BYTES, NAMES_BYTES, path_end, repeat::repeat};

use crate::{
    kernel::entries::Entries as _,
    kernel::fields::{self, KernelPtr, offset_of_field},
    kernel::helpers::{current_task, read_kernel_text},
    kernel::scratch::Scratch,
    maps::SEEN_FILE,
};

/// The most steps of a walk, over names and mounts. More names fit into [`NAMES_BYTES`] only if
/// they are very short.
const MAX_STEPS: u32 = 1024;

/// The state of the walk. It has addresses, because a map cannot hold pointers.
#[repr(C)]
pub struct Walk {
    /// The `dentry` whose name comes next.
    dentry: u64,
    /// The `vfsmount` that this `dentry` is in.
    mount: u64,
    /// The `dentry` of the process's root directory.
    root_dentry: u64,
    /// The `vfsmount` of the process's root directory.
    root_mount: u64,
    /// One of [`path_end`]'s constants.
    end: u16,
    /// Unused; keeps the layout free of padding.
    reserved: [u16; 3],
}

/// The state of a walk along a path. It is in a map because the verifier follows every value that a
/// variable on the stack can have.
#[map]
static WALK: PerCpuArray<Walk> = PerCpuArray::with_max_entries(1, 0);

/// Writes the names of the file's path into this CPU's scratch. Returns how they end, as one of the
/// constants in [`path_end`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn describe_path(file: u64) -> u32 {
    if offset_of_field!(file_dentry) == ABSENT {
        return path_end::NONE.into();
    }
    let Some(walk) = WALK.entry(0) else {
        return path_end::NONE.into();
    };
    // SAFETY: the caller has taken [`SEEN_FILE`], for which alone there are walks.
    let walk = unsafe { walk.as_mut() };
    let file = file as KernelPtr;
    let fs = fields::probe_or_zero::<u64>(current_task(), offset_of_field!(task_fs)) as KernelPtr;
    walk.dentry = fields::probe_or_zero(file, offset_of_field!(file_dentry));
    walk.mount = fields::probe_or_zero(file, offset_of_field!(file_mount));
    walk.root_dentry = fields::probe_or_zero(fs, offset_of_field!(fs_root_dentry));
    walk.root_mount = fields::probe_or_zero(fs, offset_of_field!(fs_root_mount));
    walk.end = path_end::CUT;
    repeat(MAX_STEPS, step, &mut NoState(0));
    walk.end.into()
}

/// Whether the name that the file was opened by had been removed, as `d_unlinked` of the kernel's
/// include/linux/dcache.h tells.
#[inline(always)]
pub fn is_deleted(file: KernelPtr) -> bool {
    let dentry = fields::probe_pointer(file, offset_of_field!(file_dentry));
    let hash: Option<u64> = fields::probe(dentry, offset_of_field!(dentry_hash));
    let parent = fields::probe_pointer(dentry, offset_of_field!(dentry_parent));
    hash == Some(0) && parent != dentry
}

/// The helper wants a state on the stack, and the scratch is in a map.
struct NoState(#[expect(dead_code, reason = "a state has a size")] u64);

/// One round of the loop: one step towards the root. Returns 1 to end the loop.
extern "C" fn step(_index: u64, _state: &mut NoState) -> i64 {
    let Some(walk) = WALK.entry(0) else { return 1 };
    // SAFETY: as in `describe_path`.
    let walk = unsafe { walk.as_mut() };
    match advance(walk) {
        Some(path_end::NONE) => 0,
        end => {
            walk.end = end.unwrap_or(path_end::CUT);
            1
        }
    }
}

/// Advances by a name or a mount. Returns how the path ends, or [`path_end::NONE`] if it goes on.
/// `None` if the kernel's structs cannot be read, or there is no room for the name.
#[inline(always)]
fn advance(walk: &mut Walk) -> Option<u16> {
    if walk.dentry == walk.root_dentry && walk.mount == walk.root_mount {
        return Some(path_end::ROOT);
    }
    let mount_root: u64 = fields::probe(walk.mount as KernelPtr, offset_of_field!(mount_root))?;
    if walk.dentry == mount_root {
        // `container_of` of the vfsmount.
        let mount = walk.mount.wrapping_sub(offset_of_field!(mount_mnt).into());
        let parent: u64 = fields::probe(mount as KernelPtr, offset_of_field!(mount_parent))?;
        if parent == mount {
            return Some(path_end::ROOT);
        }
        walk.dentry = fields::probe(mount as KernelPtr, offset_of_field!(mount_mountpoint))?;
        walk.mount = parent.wrapping_add(offset_of_field!(mount_mnt).into());
        return Some(path_end::NONE);
    }
    add_name(walk)?;
    let parent: u64 = fields::probe(walk.dentry as KernelPtr, offset_of_field!(dentry_parent))?;
    if parent == walk.dentry {
        return Some(path_end::DETACHED);
    }
    walk.dentry = parent;
    Some(path_end::NONE)
}

/// Adds the name of the current dentry to the names in the scratch. `None` if there is no room for
/// it.
#[inline(always)]
fn add_name(walk: &Walk) -> Option<()> {
    // SAFETY: as in `describe_path`.
    let seen = unsafe { Scratch::taken(&SEEN_FILE)? };
    let name: KernelPtr = fields::probe(walk.dentry as KernelPtr, offset_of_field!(dentry_name))?;
    let at = seen.names_length as usize;
    if at > NAMES_BYTES - NAME_BYTES {
        return None;
    }
    // SAFETY: at + NAME_BYTES is at most the size of the names.
    let room = unsafe { seen.names.get_unchecked_mut(at..at + NAME_BYTES) };
    // With its NUL.
    seen.names_length += read_kernel_text(name, room)? + 1;
    Some(())
}
