//! What the programs for `--syncs` are told about each call.

use zc_ebpf::{ABSENT, KernelFields, SyncSpec, sync_kind};

use super::call_specs::specs_by_slot;
use crate::{backend::file_calls::written, syscalls::Spec};

/// Whether this kernel has the fields that tell which files calls change.
pub fn shows_files(fields: &KernelFields) -> bool {
    ![fields.task_files, fields.file_dentry].contains(&ABSENT)
}

/// The slot and the spec of each call that matters for the order of changes and syncs.
pub fn sync_specs() -> impl Iterator<Item = (u32, SyncSpec)> {
    specs_by_slot(|name, _| sync_spec(name)).filter(|(_, spec)| spec.kind != sync_kind::NONE)
}

/// The spec of the call of this name. Arguments count from 1.
fn sync_spec(name: &str) -> SyncSpec {
    let known = Spec::named(name);
    let [path, directory, second, second_directory] = known.path_numbers();
    let says_absent = path != 0 && known.second_path().is_none();
    let mut spec = SyncSpec {
        path,
        directory,
        second,
        second_directory,
        says_absent: says_absent.into(),
        ..SyncSpec::default()
    };
    if let Some((argument, _)) = written(name) {
        spec.kind = sync_kind::WRITE;
        spec.file = argument + 1;
        spec.flags = if name == "pwritev2" { 6 } else { 0 };
        return spec;
    }
    (spec.kind, spec.file, spec.flags) = match name {
        "fsync" | "fdatasync" => (sync_kind::SYNC, 1, 0),
        "sync" => (sync_kind::SYNC_MANY, 0, 0),
        "syncfs" => (sync_kind::SYNC_MANY, 1, 0),
        "msync" => (sync_kind::SYNC_MAPPING, 0, 0),
        "openat2" => (sync_kind::OPEN_HOW, 0, 3),
        "open" | "creat" | "openat" | "open_by_handle_at" => {
            let flags = known.open_flags.map_or(0, |index| index + 1);
            (sync_kind::OPEN, 0, flags)
        }
        "execve" | "execveat" => (sync_kind::EXECUTE, 0, 0),
        "ioctl" => (sync_kind::COMMAND, 1, 0),
        "mmap" | "mmap2" => (sync_kind::MAP, 5, 0),
        "mprotect" | "pkey_mprotect" => (sync_kind::PROTECT, 0, 0),
        "io_uring_enter" | "io_submit" => (sync_kind::SUBMIT, 0, 0),
        "io_uring_setup" => (sync_kind::SETUP, 0, 0),
        "ftruncate" | "ftruncate64" | "fallocate" | "fchmod" | "fchown" | "fchown32"
        | "fsetxattr" | "utimensat" => (sync_kind::CHANGE, 1, 0),
        "truncate" | "truncate64" | "mkdir" | "mkdirat" | "mknod" | "mknodat" | "symlink"
        | "symlinkat" | "link" | "linkat" | "rename" | "renameat" | "renameat2" | "unlink"
        | "unlinkat" | "rmdir" | "chroot" | "pivot_root" | "mount" | "umount" | "umount2"
        | "move_mount" | "open_tree" | "fsmount" | "setns" => (sync_kind::CHANGE, 0, 0),
        _ if spec.path != 0 => (sync_kind::LOOKUP, 0, 0),
        _ => (sync_kind::NONE, 0, 0),
    };
    spec
}
