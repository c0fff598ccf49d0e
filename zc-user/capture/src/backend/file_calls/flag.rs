//! The flags and commands of calls that matter, and their names.

macro_rules! flags {
    ($($name:ident = $value:expr,)+) => {
        $(pub const $name: u64 = $value as u64;)+
        /// All of them.
        pub const NAMES: &[(&[u8], u64)] = &[$((stringify!($name).as_bytes(), $name)),+];
    };
}

// O_TMPFILE without O_DIRECTORY, and O_SYNC, which contains O_DSYNC: the kernel's
// include/uapi/asm-generic/fcntl.h. MAP_SHARED is a bit of MAP_SHARED_VALIDATE, whose other bit is
// MAP_PRIVATE. The ioctls: its include/uapi/linux/fs.h and include/linux/falloc.h.
flags! {
    O_RDONLY = libc::O_RDONLY,
    O_WRONLY = libc::O_WRONLY,
    O_RDWR = libc::O_RDWR,
    O_CREAT = libc::O_CREAT,
    O_EXCL = libc::O_EXCL,
    O_TRUNC = libc::O_TRUNC,
    O_DSYNC = libc::O_DSYNC,
    O_SYNC = libc::O_SYNC,
    O_PATH = libc::O_PATH,
    O_DIRECT = libc::O_DIRECT,
    O_NOFOLLOW = libc::O_NOFOLLOW,
    O_CLOEXEC = libc::O_CLOEXEC,
    O_TMPFILE = libc::O_TMPFILE & !libc::O_DIRECTORY,
    PROT_WRITE = libc::PROT_WRITE,
    MAP_SHARED = libc::MAP_SHARED,
    MAP_SHARED_VALIDATE = libc::MAP_SHARED_VALIDATE,
    MAP_ANONYMOUS = libc::MAP_ANONYMOUS,
    MS_SYNC = libc::MS_SYNC,
    FALLOC_FL_KEEP_SIZE = libc::FALLOC_FL_KEEP_SIZE,
    FALLOC_FL_PUNCH_HOLE = libc::FALLOC_FL_PUNCH_HOLE,
    FALLOC_FL_COLLAPSE_RANGE = libc::FALLOC_FL_COLLAPSE_RANGE,
    FALLOC_FL_ZERO_RANGE = libc::FALLOC_FL_ZERO_RANGE,
    FALLOC_FL_INSERT_RANGE = libc::FALLOC_FL_INSERT_RANGE,
    RWF_DSYNC = libc::RWF_DSYNC,
    RWF_SYNC = libc::RWF_SYNC,
    AT_SYMLINK_NOFOLLOW = libc::AT_SYMLINK_NOFOLLOW,
    AT_SYMLINK_FOLLOW = libc::AT_SYMLINK_FOLLOW,
    AT_REMOVEDIR = libc::AT_REMOVEDIR,
    RENAME_EXCHANGE = libc::RENAME_EXCHANGE,
    CLONE_FS = libc::CLONE_FS,
    CLONE_FILES = libc::CLONE_FILES,
    CLONE_PIDFD = libc::CLONE_PIDFD,
    CLONE_PARENT = libc::CLONE_PARENT,
    CLONE_THREAD = libc::CLONE_THREAD,
    CLONE_NEWNS = libc::CLONE_NEWNS,
    CLOSE_RANGE_CLOEXEC = libc::CLOSE_RANGE_CLOEXEC,
    IORING_SETUP_SQPOLL = 2_u32,
    F_DUPFD = libc::F_DUPFD,
    F_DUPFD_CLOEXEC = libc::F_DUPFD_CLOEXEC,
    F_SETFD = libc::F_SETFD,
    FD_CLOEXEC = libc::FD_CLOEXEC,
    MSG_PEEK = libc::MSG_PEEK,
    MSG_TRUNC = libc::MSG_TRUNC,
    SOCK_STREAM = libc::SOCK_STREAM,
    SOCK_DGRAM = libc::SOCK_DGRAM,
    SOCK_RAW = libc::SOCK_RAW,
    SOCK_SEQPACKET = libc::SOCK_SEQPACKET,
    AF_UNIX = libc::AF_UNIX,
    AF_INET = libc::AF_INET,
    AF_INET6 = libc::AF_INET6,
    AF_KEY = libc::AF_KEY,
    AF_NETLINK = libc::AF_NETLINK,
    AF_PACKET = libc::AF_PACKET,
    AF_PPPOX = libc::AF_PPPOX,
    AF_CAN = libc::AF_CAN,
    AF_TIPC = libc::AF_TIPC,
    AF_BLUETOOTH = libc::AF_BLUETOOTH,
    AF_ALG = libc::AF_ALG,
    AF_VSOCK = libc::AF_VSOCK,
    AF_XDP = libc::AF_XDP,
    FICLONE = 0x4004_9409_u32,
    FICLONERANGE = 0x4020_940d_u32,
    FS_IOC_UNRESVSP = 0x4030_5829_u32,
    FS_IOC_UNRESVSP64 = 0x4030_582b_u32,
    FS_IOC_ZERO_RANGE = 0x4030_5839_u32,
}

/// The name of this family of sockets; its number, if programs rarely use it.
pub fn family(number: u64) -> String {
    let mut families = NAMES.iter().filter(|(name, _)| name.starts_with(b"AF_"));
    let known = families.find(|(_, known)| *known == number);
    known.map_or_else(
        || number.to_string(),
        |(name, _)| String::from_utf8_lossy(name).into_owned(),
    )
}
