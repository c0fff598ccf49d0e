//! Counts deliberate calls, checks each result, and runs them on a thread that makes no other
//! calls.

use std::{
    collections::BTreeMap,
    ffi::{CStr, c_void},
    io,
    mem::MaybeUninit,
    ptr,
};

use anyhow::{Result, bail};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::errno_name;

/// Figures of calls by name, as in zctrace's report.
pub type Figures = BTreeMap<String, Figure>;

/// The figures of one call, with the names and the meaning of zctrace's report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// Calls that returned, including those that failed.
    pub calls: u64,
    /// Calls that returned an error.
    pub errors: u64,
    /// Calls that returned an error, by errno name.
    pub errnos: BTreeMap<String, u64>,
    /// Calls that were entered and never returned.
    pub unfinished: u64,
    /// The bytes that the calls returned as moved; `None` where the result is not a byte count.
    pub bytes: Option<u64>,
    /// The bytes that the calls asked for, including failed ones; `None` where the arguments do not
    /// say.
    pub requested_bytes: Option<u64>,
}

impl Figure {
    /// The figures of `calls` calls that each asked for `size` bytes and moved them.
    pub fn of_calls(calls: u64, size: u64) -> Self {
        Self {
            calls,
            bytes: Some(calls * size),
            requested_bytes: Some(calls * size),
            ..Self::default()
        }
    }
}

/// The most different calls that a case makes. With more, counting would have to allocate.
const CALLS: usize = 40;
/// The most different errnos of one call.
const ERRNOS: usize = 4;

/// Counts calls without allocating, so that a counted thread makes no `mmap` of its own.
#[derive(Debug)]
pub struct Tally {
    rows: Vec<Row>,
    surprises: u64,
    first_surprise: Option<Surprise>,
}

/// One call's figures while they grow.
#[derive(Debug)]
struct Row {
    name: &'static str,
    calls: u64,
    bytes: Option<u64>,
    requested: Option<u64>,
    errnos: [Option<(Errno, u64)>; ERRNOS],
}

/// A call that did not return what it was known to return.
#[derive(Debug)]
struct Surprise {
    name: &'static str,
    want: Result<usize, Errno>,
    got: Result<usize, Errno>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            rows: Vec::with_capacity(CALLS),
            surprises: 0,
            first_surprise: None,
        }
    }
}

impl Tally {
    /// Counts a call that returns how many bytes it moved. It asked for `asked` bytes; `None` if
    /// its size cannot be read.
    pub fn moved(
        &mut self,
        name: &'static str,
        asked: impl Into<Option<usize>>,
        want: Result<usize, Errno>,
        got: Result<usize, Errno>,
    ) {
        let row = self.count(name, asked.into(), want, got);
        row.bytes = Some(row.bytes.unwrap_or(0) + got.unwrap_or(0) as u64);
    }

    /// Counts a call that moves all bytes that it asks for.
    pub fn full(&mut self, name: &'static str, asked: usize, got: Result<usize, Errno>) {
        self.moved(name, asked, Ok(asked), got);
    }

    /// Counts a call whose result is not a number of bytes. `asked` is the size in its arguments,
    /// if there is one.
    pub fn done<T>(
        &mut self,
        name: &'static str,
        asked: Option<usize>,
        want: Result<(), Errno>,
        got: Result<T, Errno>,
    ) {
        self.count(name, asked, want.map(|()| 0), got.map(|_| 0));
    }

    /// What both kinds of call have in common.
    fn count(
        &mut self,
        name: &'static str,
        asked: Option<usize>,
        want: Result<usize, Errno>,
        got: Result<usize, Errno>,
    ) -> &mut Row {
        if want != got {
            self.surprises += 1;
            let surprise = Surprise { name, want, got };
            self.first_surprise.get_or_insert(surprise);
        }
        let known = self.rows.iter().position(|row| row.name == name);
        let index = known.unwrap_or(self.rows.len());
        if known.is_none() {
            assert!(index < CALLS, "no room for {name}");
            self.rows.push(Row {
                name,
                calls: 0,
                bytes: None,
                requested: asked.map(|_| 0),
                errnos: [None; ERRNOS],
            });
        }
        let row = &mut self.rows[index];
        row.calls += 1;
        let sum = row.requested.zip(asked);
        row.requested = sum.map(|(sum, asked)| sum + asked as u64);
        if let Err(errno) = got {
            row.count_error(errno);
        }
        row
    }

