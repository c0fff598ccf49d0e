//! What is tested in a guest: the programs that `cargo xtask test` builds.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};

use super::arch::Arch;
use crate::{
    command::{cargo, check, release_dir, root, show},
    run,
};

/// Programs of the package of the tests: those that it builds by itself, where the architecture has them, and the Rust ones.
const WORKLOADS: [&str; 8] = ["copier", "workload", "odd-files", "kernel-copy", "runs", "copier-c", "int80", "socketcall"];

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
    /// Builds them; for this machine's own architecture that is nothing more than what `cargo xtask test` builds.
    pub(super) fn build(arch: Arch) -> Result<Self> {
        let (zctrace, tests) = if arch.is_host() {
            run::build(&["zctrace", "zc-tests"])?;
            (release_dir()?.join("zctrace"), cargo())
        } else {
            check(cross(arch).args(["build", "--release", "--package", "zctrace"]).args(["--target", &arch.target()]))?;
            let target = release_dir()?.with_file_name(arch.target());
            (target.join("release/zctrace"), cross(arch))
        };
        let test = test_binary(tests, arch)?;
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

/// cargo, for another architecture.
fn cross(arch: Arch) -> Command {
    let mut cargo = cargo();
    let compiler = format!("{}-linux-gnu-gcc", arch.name());
    let target = arch.target().replace('-', "_");
    cargo.env(format!("CARGO_TARGET_{}_LINKER", target.to_uppercase()), &compiler);
    cargo.env(format!("CC_{target}"), &compiler);
    cargo
}

/// Builds the tests as a whole, and returns the binary. The workspace is named as it is for `cargo xtask test`: with other packages the
/// dependencies would have other features, and be built again.
fn test_binary(mut cargo: Command, arch: Arch) -> Result<PathBuf> {
    cargo.args(["test", "--workspace", "--test", "all", "--no-run", "--message-format=json-render-diagnostics"]);
    if !arch.is_host() {
        cargo.args(["--target", &arch.target()]);
    }
    let built = cargo.stderr(Stdio::inherit()).output().with_context(|| format!("cannot run {}", show(&cargo)))?;
    ensure!(built.status.success(), "`{}` failed ({})", show(&cargo), built.status);
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
