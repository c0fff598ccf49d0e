//! The table of system calls: which calls move data, where their size is, and what their result
//! means.
//!
//! Numbers and names come from the crate `syscalls`. Every call of which zctrace knows more than
//! its name has a line in [`TABLE`].

mod arguments;
mod classes;
mod paths;
mod ring;
mod selection;

use std::borrow::Cow;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("zctrace knows the system calls and registers of x86_64 and aarch64 only");

use zc_ebpf::{CallId, CallSpec, requested};

use crate::words::names;

pub(crate) use arguments::{may_name_file_by_path, names_descriptor};
pub use classes::CLASSES;
pub(crate) use paths::takes_path;
pub use paths::{CHANGING_DIRECTORY, directory_argument, path_argument, path_calls};
pub use selection::{Selection, UnknownSyscall, class_names};
pub(crate) use selection::{calls_of_class, known_names, meant_by};

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

    /// Whether 64-bit programs on this machine have a call of this name.
    pub(crate) fn is_native(call: &str) -> bool {
        let name = call.split('(').next().unwrap_or_default();
        let number = name
            .parse::<crate::Sysno>()
            .ok()
            .or((name == "newfstatat").then_some(FSTATAT));
        number
            .and_then(|call| u32::try_from(call.id()).ok())
            .and_then(|number| Self::NATIVE.call_name(number))
            == Some(name)
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
                .map(of_generic_table),
            Self::Arm => arm_private(number)
                .or_else(|| syscalls::arm::Sysno::new(number).map(|call| call.name())),
        }?;
        // The crate spells `break` as the raw identifier `r#break`.
        Some(name.strip_prefix("r#").unwrap_or(name))
    }
}

/// Every name in the tables of all machines that zctrace knows.
pub(crate) fn all_names() -> impl Iterator<Item = &'static str> {
    Abi::ALL
        .into_iter()
        .flat_map(|abi| (0..zc_ebpf::TABLE_SLOTS).filter_map(move |number| abi.call_name(number)))
}

/// The call that the kernel names `newfstatat` on 64-bit machines.
#[cfg(target_arch = "aarch64")]
const FSTATAT: crate::Sysno = crate::Sysno::fstatat;
#[cfg(target_arch = "x86_64")]
const FSTATAT: crate::Sysno = crate::Sysno::newfstatat;

/// The name that the kernel and strace use for a call of the generic table on 64-bit machines. The
/// crate names one of them differently.
///
/// Source: the kernel's include/uapi/asm-generic/unistd.h.
fn of_generic_table(name: &'static str) -> &'static str {
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

/// What was called: a system call, or an operation of `io_uring`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// Its name in reports. A variant of a multiplexed call has its command in it, like
    /// `ioctl(FICLONE)`; an operation has the prefix of its ring, like `io_uring:read`.
    pub name: Cow<'static, str>,
    /// Whose numbering it came through.
    pub abi: Abi,
    /// What it is.
    kind: Kind,
}

/// What a [`Call`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Syscall,
    RingOperation,
}

impl Call {
    /// The system call of this name.
    pub fn new(name: impl Into<Cow<'static, str>>, abi: Abi) -> Self {
        Self {
            name: name.into(),
            abi,
            kind: Kind::Syscall,
        }
    }

    /// The machine's own call of this name.
    pub fn native(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name, Abi::NATIVE)
    }

    /// The call that a report names so: an operation of `io_uring` if the name has the prefix of
    /// one.
    pub fn from_report(name: &str) -> Self {
        ring_operation(name).map_or_else(|| Self::native(name.to_owned()), Self::ring_operation)
    }

    /// The call or operation that the kernel side identifies by this number. A number without a
    /// name becomes `syscall_0x...`, as in strace.
    pub fn from_id(id: CallId) -> Self {
        if id & zc_ebpf::RING != 0 {
            return Self::ring_operation(&ring::name(id & zc_ebpf::NUMBER_MASK));
        }
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
            variant if variant & zc_ebpf::SOCKET_VARIANTS != 0 => {
                selection::socketcall_name(variant - zc_ebpf::SOCKET_VARIANTS).into()
            }
            _ if number == zc_ebpf::FIRST_BEYOND => BEYOND.into(),
            _ => abi
                .call_name(number)
                .map_or_else(|| format!("syscall_{number:#x}").into(), Cow::Borrowed),
        };
        Self::new(name, abi)
    }

    /// The call whose numbers share this slot of the kernel side's table: [`zc_ebpf::spec_slot`].
    pub fn from_slot(slot: u32) -> Self {
        let compat = if slot < zc_ebpf::TABLE_SLOTS {
            0
        } else {
            zc_ebpf::COMPAT
        };
        let number = slot % zc_ebpf::TABLE_SLOTS;
        let call = Self::from_id(number | compat);
        let is_last = number == zc_ebpf::TABLE_SLOTS - 1;
        if is_last {
            Self::new(format!("syscall_from_{number:#x}"), call.abi)
        } else {
            call
        }
    }

    /// An operation of `io_uring`, as rows of [`ring_rows`](crate::trace::Thread::ring_rows) name
    /// it: `io_uring:read`.
    pub fn ring_operation(name: &str) -> Self {
        Self {
            name: format!("{RING_PREFIX}{name}").into(),
            abi: Abi::NATIVE,
            kind: Kind::RingOperation,
        }
    }

    /// The name of the operation without its prefix; `None` if it is a system call.
    pub fn as_ring_operation(&self) -> Option<&str> {
        match self.kind {
            Kind::Syscall => None,
            Kind::RingOperation => self.name.get(RING_PREFIX.len()..),
        }
    }

    /// Whether it is an operation of `io_uring` that the kernel does not identify.
    pub fn is_unknown_operation(&self) -> bool {
        self.as_ring_operation() == Some(ring::UNKNOWN)
    }

    /// What its size and its result mean.
    pub fn spec(&self) -> Spec {
        match self.as_ring_operation() {
            None => Spec::of(&self.name),
            Some(operation) => ring::spec(operation).unwrap_or(Spec::without_data(Fds::None)),
        }
    }
}

