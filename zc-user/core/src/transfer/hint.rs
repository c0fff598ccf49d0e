//! Hints: what would be cheaper, and what it costs.

use super::rules::{RuleCase, is_one_of};
use crate::{
    ends::End,
    trace::FileKind::{self, Block, Memfd, Pipe, Regular, Tcp, UnixStream},
    transfer::{Api, Edge, Evidence},
    units::short_bytes,
};

/// Below this, there is nothing to gain.
const MIN_BYTES: u64 = 1 << 20;
/// Calls that move less than this spend most of their time entering and leaving the kernel.
const SMALL_CALL_BYTES: u64 = 32 << 10;
/// The size that is recommended instead.
const LARGE_CALL_BYTES: u64 = 128 << 10;

/// Filesystems that store their files. A read gets as many bytes as it asks for, and `sendfile` and
/// `splice` work. Filesystems that generate their bytes, such as procfs and sysfs, give one page at
/// a time.
const STORING_FILESYSTEMS: &[&str] = &[
    "bcachefs", "btrfs", "ceph", "cifs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "gfs2",
    "iso9660", "jfs", "nfs", "nfs4", "nilfs2", "ntfs3", "ocfs2", "overlay", "ramfs", "smb3",
    "squashfs", "tmpfs", "ubifs", "udf", "vfat", "xfs", "zfs",
];

const STORED: &[FileKind] = &[Regular, Memfd, Block];
const CONNECTION: &[FileKind] = &[Tcp, UnixStream];

/// It is only for files of one filesystem.
const COPY_FILE_RANGE: &str = "copy_file_range";
const LATER_CHANGES: &str = "later changes to the file may show up in data on the way";
const FALLBACK: &str = "keep this loop as a fallback, since not every filesystem supports it, and none does with O_APPEND";

/// What can replace a loop through user memory: from and to which kinds of files, the call, and what
/// it costs. A trace does not show whether a file was opened with `O_APPEND`, so the hints mention it.
///
/// Source: the manual pages `sendfile(2)`, `splice(2)`, `copy_file_range(2)`. For later changes to
/// the file: `safe_kernel_copy` in rust-lang/rust `library/std/src/sys/io/kernel_copy/linux.rs`.
const CHEAPER: &[([&[FileKind]; 2], &str, &str)] = &[
    ([STORED, CONNECTION], "sendfile", LATER_CHANGES),
    ([STORED, &[Pipe]], "splice", LATER_CHANGES),
    ([&[Regular], &[Regular]], COPY_FILE_RANGE, FALLBACK),
    ([STORED, STORED], "sendfile", FALLBACK),
    ([&[Pipe], STORED], "splice", FALLBACK),
    ([&[Pipe], &[Pipe, Tcp, UnixStream]], "splice", "none"),
    ([CONNECTION, &[Pipe]], "splice", "none"),
];

/// A hint, if there is something to gain.
pub(super) fn hint_for(case: &RuleCase<'_>) -> Option<String> {
    let transfer = case.transfer;
    // A program that changes or copies the bytes needs them in its memory, in pieces that suit it.
    let needs_memory = matches!(
        transfer.evidence,
        Evidence::Changed | Evidence::Reused | Evidence::Totals
    );
    let is_worth_it = |bytes: &u64| *bytes >= MIN_BYTES && !needs_memory;
    let bytes = transfer.bytes.filter(is_worth_it)?;
    instead_of_a_loop(case).or_else(|| in_larger_pieces(bytes, case))
}

fn instead_of_a_loop(case: &RuleCase<'_>) -> Option<String> {
    let transfer = case.transfer;
    let (from, to) = (&transfer.from, &transfer.to);
    let is_loop = matches!(transfer.api, Api::ReadWrite | Api::MmapWrite);
    // A program that adds bytes of its own needs user memory. So does one that moves bytes within
    // one file. One that tried another interface before has this loop as its fallback.
    let may_only_copy = !case.flow.has_other_bytes()
        && (from.inode.is_none() || from.inode != to.inode)
        && transfer.attempts.is_empty();
    if !is_loop || !may_only_copy || has_generated_bytes(from) {
        return None;
    }
    let found = CHEAPER.iter().find(|([from_kinds, to_kinds], call, ..)| {
        is_one_of(from_kinds, from)
            && is_one_of(to_kinds, to)
            && (*call != COPY_FILE_RANGE || may_be_on_one_filesystem(from, to))
    });
    found.map(|(_, call, cost)| {
        format!("{call} would avoid copying through user memory, if the program neither inspects nor changes the bytes; cost: {cost}")
    })
}

/// Suggests larger pieces, if they are small because the program asks for no more. From a pipe or a
/// socket comes as much as was sent, what is written to a socket that keeps message boundaries is a
/// message, and how much a pipe takes is its own affair, so these get no hint.
fn in_larger_pieces(bytes: u64, case: &RuleCase<'_>) -> Option<String> {
    let Edge { from, to, api, .. } = &case.transfer.edge;
    let pieces = case.flow.moving_calls();
    let is_small = bytes.checked_div(pieces)? < SMALL_CALL_BYTES
        && case.flow.asked_at_source()? < SMALL_CALL_BYTES;
    let takes_more = is_one_of(STORED, to) || is_one_of(CONNECTION, to);
    if !is_small || !takes_more || !is_one_of(STORED, from) || has_generated_bytes(from) {
        return None;
    }
    let (name, few) = (api.in_words(), bytes.div_ceil(LARGE_CALL_BYTES));
    Some(format!(
        "{name} with {} at a time could need as few as {few} pieces instead of {pieces}, if the program can handle that much at once; cost: a larger buffer, if it has one",
        short_bytes(LARGE_CALL_BYTES)
    ))
}

/// Whether the kernel or another program may generate the bytes of this file when they are read.
fn has_generated_bytes(end: &End) -> bool {
    let fs = end.fs.as_deref().filter(|_| end.size != Some(0));
    let is_stored = fs.is_some_and(|name| STORING_FILESYSTEMS.contains(&name));
    is_one_of(&[Regular], end) && !is_stored
}

fn may_be_on_one_filesystem(from: &End, to: &End) -> bool {
    match (from.inode, to.inode) {
        (Some(from), Some(to)) => from.device == to.device,
        _ => from.fs.is_none() || from.fs == to.fs,
    }
}
