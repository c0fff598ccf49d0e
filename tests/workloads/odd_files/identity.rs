//! A descriptor whose file changes between calls.

use std::{
    fs::File,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
};

use anyhow::{Result, ensure};
use rustix::io::dup2;

/// How often the file behind the descriptor changes.
const CHANGES: usize = 100;

/// Another thread replaces the file of a descriptor by `a` and `b` in turn, with `dup2`. The writing
/// thread makes no other call in between: it writes 1 byte to `a` each time, and 2 to `b`.
pub(crate) fn replaced_by_thread() -> Result<()> {
    let (a, b) = (File::create("a")?, File::create("b")?);
    let mut changing = OwnedFd::from(File::open("/dev/null")?);
    dup2(&a, &mut changing)?;
    let changing = changing.as_fd();
    let (written, replaced) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for turn in 0..2 * CHANGES {
                spin_until(&replaced, turn);
                write_once(changing, if turn % 2 == 0 { b"1" } else { b"22" })?;
                written.store(turn + 1, SeqCst);
            }
            anyhow::Ok(())
        });
        for turn in 1..2 * CHANGES {
            spin_until(&written, turn);
            let file = if turn % 2 == 0 { &a } else { &b };
            // SAFETY: replaces the file of a descriptor of this process, which stays open.
            let result = unsafe { libc::dup2(file.as_raw_fd(), changing.as_raw_fd()) };
            ensure!(result >= 0, "dup2");
            replaced.store(turn, SeqCst);
        }
        writer.join().expect("the writer does not panic")
    })
}

fn spin_until(count: &AtomicUsize, wanted: usize) {
    while count.load(SeqCst) < wanted {
        std::hint::spin_loop();
    }
}

fn write_once(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<()> {
    let written = rustix::io::write(fd, bytes)?;
    ensure!(written == bytes.len(), "a short write");
    Ok(())
}
