//! Work in a process of its own, with limits: a hostile file ends that process, and nothing else.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
};

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions};
use serde::{Serialize, de::DeserializeOwned};

/// The most memory that the work may need.
pub const MAX_BYTES: u64 = 512 << 20;
/// The most time of a processor that it may need.
pub const MAX_SECONDS: u64 = 60;
const MAX_RESULT_BYTES: u64 = 64 << 20;

/// Does the work in a copy of this process, and returns its result. `None` if the copy has failed:
/// it panicked, a limit ended it, or the system has no room for it.
pub fn run_apart<T: Serialize + DeserializeOwned>(work: impl FnOnce() -> T) -> Option<T> {
    let (mut reader, writer) = io::pipe().ok()?;
    // SAFETY: the copy has this thread alone. It makes the calls below and does the work, for which
    // it needs no other thread and no lock but that of the allocator, which the C library leaves
    // usable for it. It ends by `_exit`, so nothing of this process is torn down twice.
    let child = match unsafe { libc::fork() } {
        0 => {
            drop(reader);
            let done = limit_process().and_then(|()| send_result(work, writer));
            // SAFETY: ends the copy.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        id if id > 0 => Pid::from_raw(id)?,
        _ => return None,
    };
    drop(writer);
    let mut result = Vec::new();
    let read = (&mut reader)
        .take(MAX_RESULT_BYTES)
        .read_to_end(&mut result);
    // The copy must not wait for a reader.
    drop(reader);
    let ended =
        rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(child), WaitOptions::empty()));
    let has_succeeded = ended.ok().flatten()?.1.exit_status() == Some(0);
    read.ok().filter(|_| has_succeeded)?;
    serde_json::from_slice(&result).ok()
}

/// Limits this process, which is the copy. What it says of its end is of no use to anybody.
fn limit_process() -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let null = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stderr(null)?;
    for (resource, most) in [
        (Resource::Data, data_bytes()?.saturating_add(MAX_BYTES)),
        (Resource::Cpu, MAX_SECONDS),
        (Resource::Core, 0),
    ] {
        let now = rustix::process::getrlimit(resource);
        let most = now.maximum.map_or(most, |maximum| most.min(maximum));
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        rustix::process::setrlimit(resource, limit)?;
    }
    Ok(())
}

/// The memory that counts for the limit of data and is in use already (`man 5 proc_pid_statm`).
fn data_bytes() -> io::Result<u64> {
    let sizes = std::fs::read_to_string("/proc/self/statm")?;
    let pages = sizes
        .split_whitespace()
        .nth(5)
        .and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages
        .unwrap_or(0)
        .saturating_mul(rustix::param::page_size() as u64))
}

/// Does the work, and writes its result.
fn send_result<T: Serialize>(work: impl FnOnce() -> T, mut to: io::PipeWriter) -> io::Result<()> {
    let result = catch_unwind(AssertUnwindSafe(|| serde_json::to_vec(&work())));
    let result = result.map_err(|_| io::Error::other("it panicked"))?;
    to.write_all(&result?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_the_work_does_not_end_this_process() {
        assert_eq!(run_apart(|| 7), Some(7));
        assert_eq!(run_apart(|| -> u8 { panic!("as a parser does") }), None);
        assert_eq!(run_apart(|| -> u8 { std::process::abort() }), None);
        let allocate = |bytes: u64| {
            run_apart(|| vec![1_u8; usize::try_from(bytes).unwrap_or(usize::MAX)].len() as u64)
        };
        assert_eq!(allocate(MAX_BYTES / 2), Some(MAX_BYTES / 2));
        assert_eq!(allocate(MAX_BYTES * 2), None);
        assert_eq!(allocate(1 << 40), None);
    }
}
