//! Creates aya's loader without the types of the whole kernel.
//!
//! In aya 0.14, a new loader reads and parses `/sys/kernel/btf/vmlinux`, for relocations that our
//! programs do not have. That takes 35 ms of a start, and cannot be switched off. Later versions do
//! it when it is needed (pull requests 1639 and 1644 of aya); then this module is no longer needed.
//! If the file cannot be opened, aya does without. So the loader is created in a thread that cannot
//! open files: a seccomp filter of this thread alone lets these calls fail.

use std::{io, mem::offset_of};

use aya::{
    Ebpf, EbpfLoader,
    maps::{Map, MapError},
};
use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, PR_SET_SECCOMP, SECCOMP_MODE_FILTER,
    SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, seccomp_data, sock_filter, sock_fprog,
};
use nix::errno::Errno;

use super::unavailable::{EbpfUnavailable, refused};

/// The calls that open files.
const OPEN: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_openat2,
];

/// Probes the kernel's features for aya, and makes a loader. Call it in a thread of its own, which
/// can then open no more files. If the filter cannot be installed, loading only takes longer.
pub fn new() -> EbpfLoader<'static> {
    // aya probes them at the first use, and opens files for it.
    let _ = aya::features();
    let _ = forbid_open();
    EbpfLoader::new()
}

/// The map of this name.
pub fn take_map<T: TryFrom<Map, Error = MapError>>(
    ebpf: &mut Ebpf,
    name: &str,
) -> Result<T, EbpfUnavailable> {
    let map = ebpf
        .take_map(name)
        .ok_or_else(|| EbpfUnavailable::Refused(format!("the object has no map {name}")))?;
    T::try_from(map).map_err(|error| refused(&error))
}

/// Lets this thread open no files any more. Needs no privileges, and concerns no other thread.
fn forbid_open() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    let filter = seccomp_filter();
    let program = sock_fprog {
        len: u16::try_from(filter.len()).unwrap_or(0),
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel copies the filter. It is for the calls of this thread, which makes none of
    // another architecture.
    let outcome = unsafe { libc::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &raw const program) };
    Ok(Errno::result(outcome).map(drop)?)
}

/// `ENOENT` for the calls of [`OPEN`]; all others are allowed.
fn seccomp_filter() -> Vec<sock_filter> {
    let refusal = SECCOMP_RET_ERRNO | libc::ENOENT.unsigned_abs();
    let load_number = filter_instruction(BPF_LD | BPF_W | BPF_ABS, offset_of!(seccomp_data, nr), 0);
    let mut filter = vec![load_number];
    for &call in OPEN {
        // The next instruction is skipped if it is not this call.
        filter.push(filter_instruction(BPF_JMP | BPF_JEQ | BPF_K, call, 1));
        filter.push(filter_instruction(BPF_RET | BPF_K, refusal, 0));
    }
    filter.push(filter_instruction(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0));
    filter
}

/// An instruction; it skips so many after it if its comparison fails.
fn filter_instruction(code: u32, value: impl TryInto<u32>, skipped: u8) -> sock_filter {
    sock_filter {
        code: u16::try_from(code).unwrap_or(0),
        jt: 0,
        jf: skipped,
        k: value.try_into().unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::*;

    #[test]
    fn only_the_thread_of_the_loader_cannot_open_files() {
        let within = thread::spawn(|| {
            forbid_open().expect("seccomp is allowed here");
            let read = fs::read("/sys/kernel/btf/vmlinux");
            read.expect_err("cannot be opened").kind()
        });
        assert_eq!(within.join().expect("no panic"), io::ErrorKind::NotFound);
        assert!(fs::metadata("/").is_ok() && fs::File::open("/proc/self/status").is_ok());
    }

    #[test]
    fn a_new_loader_has_no_types_of_the_kernel() {
        let loader = thread::spawn(new).join().expect("no panic");
        assert!(format!("{loader:?}").starts_with("EbpfLoader { btf: None,"));
    }
}
