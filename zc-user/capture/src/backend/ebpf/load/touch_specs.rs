//! What the programs for `--paths` are told about each call.

use zc_ebpf::{TouchSpec, touch_kind};
use zctrace_core::touched::TouchAction;

use super::call_specs::specs_by_slot;
use crate::syscalls::{Spec, Touching};

/// The slot and the spec of each call that touches something.
pub fn touch_specs() -> impl Iterator<Item = (u32, TouchSpec)> {
    specs_by_slot(touch_spec).filter(|(_, spec)| spec.kind != touch_kind::NONE)
}

/// Why a call of this name is not followed, if it is not: its arguments are in memory.
pub fn unfollowed(name: &str, is_32_bit: bool) -> Option<&'static str> {
    (is_32_bit && matches!(name, "socketcall" | "mmap")).then_some(
        "a 32-bit program made calls whose arguments are in memory (socketcall, mmap), which the eBPF backend does not follow",
    )
}

/// The spec of the call of this name.
fn touch_spec(name: &str, is_32_bit: bool) -> TouchSpec {
    let known = Spec::named(name);
    let bit = |index: Option<u8>| index.map_or(0, |index| 1 << index);
    let mut spec = TouchSpec {
        words: bit(known.at_flags),
        ..TouchSpec::default()
    };
    if unfollowed(name, is_32_bit).is_some() {
        // A connection that fails at first counts, too.
        spec.kind = match name {
            "socketcall" => touch_kind::PATHS,
            _ => touch_kind::NOTED,
        };
        return spec;
    }
    match known.touching() {
        Touching::Opened | Touching::OpenedByHandle => {
            add_paths(&mut spec, &known);
            spec.words = bit(known.open_flags);
            spec.kind = match name {
                "openat2" => touch_kind::OPEN_HOW,
                _ => touch_kind::OPEN,
            };
        }
        Touching::Path(_) | Touching::TwoPaths(..) => {
            add_paths(&mut spec, &known);
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
                // The source of `FICLONE`.
                spec.other_file = 3;
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
        Touching::Family => (spec.kind, spec.words) = (touch_kind::NOTED, 1),
        Touching::Unseen(_) => spec.kind = touch_kind::NOTED,
        Touching::Nothing => {}
    }
    spec
}

/// Adds the paths of a call.
fn add_paths(spec: &mut TouchSpec, known: &Spec) {
    [
        spec.path,
        spec.directory,
        spec.second,
        spec.second_directory,
    ] = known.path_numbers();
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
