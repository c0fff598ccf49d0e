//! Which calls a table shows. Calls that the user chose are shown all. Without a choice, those that
//! move data are shown all, and those that make data or names durable; of the others the most
//! frequent one, and those that matter by their time or their number.

use std::cmp::Reverse;

use super::{part::sum_of_calls, text};
use crate::{
    counts::CallSums,
    report::{OtherCalls, OtherSyscall, Syscall, Totals},
    syscalls::{Spec, syncs_files},
    units,
};

/// The most calls that have a row only because of their time or number.
const MAX_OTHERS: usize = 5;
/// They are worth a row however few and fast they are, as syncs are.
const TELLING: [&str; 5] = ["link", "linkat", "rename", "renameat", "renameat2"];
/// They have one if at least this fraction of the time in calls was theirs, or this fraction of the
/// calls.
const MIN_TIME_DIVISOR: u64 = 100;
const MIN_CALLS: u64 = 10;

/// Calls that returned at once asked, and did not wait.
const MIN_TIMED_OUT_NS: u64 = 1_000_000;

/// The calls of a section that were not selected, as far as they are known.
pub(super) struct UnselectedCalls {
    /// Each of them, as far as they are told apart.
    pub(super) each: Vec<Syscall>,
    /// Their sum. `None`: unknown.
    pub(super) sum: Option<CallSums>,
    /// Those that returned without an event: `3 of 20 poll after 15.0 s in all`.
    pub(super) timed_out: Vec<String>,
}

impl UnselectedCalls {
    pub(super) fn summed(others: Option<&OtherCalls>) -> Self {
        Self {
            each: Vec::new(),
            sum: others.map(|others| others.sums),
            timed_out: Vec::new(),
        }
    }

    pub(super) fn told_apart(totals: &Totals) -> Self {
        let each: Vec<Syscall> = totals.rows_of_others().collect();
        let others = totals.other_syscalls.iter().flatten();
        let timed_out = others.filter(|call| call.sums.timed_out_ns >= MIN_TIMED_OUT_NS);
        let timed_out = timed_out.map(|OtherSyscall { name, sums, .. }| {
            let (name, time) = (text::escape(name), units::duration(sums.timed_out_ns));
            format!(
                "{} of {} {name} after {time} in all",
                sums.timed_out, sums.calls
            )
        });
        Self {
            sum: Some(sum_of_calls(&each)),
            timed_out: timed_out.collect(),
            each,
        }
    }
}

/// The calls of a section.
pub(super) struct CallRows {
    /// Those that have a row in the table.
    pub(super) shown: Vec<Syscall>,
    /// The sum of the others.
    pub(super) hidden: CallSums,
    /// The time in all of them; `None` if one is unknown.
    pub(super) all_ns: Option<u64>,
}

impl CallRows {
    /// All calls that were selected; the others are only summed.
    pub(super) fn selected(selected: &[Syscall], others: &UnselectedCalls) -> Self {
        Self {
            shown: selected.to_vec(),
            hidden: others.sum.unwrap_or(CallSums::NONE),
            all_ns: time_in_all(selected, others),
        }
    }

    /// The calls that move data, and of all others the ones that matter.
    pub(super) fn telling(selected: &[Syscall], others: &UnselectedCalls) -> Self {
        let all_ns = time_in_all(selected, others);
        let sum = others.sum.filter(|_| others.each.is_empty());
        let mut hidden = sum.unwrap_or(CallSums::NONE);
        let all = selected.iter().chain(&others.each);
        let most = all.clone().map(|call| call.calls).max();
        let always = |call: &Syscall| {
            let is_most = most == Some(call.calls);
            let name = call.name.as_str();
            call.calls > 0 && (is_most || syncs_files(name) || TELLING.contains(&name))
        };
        let is_shown = |call: &Syscall| moves_data(call) || always(call);
        let (mut shown, mut rest): (Vec<Syscall>, Vec<Syscall>) = all.cloned().partition(is_shown);
        let count = [sum_of_calls(&shown), sum_of_calls(&rest), hidden]
            .iter()
            .fold(0, |count: u64, calls| count.saturating_add(calls.calls));
        let matters = |call: &Syscall| {
            let has_time = call
                .total_ns
                .zip(all_ns)
                .is_some_and(|(ns, all)| ns.saturating_mul(MIN_TIME_DIVISOR) >= all);
            call.calls > 0 && (has_time || call.calls.saturating_mul(MIN_CALLS) >= count)
        };
        rest.sort_by_key(|call| Reverse((call.total_ns, call.calls)));
        let (mut telling, few): (Vec<Syscall>, Vec<Syscall>) = rest.into_iter().partition(matters);
        let beyond = telling.split_off(MAX_OTHERS.min(telling.len()));
        shown.extend(telling);
        hidden += sum_of_calls(&few);
        hidden += sum_of_calls(&beyond);
        Self {
            shown,
            hidden,
            all_ns,
        }
    }
}

/// Whether this is a call that moves data by itself.
pub(super) fn moves_data(call: &Syscall) -> bool {
    Spec::named(&call.name).moves_data()
}

/// The time in all these calls. `None` if one is unknown.
fn time_in_all(selected: &[Syscall], others: &UnselectedCalls) -> Option<u64> {
    let of_others = others.sum.unwrap_or(CallSums::NONE).total_ns;
    units::sum_all([sum_of_calls(selected).total_ns, of_others])
}
