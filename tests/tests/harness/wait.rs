//! Waiting for the thing itself.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, test_kill_process};

/// What has not come true after this long never will.
const DEADLINE: Duration = Duration::from_secs(30);

/// A limit for waiting, on a machine as slow as this one. It is no part of what a test asserts: what comes in time comes in time.
pub fn patience(limit: Duration) -> Duration {
    limit * zc_tests::patience()
}

/// Waits until something is so.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let limit = patience(DEADLINE);
    let deadline = Instant::now() + limit;
    while !is_so() {
        assert!(Instant::now() < deadline, "after {limit:?} still not so: {what}");
        thread::yield_now();
    }
}

/// Whether there is such a process.
pub fn is_alive(process: u32) -> bool {
    let id = i32::try_from(process).ok().and_then(Pid::from_raw).expect("an id");
    test_kill_process(id).is_ok()
}

/// The only child of a process.
#[track_caller]
pub fn child_of(parent: Pid) -> Pid {
    let id = parent.as_raw_pid();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("it lives");
    children.trim().parse().ok().and_then(Pid::from_raw).unwrap_or_else(|| panic!("not one child: {children:?}"))
}

/// The state of a process as a letter, `T` for a stopped one (`man 5 proc_pid_stat`).
#[track_caller]
pub fn state_of(process: Pid) -> char {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid())).expect("it lives");
    stat.rsplit_once(") ").and_then(|(_, fields)| fields.chars().next()).expect("fields")
}
