//! Stacks that are deeper than most.

use super::{sampled, stacks_of};
use crate::harness::shell;

/// The first five are sizes that samples have room for: 4, 8, 16, 32 and 64 KiB. The last one is
/// more than the largest.
const KIB: [usize; 6] = [1, 6, 12, 24, 48, 200];

/// In one run, because guests take seconds for each.
#[test]
fn stacks_are_complete_up_to_64_kib_in_every_thread_and_deeper_ones_say_that_they_are_cut() {
    let commands = KIB.map(|kib| format!("{} deep {kib}", env!("CARGO_BIN_EXE_workload")));
    let report = sampled(&shell(&format!("{}; true", commands.join("; "))));
    let mut deep: Vec<_> = report.processes.iter().collect();
    deep.retain(|process| process.comm.as_deref() == Some("workload"));
    assert_eq!(deep.len(), KIB.len(), "{deep:#?}");
    for (process, kib) in deep.into_iter().zip(KIB) {
        let writes = stacks_of(&report, process, "write");
        // The calls 1, 2 and 4 of each of two threads.
        let samples: u64 = writes.iter().map(|(_, samples)| samples).sum();
        assert_eq!(samples, 6, "{kib} KiB: {writes:#?}");
        for (stack, _) in writes {
            let functions = stack
                .frames
                .iter()
                .filter_map(|frame| frame.function.as_ref());
            // A frame that the compiler has moved has the name without its path.
            let descends = functions.filter(|name| name.rsplit("::").next() == Some("write_below"));
            let descends = descends.count();
            if kib <= 48 {
                let is_right = stack.complete && descends == kib + 1;
                assert!(is_right, "{kib} KiB: {stack:#?}");
            } else {
                let why = stack.incomplete_because.as_deref().unwrap_or("");
                let is_said = why.contains("deeper than the part that was copied");
                assert!(is_said, "{stack:#?}");
                assert!((50..=64).contains(&descends), "{descends} frames");
            }
        }
    }
}
