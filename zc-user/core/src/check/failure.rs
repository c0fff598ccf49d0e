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
