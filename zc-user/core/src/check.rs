//! The pure part of `zctrace check`: reads the file of checks, and judges the reports of their
//! runs.
//!
//! ```text
//! zctrace.toml ──parse──▶ Check     Check, Attempts ──judge──▶ CheckResult
//! ```

mod attempt;
mod failure;
mod file;
mod judge;
mod plan;
mod results;
#[cfg(any(test, feature = "samples"))]
pub mod sample_checks;

pub use crate::figures::{
    comparison::{Difference, DifferenceState, differences},
    list::is_time,
    reading::{Repeatability, Varying, known_figures},
    tolerance::{Tolerance, ToleranceError, Tolerances},
};
pub use attempt::{NoReport, RunAttempt};
pub use file::{FileError, parse};
pub use judge::judge_check;
pub use plan::{
    Baseline, Check, CheckProfile, LockFile, PlaceInFile, PreparedContent, PreparedFile,
    choose_checks, parse_timeout,
};
pub use results::{CheckResult, ControlResult, ExpectationResult, Results, SCHEMA, Status};
