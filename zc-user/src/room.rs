//! Room on the stack: `ulimit -s 128` leaves the first thread less than parsing and tracing need.

use std::{panic::resume_unwind, thread};

use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use rustix::process::{Resource, getrlimit};

/// How much is enough.
const STACK_BYTES: usize = 2 << 20;

/// Works in a thread with a stack of its own if the first thread has little room. That thread then
/// gets the signals, and the first one does something else `meanwhile` before it waits.
///
/// To be called where the process may have a second thread: not before it forks and works on.
pub fn with_room<T: Send>(work: impl Fn() -> T + Sync, meanwhile: impl FnOnce()) -> T {
    let has_room = getrlimit(Resource::Stack)
        .current
        .is_none_or(|bytes| bytes >= STACK_BYTES as u64);
    if has_room {
        return work();
    }
    let mut before = SigSet::empty();
    // A signal that this thread got would end the process. The mask is valid, so this does not fail.
    let _ = pthread_sigmask(
        SigmaskHow::SIG_SETMASK,
        Some(&SigSet::all()),
        Some(&mut before),
    );
    let as_before = || before.thread_set_mask();
    let done = thread::scope(|scope| {
        let in_thread = || {
            let _ = as_before();
            work()
        };
        let builder = thread::Builder::new().stack_size(STACK_BYTES);
        let worker = builder.spawn_scoped(scope, in_thread).ok()?;
        meanwhile();
        Some(worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let _ = as_before();
    // There may be no room for a thread.
    done.unwrap_or_else(work)
}
