//! `socketcall`, the 32-bit call that stands for many: its first argument says for which, the others stand in memory.

use zc_ebpf::{CallSpec, SOCKET_CALLS, requested, socket_slot};

use super::{Selection, Spec};

/// The name of the call itself.
pub const NAME: &str = "socketcall";

/// What it stands for, by its first argument: `SYS_SOCKET` to `SYS_SENDMMSG` of the kernel's include/uapi/linux/net.h.
const CALLS: [&str; 21] = [
    NAME,
    "socket",
    "bind",
    "connect",
    "listen",
    "accept",
    "getsockname",
    "getpeername",
    "socketpair",
    "send",
    "recv",
    "sendto",
    "recvfrom",
    "shutdown",
    "setsockopt",
    "getsockopt",
    "sendmsg",
    "recvmsg",
    "accept4",
    "recvmmsg",
    "sendmmsg",
];

/// The name of what it stands for with this first argument.
pub fn name(argument: u32) -> &'static str {
    usize::try_from(argument).ok().and_then(|argument| CALLS.get(argument)).copied().unwrap_or(NAME)
}

/// Slots and specs of all that are selected: its own, and those of what it stands for. What is asked for and of which files stands in
/// memory, which is not looked at; what it returns is what the call of that name does.
pub fn specs(selection: &Selection) -> impl Iterator<Item = (u32, CallSpec)> + '_ {
    let is_selected = |name: &str| selection.contains(name) || selection.contains(NAME);
    (0..SOCKET_CALLS).filter(move |&argument| is_selected(name(argument))).map(|argument| {
        let spec = Spec { fds: super::Fds::None, ..Spec::of(name(argument)) }.to_kernel();
        (socket_slot(argument), CallSpec { requested: requested::UNKNOWN, ..spec })
    })
}
