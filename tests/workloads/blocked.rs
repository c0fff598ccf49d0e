//! Knowing that another task is inside a call.

use std::{fs, io, thread};

/// Waits until the task `task` (`self/task/TID`, or `PID`) is inside the system call numbered `number`.
///
/// Looks at `/proc/TASK/syscall`, which says `running` or the number of the call that the task waits in. It makes an unknown
/// number of `openat`, `read` and `close` calls on the calling thread.
pub fn wait_until_in_call(task: &str, number: libc::c_long) -> io::Result<()> {
    let path = format!("/proc/{task}/syscall");
    let number = number.to_string();
    while fs::read_to_string(&path)?.split_whitespace().next() != Some(&number) {
        thread::yield_now();
    }
    Ok(())
}
