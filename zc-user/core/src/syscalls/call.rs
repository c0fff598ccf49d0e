//! [`Call`]: what was called, by name.

use std::borrow::Cow;

use zc_ebpf::CallId;

use super::{
    abi::Abi,
    kernel::socketcall_name,
    operations,
    spec::{FICLONE, FICLONERANGE, Spec},
};

/// What was called: a system call, or an operation of `io_uring`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// Its name in reports. A variant of a multiplexed call has its command in it, like
    /// `ioctl(FICLONE)`; an operation has the prefix of its ring, like `io_uring:read`.
    pub name: Cow<'static, str>,
    /// Whose numbering it came through.
    pub abi: Abi,
}

impl Call {
    /// The system call of this name.
    pub fn new(name: impl Into<Cow<'static, str>>, abi: Abi) -> Self {
        Self {
            name: name.into(),
            abi,
        }
    }

    /// The machine's own call of this name.
    pub fn native(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name, Abi::NATIVE)
    }

    /// The call or operation that the kernel side identifies by this number. A number without a
    /// name becomes `syscall_0x...`, as in strace.
    pub fn from_id(id: CallId) -> Self {
        if id & zc_ebpf::RING != 0 {
            return Self::ring_operation(&operations::name(id & zc_ebpf::NUMBER_MASK));
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
                socketcall_name(variant - zc_ebpf::SOCKET_VARIANTS).into()
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
        Self::native(format!("{RING_PREFIX}{name}"))
    }

    /// The name of the operation without its prefix; `None` if it is a system call.
    pub fn as_ring_operation(&self) -> Option<&str> {
        ring_operation(&self.name)
    }

    /// Whether it is an operation of `io_uring` that the kernel does not identify.
    pub fn is_unknown_operation(&self) -> bool {
        self.as_ring_operation() == Some(operations::UNKNOWN)
    }

    /// What its size and its result mean.
    pub fn spec(&self) -> Spec {
        match self.as_ring_operation() {
            None => Spec::named(&self.name),
            Some(operation) => operations::spec(operation).unwrap_or(Spec::UNKNOWN),
        }
    }
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
#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::Requested;

    #[test]
    fn numbers_have_names_by_table() {
        let native = if Abi::NATIVE == Abi::Aarch64 { 64 } else { 1 };
        let ioctl = (0..1024).find(|&number| Abi::NATIVE.call_name(number) == Some("ioctl"));
        let clone = zc_ebpf::FICLONE_VARIANT << zc_ebpf::VARIANT_SHIFT;
        for (id, call) in [
            (native, Call::native("write")),
            // The same in both 32-bit tables.
            (zc_ebpf::COMPAT | 4, Call::new("write", Abi::COMPAT)),
            (0xfff0, Call::native("syscall_0xfff0")),
            (zc_ebpf::FIRST_BEYOND, Call::native(BEYOND)),
            (ioctl.expect("has ioctl") | clone, Call::native(FICLONE)),
        ] {
            assert_eq!(Call::from_id(id), call);
        }
        for (argument, name) in [
            (9, "send"),
            (10, "recv"),
            (20, "sendmmsg"),
            (0, "socketcall"),
            (31, "socketcall"),
        ] {
            let variant = zc_ebpf::SOCKET_VARIANTS | argument;
            let call = Call::from_id(zc_ebpf::COMPAT | (variant << zc_ebpf::VARIANT_SHIFT));
            assert_eq!(call.name, name);
        }
    }

    #[test]
    fn an_operation_of_io_uring_is_told_from_a_call_of_the_same_name() {
        let read = Call::ring_operation("read");
        assert_eq!(
            (read.as_ring_operation(), read.name.as_ref()),
            (Some("read"), "io_uring:read")
        );
        assert_eq!(read.spec().requested, Requested::Nowhere);
        assert_eq!(Call::native("read").as_ring_operation(), None);
    }
}
