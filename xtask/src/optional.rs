//! Steps of the gate that need a program which is not everywhere. Where set-up cannot install it, which
//! the gate says, there is no such step.

use std::{fs, path::Path, process::Command};

use anyhow::Result;

use crate::{
    command::{CommandWords as _, cargo, debug_dir, root},
    toolchain::{on_path, output},
};

/// The steps by name. The programs that they try are those of the tests.
pub(crate) fn steps() -> Result<Vec<(&'static str, Command)>> {
    let zctrace = debug_dir()?.join("zctrace");
    let scripts = ".github/action/get.sh .github/action/check.sh .github/action/comment.sh \
        xtask/src/dist/in-an-empty-root.sh";
    // actionlint finds the workflows, lints their scripts by shellcheck, and knows our own action.
    let steps = [
        ("shellcheck", lint("shellcheck", scripts)),
        ("actionlint", lint("actionlint", "")),
        ("pytest plug-in", pytest(&zctrace)?),
        ("Go helper", go_test(&zctrace)),
        ("docs site", lint("mdbook", "build docs")),
        (
            "dependencies",
            // The advisories come from the network.
            on_path("cargo-deny").map(|_| cargo("deny check bans licenses sources")),
        ),
    ];
    let is_here = |(name, command): (_, Option<Command>)| Some((name, command?));
    Ok(steps.into_iter().filter_map(is_here).collect())
}

/// A program that reads files of the repository.
fn lint(program: &str, arguments: &str) -> Option<Command> {
    let mut lint = Command::new(on_path(program)?);
    lint.words(arguments).current_dir(root());
    Some(lint)
}

/// The tests of the plug-in for pytest.
fn pytest(zctrace: &Path) -> Result<Option<Command>> {
    let has_pytest = output(Command::new("python3").words("-m pytest --version")).is_some();
    let folder = root().join("contrib/pytest-zctrace");
    let mut test = Command::new("python3");
    test.words("-m pytest -q -p no:cacheprovider").arg(&folder);
    test.env("PYTHONPATH", fs::canonicalize(&folder)?);
    test.env("PYTEST_PLUGINS", "pytest_zctrace");
    test.env("PYTHONDONTWRITEBYTECODE", "1");
    // So that no test is skipped.
    test.env("CI", "true").env("ZCTRACE", zctrace);
    Ok(has_pytest.then_some(test))
}

/// The tests of the helper for Go.
fn go_test(zctrace: &Path) -> Option<Command> {
    let mut test = Command::new(on_path("go")?);
    test.words("test -count=1 ./...").env("ZCTRACE", zctrace);
    test.env("CI", "true");
    test.current_dir(root().join("contrib/go"));
    Some(test)
}
