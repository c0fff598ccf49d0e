//! What a check says of a command that failed.

use std::path::Path;

use super::plan::Check;
use crate::{expect::Expectation, report::Report, signal};

/// The status of a shell that could not execute a command (POSIX, 2.8.2).
const NOT_EXECUTABLE: i32 = 126;
/// The status of a shell that did not find a command.
const NOT_FOUND: i32 = 127;

/// Why a line for the shell did not run its command, if nothing says that it may fail: what the
/// report has then are the shell's own calls.
pub(super) fn not_found(check: &Check, report: &Report) -> Option<String> {
    let code = report.exit.code?;
    let what = match code {
        NOT_EXECUTABLE => "cannot be executed",
        NOT_FOUND => "was not found",
        _ => return None,
    };
    let [shell, option, ..] = check.command.as_slice() else {
        return None;
    };
    let shell = Path::new(shell).file_name()?.to_str()?;
    let is_line = matches!(shell, "sh" | "bash" | "dash") && option == "-c";
    let cure = if check.file.is_some() {
        ". The shell starts in the check's working directory: for a program next to the file of checks, write $ZCTRACE_CHECK_DIR/app, or command = [\"./app\"] without a shell"
    } else {
        ""
    };
    (is_line && !may_fail(check)).then(|| {
        format!(
            "a command of its line for {shell} {what} ({}, status {code}){cure}",
            directory_in_words(check)
        )
    })
}

/// Whether something says that the command may fail.
fn may_fail(check: &Check) -> bool {
    // A baseline also has an exit status.
    let baseline = check.baseline.as_ref();
    check.ignore_failure
        || check.expectations.iter().any(Expectation::is_about_exit)
        || baseline.is_some_and(|baseline| !baseline.is_to_be_written())
}

/// Where the command ran.
fn directory_in_words(check: &Check) -> String {
    match &check.directory {
        Some(directory) => format!("in {}", directory.display()),
        None => "in a new folder with nothing but the check's `files`; `cwd` names another".into(),
    }
}

/// How the command failed, if nothing says that it may: what it does then is seldom what the
/// expectations are about.
pub(super) fn why_command_failed(check: &Check, report: &Report) -> Option<String> {
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
    (!may_fail(check)).then(|| {
        let place = directory_in_words(check);
        format!(
            "its command {ended} ({place}). If that is right, expect `{right}`, or allow it to fail (ignore_failure)"
        )
    })
}