    /// The figures of all calls.
    ///
    /// # Errors
    ///
    /// If a call returned something else than it should have. Then nothing about this run is known.
    pub fn figures(self) -> Result<Figures> {
        if let Some(Surprise { name, want, got }) = self.first_surprise {
            let (got, want, surprises) = (shown(got), shown(want), self.surprises);
            bail!("{name} returned {got} instead of {want} ({surprises} surprises)");
        }
        let named = |row: Row| (row.name.to_owned(), row.figure());
        Ok(self.rows.into_iter().map(named).collect())
    }
}

/// A result as manual pages write it: a number, or an errno.
fn shown(result: Result<usize, Errno>) -> String {
    result.map_or_else(
        |errno| errno_name(errno.raw_os_error()),
        |count| count.to_string(),
    )
}

impl Row {
    /// Counts one failed call.
    fn count_error(&mut self, errno: Errno) {
        let mut slots = self.errnos.iter_mut();
        let slot = slots.find(|slot| slot.is_none_or(|(known, _)| known == errno));
        let slot = slot.expect("a call fails in a few ways only");
        slot.get_or_insert((errno, 0)).1 += 1;
    }

    /// The finished figures.
    fn figure(self) -> Figure {
        let errnos = self.errnos.into_iter().flatten();
        let errnos: BTreeMap<_, _> = errnos
            .map(|(errno, count)| (errno_name(errno.raw_os_error()), count))
            .collect();
        Figure {
            calls: self.calls,
            errors: errnos.values().sum(),
            errnos,
            unfinished: 0,
            bytes: self.bytes,
            requested_bytes: self.requested,
        }
    }
}

/// What a new thread starts with.
struct Start<'a, F> {
    name: &'a CStr,
    body: Option<F>,
}

/// Runs `body` on a new thread called `name` (at most 15 bytes), and `meanwhile` on this one.
/// Returns when both have ended.
///
/// The thread is created by `pthread_create` directly: a thread of the standard library maps and
/// unmaps a signal stack of its own, and those `mmap` and `munmap` would be counted with the
/// deliberate ones. For the same reason `body` must not allocate.
pub fn with_bare_thread<T>(
    name: &CStr,
    body: impl FnOnce() + Send,
    meanwhile: impl FnOnce(libc::pthread_t) -> T,
) -> io::Result<T> {
    let body = Some(body);
    let mut start = Start { name, body };
    let thread = spawn(&mut start)?;
    let _joined_also_by_a_panic = Join(thread);
    Ok(meanwhile(thread))
}

/// Starts the thread. The caller keeps `start` where it is until the thread has ended.
fn spawn<F: FnOnce() + Send>(start: &mut Start<'_, F>) -> io::Result<libc::pthread_t> {
    let mut thread = MaybeUninit::uninit();
    // SAFETY: `enter::<F>` reads its argument as the `Start<F>` that it is. `with_bare_thread`, the
    // only caller, joins the thread before `start` is dropped.
    let code = unsafe {
        let start = ptr::from_mut(start).cast();
        libc::pthread_create(thread.as_mut_ptr(), ptr::null(), enter::<F>, start)
    };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    // SAFETY: pthread_create succeeded, so it has written the handle.
    Ok(unsafe { thread.assume_init() })
}

/// The thread's first function. A panic in `body` aborts the process, because this is an `extern
/// "C"` function.
extern "C" fn enter<F: FnOnce()>(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` passes a `Start<F>` that lives until this thread is joined, and does not use
    // it any more.
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

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::Tally;

    #[test]
    fn calls_bytes_and_errnos_are_summed() {
        let mut tally = Tally::default();
        tally.moved("read", 100, Ok(60), Ok(60));
        tally.moved("read", 100, Err(Errno::AGAIN), Err(Errno::AGAIN));
        let refused = Err(Errno::OPNOTSUPP);
        tally.done("ioctl", None, refused, refused);
        let figures = tally.figures().expect("all as wanted");
        let (read, ioctl) = (&figures["read"], &figures["ioctl"]);
        assert_eq!((read.calls, read.errors), (2, 1));
        assert_eq!((read.bytes, read.requested_bytes), (Some(60), Some(200)));
        assert_eq!(read.errnos["EAGAIN"], 1);
        assert_eq!((ioctl.bytes, ioctl.requested_bytes), (None, None));
    }

    #[test]
    fn a_surprise_makes_the_figures_unknown() {
        let mut tally = Tally::default();
        tally.moved("read", 100, Ok(100), Ok(60));
        let error = tally.figures().expect_err("60 are not 100").to_string();
        assert!(
            error.starts_with("read returned 60 instead of 100"),
            "{error}"
        );
    }
}
