//! What happens when there is no memory left (`ulimit -v`): one line on stderr and zctrace's own exit status, not an abort.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicU8, Ordering},
};

/// The system's allocator. It ends the process where that has nothing to give.
struct Ending;

#[global_allocator]
static ALLOCATOR: Ending = Ending;

/// The exit status then.
static STATUS: AtomicU8 = AtomicU8::new(super::FAILED);

/// Whether a thread has found out.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Sets the exit status of a process that runs out of memory.
pub fn exit_with(status: u8) {
    STATUS.store(status, Ordering::Relaxed);
}

// SAFETY: hands on every call as it is; what it gives back is the system's, and never null.
unsafe impl GlobalAlloc for Ending {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        given(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        given(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        given(unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn given(memory: *mut u8) -> *mut u8 {
    const MESSAGE: &[u8] = b"zctrace: out of memory: is there a limit, as of `ulimit -v`?\n";
    if memory.is_null() {
        while IS_ENDING.swap(true, Ordering::Relaxed) {
            // Another thread is about to say so and to end the process.
            // SAFETY: it takes no arguments.
            unsafe { libc::pause() };
        }
        // SAFETY: the bytes live for ever. Nothing here allocates or returns.
        unsafe {
            libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
            libc::_exit(STATUS.load(Ordering::Relaxed).into());
        }
    }
    memory
}
