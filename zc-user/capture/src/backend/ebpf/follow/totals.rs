//! [`KernelTotals`]: what the kernel side counts without rows. It stays in the maps until the end, so what was
//! counted in a part of the trace is the difference between two readings.

use std::collections::BTreeMap;

use zc_ebpf::{KernelLoss, LOSSES, Task};

use super::counts::{UNDER_WAY, is_in_other_call};
use crate::{
    backend::{RunError, ebpf::load::object::Loaded},
    histogram::Histogram,
    syscalls::Call,
    trace::{Loss, OtherCalls},
};
use zctrace_core::text::plural;

/// The losses of the kernel side, as the trace has them.
const KERNEL_LOSSES: [(KernelLoss, Loss); 9] = [
    (KernelLoss::UnfollowedTask, Loss::UnfollowedTasks),
    (KernelLoss::UncountedCall, Loss::UncountedCalls),
    (KernelLoss::LostEvent, Loss::LostEvents),
    (KernelLoss::SilentOperation, Loss::SilentOperations),
    (KernelLoss::OverflowedOperation, Loss::OverflowedOperations),
    (KernelLoss::OtherThread, Loss::OtherThreads),
    (KernelLoss::UnsampledCaller, Loss::UnsampledCallers),
    (KernelLoss::UnknownCode, Loss::UnknownCode),
    (KernelLoss::UnknownOrigin, Loss::UnknownOrigins),
];

/// What was counted without rows.
#[derive(Debug, Clone, Default)]
pub struct KernelTotals {
    /// The calls that have no rows, as far as they have returned or never will.
    other_calls: BTreeMap<Call, OtherCalls>,
    /// How many bytes each call moved; `None`: it was not asked for.
    sizes: Option<BTreeMap<Call, Histogram>>,
    /// How often each [`KernelLoss`] happened.
    lost: [u64; LOSSES as usize],
    /// How often a program of the kernel side did not run.
    missed: u64,
}

impl KernelTotals {
    /// Those of now.
    pub fn read(loaded: &Loaded) -> Result<Self, RunError> {
        Ok(Self {
            other_calls: loaded.maps.other_calls()?,
            sizes: (loaded.sight.recorded.has_sizes())
                .then(|| loaded.maps.sizes())
                .transpose()?,
            lost: loaded.maps.losses()?,
            missed: loaded.missed()?,
        })
    }

    /// What was added since there was only what was there `before`; of losses that last, all.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut added = self.clone();
        for (call, sums) in &mut added.other_calls {
            let before = before.other_calls.get(call).copied();
            *sums = sums.since(before.unwrap_or(OtherCalls::NONE));
        }
        added.other_calls.retain(|_, sums| !sums.is_none());
        for (call, sizes) in added.sizes.iter_mut().flatten() {
            if let Some(before) = before.sizes.as_ref().and_then(|sizes| sizes.get(call)) {
                *sizes = sizes.since(before);
            }
        }
        for (count, before) in added.lost.iter_mut().zip(before.lost) {
            *count = count.saturating_sub(before);
        }
        // What was missed once is missing from then on: a task that is not followed, and its children.
        for lasting in [KernelLoss::UnfollowedTask, KernelLoss::LostEvent] {
            added.lost[lasting as usize] = self.loss_count(lasting);
        }
        added
    }

    /// The calls that have no rows. One that a live task is in counts as under way.
    pub fn other_calls(&self, live: &[Task]) -> BTreeMap<Call, OtherCalls> {
        let mut by_call = self.other_calls.clone();
        for task in live.iter().filter(|task| is_in_other_call(task)) {
            *by_call
                .entry(Call::from_slot(task.slot))
                .or_insert(OtherCalls::NONE) += UNDER_WAY;
        }
        by_call
    }

    /// How many bytes each call moved; `None`: it was not asked for.
    pub const fn sizes(&self) -> Option<&BTreeMap<Call, Histogram>> {
        self.sizes.as_ref()
    }

    /// How much the kernel side lost.
    pub fn losses(&self) -> BTreeMap<Loss, u64> {
        let losses = KERNEL_LOSSES.into_iter();
        let mut losses: BTreeMap<Loss, u64> = losses
            .map(|(kernel, loss)| (loss, self.loss_count(kernel)))
            .collect();
        losses.insert(Loss::MissedProbes, self.missed);
        losses
    }

    /// How often this was lost.
    pub const fn loss_count(&self, what: KernelLoss) -> u64 {
        self.lost[what as usize]
    }

    /// Notes on what makes no figure a lower bound: calls that were counted without their times, and
    /// calls of other threads that no closure can have handed work to.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let untimed = self.loss_count(KernelLoss::UntimedCall);
        let unrelated = self.loss_count(KernelLoss::UnrelatedCall);
        let untimed = (untimed > 0).then(|| {
            let calls = plural(untimed, "call", "calls");
            format!("seccomp or a tracer answered {calls} instead of the kernel; the times of these calls are unknown")
        });
        let unrelated = (unrelated > 0).then(|| {
            let calls = plural(unrelated, "call", "calls");
            format!("not counted: {calls} made meanwhile by threads that the closure did not wake")
        });
        untimed.into_iter().chain(unrelated)
    }
}