/// Whether a set of names has this call. `ioctl` stands for all its variants, too.
pub(crate) fn covers(name: &str, has: impl Fn(&str) -> bool) -> bool {
    has(name) || (name.starts_with("ioctl(") && has("ioctl"))
}

/// The operation of `io_uring` that a report names so, without its prefix; `None` if it is a system
/// call.
pub(crate) fn ring_operation(name: &str) -> Option<&str> {
    name.strip_prefix(RING_PREFIX)
}

/// Prefix of the names of io_uring's operations.
const RING_PREFIX: &str = "io_uring:";
/// Name of all calls with this number or a higher one, as unsigned numbers. They do not exist, and
/// fail with `ENOSYS`.
pub const BEYOND: &str = "syscall_from_0xffff";
/// Name of `ioctl` with the command `FICLONE`.
pub const FICLONE: &str = "ioctl(FICLONE)";
/// Name of `ioctl` with the command `FICLONERANGE`.
pub const FICLONERANGE: &str = "ioctl(FICLONERANGE)";

/// Where a call says how many bytes it asks for. Arguments count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requested {
    /// Nowhere, or not in bytes.
    Nowhere,
    /// In this argument.
    Size(u8),
    /// In the I/O vector that argument `base` points to, of as many elements as argument `count`
    /// says.
    Iovec {
        /// Index of the pointer.
        base: u8,
        /// Index of the number of elements.
        count: u8,
    },
    /// In the I/O vector of the message that this argument points to.
    Message(u8),
}

impl Requested {
    /// Whether the bytes may lie at several places in memory.
    pub const fn is_vector(self) -> bool {
        matches!(self, Self::Iovec { .. } | Self::Message(_))
    }
}

/// Which arguments are file descriptors, and in which direction bytes go. Arguments count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fds {
    /// None, or none that zctrace follows.
    None,
    /// Bytes come from the file of this argument.
    Reads(u8),
    /// Bytes go to the file of this argument.
    Writes(u8),
    /// Bytes go from one file to another.
    Copies {
        /// Index of the source's descriptor.
        from: u8,
        /// Index of the destination's descriptor.
        to: u8,
    },
    /// `vmsplice`: into the pipe of this argument if that is open for writing, out of it if it is
    /// open for reading.
    Pipe(u8),
    /// `ioctl(FICLONERANGE)`: to the file of argument `to`, from the file whose descriptor is the
    /// first 64-bit number of the struct that argument `request` points to (`struct
    /// file_clone_range` of the kernel's include/uapi/linux/fs.h).
    ClonesRange {
        /// Index of the destination's descriptor.
        to: u8,
        /// Index of the pointer.
        request: u8,
    },
    /// The call uses the file of this argument and moves no bytes. `mmap` is one: what it maps may
    /// be written later.
    On(u8),
}

impl Fds {
    /// For the kernel side: one of the constants of [`zc_ebpf::fds`], and its arguments.
    const fn to_kernel(self) -> (u8, u8, u8) {
        use zc_ebpf::fds;
        match self {
            Self::None => (fds::NONE, 0, 0),
            Self::Reads(from) => (fds::READS, from, 0),
            Self::Writes(to) => (fds::WRITES, to, 0),
            Self::Copies { from, to } => (fds::COPIES, from, to),
            Self::Pipe(pipe) => (fds::PIPE, pipe, 0),
            Self::ClonesRange { to, request } => (fds::IOCTL, to, request),
            Self::On(file) => (fds::ON, file, 0),
        }
    }
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
    /// Where its size is.
    pub requested: Requested,
    /// What its result means.
    pub returned: Returned,
    /// Which files it uses.
    pub fds: Fds,
}

