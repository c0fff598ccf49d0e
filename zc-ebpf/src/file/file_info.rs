//! Reports to user space what a file is: once, and again for a socket that has got an address
//! since.

use aya_ebpf::bindings::{BPF_RB_AVAIL_DATA, BPF_RB_RING_SIZE};
use zc_ebpf::{ABSENT, FileSeen, KnownFile, NAMES_BYTES, event_kind, path_end, reported};

use crate::{
    file::path,
    file::socket,
    kernel::entries::EntryPtr,
    kernel::fields::{self, KernelPtr, offset_of_field},
    kernel::helpers::read_kernel_text,
    kernel::scratch::Scratch,
    maps::{EVENTS, SEEN_FILE, wakeup_for_file},
};

/// `ANON_INODE_FS_MAGIC` of the kernel's include/uapi/linux/magic.h: files of this filesystem share
/// one inode.
pub const ANON_INODE_FS_MAGIC: u64 = 0x0904_1934;

/// `SOCKFS_MAGIC` of the same file: files of this filesystem are sockets.
const SOCKFS_MAGIC: u64 = 0x534f_434b;

/// Whether the file shares its inode with others, as `eventfd` and `epoll` do.
#[inline(always)]
pub fn shares_its_inode(file: KernelPtr) -> bool {
    filesystem_magic(inode_of(file)) == ANON_INODE_FS_MAGIC
}

#[inline(always)]
fn is_socket(file: KernelPtr) -> bool {
    offset_of_field!(socket_sk) != ABSENT && filesystem_magic(inode_of(file)) == SOCKFS_MAGIC
}

/// The inode of a file. Null if it cannot be read.
#[inline(always)]
fn inode_of(file: KernelPtr) -> KernelPtr {
    fields::probe_pointer(file, offset_of_field!(file_inode))
}

/// The number that tells the type of an inode's filesystem. 0 if it cannot be read.
#[inline(always)]
pub fn filesystem_magic(inode: KernelPtr) -> u64 {
    let sb = fields::probe_pointer(inode, offset_of_field!(inode_sb));
    fields::probe_or_zero(sb, offset_of_field!(sb_magic))
}

/// Reports what is not yet known of a file, and notes that it is known now. The result means
/// nothing. A global function, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn report(file: u64, known: *mut KnownFile) -> u32 {
    if known.is_null() {
        return 0;
    }
    // SAFETY: an entry of the map.
    let reported = unsafe { EntryPtr::new(&raw mut (*known).reported) };
    let file = file as KernelPtr;
    // A file that comes here again is a socket without a peer, or its event did not fit into the
    // ring buffer.
    if reported.load() != 0 && socket::known(file) == reported.load() {
        return 0;
    }
    let Some(seen) = Scratch::take(&SEEN_FILE) else {
        return 0;
    };
    // SAFETY: an entry of the map, whose number does not change.
    seen.number = unsafe { (*known).number };
    describe(file, seen);
    let now = if is_socket(file) {
        socket::describe_socket(file as u64);
        socket::known(file)
    } else {
        seen.path_end = path::describe_path(file as u64) as u16;
        seen.is_deleted = path::is_deleted(file).into();
        reported::ALL
    };
    if now != reported.load() && send(seen) {
        reported.store(now);
    }
    seen.release();
    0
}

/// Fills in what every file has.
#[inline(always)]
fn describe(file: KernelPtr, seen: &mut FileSeen) {
    let inode = fields::probe_pointer(file, offset_of_field!(file_inode));
    seen.kind = event_kind::FILE;
    seen.inode = fields::probe_or_zero(inode, offset_of_field!(inode_number));
    seen.size = fields::probe_or_zero(inode, offset_of_field!(inode_size));
    seen.generation = fields::probe_or_zero(inode, offset_of_field!(inode_generation));
    seen.mode = fields::probe_or_zero(inode, offset_of_field!(inode_mode));
    seen.open_flags = fields::probe_or_zero(file, offset_of_field!(file_flags));
    let sb = fields::probe_pointer(inode, offset_of_field!(inode_sb));
    seen.device = fields::probe_or_zero(sb, offset_of_field!(sb_device));
    seen.path_end = path_end::NONE;
    seen.is_deleted = 0;
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
