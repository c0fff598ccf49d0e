//! The linters of the workflows and of the action's scripts. Where one cannot be had, it is not run,
//! and the gate says so.

use std::{path::PathBuf, process::Command};

use anyhow::Result;

use crate::{
    command::{Words as _, as_root, check, release_dir, root},
    toolchain::on_path,
};

/// The version of actionlint.
const ACTIONLINT: &str = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12";

/// The linters, by name; `None`: it is not here.
pub(crate) fn steps() -> Result<[(&'static str, Option<Command>); 2]> {
    let scripts = ["get", "check", "comment"].map(|name| format!("action/{name}.sh"));
    let lint = |program: PathBuf, files: &[String]| {
        let mut lint = Command::new(program);
        lint.args(files).current_dir(root());
        lint
    };
    // actionlint finds the workflows, lints their scripts by shellcheck, and knows our own action.
    Ok([
        (
            "shellcheck",
            shellcheck().map(|program| lint(program, &scripts)),
        ),
        (
            "actionlint",
            actionlint()?.map(|program| lint(program, &[])),
        ),
    ])
}

/// The program shellcheck, which is a package of most distributions.
fn shellcheck() -> Option<PathBuf> {
    on_path("shellcheck").or_else(|| {
        let mut install = as_root("timeout").ok()?;
        install.words("120 apt-get install -y -q --no-install-recommends shellcheck");
        check(&mut install).ok()?;
        on_path("shellcheck")
    })
}

/// The program actionlint; Go builds it.
fn actionlint() -> Result<Option<PathBuf>> {
    if let Some(found) = on_path("actionlint") {
        return Ok(Some(found));
    }
    let tools = release_dir()?.with_file_name("tools");
    let program = tools.join("actionlint");
    if !program.exists() {
        let mut install = Command::new("timeout");
        install.words("120 go install").arg(ACTIONLINT);
        // A failure shows in that it is not there.
        let _ = check(install.env("GOBIN", tools));
    }
    Ok(Some(program).filter(|program| program.exists()))
}
