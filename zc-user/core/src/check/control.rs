//! The control command of a check: an expectation must fail for it, which shows that the check can.

use serde::Serialize;

use super::{
    attempt::Attempt,
    judge::{ExpectationResult, Status, judge},
    plan::Check,
};

/// What the control command of a check showed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ControlResult {
    /// The command.
    pub command: Vec<String>,
    /// Passed: an expectation fails for it, as one must. Failed: all of them hold, so the check
    /// cannot fail.
    pub status: Status,
    /// Why it has no result.
    pub error: Option<String>,
    /// What its run says about each expectation of the check.
    pub expectations: Vec<ExpectationResult>,
}

impl ControlResult {
    /// Judges the run of a check's control command; `None`: the check has none.
    pub(super) fn new(check: &Check, attempt: Option<&Attempt>) -> Option<Self> {
        let check = check.of_control()?;
        let result = judge(&check, attempt.map_or(&[], std::slice::from_ref), None);
        let not_run = || "zctrace ended before it was run".to_owned();
        let error = result.error.or_else(|| attempt.is_none().then(not_run));
        // What a command does that fails says nothing about the check.
        let status = match (&error, result.status) {
            (Some(_), _) => Status::NoResult,
            (None, Status::Failed) => Status::Passed,
            (None, Status::Passed) => Status::Failed,
            (None, status) => status,
        };
        Some(Self {
            command: result.command,
            status,
            error,
            expectations: result.expectations,
        })
    }
}
