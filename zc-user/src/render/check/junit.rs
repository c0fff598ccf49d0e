//! Results as `JUnit`'s XML: a case for each check.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::problems;
use crate::{
    check::{CheckResult, Results, Status},
    render::text::escape,
};

/// The whole document.
pub(super) fn render(results: &Results) -> String {
    let mut suite = TestSuite::new("zctrace check");
    suite.add_test_cases(results.checks.iter().map(case));
    suite.set_time(results.checks.iter().map(time).sum());
    let mut report = Report::new("zctrace");
    report.set_time(results.checks.iter().map(time).sum());
    report.add_test_suite(suite);
    let mut text = report.to_string().expect("memory takes it");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn time(check: &CheckResult) -> Duration {
    Duration::from_nanos(check.duration_ns)
}

fn case(check: &CheckResult) -> TestCase {
    let status = match check.status {
        Status::Passed => TestCaseStatus::success(),
        Status::Failed => not(NonSuccessKind::Failure, check),
        // What is not known is no failure of the command.
        Status::CouldNotRun | Status::Inconclusive => not(NonSuccessKind::Error, check),
    };
    let mut case = TestCase::new(escape(&check.name), status);
    case.set_classname("zctrace").set_time(time(check));
    case
}

fn not(kind: NonSuccessKind, check: &CheckResult) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    let titles: Vec<String> = problems::of(check).into_iter().map(|problem| problem.title).collect();
    status.set_message(titles.join("; ")).set_type(check.status.name()).set_description(problems::text(check));
    status
}
