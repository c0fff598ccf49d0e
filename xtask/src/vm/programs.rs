//! The programs under test, and building them: those that `cargo xtask test` builds, for another
//! architecture than this machine's with rustup's standard library for it.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};

use super::arch::Arch;
use crate::{
    command::{Words as _, cargo, check, release_dir, root, show},
    run,
    toolchain::output,
};

/// Programs of the package `zc-tests`, in Rust and in C. Some C programs exist for x86 only.
const WORKLOADS: &str =
    "copier workload odd-files random-io kernel-copy runs copier-c int80 socketcall";

/// Paths of what was built. A guest has everything at the same paths as this machine, because they
/// are compiled into the test binary.
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
    /// Builds them optimized for the architecture; or, for this machine, as `cargo xtask test` has
    /// built them.
    pub(super) fn build(arch: Arch, as_for_tests: bool) -> Result<Self> {
        let (zctrace, test) = if as_for_tests {
            run::build(&["zctrace", "zc-tests"])?;
            (release_dir()?.join("zctrace"), test_binary(cargo("test"))?)
        } else {
            // One profile and one set of packages: every dependency is built once.
            check(cargo_for(arch, "build").words("--workspace --bins"))?;
            let target = release_dir()?.with_file_name(arch.target());
            let test = test_binary(cargo_for(arch, "test"))?;
            (target.join("release/zctrace"), test)
        };
        let workloads = test.ancestors().nth(2);
        Ok(Self {
            zctrace,
            workloads: workloads
                .context("the test binary has no directory")?
                .to_owned(),
            package: root().canonicalize()?.join("tests"),
            test,
        })
    }

    /// Every file and directory that a guest needs.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.test.clone(), self.zctrace.clone()];
        let workloads = WORKLOADS.split(' ').map(|name| self.workloads.join(name));
        files.extend(workloads.filter(|path| path.exists()));
        files.extend(["golden", "scenarios", "zctrace.toml"].map(|name| self.package.join(name)));
        files
    }
}

/// Builds the integration tests and returns the path of the binary. It names the same packages as
/// `cargo xtask test`: with others, the dependencies would have other features and be built again.
fn test_binary(mut cargo: Command) -> Result<PathBuf> {
    cargo.words("--workspace --test all --no-run --message-format=json-render-diagnostics");
    let messages = output(cargo.stderr(Stdio::inherit()));
    let messages = messages.with_context(|| format!("`{}` failed", show(&cargo)))?;
    let test = messages.lines().find_map(test_executable);
    Ok(test.context("cargo does not name the test binary")?.into())
}

/// The executable in cargo's message about the test `all`.
fn test_executable(message: &str) -> Option<&str> {
    let is_it = message.contains(r#""reason":"compiler-artifact""#)
        && message.contains(r#""kind":["test"]"#)
        && message.contains(r#""name":"all""#);
    let (_, rest) = message.split_once(r#""executable":""#).filter(|_| is_it)?;
    Some(rest.split_once('"')?.0)
}

/// A cargo command that builds a release for an architecture, without link-time optimization: a
/// quick build saves more time here.
fn cargo_for(arch: Arch, command: &str) -> Command {
    let compiler = format!("{}-linux-gnu-gcc", arch.name());
    let target = arch.target().replace('-', "_");
    let mut cargo = cargo(command);
    let linker = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase());
    cargo.env(linker, &compiler);
    cargo.env(format!("CC_{target}"), &compiler);
    cargo.args(["--release", "--target", &arch.target()]);
    // Not as environment variables: the cargo that builds the eBPF programs would inherit them and
    // build another object.
    cargo.words(r#"--config profile.release.lto="off""#);
    cargo.words("--config profile.release.codegen-units=16");
    cargo
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
        let finished = r#"{"reason":"build-finished","success":true}"#.to_owned();
        for (message, found) in [
            (of("test", "all"), Some("/t/debug/deps/all-1")),
            (of("bin", "all"), None),
            (of("test", "other"), None),
            (finished, None),
        ] {
            assert_eq!(test_executable(&message), found);
        }
    }
}
