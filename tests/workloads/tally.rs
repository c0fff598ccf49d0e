//! Counts deliberate calls, checks each result, and runs them on a thread that makes no other
//! calls.

use std::{
    collections::BTreeMap,
    ffi::{CStr, c_void},
    io,
    mem::MaybeUninit,
    os::fd::IntoRawFd,
    ptr,
    str::FromStr as _,
};

use anyhow::{Result, ensure};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use zctrace::Sysno;

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

/// The most calls that a case counts. With more, counting would have to allocate.
const CALLS: usize = 1 << 16;

/// Notes calls without allocating, so that a counted thread makes no `mmap` of its own.
#[derive(Debug)]
pub struct Tally(Vec<(PlannedCall, Result<usize, Errno>)>);

/// A call that is to be made.
#[derive(Debug, Clone, Copy)]
pub struct PlannedCall {
    number: Sysno,
    arguments: [usize; 6],
    times: usize,
    name: &'static str,
    /// The size in its arguments; `None` if there is none, or it cannot be read.
    asked: Option<usize>,
    /// Whether the result is how many bytes it moved, as far as it asked for them.
    is_bytes: bool,
    want: Result<usize, Errno>,
}

impl PlannedCall {
    /// A call that returns how many bytes it moved. The arguments after those that are given are 0.
    /// It asks for `asked` bytes; `None` if its size cannot be read.
    pub fn moving(
        name: &'static str,
        arguments: &[usize],
        asked: impl Into<Option<usize>>,
        want: Result<usize, Errno>,
    ) -> Self {
        let mut call = Self::other(name, arguments, asked.into(), want);
        call.is_bytes = true;
        call
    }

    /// A call that moves all bytes that it asks for.
    pub fn full(name: &'static str, arguments: &[usize], asked: usize) -> Self {
        Self::moving(name, arguments, asked, Ok(asked))
    }

    /// A call whose result is not a number of bytes. `asked` is the size in its arguments, if there
    /// is one.
    pub fn other(
        name: &'static str,
        arguments: &[usize],
        asked: Option<usize>,
        want: Result<usize, Errno>,
    ) -> Self {
        // Kinds of `ioctl` have names of their own.
        let bare = name.split('(').next().unwrap_or_default();
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        Self {
            number: Sysno::from_str(bare).expect("there is such a call"),
            arguments: all,
            times: 1,
            name,
            asked,
            is_bytes: false,
            want,
        }
    }

    /// The number of the call.
    pub fn number(&self) -> libc::c_long {
        self.number.id().into()
    }

    /// The same call so many times.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self { times, ..self }
    }
}

/// A file that stays open, as an argument of a call.
pub fn descriptor(file: impl IntoRawFd) -> usize {
    usize::try_from(file.into_raw_fd()).expect("it is open")
}

/// The address of memory that lives as long as the process.
pub fn leaked<T>(value: T) -> usize {
    ptr::from_mut(Box::leak(Box::new(value))).expose_provenance()
}

/// Makes a call with these arguments, and returns its result.
///
/// # Safety
///
/// The memory that it names must be there, and unused by anything else meanwhile.
pub unsafe fn raw_call(number: Sysno, all: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: the caller sees to it.
    let result = unsafe {
        let number = number.id().into();
        libc::syscall(number, all[0], all[1], all[2], all[3], all[4], all[5])
    };
    let error = || Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO);
    usize::try_from(result).map_err(|_| error())
}

impl Default for Tally {
    fn default() -> Self {
        Self(Vec::with_capacity(CALLS))
    }
}

impl Tally {
    /// Makes these calls in their order, each as often as it says.
    ///
    /// # Safety
    ///
    /// The memory that the calls name must be there, and unused by anything else meanwhile.
    pub unsafe fn make(&mut self, calls: &[PlannedCall]) {
        for call in calls {
            for _ in 0..call.times {
                // SAFETY: the caller sees to it.
                let got = unsafe { raw_call(call.number, call.arguments) };
                assert!(self.0.len() < CALLS, "no room for another call");
                self.0.push((*call, got));
            }
        }
    }

    /// The figures of all calls. An error: one returned something else than it should have.
    pub fn figures(self) -> Result<Figures> {
        let mut figures = Figures::new();
        for (call, got) in self.0 {
            let PlannedCall { name, want, .. } = call;
            ensure!(want == got, "{name} returned {got:?} instead of {want:?}");
            let figure = figures.entry(name.to_owned()).or_insert_with(|| Figure {
                bytes: call.is_bytes.then_some(0),
                requested_bytes: Some(0),
                ..Figure::default()
            });
            figure.calls += 1;
            let plus = |sum: u64, more: usize| sum + more as u64;
            figure.requested_bytes = figure
                .requested_bytes
                .zip(call.asked)
                .map(|(a, b)| plus(a, b));
            match got {
                Ok(bytes) if call.is_bytes => {
                    // A message may be longer than the part that was received.
                    let moved = bytes.min(call.asked.unwrap_or(bytes));
                    figure.bytes = figure.bytes.map(|sum| plus(sum, moved));
                }
                Ok(_) => {}
                Err(errno) => {
                    figure.errors += 1;
                    let name = errno_name(errno.raw_os_error());
                    *figure.errnos.entry(name).or_default() += 1;
                }
            }
        }
        Ok(figures)
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
    let mut thread = MaybeUninit::uninit();
    // SAFETY: `enter` reads its argument as the `Start` that it is. The thread is joined before
    // `start` is dropped.
    let code = unsafe { create(thread.as_mut_ptr(), &mut start) };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    // SAFETY: pthread_create succeeded, so it has written the handle.
    let thread = unsafe { thread.assume_init() };
    let _joined_also_by_a_panic = Join(thread);
    Ok(meanwhile(thread))
}

/// Starts a thread that enters `start`.
unsafe fn create<F: FnOnce()>(thread: *mut libc::pthread_t, start: &mut Start<'_, F>) -> i32 {
    let start = ptr::from_mut(start).cast();
    // SAFETY: the caller sees to it.
    unsafe { libc::pthread_create(thread, ptr::null(), enter::<F>, start) }
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
