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
pub use measure::{PhaseProgress, measure};
pub use zctrace_core::compare::{
    Compared, Comparison, GivenLines, Parameter, Plan, PlanError, Runs, SCHEMA, Series, Shell,
    Speed, Statistics, Subject, Summary, Timing, Traced,
};
