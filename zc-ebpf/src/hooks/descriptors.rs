//! Reports which descriptors a process has open, when it begins and when it exits. Unless that is
//! asked for, the verifier removes all of this.

use zc_ebpf::{
    ABSENT, HeldDescriptor, KernelLoss, NO_DESCRIPTOR, event_kind, recorded, repeat::repeat,
};

use crate::{
    file::identify,
    hooks::followed,
    kernel::fields::{self, offset_of_field},
    kernel::helpers::{current_task, now_ns},
    maps::{EVENTS, records, send_to, wakeup},
    tasks,
};

/// More descriptors than this are not reported. The kernel allows as many for each process unless
/// `fs.nr_open` is raised.
const MAX_DESCRIPTORS: u32 = 1 << 20;

/// Reports what the current task has open, which executes the first program of the trace.
#[inline(always)]
pub fn report_at_start() {
    if records(recorded::DESCRIPTORS) {
        report_descriptors(0);
    }
}

/// Reports what the current task has open, if it is the last one of its process to exit.
#[inline(always)]
pub fn report_at_exit() {
    if !records(recorded::DESCRIPTORS) || offset_of_field!(signal_live) == ABSENT {
        return;
    }
    let signal = fields::probe_pointer(current_task(), offset_of_field!(task_signal));
    if fields::probe::<u32>(signal, offset_of_field!(signal_live)) == Some(0) {
        report_descriptors(1);
    }
}

/// Reports each descriptor, and then that these are all. A global function, so that the verifier checks
/// it once. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn report_descriptors(exits: u32) -> u32 {
    if !records(recorded::DESCRIPTORS) {
        return 0;
    }
    let count = identify::descriptors();
    let rounds = count.min(MAX_DESCRIPTORS);
    repeat(rounds, report_descriptor, &mut Exits(exits.into()));
    if rounds == count {
        send(NO_DESCRIPTOR, 0, exits);
    }
    0
}

/// Whether the process exits.
struct Exits(u64);

/// Reports the descriptor with this number. Returns 1 to end the loop.
extern "C" fn report_descriptor(fd: u64, exits: &mut Exits) -> i64 {
    let fd = fd as u32;
    if let Some(file) = identify::open_file(fd)
        && !file.is_null()
    {
        send(fd, file as u64, exits.0 as u32);
    }
    0
}

/// Sends a descriptor of the current task.
#[inline(always)]
fn send(fd: u32, address: u64, exits: u32) {
    let Some(task) = tasks::current() else {
        return;
    };
    let file = if address == 0 {
        0
    } else {
        identify::number_of_open(address)
    };
    let kind = event_kind::DESCRIPTOR;
    let message = HeldDescriptor {
        header: followed::header(kind, task, now_ns(), exits, current_task()),
        address,
        fd,
        file,
    };
    send_to(&EVENTS, message, wakeup(), KernelLoss::LostEvent);
}
