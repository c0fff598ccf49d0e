//! Stacks that are deeper than most.

use zctrace::report::{Process, Report, Stack};

use super::with_callers;
use crate::harness::shell;

/// The stacks of the writes of a process, with the number of their samples.
fn writes<'a>(report: &'a Report, process: &'a Process) -> Vec<(&'a Stack, u64)> {
    let stacks = report.stacks.as_ref().expect("callers were sampled");
    let writes = process
        .syscalls
        .iter()
        .filter(|syscall| syscall.name == "write");
    let each = writes
        .filter_map(|syscall| syscall.callers.as_ref())
        .flat_map(|callers| &callers.stacks);
    each.map(|of| (&stacks[of.stack], of.samples)).collect()
}

fn descends(stack: &Stack) -> usize {
    let is_one = |name: &str| name.ends_with("::write_below");
    stack
        .frames
        .iter()
        .filter(|frame| frame.function.as_deref().is_some_and(is_one))
        .count()
}

/// The first five are sizes that samples have room for: 4, 8, 16, 32 and 64 KiB. The last one is
/// more than the largest.
const KIB: [usize; 6] = [1, 6, 12, 24, 48, 200];

/// In one run, because guests take seconds for each.
#[test]
fn stacks_are_complete_up_to_64_kib_in_every_thread_and_deeper_ones_say_that_they_are_cut() {
    let commands = KIB.map(|kib| format!("{} deep {kib}", env!("CARGO_BIN_EXE_workload")));
    let report = with_callers()
        .run(&shell(&format!("{}; true", commands.join("; "))))
        .report;
    let deep: Vec<&Process> = report
        .processes
        .iter()
        .filter(|process| process.comm.as_deref() == Some("workload"))
        .collect();
    assert_eq!(deep.len(), KIB.len(), "{deep:#?}");
    for (process, kib) in deep.into_iter().zip(KIB) {
        let writes = writes(&report, process);
        // The calls 1, 2 and 4 of each of two threads.
        assert_eq!(
            writes.iter().map(|(_, samples)| samples).sum::<u64>(),
            6,
            "{kib} KiB: {writes:#?}"
        );
        for (stack, _) in writes {
            if kib <= 48 {
                assert!(
                    stack.complete && descends(stack) == kib + 1,
                    "{kib} KiB: {stack:#?}"
                );
            } else {
                let why = stack.incomplete_because.as_deref().unwrap_or("");
                assert!(
                    why.contains("deeper than the part that was copied"),
                    "{stack:#?}"
                );
                assert!(
                    (50..=64).contains(&descends(stack)),
                    "{} frames",
                    descends(stack)
                );
            }
        }
    }
}
