//! What the head says of faults that killed processes.

use super::*;
use crate::{syscalls::Call, trace::Fault};

#[test]
fn a_fault_is_told_where_the_process_is_that_it_killed() {
    let mut trace = transfers::several();
    trace.exit = Some(Exit::Signal(libc::SIGFPE));
    let mut set = |process: usize, signal: i32, code, address| {
        trace.processes[process].threads[0].fault = Some(Fault {
            address,
            signal: signal.unsigned_abs(),
            code,
        });
    };
    set(0, libc::SIGFPE, 1, 0x55e0);
    set(1, libc::SIGSEGV, 1, 0);
    set(2, libc::SIGSEGV, 99, 0x7f00);
    trace.processes[2].threads[0].call_before_fault = Some(Call::native("getpid"));
    let names: Vec<String> = trace.processes[1..3]
        .iter()
        .map(|one| format!("{} ({})", one.name().expect("a name"), one.pid))
        .collect();
    let page = table(&trace, None);
    let [first, second] = [&names[0], &names[1]];
    assert_has(
        &page,
        &[
            "killed by SIGFPE in the instruction at 0x55e0 (FPE_INTDIV: an integer divided by zero), wall",
            &format!(
                "killed: {first} by SIGSEGV at 0x0 (SEGV_MAPERR: nothing is mapped there), {second} by SIGSEGV at 0x7f00 (99) after getpid\n"
            ),
        ],
    );
}
