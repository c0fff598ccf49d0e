//! The programs under test, and building them: those that `cargo xtask test` builds. For another
//! architecture than this machine's they need no shared library: so zctrace is also what a release
//! has.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};

use crate::{
    arch::Arch,
    command::{CommandWords as _, cargo, show},
    dist,
    run::BUILD_FOR_TESTS,
    toolchain::output,
};

/// zctrace, and programs of the package `zc-tests`, in Rust and in C. Some C programs exist for x86
/// only.
pub(super) const PROGRAMS: &str = "zctrace copier workload odd-files random-io kernel-copy file-script copier-c allow-calls \
     failed-paths int80 socketcall";

/// Paths of what was built. The other programs are beside the directory of the test binary.
pub(super) struct Programs {
    /// The test binary.
    pub(super) test: PathBuf,
    /// The tarball of a release with this zctrace, if it needs no shared library.
    pub(super) tarball: Option<PathBuf>,
}

impl Programs {
    /// Builds them for an architecture. Optimized programs take longer to build, and much less in a
    /// guest. What is packed goes into the directory `work`.
    pub(super) fn build(arch: Arch, is_optimized: bool, work: &Path) -> Result<Self> {
        let mut build = if arch.is_host() {
            cargo(BUILD_FOR_TESTS)
        } else {
            cargo_for(arch)
        };
        if is_optimized {
            build.arg("--release");
        }
        let test = test_binary(&mut build)?;
        let programs = test.ancestors().nth(2);
        let programs = programs.context("the test binary has no directory")?;
        let pack = || dist::pack_tarball(arch, &programs.join("zctrace"), work);
        Ok(Self {
            tarball: (!arch.is_host()).then(pack).transpose()?,
            test,
        })
    }
}

/// Builds everything with this command, and returns the path of the integration tests.
fn test_binary(build: &mut Command) -> Result<PathBuf> {
    build.arg("--message-format=json-render-diagnostics");
    let messages = output(build.stderr(Stdio::inherit()));
    let messages = messages.with_context(|| format!("`{}` failed", show(build)))?;
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

/// A cargo command that builds everything for another architecture, with the C library musl.
fn cargo_for(arch: Arch) -> Command {
    let target = arch.musl();
    let name = target.replace('-', "_");
    let mut cargo = cargo(BUILD_FOR_TESTS);
    // This linker is one for every architecture.
    let linker = format!("CARGO_TARGET_{}_LINKER", name.to_uppercase());
    cargo.env(linker, "rust-lld");
    let gcc = format!("{}-linux-gnu-gcc", arch.name());
    cargo.env(format!("CC_{name}"), gcc);
    cargo.words("--exclude xtask --target").arg(target);
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
