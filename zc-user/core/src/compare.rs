//! The pure part of `zctrace compare`: the plan of a comparison, and what the measured runs say.
//!
//! ```text
//! Plan, Series ──▶ Comparison ──▶ Summary
//! ```

mod comparison;
mod parameters;
mod plan;
#[cfg(any(test, feature = "samples"))]
pub mod sample_measurements;
mod statistics;
mod traced;

pub use comparison::{Compared, Comparison, SCHEMA, Series, Speed, Summary, Timing, how_it_failed};
pub use parameters::Parameter;
pub use plan::{GivenLines, Plan, PlanError, Runs, Shell, Subject, shell_script};
pub use statistics::Statistics;
pub use traced::Traced;
