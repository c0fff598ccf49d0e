//! Why an interface refuses, by errno: rules as data, each with its source.

/// What it means that a call failed so.
#[derive(Debug)]
pub(super) struct Meaning {
    syscall: &'static str,
    errno: &'static str,
    /// A clause that explains it.
    pub(super) text: &'static str,
    /// Where that is written.
    pub(super) source: &'static str,
}

const fn meaning(syscall: &'static str, errno: &'static str, text: &'static str, source: &'static str) -> Meaning {
    Meaning { syscall, errno, text, source }
}

const COPY_FILE_RANGE_2: &str = "man-pages 6.03 copy_file_range(2), ERRORS; Linux 6.12 fs/read_write.c";
const SENDFILE_2: &str = "man-pages 6.03 sendfile(2), ERRORS; Linux 6.12 fs/splice.c";
const SPLICE_2: &str = "man-pages 6.03 splice(2), ERRORS; Linux 6.12 fs/splice.c";
const FICLONE_2: &str = "man-pages 6.03 ioctl_ficlonerange(2), ERRORS; Linux 6.12 fs/remap_range.c";

/// The meanings that are known.
pub(super) const MEANINGS: &[Meaning] = &[
    meaning("copy_file_range", "EXDEV", "copy_file_range does not work between these two filesystems", COPY_FILE_RANGE_2),
    meaning(
        "copy_file_range",
        "EBADF",
        "copy_file_range refuses a destination opened with O_APPEND or without write access",
        COPY_FILE_RANGE_2,
    ),
    meaning(
        "copy_file_range",
        "EINVAL",
        "copy_file_range works only on regular files, and not on overlapping ranges",
        COPY_FILE_RANGE_2,
    ),
    meaning("copy_file_range", "EOPNOTSUPP", "the filesystem does not support copy_file_range", COPY_FILE_RANGE_2),
    meaning(
        "copy_file_range",
        "ENOSYS",
        "a sandbox denies copy_file_range, or the kernel is older than Linux 4.5",
        "man-pages 6.03 copy_file_range(2), VERSIONS; seccomp(2), SECCOMP_RET_ERRNO",
    ),
    meaning("copy_file_range", "EPERM", "the destination is immutable, or a sandbox denies copy_file_range", COPY_FILE_RANGE_2),
    meaning("copy_file_range", "ETXTBSY", "copy_file_range cannot copy a file in use as swap", COPY_FILE_RANGE_2),
    meaning(
        "copy_file_range",
        "0 bytes",
        "copy_file_range took the source for empty: it relies on the file's length, which is 0 in special filesystems such as procfs",
        "man-pages 6.03 copy_file_range(2), BUGS; Linux 6.12 fs/read_write.c",
    ),
    meaning(
        "sendfile",
        "EINVAL",
        "sendfile needs a source that can be mapped, and a destination opened without O_APPEND",
        SENDFILE_2,
    ),
    meaning(
        "sendfile",
        "ENOSYS",
        "a sandbox denies sendfile, or the kernel does not have it",
        "man-pages 6.03 sendfile(2), NOTES; seccomp(2), SECCOMP_RET_ERRNO",
    ),
    meaning("sendfile", "EBADF", "sendfile needs a source open for reading and a destination open for writing", SENDFILE_2),
    meaning(
        "splice",
        "EINVAL",
        "splice needs a pipe at one end, and at the other a file that supports it and was opened without O_APPEND",
        SPLICE_2,
    ),
    meaning("splice", "EBADF", "splice needs a source open for reading and a destination open for writing", SPLICE_2),
    meaning(
        "splice",
        "ENOSYS",
        "a sandbox denies splice, or the kernel does not have it",
        "man-pages 6.03 splice(2), VERSIONS; seccomp(2), SECCOMP_RET_ERRNO",
    ),
    meaning("ioctl(FICLONE)", "EOPNOTSUPP", "the filesystem cannot share blocks between files", FICLONE_2),
    meaning("ioctl(FICLONE)", "ENOTTY", "the filesystem cannot share blocks between files", FICLONE_2),
    meaning("ioctl(FICLONE)", "EXDEV", "only files of one filesystem can share blocks", FICLONE_2),
    meaning(
        "ioctl(FICLONE)",
        "EINVAL",
        "these two files cannot share blocks: they are not regular files, or the ranges are not aligned to blocks",
        FICLONE_2,
    ),
    meaning("ioctl(FICLONE)", "EPERM", "the destination is immutable", FICLONE_2),
    meaning("ioctl(FICLONE)", "ETXTBSY", "a file in use as swap cannot share its blocks", FICLONE_2),
];

/// What it means that this call failed so, if known. The 32-bit name and `FICLONERANGE` mean the same as their kin.
pub(super) fn meaning_of(syscall: &str, errno: &str) -> Option<&'static Meaning> {
    let syscall = match syscall {
        "sendfile64" => "sendfile",
        "ioctl(FICLONERANGE)" => "ioctl(FICLONE)",
        other => other,
    };
    MEANINGS.iter().find(|meaning| meaning.syscall == syscall && meaning.errno == errno)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{errno, report::Attempt, syscall::TABLE};

    #[test]
    fn every_meaning_is_of_a_call_and_an_errno_that_exist() {
        let errnos: Vec<String> = (1..=133).map(errno::name).collect();
        for meaning in MEANINGS {
            assert!(TABLE.iter().any(|spec| spec.name == meaning.syscall), "{meaning:?}");
            assert!(meaning.errno == Attempt::NOTHING_MOVED || errnos.iter().any(|name| name == meaning.errno), "{meaning:?}");
            let found = meaning_of(meaning.syscall, meaning.errno).expect("is found");
            assert_eq!(found.text, meaning.text, "two for one errno");
        }
    }

    /// Container runtimes let calls that they deny fail as if the kernel had none.
    #[test]
    fn a_call_that_is_not_there_may_have_been_denied() {
        let missing: Vec<_> = MEANINGS.iter().filter(|meaning| meaning.errno == "ENOSYS").collect();
        assert_eq!(missing.len(), 3);
        for meaning in missing {
            assert!(meaning.text.starts_with(&format!("a sandbox denies {}, or the kernel ", meaning.syscall)), "{meaning:?}");
        }
    }

    #[test]
    fn kin_mean_the_same() {
        assert_eq!(meaning_of("sendfile64", "EINVAL").map(|meaning| meaning.syscall), Some("sendfile"));
        assert_eq!(meaning_of("ioctl(FICLONERANGE)", "EXDEV").map(|meaning| meaning.syscall), Some("ioctl(FICLONE)"));
        assert!(meaning_of("read", "EIO").is_none());
    }
}
