//! What the programs for `--paths` are told about each call.

use zc_ebpf::{TABLE_SLOTS, TouchSpec, spec_slot, touch_kind};
use zctrace_core::touched::TouchAction;

use crate::{
    backend::file_calls::{Touching, at_flags},
    syscalls::{Abi, PathForm, Spec},
};

/// The slot and the spec of each call that touches something.
pub fn touch_specs() -> impl Iterator<Item = (u32, TouchSpec)> {
    let tables = [(Abi::NATIVE, false), (Abi::COMPAT, true)];
    tables.into_iter().flat_map(|(abi, is_32_bit)| {
        (0..TABLE_SLOTS).filter_map(move |number| {
            let spec = touch_spec(abi.call_name(number)?, is_32_bit);
            let is_known = spec.kind != touch_kind::NONE;
            is_known.then(|| (spec_slot(number, is_32_bit), spec))
        })
    })
}

/// Why a call of this name is not followed, if it is not: its arguments are in memory.
pub fn unfollowed(name: &str, is_32_bit: bool) -> Option<&'static str> {
    (is_32_bit && matches!(name, "socketcall" | "mmap")).then_some(
        "a 32-bit program made calls whose arguments are in memory (socketcall, mmap), which the eBPF backend does not follow",
    )
}

/// The spec of the call of this name.
fn touch_spec(name: &str, is_32_bit: bool) -> TouchSpec {
    let mut spec = TouchSpec {
        words: at_flags(name).map_or(0, |index| 1 << index),
        ..TouchSpec::default()
    };
    if unfollowed(name, is_32_bit).is_some() {
        spec.kind = touch_kind::NOTED;
        return spec;
    }
    match Touching::new(name) {
        Touching::Opened => {
            add_paths(&mut spec, name);
            (spec.kind, spec.words) = match name {
                "openat2" => (touch_kind::OPEN_HOW, 1 << 2),
                "openat" => (touch_kind::OPEN, 1 << 2),
                "open" => (touch_kind::OPEN, 1 << 1),
                _ => (touch_kind::OPEN, 0),
            };
        }
        Touching::OpenedByHandle(flags) => (spec.kind, spec.words) = (touch_kind::OPEN, 1 << flags),
        Touching::Path(_) | Touching::TwoPaths(..) => {
            add_paths(&mut spec, name);
            spec.kind = match name {
                "chdir" => touch_kind::CHDIR,
                "execve" | "execveat" => touch_kind::EXECUTE,
                _ => touch_kind::PATHS,
            };
            if name == "renameat2" {
                spec.words = 1 << 4;
            }
            let is_changing = ["rename", "unlink", "rmdir"];
            let changes = is_changing.into_iter().any(|start| name.starts_with(start));
            spec.changes_names = changes.into();
            if !is_32_bit {
                (spec.buffer, spec.mode_at) = mode_place(name);
            }
        }
        Touching::File(_, argument) => {
            (spec.kind, spec.file) = (touch_kind::FILES, argument + 1);
            if name == "ioctl" {
                (spec.kind, spec.words) = (touch_kind::COMMAND, 1 << 1);
            }
        }
        Touching::Copied { from, to } => {
            (spec.kind, spec.file, spec.other_file) = (touch_kind::FILES, from + 1, to + 1);
        }
        Touching::Mapped => {
            (spec.kind, spec.file) = (touch_kind::MAP, 5);
            spec.words = 1 << 2 | 1 << 3;
        }
        Touching::Address(action, argument) => {
            spec.kind = match action {
                TouchAction::Accepted => touch_kind::ACCEPT,
                _ => touch_kind::ADDRESS,
            };
            (spec.file, spec.buffer) = (1, argument + 1);
        }
        Touching::Sent => {
            spec.kind = match name {
                "sendmmsg" => touch_kind::MESSAGES,
                _ => touch_kind::MESSAGE,
            };
            (spec.file, spec.buffer) = (1, 2);
        }
        Touching::Shared => {
            (spec.kind, spec.words) = match name {
                "clone3" => (touch_kind::NOTED_FLAGS, 1),
                _ => (touch_kind::NOTED, 1),
            };
        }
        Touching::Unseen(_) => spec.kind = touch_kind::NOTED,
        Touching::Nothing => {}
    }
    spec
}

/// Adds the paths of the call of this name.
fn add_paths(spec: &mut TouchSpec, name: &str) {
    let known = Spec::named(name);
    let Some(path) = known.path.filter(|_| known.path_form != PathForm::Address) else {
        return;
    };
    let argument = |index: Option<u8>| index.map_or(0, |index| index + 1);
    let second = known.second_path();
    spec.path = path.index + 1;
    spec.directory = argument(path.directory);
    spec.second_directory = argument(second.and_then(|second| second.directory));
    spec.second = if name.starts_with("symlink") {
        // Its target is the first argument.
        1
    } else {
        argument(second.map(|second| second.index))
    };
}

/// The argument in which a call returns what a file is, from 1 on, and where the mode is there: in
/// `struct stat` of the kernel's `arch/x86/include/uapi/asm/stat.h` and include/uapi/asm-generic/stat.h,
/// and in `struct statx` of its include/uapi/linux/stat.h. 0: it does not.
fn mode_place(name: &str) -> (u8, u8) {
    const STAT_MODE: u8 = if cfg!(target_arch = "x86_64") { 24 } else { 16 };
    const STATX_MODE: u8 = 28;
    match name {
        "stat" | "lstat" => (2, STAT_MODE),
        "newfstatat" => (3, STAT_MODE),
        "statx" => (5, STATX_MODE),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str) -> TouchSpec {
        touch_spec(name, false)
    }

    #[test]
    fn arguments_count_from_one() {
        let renameat2 = TouchSpec {
            kind: touch_kind::PATHS,
            path: 2,
            directory: 1,
            second: 4,
            second_directory: 3,
            changes_names: 1,
            words: 1 << 4,
            ..TouchSpec::default()
        };
        assert_eq!(spec("renameat2"), renameat2);
        let sendto = TouchSpec {
            kind: touch_kind::ADDRESS,
            file: 1,
            buffer: 5,
            ..TouchSpec::default()
        };
        assert_eq!(spec("sendto"), sendto);
        assert_eq!(spec("symlinkat").second, 1);
        assert_eq!(spec("close").kind, touch_kind::NONE);
    }

    #[test]
    fn calls_with_arguments_in_memory_are_noted_only_where_they_are() {
        assert_eq!(touch_spec("mmap", true).kind, touch_kind::NOTED);
        assert_eq!(touch_spec("mmap2", true).kind, touch_kind::MAP);
        assert_eq!(spec("mmap").kind, touch_kind::MAP);
    }
}
