//! `zctrace check`: commands that must behave as expected. Each is run under zctrace, and its report is judged.
//!
//! ```text
//! zctrace.toml, options ──▶ Check ──run──▶ Reports ──judge──▶ CheckResult ──render──▶ person, CI
//! ```
//!
//! Only [`run`] does anything; what comes before and after it is pure. Every run is a `zctrace run` of its own, so that runs can go on at
//! the same time, and so that a run and everything below it can be killed.

mod baseline;
mod figures;
mod file;
mod interrupt;
mod judge;
mod plan;
mod prepare;
mod result;
mod run;
#[cfg(test)]
pub(crate) mod sample;
mod started;
mod stderr;
mod steady;
mod tolerance;

pub use baseline::{Difference, State as DifferenceState};
pub use figures::figures;
pub use file::{FileError, parse};
pub use judge::judge;
pub use plan::{Baseline, Check, Content, PreparedFile, Shown, choose, timeout};
pub use result::{CheckResult, ExpectationResult, Results, SCHEMA, Status};
pub use run::{Attempt, Progress, Ran, Settings, run};
pub use steady::{Steady, Varying};
pub use tolerance::{Tolerance, ToleranceError, Tolerances};
