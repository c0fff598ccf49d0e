//! The path of a file, as its process sees it: from the file's name up to the root, across mounts.

use core::ffi::c_void;

use aya_ebpf::helpers::{
    bpf_probe_read_kernel_str_bytes,
    generated::{bpf_get_current_task_btf, bpf_loop},
};
use zc_ebpf::{ABSENT, FileSeen, NAME_BYTES, NAMES_BYTES, path_end};

use crate::{
    fields::{self, KernelPtr, offset_of_field},
    maps::SCRATCH,
};

/// Most steps of the walk: names and mounts. More names than this do not fit into [`NAMES_BYTES`] unless they are very short.
const MAX_STEPS: u32 = 1024;

/// Where the walk is.
#[repr(C)]
struct Walk {
    /// The `dentry` whose name comes next.
    dentry: KernelPtr,
    /// The `vfsmount` that it is in.
    mount: KernelPtr,
    /// The process's root.
    root_dentry: KernelPtr,
    /// The mount of the process's root.
    root_mount: KernelPtr,
    /// One of [`path_end`]'s constants.
    end: u64,
}

/// Writes the names of the file's path into this CPU's scratch, which is `seen`.
#[inline(always)]
pub fn describe(file: KernelPtr, seen: &mut FileSeen) {
    if offset_of_field!(file_dentry) == ABSENT {
        return;
    }
    let null = core::ptr::null();
    // SAFETY: the current task is a typed pointer to the verifier.
    let fs: KernelPtr = unsafe { fields::load(bpf_get_current_task_btf().cast(), offset_of_field!(task_fs)) };
    let mut walk = Walk {
        dentry: fields::probe(file, offset_of_field!(file_dentry)).unwrap_or(null),
        mount: fields::probe(file, offset_of_field!(file_mount)).unwrap_or(null),
        root_dentry: fields::probe(fs, offset_of_field!(fs_root_dentry)).unwrap_or(null),
        root_mount: fields::probe(fs, offset_of_field!(fs_root_mount)).unwrap_or(null),
        end: path_end::CUT.into(),
    };
    // SAFETY: `step` has the signature that the helper calls, and `walk` lives longer than the call.
    unsafe { bpf_loop(MAX_STEPS, step as *mut c_void, (&raw mut walk).cast(), 0) };
    seen.path_end = walk.end as u32;
}

/// One step towards the root. 1 ends the loop.
extern "C" fn step(_index: u64, walk: *mut c_void) -> i64 {
    // SAFETY: the helper passes on the pointer that `describe` gave it.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    match advance(walk) {
        Some(path_end::NONE) => 0,
        end => {
            walk.end = end.unwrap_or(path_end::CUT).into();
            1
        }
    }
}

/// Goes on by a name or a mount. How the path ends, if it does here; `None` if the way cannot be read.
#[inline(always)]
fn advance(walk: &mut Walk) -> Option<u32> {
    if walk.dentry == walk.root_dentry && walk.mount == walk.root_mount {
        return Some(path_end::ROOT);
    }
    let mount_root: KernelPtr = fields::probe(walk.mount, offset_of_field!(mount_root))?;
    if walk.dentry == mount_root {
        // `container_of` of the vfsmount.
        let mount = walk.mount.wrapping_sub(offset_of_field!(mount_mnt) as usize);
        let parent: KernelPtr = fields::probe(mount, offset_of_field!(mount_parent))?;
        if parent == mount {
            return Some(path_end::ROOT);
        }
        walk.dentry = fields::probe(mount, offset_of_field!(mount_mountpoint))?;
        walk.mount = parent.wrapping_add(offset_of_field!(mount_mnt) as usize);
        return Some(path_end::NONE);
    }
    add_name(walk)?;
    let parent: KernelPtr = fields::probe(walk.dentry, offset_of_field!(dentry_parent))?;
    if parent == walk.dentry {
        return Some(path_end::DETACHED);
    }
    walk.dentry = parent;
    Some(path_end::NONE)
}

/// Adds the name of the dentry to those in the scratch; `None` if there is no room for it.
///
/// How long they are stands in the scratch, too: of what is on the stack, the verifier would follow every value that it can take.
#[inline(always)]
fn add_name(walk: &Walk) -> Option<()> {
    let seen = SCRATCH.get_ptr_mut(0)?;
    // SAFETY: this CPU's scratch.
    let length = unsafe { &mut (*seen).names_length };
    let name: KernelPtr = fields::probe(walk.dentry, offset_of_field!(dentry_name))?;
    let at = *length as usize;
    if at > NAMES_BYTES - NAME_BYTES {
        return None;
    }
    // SAFETY: this CPU's scratch; the slice is within it.
    let room = unsafe { core::slice::from_raw_parts_mut((&raw mut (*seen).names).cast::<u8>().add(at), NAME_BYTES) };
    // SAFETY: the helper checks the address that it reads from.
    let written = unsafe { bpf_probe_read_kernel_str_bytes(name, room) }.ok()?;
    // With its NUL.
    *length += written.len() as u32 + 1;
    Some(())
}
