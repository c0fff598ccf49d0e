//! A rehearsal before each trace: the kernel runs each program once for a task of zctrace's own. So
//! a program that is attached but does not run is an error, and not a report of zeroes.
//!
//! It has two steps. A thread makes a call and uses an `io_uring`; a process with the smallest
//! possible program triggers `sched_process_exec`, which a thread cannot. Both are followed in a
//! phase of their own in which nothing is counted. The kernel side notes which programs ran for a
//! task and reports it when the task ends.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::AsRawFd as _,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use aya::maps::{MapData, RingBuf};
use io_uring::{IoUring, opcode};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{MemfdFlags, memfd_create},
};
use zc_ebpf::{EventHeader, armed, event_kind, hook};

use super::{
    events,
    hooks::Hook,
    kernel::TypesFile,
    object::{Loaded, Settings, Untested},
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
const NAMES: [(u32, &str); 9] = [
    (hook::FORK, "sched_process_fork"),
    (hook::EXEC, "sched_process_exec"),
    (hook::EXIT, "sched_process_exit"),
    (hook::SWITCH, "sched_switch"),
    (hook::SYS_ENTER, "sys_enter"),
    (hook::SYS_EXIT, "sys_exit"),
    (hook::RING_CREATE, "ring_create"),
    (hook::RING_SUBMIT, "ring_submit"),
    (hook::RING_COMPLETE, "ring_complete"),
];

/// Loads the programs for a kernel with these types, attaches them, and has the kernel run each
/// once. Also returns the events of the kernel side.
pub fn load(
    settings: &Settings<'_>,
    types: TypesFile,
) -> Result<(Loaded, RingBuf<MapData>), EbpfUnavailable> {
    let (mut loaded, mut events) = Loaded::new(settings, types)?;
    loaded.untested = rehearse(&mut loaded, &mut events)?;
    Ok((loaded, events))
}

/// Has the kernel run each program; those of `io_uring` if they are attached.
fn rehearse(
    loaded: &mut Loaded,
    events: &mut RingBuf<MapData>,
) -> Result<Untested, EbpfUnavailable> {
    let with_rings = loaded.hooks().iter().any(Hook::is_for_rings);
    let (rings, by_thread) = act(loaded, events, || run_thread(with_rings))?;
    let rings = rings.map_err(|error| refused(&error))?;
    let (exec, by_process) = act(loaded, events, run_process)?;
    let mut wanted = OF_A_TASK;
    if with_rings && rings.is_ok() {
        wanted |= OF_A_RING;
    }
    if exec.is_ok() {
        wanted |= hook::EXEC;
    }
    let silent = silent(wanted, by_thread | by_process, loaded.hooks());
    if !silent.is_empty() {
        return Err(EbpfUnavailable::Silent {
            tracepoints: silent.join(", "),
            release: unavailable::release(),
        });
    }
    let untested = |what, error| format!("zctrace could not try whether it sees {what}: {error}");
    Ok(Untested {
        exec: exec
            .err()
            .map(|error| untested("the start of programs", error)),
        rings: rings
            .err()
            .map(|error| untested("operations of io_uring", error)),
    })
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

/// Creates one task; returns its result and the programs that ran for it.
fn act<T>(
    loaded: &mut Loaded,
    events: &mut RingBuf<MapData>,
    create: impl FnOnce() -> io::Result<T>,
) -> Result<(io::Result<T>, u32), EbpfUnavailable> {
    loaded.arm(armed::REHEARSAL)?;
    let created = create();
    if loaded.is_armed()? {
        // No task was created, or the kernel side has not seen it.
        loaded.arm(armed::OFF)?;
        return Ok((created, 0));
    }
    let seen = until_ended(events, LIMIT).map_err(|error| refused(&error))?;
    Ok((created, seen))
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

/// Runs a process that does nothing.
fn run_process() -> io::Result<()> {
    let file = program()?;
    let mut process = Command::new(format!("/proc/self/fd/{}", file.as_raw_fd())).spawn()?;
    // This fails if this process ignores SIGCHLD: then the kernel reaps its children.
    let _ = process.wait();
    Ok(())
}

/// The smallest possible program, in memory.
fn program() -> io::Result<File> {
    // Since 6.3 a flag says that the file may be executed; older kernels do not know the flag.
    let file = memfd_create("zctrace", MemfdFlags::CLOEXEC | MemfdFlags::EXEC)
        .or_else(|_| memfd_create("zctrace", MemfdFlags::CLOEXEC))?;
    let mut file = File::from(file);
    file.write_all(&elf())?;
    Ok(file)
}

/// The instructions of `exit_group(0)`.
#[cfg(target_arch = "x86_64")]
const EXIT: &[u8] = &[
    0x31, 0xff, // xor edi, edi
    0xb8, 0xe7, 0x00, 0x00, 0x00, // mov eax, 231
    0x0f, 0x05, // syscall
];
/// The instructions of `exit_group(0)`.
#[cfg(target_arch = "aarch64")]
const EXIT: &[u8] = &[
    0x00, 0x00, 0x80, 0xd2, // mov x0, #0
    0xc8, 0x0b, 0x80, 0xd2, // mov x8, #94
    0x01, 0x00, 0x00, 0xd4, // svc #0
];
/// `EM_X86_64`, `EM_AARCH64` of elf(5).
const MACHINE: u16 = if cfg!(target_arch = "x86_64") {
    62
} else {
    183
};

/// An executable of one segment with [`EXIT`] in it: the structures `Elf64_Ehdr` and `Elf64_Phdr`
/// of elf(5), then the instructions.
fn elf() -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    const ADDRESS: u64 = 0x40_0000;
    let size = HEADERS + EXIT.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // e_type (ET_EXEC), e_machine, e_version, e_entry, e_phoff, e_shoff, e_flags
    elf.extend([2_u16, MACHINE].map(u16::to_le_bytes).concat());
    elf.extend(1_u32.to_le_bytes());
    elf.extend([ADDRESS + HEADERS, 64, 0].map(u64::to_le_bytes).concat());
    elf.extend(0_u32.to_le_bytes());
    // e_ehsize, e_phentsize, e_phnum, e_shentsize, e_shnum, e_shstrndx
    elf.extend([64_u16, 56, 1, 64, 0, 0].map(u16::to_le_bytes).concat());
    // p_type (PT_LOAD), p_flags (PF_R | PF_X), p_offset, p_vaddr, p_paddr, p_filesz, p_memsz,
    // p_align
    elf.extend([1_u32, 5].map(u32::to_le_bytes).concat());
    elf.extend(
        [0, ADDRESS, ADDRESS, size, size, 0x1_0000]
            .map(u64::to_le_bytes)
            .concat(),
    );
    elf.extend(EXIT);
    elf
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
        let all = OF_A_TASK | OF_A_RING | hook::EXEC;
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

    #[test]
    fn the_smallest_program_can_be_executed() {
        run_process().expect("a program in memory may be run here");
    }
}
