//! `zctrace compare`, the pure part: what is to be compared, and what the measured runs say.
//!
//! ```text
//! Plan, Measured ──derive──▶ Comparison ──▶ Summary
//! ```

mod api;
mod comparison;
mod half;
mod measured;
mod plan;
#[cfg(any(test, feature = "samples"))]
pub mod sample;
mod shell;
mod statistics;
mod subject;
mod summary;
mod traced;
mod warning;

pub use comparison::{Compared, Comparison, Relative, Run, SCHEMA, ShellOverhead};
pub use measured::{Measured, Series, Timing, how_it_failed};
pub use plan::{Input, OnFailure, Order, Output, Plan, PlanError, Runs, Tracing};
pub use shell::Shell;
pub use statistics::Statistics;
pub use subject::{HookLines, Hooks, Subject, reference_among, subjects};
pub use summary::{Speed, Summary};
pub use traced::Traced;
pub use warning::Warning;
