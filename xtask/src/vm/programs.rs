//! What is tested in a guest: the programs that `cargo xtask test` builds.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};

use super::{arch::Arch, cross::Cross};
use crate::{
    command::{cargo, check, release_dir, root, show},
    run,
};

/// Programs of the package of the tests: those that it builds by itself, where the architecture has them, and the Rust ones.
const WORKLOADS: [&str; 9] =
    ["copier", "workload", "odd-files", "random-io", "kernel-copy", "runs", "copier-c", "int80", "socketcall"];

/// Where what was built is. A guest has everything at the same place as this machine, for the test binary knows the places.
pub(super) struct Programs {
    /// The test binary.
    pub(super) test: PathBuf,
    /// zctrace, as it is released.
    pub(super) zctrace: PathBuf,
    /// The directory of the workloads.
    pub(super) workloads: PathBuf,
    /// The package of the tests.
    pub(super) package: PathBuf,
}

impl Programs {
    /// Builds them; without a compiler for another architecture, as `cargo xtask test` does, and nothing more.
    pub(super) fn build(arch: Arch, cross: Option<&Cross>) -> Result<Self> {
        let (zctrace, test) = match cross {
            None => {
                run::build(&["zctrace", "zc-tests"])?;
                (release_dir()?.join("zctrace"), test_binary(cargo().arg("test"))?)
            }
            Some(cross) => {
                // One profile and one set of packages: every dependency is built once.
                check(cross.cargo("build").args(["--workspace", "--bins"]))?;
                let target = release_dir()?.with_file_name(arch.target());
                (target.join("release/zctrace"), test_binary(&mut cross.cargo("test"))?)
            }
        };
        let workloads = test.ancestors().nth(2).context("the test binary is not in a target directory")?.to_owned();
        Ok(Self { test, zctrace, workloads, package: root().canonicalize()?.join("tests") })
    }

    /// Every file and directory that a guest has to have.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let workloads = WORKLOADS.into_iter().map(|name| self.workloads.join(name)).filter(|path| path.exists());
        let of_the_package = ["golden", "scenarios", "zctrace.toml"].map(|name| self.package.join(name));
        [self.test.clone(), self.zctrace.clone()].into_iter().chain(workloads).chain(of_the_package).collect()
    }
}

/// Builds the tests as a whole, and returns the binary. The workspace is named as it is for `cargo xtask test`: with other packages the
/// dependencies would have other features, and be built again.
fn test_binary(cargo: &mut Command) -> Result<PathBuf> {
    cargo.args(["--workspace", "--test", "all", "--no-run", "--message-format=json-render-diagnostics"]);
    let built = cargo.stderr(Stdio::inherit()).output().with_context(|| format!("cannot run {}", show(cargo)))?;
    ensure!(built.status.success(), "`{}` failed ({})", show(cargo), built.status);
    let messages = String::from_utf8_lossy(&built.stdout).into_owned();
    let Some(test) = messages.lines().find_map(test_executable) else { bail!("cargo does not name the test binary") };
    Ok(Path::new(test).to_owned())
}

/// The executable in cargo's message about the test `all`.
fn test_executable(message: &str) -> Option<&str> {
    let is_it = message.contains(r#""reason":"compiler-artifact""#)
        && message.contains(r#""kind":["test"]"#)
        && message.contains(r#""name":"all""#);
    let (_, rest) = message.split_once(r#""executable":""#).filter(|_| is_it)?;
    Some(rest.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_binary_is_found_in_cargos_messages() {
        let of = |kind: &str, name: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","target":{{"kind":["{kind}"],"name":"{name}"}},"executable":"/t/debug/deps/{name}-1"}}"#
            )
        };
        assert_eq!(test_executable(&of("test", "all")), Some("/t/debug/deps/all-1"));
        assert_eq!(test_executable(&of("bin", "all")), None);
        assert_eq!(test_executable(&of("test", "other")), None);
        assert_eq!(test_executable(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
