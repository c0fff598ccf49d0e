//! The words of the table: each says one thing of a call. Arguments count from 0.

use super::{CallEffect, Fds, FilledMemory, PathArgument, Requested, Returned, Spec, Variants};
use crate::syscalls::CallClass;

impl Spec {
    pub(in crate::syscalls) const fn class(mut self, class: CallClass) -> Self {
        self.classes |= class.bit();
        self
    }

    /// Bytes come from the file of this descriptor.
    pub(in crate::syscalls) const fn reads(mut self, from: u8) -> Self {
        self.fds = Fds::Reads(from);
        self
    }

    /// Bytes go to the file of this descriptor.
    pub(in crate::syscalls) const fn writes(mut self, to: u8) -> Self {
        self.fds = Fds::Writes(to);
        self
    }

    /// Bytes go from one file to another.
    pub(in crate::syscalls) const fn copies(mut self, from: u8, to: u8) -> Self {
        self.fds = Fds::Copies { from, to };
        self
    }

    pub(in crate::syscalls) const fn pipe(mut self, pipe: u8) -> Self {
        self.fds = Fds::Pipe(pipe);
        self
    }

    pub(in crate::syscalls) const fn clones_range(mut self, to: u8, request: u8) -> Self {
        self.fds = Fds::ClonesRange { to, request };
        self
    }

    /// It uses the open file of this descriptor and moves no bytes of it. A call that resolves a
    /// path from a directory's descriptor uses another file.
    pub(in crate::syscalls) const fn on(mut self, file: u8) -> Self {
        self.fds = Fds::On(file);
        self
    }

    /// It uses no file, whatever its arguments are.
    pub(in crate::syscalls) const fn no_file(mut self) -> Self {
        self.is_without_file = true;
        self
    }

    pub(in crate::syscalls) const fn size(mut self, argument: u8) -> Self {
        self.requested = Requested::Size(argument);
        self
    }

    pub(in crate::syscalls) const fn vector(mut self, base: u8, count: u8) -> Self {
        self.requested = Requested::Iovec { base, count };
        self
    }

    pub(in crate::syscalls) const fn message(mut self, argument: u8) -> Self {
        self.requested = Requested::Message(argument);
        self
    }

    /// A positive result is a number of bytes.
    pub(in crate::syscalls) const fn bytes(mut self) -> Self {
        self.returned = Returned::Bytes;
        self
    }

    /// The argument with the `MSG_...` flags.
    pub(in crate::syscalls) const fn flags(mut self, argument: u8) -> Self {
        self.message_flags = Some(argument);
        self
    }

    /// The path that it looks up, which starts in the working directory if it is relative. Of two
    /// paths, as of `rename`, it is the first that the kernel looks up; the target of a symbolic
    /// link is not looked up.
    pub(in crate::syscalls) const fn path(mut self, index: u8) -> Self {
        let directory = None;
        self.path = Some(PathArgument { index, directory });
        self
    }

    /// The path that it looks up, which starts in the directory of the argument before it if it is
    /// relative.
    pub(in crate::syscalls) const fn path_at(mut self, index: u8) -> Self {
        let directory = Some(index - 1);
        self.path = Some(PathArgument { index, directory });
        self
    }

    pub(in crate::syscalls) const fn changes_directory(mut self) -> Self {
        self.changes_directory = true;
        self
    }

    /// It fills so many bytes at the address in this argument.
    pub(in crate::syscalls) const fn fills(mut self, pointer: u8, bytes: u16) -> Self {
        self.filled = FilledMemory::At {
            pointer,
            count: None,
            element_bytes: bytes,
        };
        self
    }

    /// It fills as many elements as argument `count` says, at the address in argument `pointer`.
    pub(in crate::syscalls) const fn fills_array(
        mut self,
        pointer: u8,
        count: u8,
        element_bytes: u16,
    ) -> Self {
        self.filled = FilledMemory::At {
            pointer,
            count: Some(count),
            element_bytes,
        };
        self
    }

    pub(in crate::syscalls) const fn fills_any(mut self) -> Self {
        self.filled = FilledMemory::Any;
        self
    }

    pub(in crate::syscalls) const fn fills_above_heap(mut self) -> Self {
        self.filled = FilledMemory::AboveHeap;
        self
    }

    pub(in crate::syscalls) const fn effect(mut self, effect: CallEffect) -> Self {
        self.effect = effect;
        self
    }

    pub(in crate::syscalls) const fn variants(mut self, variants: Variants) -> Self {
        self.variants = variants;
        self
    }

    /// The number of the call in `socketcall`.
    pub(in crate::syscalls) const fn socketcall(mut self, number: u8) -> Self {
        self.socketcall = Some(number);
        self
    }

    pub(in crate::syscalls) const fn in_memory_if_32_bit(mut self) -> Self {
        self.is_in_memory_if_32_bit = true;
        self
    }

    /// Where this call does not exist, programs make that one.
    pub(in crate::syscalls) const fn replaced_by(mut self, other: &'static str) -> Self {
        self.replacement = Some(other);
        self
    }
}
