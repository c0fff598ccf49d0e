//! [`Abi`]: the tables of system calls, and the names in them.

use crate::words::names;

names! {
    /// Whose numbering a call came through.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Abi {
        /// 64-bit calls on x86.
        X86_64 = "x86_64",
        /// 32-bit calls on x86.
        I386 = "i386",
        /// Calls with 32-bit pointers through x86's 64-bit entry.
        X32 = "x32",
        /// 64-bit calls on ARM.
        Aarch64 = "aarch64",
        /// 32-bit calls on ARM.
        Arm = "arm",
    }
}

impl Abi {
    /// That of 64-bit programs on this machine.
    pub const NATIVE: Self = if cfg!(target_arch = "aarch64") {
        Self::Aarch64
    } else {
        Self::X86_64
    };
    /// That of 32-bit programs on this machine.
    pub const COMPAT: Self = if cfg!(target_arch = "aarch64") {
        Self::Arm
    } else {
        Self::I386
    };

    /// The names of this table.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        (0..zc_ebpf::TABLE_SLOTS).filter_map(move |number| self.call_name(number))
    }

    /// Whether 64-bit programs on this machine have a call of this name.
    pub(crate) fn is_native(call: &str) -> bool {
        let name = call.split('(').next().unwrap_or_default();
        Self::NATIVE.names().any(|native| native == name)
    }

    /// The name of the call with this number; `None` if there is none.
    pub fn call_name(self, number: u32) -> Option<&'static str> {
        let number = usize::try_from(number).ok()?;
        let name = match self {
            Self::X86_64 | Self::X32 => {
                syscalls::x86_64::Sysno::new(number).map(|call| call.name())
            }
            Self::I386 => syscalls::x86::Sysno::new(number).map(|call| call.name()),
            Self::Aarch64 => syscalls::aarch64::Sysno::new(number)
                .map(|call| call.name())
                .map(name_in_generic_table),
            Self::Arm => arm_private(number)
                .or_else(|| syscalls::arm::Sysno::new(number).map(|call| call.name())),
        }?;
        // The crate spells `break` as the raw identifier `r#break`.
        Some(name.strip_prefix("r#").unwrap_or(name))
    }
}

/// The name that the kernel and strace use for a call of the generic table on 64-bit machines. The
/// crate names one of them differently.
///
/// Source: the kernel's include/uapi/asm-generic/unistd.h.
fn name_in_generic_table(name: &'static str) -> &'static str {
    if name == "fstatat" {
        "newfstatat"
    } else {
        name
    }
}

/// The private call of 32-bit ARM that the kernel side gives this number; `None` if there is none.
///
/// Source: the kernel's arch/arm/include/uapi/asm/unistd.h.
fn arm_private(number: usize) -> Option<&'static str> {
    let private = number.checked_sub(zc_ebpf::ARM_PRIVATE as usize)?;
    [
        None,
        Some("breakpoint"),
        Some("cacheflush"),
        Some("usr26"),
        Some("usr32"),
        Some("set_tls"),
        Some("get_tls"),
        None,
    ]
    .get(private)
    .copied()
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_kernels_names() {
        for (abi, number, name) in [
            (Abi::Aarch64, 17, "getcwd"),
            (Abi::Aarch64, 71, "sendfile"),
            (Abi::Aarch64, 79, "newfstatat"),
            (Abi::Aarch64, 80, "fstat"),
            (Abi::Aarch64, 222, "mmap"),
            (Abi::Aarch64, 223, "fadvise64"),
            (Abi::Aarch64, 281, "execveat"),
            (Abi::Arm, zc_ebpf::ARM_PRIVATE + 5, "set_tls"),
        ] {
            assert_eq!(abi.call_name(number), Some(name));
        }
    }

    #[test]
    fn the_private_calls_of_arm_have_numbers_of_their_own() {
        for private in (0..zc_ebpf::ARM_PRIVATE_CALLS).map(|call| zc_ebpf::ARM_PRIVATE + call) {
            assert!(private < zc_ebpf::TABLE_SLOTS - 1, "has a slot of its own");
            let number = usize::try_from(private).expect("is small");
            assert_eq!(syscalls::arm::Sysno::new(number), None);
        }
    }
}
