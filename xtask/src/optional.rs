//! Steps of the gate that need a program which is not everywhere: linters, pytest, Go, mdBook, cargo-deny.
//! Where one cannot be had, its step is not run, and the gate says so.

use std::{fs, path::PathBuf, process::Command};

use anyhow::Result;

use crate::{
    command::{Words as _, as_root, cargo, check, release_dir, root},
    toolchain::{on_path, output},
};

/// The version of actionlint.
const ACTIONLINT: &str = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12";

/// The steps by name; `None`: the program is not here.
pub(crate) fn steps() -> Result<[(&'static str, Option<Command>); 6]> {
    let scripts = ["get", "check", "comment"].map(|name| format!(".github/action/{name}.sh"));
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
        ("pytest plug-in", pytest()?),
        ("Go helper", go_test()?),
        (
            "docs site",
            on_path("mdbook").map(|mdbook| lint(mdbook, &["build".into(), "docs".into()])),
        ),
        (
            "dependencies",
            on_path("cargo-deny").map(|_| cargo("deny check bans licenses sources")),
        ),
    ])
}

/// The tests of the plug-in for pytest.
fn pytest() -> Result<Option<Command>> {
    let has_pytest = output(Command::new("python3").words("-m pytest --version")).is_some();
    let folder = root().join("contrib/pytest-zctrace");
    let mut test = Command::new("python3");
    test.words("-m pytest -q -p no:cacheprovider").arg(&folder);
    test.env("PYTHONPATH", fs::canonicalize(&folder)?);
    test.env("PYTEST_PLUGINS", "pytest_zctrace");
    test.env("PYTHONDONTWRITEBYTECODE", "1");
    // So that no test is skipped.
    test.env("CI", "true");
    test.env("ZCTRACE", release_dir()?.join("zctrace"));
    Ok(has_pytest.then_some(test))
}

/// The tests of the helper for Go.
fn go_test() -> Result<Option<Command>> {
    let zctrace = release_dir()?.join("zctrace");
    Ok(on_path("go").map(|go| {
        let mut test = Command::new(go);
        test.words("test -count=1 ./...").env("ZCTRACE", zctrace);
        test.env("CI", "true");
        test.current_dir(root().join("contrib/go"));
        test
    }))
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
