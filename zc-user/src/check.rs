//! `zctrace check`: commands that must behave as expected. Each is run under zctrace, and its report is judged.
//!
//! ```text
//! zctrace.toml, options ──▶ Check ──run──▶ Reports ──judge──▶ CheckResult ──render──▶ person, CI
//! ```
//!
//! Only [`run`] does anything; what comes before and after it is pure. Every run is a `zctrace run` of its own, so that runs can go on at
//! the same time, and so that a run and everything below it can be killed.

mod interrupt;
mod prepare;
mod run;
mod started;
mod stderr;

pub use run::{Progress, Ran, Settings, run};
pub use zctrace_core::check::{
    Attempt, Baseline, Check, CheckResult, Content, Difference, DifferenceState, ExpectationResult, FileError, PreparedFile,
    Repeatability, Results, SCHEMA, Shown, Status, Tolerance, ToleranceError, Tolerances, Varying, choose, figures, judge, parse,
    timeout,
};
