//! Ends the program when memory runs out (`ulimit -v`): with one line on stderr and zctrace's own
//! exit status instead of an abort.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicU8, Ordering},
};

/// The system's allocator. When that fails, it ends the process.
struct ExitOnFailure;

#[global_allocator]
static ALLOCATOR: ExitOnFailure = ExitOnFailure;

/// The exit status when memory runs out.
static STATUS: AtomicU8 = AtomicU8::new(super::FAILED);

/// Whether a thread is already ending the process.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Sets the exit status of a process that runs out of memory.
pub fn set_exit_status(status: u8) {
    STATUS.store(status, Ordering::Relaxed);
}

// SAFETY: passes every call to the system's allocator unchanged, and returns its result, which is
// not null.
unsafe impl GlobalAlloc for ExitOnFailure {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this method, which is the same.
        or_exit(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this method, which is the same.
        or_exit(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this method, which is the same.
        or_exit(unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of this method, which is the same.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn or_exit(memory: *mut u8) -> *mut u8 {
    const MESSAGE: &[u8] =
        b"zctrace: out of memory; is there a limit, such as that of `ulimit -v`?\n";
    if memory.is_null() {
        while IS_ENDING.swap(true, Ordering::Relaxed) {
            // Another thread is printing the message and ending the process.
            // SAFETY: it takes no arguments.
            unsafe { libc::pause() };
        }
        // SAFETY: the message is static. Nothing here allocates or returns.
        unsafe {
            libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
            libc::_exit(STATUS.load(Ordering::Relaxed).into());
        }
    }
    memory
}
