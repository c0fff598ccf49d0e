//! Results of calls that all threads and processes of a program share, in the order in which the calls are made.
//!
//! Every thread goes through the whole program. It makes the calls that are its own, and takes the results of the others from here:
//! so each has the same picture of the world, and one call at a time is under way.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use anyhow::{Result, ensure};

/// Most calls of a program.
const MOST_CALLS: usize = 16_000;

#[repr(C)]
struct Shared {
    made: AtomicU32,
    results: [AtomicI64; MOST_CALLS],
}

/// A thread's view of it.
#[derive(Clone)]
pub(crate) struct Log {
    shared: &'static Shared,
    /// The results that this thread has seen.
    seen: u32,
}

impl Log {
    /// An empty one, which children inherit.
    pub(crate) fn new() -> Result<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: asks for new memory.
        let memory = unsafe { libc::mmap(ptr::null_mut(), size_of::<Shared>(), protection, flags, -1, 0) };
        ensure!(memory != libc::MAP_FAILED, "no shared memory");
        // SAFETY: it is never unmapped, it is large enough, and zeroes are a valid log.
        Ok(Self { shared: unsafe { &*memory.cast::<Shared>() }, seen: 0 })
    }

    /// The result of the next call: of this one if it is this thread's own, else of the thread whose call it is.
    pub(crate) fn result(&mut self, is_own: bool, call: impl FnOnce() -> i64) -> i64 {
        let index = self.seen;
        self.seen += 1;
        let place = &self.shared.results[index as usize];
        if is_own {
            let result = call();
            place.store(result, Ordering::Relaxed);
            self.shared.made.store(self.seen, Ordering::Release);
            self.futex(libc::FUTEX_WAKE, u32::MAX >> 1);
            return result;
        }
        loop {
            let made = self.shared.made.load(Ordering::Acquire);
            if made > index {
                return place.load(Ordering::Relaxed);
            }
            self.futex(libc::FUTEX_WAIT, made);
        }
    }

    fn futex(&self, operation: i32, value: u32) {
        // SAFETY: the word lives as long as the process; no time limit is given.
        unsafe {
            libc::syscall(libc::SYS_futex, self.shared.made.as_ptr(), operation, value, ptr::null::<libc::timespec>());
        }
    }

    /// Calls that were made so far.
    pub(crate) fn made(&self) -> u64 {
        self.seen.into()
    }

    /// Whether there is room for so many more.
    pub(crate) fn has_room(&self, calls: usize) -> bool {
        self.seen as usize + calls < MOST_CALLS
    }
}

/// The result of a call as the kernel returns it: the number, or the errno negated.
pub(crate) fn kernel_result(result: isize) -> i64 {
    if result >= 0 { result as i64 } else { -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(1)) }
}
