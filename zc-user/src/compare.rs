//! `zctrace compare`: times several commands untraced, then counts what each does in one traced
//! run.
//!
//! ```text
//! Plan ──measure──▶ Timings, Traces ──derive──▶ Comparison ──render──▶ person, file
//! ```

mod error;
mod measure;
mod timed_run;

pub use error::CompareError;
pub use measure::{Progress, measure};
pub use zctrace_core::compare::{
    Compared, Comparison, Measured, Plan, PlanError, Relative, Run, Runs, SCHEMA, Series, Shell,
    ShellOverhead, Speed, Statistics, Subject, Summary, Timing, Traced, Tracing, Warning, subjects,
};
