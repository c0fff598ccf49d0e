//! The table of `io_uring`'s operations: which files they use, and what their result means.

use zc_ebpf::{INVALID_OPERATION, UNKNOWN_OPERATION};

use super::{
    Fds, Requested,
    Returned::{self, Bytes, Other},
    Spec,
};

/// Bytes come from the operation's file.
const READS: Fds = Fds::Reads(0);
/// Bytes go to the operation's file.
const WRITES: Fds = Fds::Writes(0);
/// Bytes go from a second file to the operation's own.
const COPIES: Fds = Fds::Copies { from: 1, to: 0 };
/// The operation uses its file and moves no bytes.
const ON: Fds = Fds::On(0);
/// The operation has no file.
const NONE: Fds = Fds::None;

const fn line(name: &'static str, fds: Fds, returned: Returned) -> Spec {
    Spec {
        name,
        requested: Requested::Nowhere,
        returned,
        fds,
    }
}

/// Every operation, by opcode. Requested sizes are not known.
///
/// Source: `enum io_uring_op` of the kernel's `include/uapi/linux/io_uring.h`, and `io_issue_defs`
/// of its `io_uring/opdef.c` for those that need a file; the results are those of the system calls
/// of the same name, see `io_uring_enter(2)`.
static TABLE: &[Spec] = &[
    line("nop", NONE, Other),
    line("readv", READS, Bytes),
    line("writev", WRITES, Bytes),
    line("fsync", ON, Other),
    line("read_fixed", READS, Bytes),
    line("write_fixed", WRITES, Bytes),
    line("poll_add", ON, Other),
    line("poll_remove", NONE, Other),
    line("sync_file_range", ON, Other),
    line("sendmsg", WRITES, Bytes),
    line("recvmsg", READS, Bytes),
    line("timeout", NONE, Other),
    line("timeout_remove", NONE, Other),
    line("accept", ON, Other),
    line("async_cancel", NONE, Other),
    line("link_timeout", NONE, Other),
    line("connect", ON, Other),
    line("fallocate", ON, Other),
    line("openat", NONE, Other),
    line("close", NONE, Other),
    line("files_update", NONE, Other),
    line("statx", NONE, Other),
    line("read", READS, Bytes),
    line("write", WRITES, Bytes),
    line("fadvise", ON, Other),
    line("madvise", NONE, Other),
    line("send", WRITES, Bytes),
    line("recv", READS, Bytes),
    line("openat2", NONE, Other),
    line("epoll_ctl", NONE, Other),
    line("splice", COPIES, Bytes),
    line("provide_buffers", NONE, Other),
    line("remove_buffers", NONE, Other),
    line("tee", COPIES, Bytes),
    line("shutdown", ON, Other),
    line("renameat", NONE, Other),
    line("unlinkat", NONE, Other),
    line("mkdirat", NONE, Other),
    line("symlinkat", NONE, Other),
    line("linkat", NONE, Other),
    line("msg_ring", ON, Other),
    line("fsetxattr", ON, Other),
    line("setxattr", NONE, Other),
    line("fgetxattr", ON, Other),
    line("getxattr", NONE, Other),
    line("socket", NONE, Other),
    line("uring_cmd", ON, Other),
    line("send_zc", WRITES, Bytes),
    line("sendmsg_zc", WRITES, Bytes),
    line("read_multishot", READS, Bytes),
    line("waitid", NONE, Other),
    line("futex_wait", NONE, Other),
    line("futex_wake", NONE, Other),
    line("futex_waitv", NONE, Other),
    line("fixed_fd_install", ON, Other),
    line("ftruncate", ON, Other),
    line("bind", ON, Other),
    line("listen", ON, Other),
    line("recv_zc", READS, Bytes),
    line("epoll_wait", ON, Other),
    line("readv_fixed", READS, Bytes),
    line("writev_fixed", WRITES, Bytes),
    line("pipe", NONE, Other),
];

/// Name of an operation that the kernel does not identify: it completes several times (multishot),
/// or its completion overflowed the queue.
pub(super) const UNKNOWN: &str = "unknown";

/// Name of an operation that the kernel refused as invalid. It does not keep opcodes that it does
/// not know.
const INVALID: &str = "invalid";

/// The name of the operation with this opcode. One that is not in the table becomes `op_N`.
pub(super) fn name(opcode: u32) -> String {
    match opcode {
        UNKNOWN_OPERATION => return UNKNOWN.to_owned(),
        INVALID_OPERATION => return INVALID.to_owned(),
        _ => {}
    }
    let spec = usize::try_from(opcode)
        .ok()
        .and_then(|opcode| TABLE.get(opcode));
    spec.map_or_else(|| format!("op_{opcode}"), |spec| spec.name.to_owned())
}

/// What is known of the operation of this name.
pub(super) fn spec(name: &str) -> Option<Spec> {
    TABLE.iter().find(|spec| spec.name == name).copied()
}

/// Every operation of the table with its opcode.
pub(super) fn operations() -> impl Iterator<Item = (u8, Spec)> {
    (0..=u8::MAX).zip(TABLE.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names in the machine's own header, in their order.
    fn names_in(header: &str) -> Vec<String> {
        let lines = header
            .lines()
            .map(str::trim)
            .filter_map(|line| line.strip_prefix("IORING_OP_"));
        let names = lines.map(|rest| {
            rest.split([',', ' ', '='])
                .next()
                .unwrap_or(rest)
                .to_ascii_lowercase()
        });
        names.take_while(|name| name != "last").collect()
    }

    #[test]
    fn opcodes_are_those_of_the_header() {
        let header = "enum io_uring_op {\n\tIORING_OP_NOP,\n\tIORING_OP_READV,\n\n\t/* this goes last */\n\tIORING_OP_LAST,\n};";
        assert_eq!(names_in(header), ["nop", "readv"]);
        let header = std::fs::read_to_string("/usr/include/linux/io_uring.h")
            .expect("the C library's headers are needed to build");
        let names = names_in(&header);
        assert!(names.len() > 40, "{names:?}");
        for (opcode, name) in (0..).zip(&names).take(TABLE.len()) {
            assert_eq!(super::name(opcode), *name, "opcode {opcode}");
        }
    }

    #[test]
    fn an_opcode_outside_the_table_has_a_name() {
        assert_eq!(
            [200, UNKNOWN_OPERATION, INVALID_OPERATION].map(name),
            ["op_200", "unknown", "invalid"]
        );
    }

    #[test]
    fn every_name_is_in_the_table_once() {
        for (opcode, spec) in operations() {
            assert_eq!(name(opcode.into()), spec.name);
            assert_eq!(super::spec(spec.name), Some(spec));
        }
    }
}
