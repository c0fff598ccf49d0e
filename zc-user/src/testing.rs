//! For tests that assert system calls: what [`macro@crate::test`] stands on, and a macro for
//! expectations.

use std::{
    env,
    io::{Write as _, stderr},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{Command, RunError, closure::take_refusal, trace};

/// What a test needs to trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// eBPF or strace. strace traces commands; a test that traces a closure is skipped there.
    Either,
    /// eBPF: it asks for what strace does not know.
    Ebpf,
}

impl Needs {
    /// Why that cannot be had here, if so. What was found once is not tried again.
    pub fn missing(self) -> Option<RunError> {
        static FOUND: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
        let is_found = &FOUND[self as usize];
        if is_found.load(Ordering::Relaxed) {
            return None;
        }
        let tried = match self {
            Self::Ebpf => trace(|| ()).map(drop),
            Self::Either => Command::new("true").report().map(drop),
        };
        let missing = tried.err().filter(RunError::is_unavailable);
        is_found.store(missing.is_none(), Ordering::Relaxed);
        missing
    }
}

/// What a test returns.
pub trait TestResult {
    /// What a skipped test returns.
    fn skipped() -> Self;
}

impl TestResult for () {
    fn skipped() -> Self {}
}

impl<E> TestResult for Result<(), E> {
    fn skipped() -> Self {
        Ok(())
    }
}

/// Runs the body of a test if what it needs can be had here. If not, or if it traces a closure where
/// that is impossible, the test is skipped, and stderr says why.
///
/// # Panics
///
/// If nothing can be traced and the variable `CI` is set: there, a skipped test would stay unnoticed.
pub fn run<R: TestResult>(name: &str, needs: Needs, body: impl FnOnce() -> R) -> R {
    let why = if let Some(why) = needs.missing() {
        why.to_string()
    } else {
        take_refusal();
        let result = catch_unwind(AssertUnwindSafe(body));
        let Some(why) = take_refusal() else {
            return result.unwrap_or_else(|panic| resume_unwind(panic));
        };
        why
    };
    assert!(env::var_os("CI").is_none(), "nothing can be traced: {why}");
    // Not `eprintln!`, which libtest captures.
    let _ = writeln!(stderr(), "SKIPPED {name}: {why}");
    R::skipped()
}

/// Panics unless these [expectations](crate::expect) hold of a report, with what was found instead.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # std::env::set_current_dir(&dir)?;
/// # std::fs::write("in", "bytes")?;
/// let report = zctrace::Command::new("cp").args(["in", "out"]).report()?;
/// zctrace::assert_syscalls!(report, "write.calls == 0", "exit.code == 0 and copy_file_range.bytes == 5");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[macro_export]
macro_rules! assert_syscalls {
    ($report:expr, $($expectation:expr),+ $(,)?) => {{
        let report: &$crate::Report = &$report;
        $(if let Err(error) = report.expect($expectation) {
            panic!("{error}");
        })+
    }};
}
