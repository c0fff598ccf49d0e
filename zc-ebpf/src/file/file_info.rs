//! Reports to user space what a file is: once, and again for a socket that has got an address
//! since.

use aya_ebpf::bindings::{BPF_RB_AVAIL_DATA, BPF_RB_RING_SIZE};
use zc_ebpf::{ABSENT, FileSeen, NAMES_BYTES, event_kind, path_end, reported};

use crate::{
    file::path,
    file::socket,
    kernel::entries::Entries as _,
    kernel::fields::{self, KernelPtr, offset_of_field},
    kernel::helpers::read_kernel_text,
    maps::{EVENTS, SCRATCH, wakeup_for_file},
};

/// `ANON_INODE_FS_MAGIC` of the kernel's include/uapi/linux/magic.h: files of this filesystem share
/// one inode.
const ANON_INODE_FS_MAGIC: u64 = 0x0904_1934;

/// `SOCKFS_MAGIC` of the same file: files of this filesystem are sockets.
const SOCKFS_MAGIC: u64 = 0x534f_434b;

/// Whether the file shares its inode with others, as `eventfd` and `epoll` do.
#[inline(always)]
pub fn shares_its_inode(file: KernelPtr) -> bool {
    magic(file) == Some(ANON_INODE_FS_MAGIC)
}

#[inline(always)]
fn is_socket(file: KernelPtr) -> bool {
    offset_of_field!(socket_sk) != ABSENT && magic(file) == Some(SOCKFS_MAGIC)
}

#[inline(always)]
fn magic(file: KernelPtr) -> Option<u64> {
    let inode: KernelPtr = fields::probe(file, offset_of_field!(file_inode))?;
    let sb: KernelPtr = fields::probe(inode, offset_of_field!(inode_sb))?;
    fields::probe(sb, offset_of_field!(sb_magic))
}

/// Reports the file unless `before` shows that there is nothing new. Returns what has been reported
/// by now, as the constants in [`reported`].
#[inline(always)]
pub fn report(file: KernelPtr, number: u32, before: u32) -> u32 {
    // A file that comes here again is a socket without a peer, or its event did not fit into the
    // ring buffer.
    if before != 0 && socket::known(file) == before {
        return before;
    }
    let Some(seen) = SCRATCH.entry(0) else {
        return before;
    };
    if !path::lock_scratch() {
        return before;
    }
    seen.number = number;
    let now = describe(file, seen).unwrap_or(before);
    let now = if now != before && send(seen) {
        now
    } else {
        before
    };
    path::unlock_scratch();
    now
}

/// Fills in the event. Returns which parts of it are known, as the constants in [`reported`].
/// `None` if the file cannot be read.
#[inline(always)]
fn describe(file: KernelPtr, seen: &mut FileSeen) -> Option<u32> {
    let inode: KernelPtr = fields::probe(file, offset_of_field!(file_inode))?;
    let sb: KernelPtr = fields::probe(inode, offset_of_field!(inode_sb))?;
    seen.kind = event_kind::FILE;
    seen.inode = fields::probe_or_zero(inode, offset_of_field!(inode_number));
    seen.size = fields::probe_or_zero(inode, offset_of_field!(inode_size));
    seen.generation = fields::probe_or_zero(inode, offset_of_field!(inode_generation));
    seen.device = fields::probe_or_zero(sb, offset_of_field!(sb_device));
    seen.mode = fields::probe_or_zero::<u16>(inode, offset_of_field!(inode_mode)).into();
    seen.path_end = path_end::NONE;
    seen.names_length = 0;
    seen.family = 0;
    (seen.local_port, seen.peer_port) = (0, 0);
    seen.peer_inode = 0;
    let kind = fields::probe_pointer(sb, offset_of_field!(sb_type));
    read_text(
        fields::probe_pointer(kind, offset_of_field!(type_name)),
        &mut seen.filesystem,
    );
    read_text(
        fields::probe_pointer(sb, offset_of_field!(sb_subtype)),
        &mut seen.subtype,
    );
    if is_socket(file) {
        return Some(socket::describe_socket(file as u64)).filter(|&known| known != 0);
    }
    seen.path_end = path::describe_path(file as u64);
    Some(reported::ALL)
}

/// Reads a string of the kernel. It is empty if there is none.
#[inline(always)]
fn read_text<const BYTES: usize>(text: KernelPtr, into: &mut [u8; BYTES]) {
    into[0] = 0;
    let _ = read_kernel_text(text, into);
}

/// Sends the part of the event that is filled. `false` if there is no room. Half of the ring buffer
/// is reserved for events of tasks: without the name of a file the counts are still right, and the
/// next use of the file tries again.
#[inline(always)]
fn send(seen: &FileSeen) -> bool {
    let names = seen.names_length as usize;
    if names > NAMES_BYTES
        || EVENTS.query(BPF_RB_AVAIL_DATA.into()) > EVENTS.query(BPF_RB_RING_SIZE.into()) / 2
    {
        return false;
    }
    let length = core::mem::offset_of!(FileSeen, names) + names;
    // SAFETY: no more than the whole of it.
    let bytes =
        unsafe { core::slice::from_raw_parts(core::ptr::from_ref(seen).cast::<u8>(), length) };
    EVENTS
        .output::<[u8]>(bytes, wakeup_for_file(seen.number))
        .is_ok()
}
