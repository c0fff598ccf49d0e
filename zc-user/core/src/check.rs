//! `zctrace check`, the pure part: what a file asks for, and what the reports of the runs say about it.
//!
//! ```text
//! zctrace.toml ──parse──▶ Check     Check, Attempts ──judge──▶ CheckResult
//! ```

mod baseline;
mod figures;
mod file;
mod judge;
mod plan;
mod result;
#[cfg(any(test, feature = "samples"))]
pub mod sample;
mod steady;
mod tolerance;

pub use baseline::{Difference, State as DifferenceState};
pub use figures::figures;
pub use file::{FileError, parse};
pub use judge::judge;
pub use plan::{Baseline, Check, Content, PreparedFile, Shown, choose, timeout};
pub use result::{Attempt, CheckResult, ExpectationResult, Results, SCHEMA, Status};
pub use steady::{Steady, Varying};
pub use tolerance::{Tolerance, ToleranceError, Tolerances};
