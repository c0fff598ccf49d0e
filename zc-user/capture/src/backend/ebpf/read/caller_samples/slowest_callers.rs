//! [`SlowestCallers`]: who made the slow calls that may be listed.

use std::collections::BTreeMap;

use zctrace_core::slow_calls::SlowestCalls;

use crate::{
    backend::ebpf::read::events::{CallKey, ListedCallers},
    trace::StackId,
};

/// Who made slow calls: at least those that [`SlowestCalls`] keeps, whose messages may come later.
#[derive(Debug, Default)]
pub struct SlowestCallers {
    /// By their times.
    by_ns: BTreeMap<u64, Vec<(CallKey, StackId)>>,
    count: usize,
}

impl SlowestCallers {
    /// Adds a call that took so long.
    pub fn add(&mut self, ns: u64, key: CallKey, stack: StackId) {
        self.by_ns.entry(ns).or_default().push((key, stack));
        self.count += 1;
        let shortest = self.by_ns.first_entry();
        // Of calls that took equally long, it is not known which are kept.
        let unneeded =
            shortest.filter(|calls| self.count - calls.get().len() >= SlowestCalls::MAX_CALLS);
        if let Some(calls) = unneeded {
            self.count -= calls.remove().len();
        }
    }

    /// All of them.
    pub fn into_callers(self) -> ListedCallers {
        self.by_ns.into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_of_the_longest_calls_are_kept_also_of_equally_long_ones() {
        let mut callers = SlowestCallers::default();
        for at in 0..3_000 {
            // Each time twice.
            callers.add(10 + at % 1_500, (7, at), StackId(1));
        }
        assert_eq!(callers.count, 1_000);
        for at in 3_000..3_500 {
            callers.add(1_010, (7, at), StackId(2));
        }
        let kept = callers.into_callers();
        assert_eq!(kept.len(), 1_500);
        assert!(
            (1_000..1_500)
                .chain(2_500..3_500)
                .all(|at| kept.contains_key(&(7, at)))
        );
    }
}
