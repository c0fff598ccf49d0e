//! Stacks that are deeper than most.

use zctrace::report::{Report, Stack};

use super::{assert_complete, with_callers};
use crate::harness::workload;

/// The report of writes with so many KiB on the stack of the first thread, and on that of another one.
#[track_caller]
fn with_kib_on_the_stack(kib: &str) -> Report {
    with_callers().run(&workload("deep").args(&[kib])).report
}

/// The stacks of the writes, with the number of their samples.
fn writes(report: &Report) -> Vec<(&Stack, u64)> {
    let stacks = report.stacks.as_ref().expect("callers were sampled");
    let writes = report.processes[0].syscalls.iter().filter(|syscall| syscall.name == "write");
    let each = writes.filter_map(|syscall| syscall.callers.as_ref()).flat_map(|callers| &callers.stacks);
    each.map(|of| (&stacks[of.stack], of.samples)).collect()
}

fn descends(stack: &Stack) -> usize {
    let is_one = |name: &str| name.ends_with("::write_below");
    stack.frames.iter().filter(|frame| frame.function.as_deref().is_some_and(is_one)).count()
}

/// Each size that samples have room for, and more than all but the largest.
#[test]
fn stacks_of_up_to_48_kib_are_complete_in_every_thread() {
    for kib in ["1", "6", "12", "24", "48"] {
        let report = with_kib_on_the_stack(kib);
        assert_complete(&report);
        let writes = writes(&report);
        // The calls 1, 2 and 4 of each thread.
        assert_eq!(writes.iter().map(|(_, samples)| samples).sum::<u64>(), 6, "{kib} KiB: {writes:#?}");
        let frames = kib.parse::<usize>().expect("a number") + 1;
        assert!(writes.iter().all(|(stack, _)| stack.complete && descends(stack) == frames), "{kib} KiB: {writes:#?}");
    }
}

#[test]
fn a_stack_of_more_than_64_kib_is_cut_and_says_so() {
    let report = with_kib_on_the_stack("200");
    let writes = writes(&report);
    assert_eq!(writes.iter().map(|(_, samples)| samples).sum::<u64>(), 6, "{writes:#?}");
    for (stack, _) in writes {
        let why = stack.incomplete_because.as_deref().unwrap_or("");
        assert!(why.contains("deeper than the part that was copied"), "{stack:?}");
        assert!((50..=64).contains(&descends(stack)), "{} frames", descends(stack));
    }
}
