//! `cargo xtask vm`: the integration tests inside guests with the kernels that people run.

mod apt;
mod guests;
mod image;
mod kernels;
mod programs;
mod qemu;
mod selection;
mod transcript;

use std::{
    collections::BTreeMap,
    fmt,
    num::NonZero,
    process::ExitCode,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
pub(crate) use apt::{Apt, SOURCES};
use clap::Args;
use guests::{Guest, Shared};
use kernels::{SUBSET, chosen};
use selection::TestSelection;
use transcript::{GuestState, Judgement};

use crate::arch::Arch;

/// The exit status if a guest could not be run at all, and none failed.
const NOT_RUN: u8 = 3;

/// How long all guests of CI together may take. On two idle processors they take less than 8
/// minutes.
const CI_LIMIT: Duration = Duration::from_mins(12);

/// What to boot, and what to run there.
#[derive(Args)]
pub(crate) struct VmOptions {
    /// Kernels, like 6.1 or newest; without one, all
    #[arg(value_name = "KERNEL")]
    kernels: Vec<String>,
    /// Architecture of the guests; without one, that of this machine
    #[arg(long)]
    arch: Option<Arch>,
    /// Only the tests that CI runs; without kernels and architecture, only the guests that CI
    /// boots, too
    #[arg(long)]
    subset: bool,
    /// Only the tests with this in their names; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "subset")]
    test: Vec<String>,
    /// How long each guest may take
    #[arg(long, value_name = "MINUTES", default_value_t = 120)]
    limit: u64,
    /// How many guests run at a time; each keeps one processor busy
    #[arg(long, value_name = "GUESTS", default_value_t = processors())]
    jobs: NonZero<usize>,
}

/// The closing line about a guest.
pub(crate) struct GuestResult {
    guest: Guest,
    release: Option<String>,
    verdict: Judgement,
    took: Duration,
}

/// Boots the guests, and prints a line for each.
pub(crate) fn run(options: &VmOptions) -> Result<ExitCode> {
    let (guests, selection) = (options.guests()?, options.selection());
    let limit = Duration::from_mins(options.limit);
    let results = boot_all(&guests, &selection, |_| limit, options.jobs);
    println!();
    for result in &results {
        println!("{result}");
    }
    Ok(exit_code(&results))
}

/// Boots the guests of CI all at once: the last one by itself would leave a processor idle.
pub(crate) fn ci() -> Result<Vec<GuestResult>> {
    let left = |since: Instant| CI_LIMIT.saturating_sub(since.elapsed());
    let (guests, selection) = (subset()?, TestSelection::subset());
    Ok(boot_all(&guests, &selection, left, NonZero::<usize>::MAX))
}

/// The guests of CI.
fn subset() -> Result<Vec<Guest>> {
    let guest = |(arch, name): (Arch, &str)| {
        let series = chosen(&[name.to_owned()])?[0];
        Ok(Guest { arch, series })
    };
    SUBSET.into_iter().map(guest).collect()
}

/// How many processors xtask may use.
fn processors() -> NonZero<usize> {
    thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

impl VmOptions {
    fn guests(&self) -> Result<Vec<Guest>> {
        if self.subset && self.kernels.is_empty() && self.arch.is_none() {
            return subset();
        }
        let arch = self.arch.or_else(Arch::host);
        let arch = arch.context("this machine's architecture has no guests: choose with --arch")?;
        let guest = |series| Guest { arch, series };
        Ok(chosen(&self.kernels)?.into_iter().map(guest).collect())
    }

    fn selection(&self) -> TestSelection {
        match (self.subset, self.test.as_slice()) {
            (true, _) => TestSelection::subset(),
            (false, []) => TestSelection::all(),
            (false, names) => TestSelection::named(names),
        }
    }
}

/// Prepares all guests, and boots `jobs` of them at a time. `limit` says how long a guest may take
/// that starts now, given when the first one started.
fn boot_all(
    guests: &[Guest],
    selection: &TestSelection,
    limit: impl Fn(Instant) -> Duration + Sync,
    jobs: NonZero<usize>,
) -> Vec<GuestResult> {
    let prepare = |arch| {
        let of_arch = guests.iter().filter(|guest| guest.arch == arch);
        let series: Vec<_> = of_arch.map(|guest| guest.series).collect();
        (!series.is_empty()).then(|| Shared::prepare(arch, &series, selection))
    };
    let prepared = [Arch::X86_64, Arch::Aarch64].map(prepare);
    let next = Mutex::new(guests.iter().enumerate());
    let (results, first) = (Mutex::new(BTreeMap::new()), Instant::now());
    let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some((position, &guest)) = take() {
            let start = Instant::now();
            let shared = prepared
                .iter()
                .flatten()
                .find(|shared| shared.arch == guest.arch);
            let shared = shared.expect("each architecture was prepared");
            let (release, verdict) = shared.run(guest, selection, limit(first));
            let took = start.elapsed();
            let result = GuestResult {
                guest,
                release,
                verdict,
                took,
            };
            println!("== {result}");
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.insert(position, result);
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.get().min(guests.len()) {
            scope.spawn(work);
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_values().collect()
}

/// Success if all guests passed.
fn exit_code(results: &[GuestResult]) -> ExitCode {
    let has = |state| results.iter().any(|result| result.verdict.0 == state);
    match (has(GuestState::Failed), has(GuestState::NotRun)) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => ExitCode::from(NOT_RUN),
        (false, false) => ExitCode::SUCCESS,
    }
}

impl GuestResult {
    /// Whether the guest failed.
    pub(crate) fn failed(&self) -> bool {
        self.verdict.0 == GuestState::Failed
    }
}

impl fmt::Display for GuestResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.verdict.0 {
            GuestState::Passed => "ok",
            GuestState::Failed => "FAILED",
            GuestState::NotRun => "NOT RUN",
        };
        let (guest, seconds) = (self.guest, self.took.as_secs_f64());
        write!(f, "{state:7} vm {guest} {seconds:6.1} s  ")?;
        if let Some(release) = &self.release {
            write!(f, "{release}: ")?;
        }
        f.write_str(&self.verdict.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(state: GuestState) -> GuestResult {
        let guest = Guest {
            arch: Arch::X86_64,
            series: chosen(&["6.12".to_owned()]).expect("it is there")[0],
        };
        let verdict = Judgement(state, "3 passed".to_owned());
        GuestResult {
            guest,
            release: None,
            verdict,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn a_guest_that_was_not_run_is_neither_success_nor_failure() {
        let code = |states: [GuestState; 2]| exit_code(&states.map(result));
        assert_eq!(
            code([GuestState::Passed, GuestState::Passed]),
            ExitCode::SUCCESS
        );
        assert_eq!(
            code([GuestState::Passed, GuestState::NotRun]),
            ExitCode::from(NOT_RUN)
        );
        assert_eq!(
            code([GuestState::NotRun, GuestState::Failed]),
            ExitCode::FAILURE
        );
        assert!(!result(GuestState::NotRun).failed());
        assert!(result(GuestState::Failed).failed());
    }
}