impl Spec {
    /// What is known of the system call of this name. One without a line in [`TABLE`] has neither
    /// size nor bytes.
    pub fn of(name: &str) -> Self {
        let known = TABLE.iter().find(|spec| spec.name == name).copied();
        known.unwrap_or_else(|| {
            Self::without_data(arguments::descriptor(name).map_or(Fds::None, Fds::On))
        })
    }

    /// What is known of a call that moves no data.
    const fn without_data(fds: Fds) -> Self {
        Self {
            name: "",
            requested: Requested::Nowhere,
            returned: Returned::Other,
            fds,
        }
    }

    /// The same for the kernel side, for a selected call.
    fn to_kernel(self) -> CallSpec {
        let (kind, argument, count_argument) = match self.requested {
            Requested::Nowhere => (requested::NONE, 0, 0),
            Requested::Size(argument) => (requested::SIZE, argument, 0),
            Requested::Iovec { base, count } => (requested::IOVEC, base, count),
            Requested::Message(argument) => (requested::MSGHDR, argument, 0),
        };
        let (fds, first, second) = self.fds.to_kernel();
        CallSpec {
            selected: zc_ebpf::selected::ALWAYS,
            requested: kind,
            argument,
            count_argument,
            returns_bytes: u8::from(self.returned == Returned::Bytes),
            fds,
            first,
            second,
            message_flags: message_flags(self.name).map_or(0, |argument| argument + 1),
            ..CallSpec::default()
        }
    }
}

/// Index of the argument with the `MSG_...` flags. Source: the manual page of each call.
fn message_flags(name: &str) -> Option<u8> {
    match name {
        "recv" | "recvfrom" | "send" | "sendto" => Some(3),
        "recvmsg" | "sendmsg" => Some(2),
        _ => None,
    }
}

const fn line(name: &'static str, requested: Requested, returned: Returned, fds: Fds) -> Spec {
    Spec {
        name,
        requested,
        returned,
        fds,
    }
}

/// Every call that moves data: the default selection. A call that is not here has neither size nor
/// bytes; `arguments` lists those of them that use a file.
///
/// Source: the manual page of each call, section "RETURN VALUE". `mmap` and similar calls take a
/// length, but do not return a byte count.
pub static TABLE: &[Spec] = {
    use Fds::{Copies, Reads, Writes};
    use Requested::{Iovec, Message, Nowhere, Size};
    use Returned::{Bytes, Other};
    &[
        line("read", Size(2), Bytes, Reads(0)),
        line("pread64", Size(2), Bytes, Reads(0)),
        line("readv", Iovec { base: 1, count: 2 }, Bytes, Reads(0)),
        line("preadv", Iovec { base: 1, count: 2 }, Bytes, Reads(0)),
        line("preadv2", Iovec { base: 1, count: 2 }, Bytes, Reads(0)),
        line("write", Size(2), Bytes, Writes(0)),
        line("pwrite64", Size(2), Bytes, Writes(0)),
        line("writev", Iovec { base: 1, count: 2 }, Bytes, Writes(0)),
        line("pwritev", Iovec { base: 1, count: 2 }, Bytes, Writes(0)),
        line("pwritev2", Iovec { base: 1, count: 2 }, Bytes, Writes(0)),
        line("sendfile", Size(3), Bytes, Copies { from: 1, to: 0 }),
        // The name of sendfile with 64-bit offsets in 32-bit tables.
        line("sendfile64", Size(3), Bytes, Copies { from: 1, to: 0 }),
        line("splice", Size(4), Bytes, Copies { from: 0, to: 2 }),
        line("tee", Size(2), Bytes, Copies { from: 0, to: 1 }),
        line("vmsplice", Iovec { base: 1, count: 2 }, Bytes, Fds::Pipe(0)),
        line("copy_file_range", Size(4), Bytes, Copies { from: 0, to: 2 }),
        line("sendto", Size(2), Bytes, Writes(0)),
        line("sendmsg", Message(1), Bytes, Writes(0)),
        line("sendmmsg", Nowhere, Other, Writes(0)),
        line("recvfrom", Size(2), Bytes, Reads(0)),
        line("recvmsg", Message(1), Bytes, Reads(0)),
        line("recvmmsg", Nowhere, Other, Reads(0)),
        // Names of 32-bit tables: recvmmsg with 64-bit times, send and recv without an address,
        // mmap with an offset in pages.
        line("recvmmsg_time64", Nowhere, Other, Reads(0)),
        line("send", Size(2), Bytes, Writes(0)),
        line("recv", Size(2), Bytes, Reads(0)),
        line("mmap2", Size(1), Other, Fds::On(4)),
        line("mmap", Size(1), Other, Fds::On(4)),
        line("munmap", Size(1), Other, Fds::None),
        line("msync", Size(1), Other, Fds::None),
        line(FICLONE, Nowhere, Other, Copies { from: 2, to: 0 }),
        line(
            FICLONERANGE,
            Nowhere,
            Other,
            Fds::ClonesRange { to: 0, request: 2 },
        ),
        line(
            "process_vm_readv",
            Iovec { base: 1, count: 2 },
            Bytes,
            Fds::None,
        ),
        line(
            "process_vm_writev",
            Iovec { base: 1, count: 2 },
            Bytes,
            Fds::None,
        ),
        line("io_submit", Nowhere, Other, Fds::None),
        line("io_uring_enter", Nowhere, Other, Fds::On(0)),
    ]
};

