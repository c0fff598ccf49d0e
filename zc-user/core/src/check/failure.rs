//! What a check says of a command that failed.

use super::plan::Check;
use crate::{expect::Expectation, report::Report, signal};

/// How the command failed, if nothing says that it may: what it does then is seldom what the
/// expectations are about.
pub(super) fn failure(check: &Check, report: &Report) -> Option<String> {
    let exit = &report.exit;
    let (ended, right) = match (exit.code, exit.signal) {
        (Some(code @ 1..), _) => (
            format!("ended with status {code}"),
            format!("exit.code == {code}"),
        ),
        (_, Some(number)) => {
            let name = signal::name(number);
            (
                format!("was ended by {name}"),
                format!("exit.signal == {name}"),
            )
        }
        _ => return None,
    };
    // A baseline has an exit status, too.
    let baseline = check.baseline.as_ref();
    let may_fail = check.ignore_failure
        || check.expectations.iter().any(Expectation::is_about_exit)
        || baseline.is_some_and(|baseline| !baseline.is_to_be_written());
    let place = match &check.directory {
        Some(directory) => format!("in {}", directory.display()),
        None => "in a new folder with nothing but the check's `files`; `cwd` names another".into(),
    };
    (!may_fail).then(|| {
        format!(
            "its command {ended} ({place}). If that is right, expect `{right}`, or say that it may fail (ignore_failure)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::{
            Baseline, Status, Tolerances, judge,
            sample::{attempt, check as sample_check, of_writes},
        },
        report::Exit,
    };

    fn check(expectations: &[&str]) -> Check {
        sample_check("a copy", expectations)
    }

    #[test]
    fn a_command_that_fails_gives_no_result_unless_something_says_that_it_may() {
        let failed = |code, signal| {
            let mut report = of_writes(1);
            report.exit = Exit { code, signal };
            report
        };
        let with_baseline = Check {
            baseline: Some(Baseline {
                path: "b.json".into(),
                report: Some(Box::new(failed(Some(3), None))),
                tolerances: Tolerances::default(),
            }),
            ..check(&[])
        };
        let that_may_fail = Check {
            ignore_failure: true,
            ..check(&["write.calls == 1"])
        };
        for (check, report, status) in [
            (
                check(&["write.calls == 1"]),
                failed(Some(3), None),
                Status::NoResult,
            ),
            (
                check(&["write.calls == 1"]),
                failed(None, Some(11)),
                Status::NoResult,
            ),
            (
                check(&["write.calls == 2"]),
                failed(Some(3), None),
                Status::Failed,
            ),
            (
                check(&["write.calls == 1", "exit.code == 3"]),
                failed(Some(3), None),
                Status::Passed,
            ),
            (
                check(&["exit.signal == SIGSEGV"]),
                failed(None, Some(11)),
                Status::Passed,
            ),
            (that_may_fail, failed(Some(3), None), Status::Passed),
            (with_baseline.clone(), failed(Some(3), None), Status::Passed),
            (with_baseline, failed(Some(4), None), Status::Failed),
        ] {
            let result = judge(&check, &[attempt(Ok(report))]);
            assert_eq!(result.status, status, "{:?}", result.error);
        }
    }
}
