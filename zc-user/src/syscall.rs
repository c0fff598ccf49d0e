//! The one table of system calls: which move data, where their size stands, what their result means.
//!
//! Numbers and names come from the `syscalls` crate. Everything that differs from "a call with a name" is a line in [`TABLE`].

mod classes;
mod selection;

use std::borrow::Cow;

use zc_ebpf::{CallId, CallSpec, requested};

pub use classes::CLASSES;
pub use selection::{Selection, UnknownSyscall};

/// Whose numbering a call came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Abi {
    /// 64-bit calls on x86.
    X86_64,
    /// 32-bit calls on x86.
    I386,
    /// Calls with 32-bit pointers through x86's 64-bit entry.
    X32,
    /// 64-bit calls on ARM.
    Aarch64,
    /// 32-bit calls on ARM.
    Arm,
}

impl Abi {
    /// Every one.
    #[cfg(test)]
    const ALL: [Self; 5] = [Self::X86_64, Self::I386, Self::X32, Self::Aarch64, Self::Arm];

    /// The machine's own.
    pub const NATIVE: Self = if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 };
    /// The machine's 32-bit one.
    pub const COMPAT: Self = if cfg!(target_arch = "aarch64") { Self::Arm } else { Self::I386 };

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::I386 => "i386",
            Self::X32 => "x32",
            Self::Aarch64 => "aarch64",
            Self::Arm => "arm",
        }
    }

    /// The name of the call with this number; `None` if there is none.
    fn call_name(self, number: u32) -> Option<&'static str> {
        let number = usize::try_from(number).ok()?;
        match self {
            Self::X86_64 | Self::X32 => syscalls::x86_64::Sysno::new(number).map(|call| call.name()),
            Self::I386 => syscalls::x86::Sysno::new(number).map(|call| call.name()),
            Self::Aarch64 => syscalls::aarch64::Sysno::new(number).map(|call| call.name()),
            Self::Arm => syscalls::arm::Sysno::new(number).map(|call| call.name()),
        }
    }
}

/// A system call, as a row of a report names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// Its name; with the command for the variants of a multiplexed call, like `ioctl(FICLONE)`.
    pub name: Cow<'static, str>,
    /// Whose numbering it came through.
    pub abi: Abi,
}

impl Call {
    /// The machine's own call of this name.
    pub fn native(name: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), abi: Abi::NATIVE }
    }

    /// The call that the kernel side names so. A number that has no name becomes `syscall_0x...`, as in strace.
    pub fn from_id(id: CallId) -> Self {
        let abi = if id & zc_ebpf::COMPAT != 0 {
            Abi::COMPAT
        } else if id & zc_ebpf::X32 != 0 {
            Abi::X32
        } else {
            Abi::NATIVE
        };
        let number = id & zc_ebpf::NUMBER_MASK;
        let name = match (id >> zc_ebpf::VARIANT_SHIFT) & zc_ebpf::VARIANT_MASK {
            zc_ebpf::FICLONE_VARIANT => FICLONE.into(),
            zc_ebpf::FICLONERANGE_VARIANT => FICLONERANGE.into(),
            _ => abi.call_name(number).map_or_else(|| format!("syscall_{number:#x}").into(), Cow::Borrowed),
        };
        Self { name, abi }
    }

    /// What its size and its result mean.
    pub fn spec(&self) -> Spec {
        Spec::of(&self.name)
    }
}

/// Name of `ioctl` with the command `FICLONE`.
pub const FICLONE: &str = "ioctl(FICLONE)";
/// Name of `ioctl` with the command `FICLONERANGE`.
pub const FICLONERANGE: &str = "ioctl(FICLONERANGE)";

/// Where a call says how many bytes it wants moved. Arguments count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requested {
    /// Nowhere, or not in bytes.
    Nowhere,
    /// In this argument.
    Size(u8),
    /// In the I/O vector that argument `base` points to, of as many elements as argument `count` says.
    Iovec {
        /// Index of the pointer.
        base: u8,
        /// Index of the number of elements.
        count: u8,
    },
    /// In the I/O vector of the message that this argument points to.
    Message(u8),
}

/// What a positive result means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returned {
    /// Bytes moved.
    Bytes,
    /// Something else: how many bytes moved is unknown.
    Other,
}

/// What zctrace knows of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// Where its size stands.
    pub requested: Requested,
    /// What its result means.
    pub returned: Returned,
}

