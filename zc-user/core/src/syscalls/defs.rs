//! The table of system calls: one item for each call of which zctrace knows more than its name.
//!
//! An item has the name of the call, its classes, and the fields of [`Spec`] that are not those of
//! an unknown call. Arguments count from 0. Some calls exist on some machines only.
//!
//! Source: the manual page of each call, sections "SYNOPSIS" and "RETURN VALUE"; the kernel's
//! `SYSCALL_DEFINE` of those without one. The classes are those of strace. What calls fill has the
//! size of the structures on 64-bit machines in the kernel's include/uapi.

mod data;
mod descriptors;
mod files;
mod memory;
mod network;
mod operations;
mod others;
mod processes;

use std::{collections::HashMap, sync::LazyLock};

use super::spec::Spec;

pub(super) use operations::OPERATIONS;

/// The items of a table: each a name, classes in brackets, and fields of [`Spec`].
macro_rules! specs {
    ($($name:literal $([$($class:ident)+])? $($field:ident: $value:expr),*;)+) => {
        &[$(
            Spec {
                classes: 0 $($(| $crate::syscalls::CallClass::$class.bit())+)?,
                $($field: $value,)*
                ..Spec::new($name)
            }
        ),+]
    };
}
use specs;

/// Every item. The calls that move data come first.
pub(super) fn table() -> impl Iterator<Item = &'static Spec> {
    [
        data::CALLS,
        network::CALLS,
        files::CALLS,
        descriptors::CALLS,
        memory::CALLS,
        processes::CALLS,
        others::CALLS,
    ]
    .into_iter()
    .flatten()
}

impl Spec {
    /// What is known of the system call of this name. One without an item has neither size nor
    /// bytes nor files.
    pub fn named(name: &str) -> Self {
        static BY_NAME: LazyLock<HashMap<&str, &Spec>> =
            LazyLock::new(|| table().map(|spec| (spec.name, spec)).collect());
        BY_NAME.get(name).map_or(Self::UNKNOWN, |spec| **spec)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::syscalls::{Abi, CallClass};

    #[test]
    fn every_item_is_a_call_of_some_machine_and_the_only_one_for_it() {
        let known: BTreeSet<_> = Abi::ALL.into_iter().flat_map(Abi::names).collect();
        let mut names = BTreeSet::new();
        for spec in table() {
            let name = spec.name.split('(').next().expect("split yields one");
            assert!(known.contains(name), "{}", spec.name);
            assert!(names.insert(spec.name), "{}", spec.name);
        }
    }

    #[test]
    fn the_calls_of_the_class_file_take_paths() {
        let others: Vec<_> = table()
            .filter(|spec| spec.is_in(CallClass::File) != spec.takes_path())
            .map(|spec| spec.name)
            .collect();
        // The path of fanotify_mark is another argument in 32-bit programs.
        assert_eq!(others, ["fanotify_mark", "getcwd"]);
    }

    #[test]
    fn a_replacement_exists() {
        for spec in table() {
            let Some(mut replacement) = spec.replacement else {
                continue;
            };
            if !Abi::is_native(replacement) {
                replacement = Spec::named(replacement).replacement.unwrap_or_default();
            }
            assert!(Abi::is_native(replacement), "{}", spec.name);
        }
    }
}
