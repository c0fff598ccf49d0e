//! What the programs for `--syncs` are told about each call.

use zc_ebpf::{ABSENT, KernelFields, SyncSpec, TABLE_SLOTS, spec_slot, sync_kind};

use crate::{
    backend::file_calls::written,
    syscalls::{Abi, PathForm, Spec},
};

/// Whether this kernel has the fields that tell which files calls change.
pub fn shows_files(fields: &KernelFields) -> bool {
    ![fields.task_files, fields.file_dentry].contains(&ABSENT)
}

/// The slot and the spec of each call that matters for the order of changes and syncs.
pub fn sync_specs() -> impl Iterator<Item = (u32, SyncSpec)> {
    let tables = [(Abi::NATIVE, false), (Abi::COMPAT, true)];
    tables.into_iter().flat_map(|(abi, is_32_bit)| {
        (0..TABLE_SLOTS).filter_map(move |number| {
            let spec = sync_spec(abi.call_name(number)?);
            let is_known = spec.kind != sync_kind::NONE;
            is_known.then(|| (spec_slot(number, is_32_bit), spec))
        })
    })
}

/// The spec of the call of this name. Arguments count from 1.
fn sync_spec(name: &str) -> SyncSpec {
    let mut spec = with_paths(name);
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
        "open" => (sync_kind::OPEN, 0, 2),
        "creat" => (sync_kind::OPEN, 0, 0),
        "openat" | "open_by_handle_at" => (sync_kind::OPEN, 0, 3),
        "openat2" => (sync_kind::OPEN_HOW, 0, 3),
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

/// The spec with the paths of the call of this name.
fn with_paths(name: &str) -> SyncSpec {
    let known = Spec::named(name);
    let path = known.path.filter(|_| known.path_form != PathForm::Address);
    let Some(path) = path else {
        return SyncSpec::default();
    };
    let argument = |index: Option<u8>| index.map_or(0, |index| index + 1);
    let second = known.second_path();
    let is_symlink = name.starts_with("symlink");
    SyncSpec {
        path: path.index + 1,
        directory: argument(path.directory),
        second: if is_symlink {
            // Its target is the first argument.
            1
        } else {
            argument(second.map(|second| second.index))
        },
        second_directory: argument(second.and_then(|second| second.directory)),
        says_absent: u8::from(second.is_none()),
        ..SyncSpec::default()
    }
}
