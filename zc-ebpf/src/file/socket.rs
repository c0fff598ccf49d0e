//! Reads what a socket is, and the addresses of both its ends.

use zc_ebpf::{ABSENT, FileSeen, NAMES_BYTES, reported};

use crate::{
    kernel::fields::{self, KernelPtr, offset_of_field},
    kernel::helpers::read_kernel_bytes,
    kernel::scratch::Scratch,
    maps::SEEN_FILE,
};

/// `AF_UNIX`, `AF_INET`, `AF_INET6` of the kernel's include/linux/socket.h.
const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// Size of `sun_path` in a `struct sockaddr_un`, and its offset: the family comes before it. In
/// bytes.
const SUN_PATH_BYTES: usize = 108;
const SUN_PATH_AT: usize = 2;

/// What is known about a socket now, as the constants in [`reported`]. A socket without a peer may
/// get one later.
#[inline(always)]
pub fn known(file: KernelPtr) -> u32 {
    known_of(sock(file) as u64)
}

/// Writes what the socket is into this CPU's scratch. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn describe_socket(file: u64) -> u32 {
    // SAFETY: the caller has taken it.
    let Some(seen) = (unsafe { Scratch::taken(&SEEN_FILE) }) else {
        return 0;
    };
    let sk = sock(file as KernelPtr);
    seen.family = fields::probe_or_zero(sk, offset_of_field!(sock_family));
    seen.socket_type = fields::probe_or_zero(sk, offset_of_field!(sock_type));
    seen.protocol = fields::probe_or_zero(sk, offset_of_field!(sock_protocol));
    match seen.family {
        AF_INET | AF_INET6 => describe_ip(sk, seen),
        AF_UNIX => describe_unix(sk, seen),
        _ => {}
    }
    0
}

/// The `struct sock` of a file. Null if it cannot be read.
#[inline(always)]
fn sock(file: KernelPtr) -> KernelPtr {
    let socket = fields::probe_pointer(file, offset_of_field!(file_private_data));
    fields::probe_pointer(socket, offset_of_field!(socket_sk))
}

/// What is known about the socket of this `struct sock`. A global function, so that the verifier
/// checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn known_of(sk: u64) -> u32 {
    let sk = sk as KernelPtr;
    let family: u16 = fields::probe_or_zero(sk, offset_of_field!(sock_family));
    let (has_local, has_peer) = match family {
        AF_INET | AF_INET6 => (local_port(sk) != 0, peer_port(sk) != 0),
        AF_UNIX if offset_of_field!(unix_address) != ABSENT => {
            (!unix_address(sk).is_null(), peer_inode(sk) != 0)
        }
        _ => return reported::ALL,
    };
    // A socket with a peer has all addresses that it will ever have.
    match (has_local, has_peer) {
        (_, true) => reported::ALL,
        (true, false) => reported::KIND | reported::LOCAL,
        (false, false) => reported::KIND,
    }
}

#[inline(always)]
fn describe_ip(sk: KernelPtr, seen: &mut FileSeen) {
    seen.local_port = local_port(sk);
    seen.peer_port = peer_port(sk);
    if seen.family == AF_INET {
        read_address::<4>(sk, offset_of_field!(sock_local), &mut seen.local);
        read_address::<4>(sk, offset_of_field!(sock_peer), &mut seen.peer);
    } else {
        read_address::<16>(sk, offset_of_field!(sock_local_v6), &mut seen.local);
        read_address::<16>(sk, offset_of_field!(sock_peer_v6), &mut seen.peer);
    }
}

#[inline(always)]
fn read_address<const BYTES: usize>(sk: KernelPtr, offset: u32, into: &mut [u8; 16]) {
    if offset != ABSENT {
        read_kernel_bytes(sk.wrapping_add(offset as usize), &mut into[..BYTES]);
    }
}

/// The kernel has it in the machine's byte order.
#[inline(always)]
fn local_port(sk: KernelPtr) -> u16 {
    fields::probe_or_zero(sk, offset_of_field!(sock_local_port))
}

/// The kernel has it in network byte order.
#[inline(always)]
fn peer_port(sk: KernelPtr) -> u16 {
    u16::from_be(fields::probe_or_zero(sk, offset_of_field!(sock_peer_port)))
}

/// The path that the socket is bound to or, since connecting sockets are rarely bound, the path of
/// its peer. And the peer's inode.
#[inline(always)]
fn describe_unix(sk: KernelPtr, seen: &mut FileSeen) {
    if offset_of_field!(unix_address) == ABSENT {
        return;
    }
    seen.names_length = read_unix_path(unix_address(sk), &mut seen.names);
    seen.peer_inode = peer_inode(sk);
}

/// The `struct unix_address` of the socket or of its peer. Null: neither has one.
#[inline(always)]
fn unix_address(sk: KernelPtr) -> KernelPtr {
    let own = fields::probe_pointer(sk, offset_of_field!(unix_address));
    let other = fields::probe_pointer(unix_peer(sk), offset_of_field!(unix_address));
    if own.is_null() { other } else { own }
}

#[inline(always)]
fn unix_peer(sk: KernelPtr) -> KernelPtr {
    fields::probe_pointer(sk, offset_of_field!(unix_peer))
}

/// The inode of the peer. It exists once the connection is accepted, next to the `struct socket` in
/// a `struct socket_alloc`. 0: there is none.
#[inline(always)]
fn peer_inode(sk: KernelPtr) -> u64 {
    let socket = fields::probe_pointer(unix_peer(sk), offset_of_field!(sock_socket));
    let inode = socket.wrapping_add(offset_of_field!(socket_inode) as usize);
    fields::probe_or_zero(inode, offset_of_field!(inode_number))
}

#[inline(always)]
fn read_unix_path(address: KernelPtr, into: &mut [u8; NAMES_BYTES]) -> u32 {
    let length: u32 = fields::probe_or_zero(address, offset_of_field!(unix_address_length));
    let length = (length as usize).saturating_sub(SUN_PATH_AT);
    if length == 0 || length > SUN_PATH_BYTES {
        return 0;
    }
    let path = address.wrapping_add(offset_of_field!(unix_address_name) as usize + SUN_PATH_AT);
    let Some(into) = into.get_mut(..length) else {
        return 0;
    };
    if read_kernel_bytes(path, into) {
        length as u32
    } else {
        0
    }
}