/// Whether any machine that zctrace knows has a call of this name.
#[cfg(test)]
pub(crate) fn is_in_some_table(name: &str) -> bool {
    all_names().any(|known| known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_names_a_call_of_some_table() {
        for spec in TABLE {
            let name = spec.name.split('(').next().expect("split yields one");
            assert!(is_in_some_table(name), "{}", spec.name);
        }
    }

    #[test]
    fn specs_say_which_arguments_are_descriptors() {
        assert_eq!(Spec::of("sendfile").fds, Fds::Copies { from: 1, to: 0 });
        assert_eq!(Spec::of("fstat").fds, Fds::On(0));
        assert_eq!(Spec::of("getpid").fds, Fds::None);
    }

    #[test]
    fn numbers_have_names_by_table() {
        let native = if Abi::NATIVE == Abi::Aarch64 { 64 } else { 1 };
        assert_eq!(Call::from_id(native), Call::native("write"));
        // The same in both 32-bit tables.
        let compat = Call::from_id(zc_ebpf::COMPAT | 4);
        assert_eq!((compat.name.as_ref(), compat.abi), ("write", Abi::COMPAT));
        assert_eq!(Call::from_id(0xfff0).name, "syscall_0xfff0");
        assert_eq!(
            Call::from_id(zc_ebpf::FIRST_BEYOND).name,
            "syscall_from_0xffff"
        );
    }

    #[test]
    fn calls_of_arm64_have_the_kernels_names() {
        let named = [17, 71, 79, 80, 222, 223, 281].map(|number| Abi::Aarch64.call_name(number));
        let expected = [
            "getcwd",
            "sendfile",
            "newfstatat",
            "fstat",
            "mmap",
            "fadvise64",
            "execveat",
        ];
        assert_eq!(named, expected.map(Some));
    }

    #[test]
    fn the_private_calls_of_arm_have_names_and_numbers_of_their_own() {
        assert_eq!(
            Abi::Arm.call_name(zc_ebpf::ARM_PRIVATE + 5),
            Some("set_tls")
        );
        for private in (0..zc_ebpf::ARM_PRIVATE_CALLS).map(|call| zc_ebpf::ARM_PRIVATE + call) {
            assert!(private < zc_ebpf::TABLE_SLOTS - 1, "has a slot of its own");
            assert!(
                usize::try_from(private)
                    .is_ok_and(|number| syscalls::arm::Sysno::new(number).is_none()),
                "{private}"
            );
        }
    }

    #[test]
    fn a_socketcall_has_the_name_of_the_call_that_it_makes() {
        let of = |argument: u32| {
            let variant = zc_ebpf::SOCKET_VARIANTS | argument;
            Call::from_id(zc_ebpf::COMPAT | (variant << zc_ebpf::VARIANT_SHIFT)).name
        };
        assert_eq!(
            [of(9), of(10), of(20), of(0), of(31)],
            ["send", "recv", "sendmmsg", "socketcall", "socketcall"]
        );
    }

    #[test]
    fn an_operation_of_io_uring_is_told_from_a_call_of_the_same_name() {
        let read = Call::from_report("io_uring:read");
        assert_eq!(read, Call::ring_operation("read"));
        assert_eq!(
            (read.as_ring_operation(), read.name.as_ref()),
            (Some("read"), "io_uring:read")
        );
        assert_eq!(Call::from_report("read"), Call::native("read"));
        assert_eq!(
            (
                Call::native("read").as_ring_operation(),
                read.spec().requested
            ),
            (None, Requested::Nowhere)
        );
    }

    #[test]
    fn a_clone_ioctl_has_its_own_name() {
        let ioctl = (0..1024)
            .find(|&n| Abi::NATIVE.call_name(n) == Some("ioctl"))
            .expect("has ioctl");
        let id = ioctl | (zc_ebpf::FICLONE_VARIANT << zc_ebpf::VARIANT_SHIFT);
        assert_eq!(Call::from_id(id), Call::native(FICLONE));
    }
}
