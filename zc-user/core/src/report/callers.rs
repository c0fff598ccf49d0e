//! Who made the calls, as a report shows it: stacks, and for each call and each transfer the
//! samples that came from them.

mod place;
mod site;

use std::{cmp::Reverse, collections::BTreeMap};

use derive_more::Deref;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trace::{self, SampleSum};

pub use crate::trace::{Frame, SampledStack as Stack};
pub(crate) use site::{
    EITHER_COPY, functions_named, how_to_settle, is_of_c_library, is_recognised, is_telling,
    library_in, mark_in, may_hide_functions, split_implementation, without_generics,
    without_pointers,
};

/// The sampled calls among some calls, and who made them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deref, Serialize, Deserialize, JsonSchema)]
pub struct Callers {
    /// How many.
    #[deref]
    #[serde(flatten)]
    pub sum: SampleSum,
    /// Where the program made them, most calls first.
    pub sites: Vec<Site>,
    /// The stacks, most calls first.
    pub stacks: Vec<StackSamples>,
}

/// Samples with the same stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deref, Serialize, Deserialize, JsonSchema)]
pub struct StackSamples {
    /// An index into [`Report::stacks`](super::Report::stacks).
    pub stack: usize,
    /// How many.
    #[deref]
    #[serde(flatten)]
    pub sum: SampleSum,
}

/// The place in the program that made calls.
#[derive(Debug, Clone, PartialEq, Eq, Deref, Serialize, Deserialize, JsonSchema)]
pub struct Site {
    /// The function of the program itself, and where in it.
    #[serde(flatten)]
    pub at: Frame,
    /// The library function that it called: `std::io::copy`. `None`: none, or unknown.
    pub via: Option<String>,
    /// How many calls.
    #[deref]
    #[serde(flatten)]
    pub sum: SampleSum,
}

impl Callers {
    /// The callers of rows, whose stacks are among the known ones. `None` if no call of theirs was
    /// sampled.
    pub(crate) fn of_rows<'a>(
        rows: impl Iterator<Item = &'a trace::Row>,
        known: &[Stack],
    ) -> Option<Self> {
        let mut by_stack: BTreeMap<usize, SampleSum> = BTreeMap::new();
        for (&stack, samples) in rows.flat_map(|row| &row.callers) {
            *by_stack.entry(stack.0 as usize).or_default() += *samples;
        }
        let site = |of: &StackSamples| Site::of_stack(known.get(of.stack)?, of.sum);
        Self::of_stacks(by_stack, |stacks| stacks.iter().filter_map(site).collect())
    }

    /// Those of these numbers of samples by stack. `None` without samples.
    fn of_stacks(
        by_stack: BTreeMap<usize, SampleSum>,
        sites: impl FnOnce(&[StackSamples]) -> Vec<Site>,
    ) -> Option<Self> {
        let (mut stacks, mut total) = (Vec::new(), SampleSum::default());
        for (stack, sum) in by_stack {
            stacks.push(StackSamples { stack, sum });
            total += sum;
        }
        stacks.sort_by_key(|of| (Reverse((of.calls, of.samples)), of.stack));
        (total.samples > 0).then(|| Self {
            sum: total,
            sites: Site::sum_by_place(sites(&stacks).into_iter()),
            stacks,
        })
    }

    /// The callers of several transfers together. `None` if none of them has any.
    pub fn sum_callers<'a>(all: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let (mut sites, mut by_stack) = (Vec::new(), BTreeMap::new());
        for callers in all {
            sites.extend(callers.sites.iter().cloned());
            for of in &callers.stacks {
                *by_stack.entry(of.stack).or_default() += of.sum;
            }
        }
        Self::of_stacks(by_stack, |_| sites)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_callers(sites: &[(&str, u64)], stacks: &[(usize, u64)]) -> Callers {
        let sum = |samples| SampleSum {
            samples,
            calls: 2 * samples,
        };
        let site = |&(function, samples): &(&str, u64)| Site {
            at: Frame {
                function: Some(function.into()),
                ..Frame::default()
            },
            via: None,
            sum: sum(samples),
        };
        let of_stack = |&(stack, samples): &(usize, u64)| StackSamples {
            stack,
            sum: sum(samples),
        };
        Callers {
            sum: sum(stacks.iter().map(|(_, samples)| samples).sum()),
            sites: sites.iter().map(site).collect(),
            stacks: stacks.iter().map(of_stack).collect(),
        }
    }

    #[test]
    fn callers_of_several_transfers_are_summed_by_place_and_by_stack() {
        let one = make_callers(&[("load", 3)], &[(4, 3)]);
        let other = make_callers(&[("save", 5), ("load", 2)], &[(1, 5), (4, 2)]);
        let sum = make_callers(&[("load", 5), ("save", 5)], &[(1, 5), (4, 5)]);
        assert_eq!(Callers::sum_callers([&one, &other].into_iter()), Some(sum));
        assert_eq!(Callers::sum_callers(std::iter::empty()), None);
    }
}
