//! Threads whose calls are all deliberate.

use std::ffi::{CStr, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// What a new thread starts with.
struct Start<'a, F> {
    name: &'a CStr,
    body: Option<F>,
}

/// Runs `body` on a new thread called `name` (at most 15 bytes), and `meanwhile` on this one; returns when both have ended.
///
/// The thread is made by `pthread_create` directly: a thread of the standard library maps and unmaps a signal stack of its own,
/// and those `mmap` and `munmap` would stand among the deliberate ones. `body` must not allocate either, for the same reason.
pub fn with_bare_thread<T>(
    name: &CStr,
    body: impl FnOnce() + Send,
    meanwhile: impl FnOnce(libc::pthread_t) -> T,
) -> io::Result<T> {
    let mut start = Start { name, body: Some(body) };
    let thread = spawn(&mut start)?;
    let _joined_also_by_a_panic = Join(thread);
    Ok(meanwhile(thread))
}

/// Starts the thread. The caller keeps `start` where it is until the thread has ended.
fn spawn<F: FnOnce() + Send>(start: &mut Start<'_, F>) -> io::Result<libc::pthread_t> {
    let mut thread = MaybeUninit::uninit();
    // SAFETY: `enter::<F>` reads its argument as the `Start<F>` that it is; `with_bare_thread`, the only caller, joins the
    // thread before `start` goes.
    let code = unsafe { libc::pthread_create(thread.as_mut_ptr(), ptr::null(), enter::<F>, ptr::from_mut(start).cast()) };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    // SAFETY: pthread_create succeeded, so it has written the handle.
    Ok(unsafe { thread.assume_init() })
}

/// The thread's first function. A panic in `body` aborts the process, as `extern "C"` has it.
extern "C" fn enter<F: FnOnce()>(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` passes a `Start<F>` that lives until this thread is joined, and touches it no more itself.
    let start = unsafe { &mut *argument.cast::<Start<'_, F>>() };
    // SAFETY: the name is a C string, and the thread is this one.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), start.name.as_ptr()) };
    if let Some(body) = start.body.take() {
        body();
    }
    ptr::null_mut()
}

/// Waits for the thread when dropped.
struct Join(libc::pthread_t);

impl Drop for Join {
    fn drop(&mut self) {
        // SAFETY: the handle is of a joinable thread, and this is the only place that joins it.
        unsafe { libc::pthread_join(self.0, ptr::null_mut()) };
    }
}
