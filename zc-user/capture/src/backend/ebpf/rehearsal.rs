//! A rehearsal before each trace: the kernel runs each program once for a task of zctrace's own. So
//! a program that is attached but does not run is an error, and not a report of zeroes.
//!
//! A thread makes a call and uses an `io_uring`. It is followed in a phase of its own in which nothing
//! is counted. The kernel side notes which programs ran for the task and reports it when the task
//! ends. A thread cannot try the program at `sched_process_exec`: a run whose command's exec was not
//! seen is an error.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use aya::maps::{MapData, RingBuf};
use io_uring::{IoUring, opcode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zc_ebpf::{EventHeader, armed, event_kind, hook};

use super::{
    events,
    hooks::Hook,
    kernel::TypesFile,
    object::{LoadSettings, Loaded, Watched},
    unavailable::{self, EbpfUnavailable, refused},
};

/// How long the report of a task's end may take. It takes microseconds; on a loaded machine, more.
const LIMIT: Duration = Duration::from_secs(10);

/// The programs that run for a thread.
const OF_A_TASK: u32 = hook::FORK | hook::SYS_ENTER | hook::SYS_EXIT | hook::EXIT | hook::SWITCH;
/// The programs that run for an `io_uring`.
const OF_A_RING: u32 = hook::RING_CREATE | hook::RING_SUBMIT | hook::RING_COMPLETE;

/// The bit of each program of [`programs`](zc_ebpf::programs), and its name. A program that
/// replaces one has the same bit.
const NAMES: [(u32, &str); 8] = [
    (hook::FORK, "sched_process_fork"),
    (hook::EXIT, "sched_process_exit"),
    (hook::SWITCH, "sched_switch"),
    (hook::SYS_ENTER, "sys_enter"),
    (hook::SYS_EXIT, "sys_exit"),
    (hook::RING_CREATE, "ring_create"),
    (hook::RING_SUBMIT, "ring_submit"),
    (hook::RING_COMPLETE, "ring_complete"),
];

/// Loads the programs for a kernel with these types, attaches them, and has the kernel run each
/// once.
pub fn load(
    settings: &LoadSettings<'_>,
    types: TypesFile,
) -> Result<(Loaded, Watched), EbpfUnavailable> {
    let (mut loaded, mut watched) = Loaded::new(settings, types)?;
    loaded.untested_rings = rehearse(&mut loaded, &mut watched.events)?;
    Ok((loaded, watched))
}

/// Has the kernel run each program; those of `io_uring` if they are attached. Returns why these
/// could not be tried, as a sentence.
fn rehearse(
    loaded: &mut Loaded,
    events: &mut RingBuf<MapData>,
) -> Result<Option<String>, EbpfUnavailable> {
    let with_rings = loaded.hooks().iter().any(Hook::is_for_rings);
    loaded.arm(armed::REHEARSAL)?;
    let rings = run_thread(with_rings).map_err(|error| refused(&error))?;
    let seen = if loaded.is_armed()? {
        // The kernel side has not seen the thread.
        loaded.arm(armed::OFF)?;
        0
    } else {
        until_ended(events, LIMIT).map_err(|error| refused(&error))?
    };
    let wanted = if with_rings && rings.is_ok() {
        OF_A_TASK | OF_A_RING
    } else {
        OF_A_TASK
    };
    let silent = silent(wanted, seen, loaded.hooks());
    if !silent.is_empty() {
        return Err(EbpfUnavailable::Silent {
            tracepoints: silent.join(", "),
            release: unavailable::release(),
        });
    }
    Ok(rings.err().map(|error| {
        format!("zctrace could not try whether it sees operations of io_uring: {error}")
    }))
}

/// The tracepoints of the programs that should have run and did not.
fn silent(wanted: u32, seen: u32, attached: &[Hook]) -> Vec<&'static str> {
    // A task whose start is not seen has no end, and without its end nothing is reported.
    let missing = match wanted & !seen {
        missing if missing & hook::FORK != 0 => hook::FORK,
        missing if missing & hook::SWITCH != 0 => hook::SWITCH,
        missing => missing,
    };
    let missing_names = NAMES.iter().filter(|(hook, _)| missing & hook != 0);
    let tracepoint = |&(_, name): &(u32, &'static str)| {
        let mut hooks = attached.iter();
        let hook = hooks.find(|hook| hook.role == name);
        hook.map_or(name, Hook::attached_to)
    };
    missing_names.map(tracepoint).collect()
}