impl Spec {
    /// What is known of the call of this name; of one without a line in [`TABLE`], neither size nor bytes.
    pub fn of(name: &str) -> Self {
        TABLE.iter().find(|spec| spec.name == name).copied().unwrap_or(Self {
            name: "",
            requested: Requested::Nowhere,
            returned: Returned::Other,
        })
    }

    /// For the kernel side, of a call that is selected.
    fn to_kernel(self) -> CallSpec {
        let (kind, argument, count_argument) = match self.requested {
            Requested::Nowhere => (requested::NONE, 0, 0),
            Requested::Size(argument) => (requested::SIZE, argument, 0),
            Requested::Iovec { base, count } => (requested::IOVEC, base, count),
            Requested::Message(argument) => (requested::MSGHDR, argument, 0),
        };
        CallSpec {
            selected: zc_ebpf::selected::ALWAYS,
            requested: kind,
            argument,
            count_argument,
            returns_bytes: u8::from(self.returned == Returned::Bytes),
            reserved: [0; 3],
        }
    }
}

const fn line(name: &'static str, requested: Requested, returned: Returned) -> Spec {
    Spec { name, requested, returned }
}

/// Every call that moves data: the default set. A call that is not here has neither size nor bytes.
///
/// Source: the manual page of each call, section "RETURN VALUE". `mmap` and its kin ask for a length but their result is no byte count.
pub static TABLE: &[Spec] = {
    use Requested::{Iovec, Message, Nowhere, Size};
    use Returned::{Bytes, Other};
    &[
        line("read", Size(2), Bytes),
        line("pread64", Size(2), Bytes),
        line("readv", Iovec { base: 1, count: 2 }, Bytes),
        line("preadv", Iovec { base: 1, count: 2 }, Bytes),
        line("preadv2", Iovec { base: 1, count: 2 }, Bytes),
        line("write", Size(2), Bytes),
        line("pwrite64", Size(2), Bytes),
        line("writev", Iovec { base: 1, count: 2 }, Bytes),
        line("pwritev", Iovec { base: 1, count: 2 }, Bytes),
        line("pwritev2", Iovec { base: 1, count: 2 }, Bytes),
        line("sendfile", Size(3), Bytes),
        // The name of sendfile with 64-bit offsets in 32-bit tables.
        line("sendfile64", Size(3), Bytes),
        line("splice", Size(4), Bytes),
        line("tee", Size(2), Bytes),
        line("vmsplice", Iovec { base: 1, count: 2 }, Bytes),
        line("copy_file_range", Size(4), Bytes),
        line("sendto", Size(2), Bytes),
        line("sendmsg", Message(1), Bytes),
        line("sendmmsg", Nowhere, Other),
        line("recvfrom", Size(2), Bytes),
        line("recvmsg", Message(1), Bytes),
        line("recvmmsg", Nowhere, Other),
        // 32-bit names: the recvmmsg with 64-bit times, send and recv without an address, and mmap in pages.
        line("recvmmsg_time64", Nowhere, Other),
        line("send", Size(2), Bytes),
        line("recv", Size(2), Bytes),
        line("mmap2", Size(1), Other),
        line("mmap", Size(1), Other),
        line("munmap", Size(1), Other),
        line("msync", Size(1), Other),
        line(FICLONE, Nowhere, Other),
        line(FICLONERANGE, Nowhere, Other),
        line("io_uring_enter", Nowhere, Other),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_names_a_call_of_some_table() {
        for spec in TABLE {
            let name = spec.name.split('(').next().expect("split yields one");
            let known = (0..zc_ebpf::TABLE_SLOTS).any(|number| Abi::ALL.iter().any(|abi| abi.call_name(number) == Some(name)));
            assert!(known, "{}", spec.name);
        }
    }

    #[test]
    fn numbers_become_names_per_table() {
        assert_eq!(Call::from_id(1), Call::native("write"));
        let compat = Call::from_id(zc_ebpf::COMPAT | 4);
        assert_eq!((compat.name.as_ref(), compat.abi), ("write", Abi::COMPAT));
        assert_eq!(Call::from_id(0xfff0).name, "syscall_0xfff0");
    }

    #[test]
    fn a_clone_ioctl_has_its_own_name() {
        let ioctl = (0..1024).find(|&n| Abi::NATIVE.call_name(n) == Some("ioctl")).expect("has ioctl");
        let id = ioctl | (zc_ebpf::FICLONE_VARIANT << zc_ebpf::VARIANT_SHIFT);
        assert_eq!(Call::from_id(id), Call::native(FICLONE));
    }
}