/// Runs a thread that makes a call, and uses an `io_uring` if asked to; the inner result says
/// whether it could.
fn run_thread(with_rings: bool) -> io::Result<io::Result<()>> {
    let act = move || {
        let _ = std::os::unix::process::parent_id();
        if with_rings { use_ring() } else { Ok(()) }
    };
    let thread = thread::Builder::new().name("zctrace".into()).spawn(act)?;
    thread
        .join()
        .map_err(|_| io::Error::other("the thread of a rehearsal panicked"))
}

/// Completes an operation that does nothing. `ring_overflow` is not tried: an operation without
/// room for its completion would be a loss in a trace of this zctrace.
fn use_ring() -> io::Result<()> {
    let mut ring = IoUring::new(1)?;
    // SAFETY: the operation has no memory and no descriptor.
    unsafe { ring.submission().push(&opcode::Nop::new().build()) }.map_err(io::Error::other)?;
    ring.submit_and_wait(1).map(drop)
}

/// Waits until the task of a rehearsal has ended; returns the programs that ran for it.
fn until_ended(events: &mut RingBuf<MapData>, limit: Duration) -> io::Result<u32> {
    let deadline = Instant::now() + limit;
    let mut seen = 0;
    loop {
        while let Some(bytes) = events.next() {
            let Some(header) = events::read::<EventHeader>(&bytes) else {
                continue;
            };
            match header.kind {
                event_kind::STARTED => seen |= hook::FORK,
                event_kind::ENDED => return Ok(seen | header.extra | hook::SWITCH),
                _ => {}
            }
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(seen);
        }
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use zc_ebpf::programs;

    use super::*;
    use crate::backend::ebpf::hooks::Preemption;

    /// The programs that are attached to a kernel with `io_uring`.
    fn attached(preemption: Preemption) -> Vec<Hook> {
        let rings = programs::RING.map(|(program, tracepoints)| (program, tracepoints[0]));
        Hook::choose(&rings, preemption)
    }

    #[test]
    fn programs_that_did_not_run_are_named_by_their_tracepoints() {
        let all = OF_A_TASK | OF_A_RING;
        let attached = attached(Preemption::Never);
        for (hook, name) in NAMES {
            let mut hooks = attached.iter();
            let role = hooks.find(|hook| hook.role == name).expect("is attached");
            assert_eq!(silent(all, all & !hook, &attached), [role.attached_to()]);
        }
        let two = hook::SYS_ENTER | hook::RING_SUBMIT;
        for (wanted, seen, names) in [
            (all, all, &[][..]),
            (all, all & !two, &["sys_enter", "io_uring_submit_req"]),
            // Programs that were not tried are not missing.
            (OF_A_TASK, OF_A_TASK, &[]),
            // If a task is not reported, its start or its end is blamed.
            (OF_A_TASK, 0, &["sched_process_fork"]),
            (OF_A_TASK, hook::FORK, &["sched_switch"]),
        ] {
            assert_eq!(silent(wanted, seen, &attached), names);
        }
    }

    #[test]
    fn a_program_that_replaces_another_is_named_by_its_own_tracepoint() {
        let attached = attached(Preemption::Avoided);
        assert_eq!(silent(OF_A_TASK, 0, &attached), ["sched_wakeup_new"]);
    }
}
