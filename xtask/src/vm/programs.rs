//! The programs under test, and building them: those that `cargo xtask test` builds. For another
//! architecture than this machine's they need no shared library, and are built with rustup's standard
//! library for that: so zctrace is also what a release has. Or else they are built with the compiler
//! of Debian's packages and the library of the same version, fetched from the packages of that
//! architecture.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use super::apt::Apt;
use crate::{
    arch::Arch,
    command::{Words as _, cargo, check, root, show},
    dist,
    run::BUILD_FOR_TESTS,
    setup::DEBIAN_RUSTC,
    toolchain::output,
};

/// zctrace, and programs of the package `zc-tests`, in Rust and in C. Some C programs exist for x86
/// only.
const PROGRAMS: &str =
    "zctrace copier workload odd-files random-io kernel-copy runs copier-c int80 socketcall";

/// Paths of what was built. A guest has everything at the same paths as this machine, because they
/// are compiled into the test binary.
pub(super) struct Programs {
    /// The test binary.
    pub(super) test: PathBuf,
    /// The directory of zctrace and the workloads.
    pub(super) directory: PathBuf,
    /// The package of the tests.
    pub(super) package: PathBuf,
    /// The tarball of a release with this zctrace, if it needs no shared library.
    pub(super) tarball: Option<PathBuf>,
}

impl Programs {
    /// Builds them with a compiler for the architecture; without one, as `cargo xtask test` builds
    /// them for this machine. Optimized programs take longer to build, and much less in a guest. What
    /// is packed goes into the directory `work`.
    pub(super) fn build(
        compiler: Option<&Compiler>,
        is_optimized: bool,
        work: &Path,
    ) -> Result<Self> {
        let mut build = compiler.map_or_else(|| cargo(BUILD_FOR_TESTS), Compiler::cargo);
        if is_optimized {
            build.arg("--release");
        }
        let test = test_binary(&mut build)?;
        let programs = test.ancestors().nth(2);
        let programs = programs.context("the test binary has no directory")?;
        let is_static = |compiler: &&Compiler| compiler.library == Library::OfTheToolchain;
        let zctrace = programs.join("zctrace");
        let pack = |compiler: &Compiler| dist::pack_tarball(compiler.arch, &zctrace, work);
        Ok(Self {
            tarball: compiler.filter(is_static).map(pack).transpose()?,
            directory: programs.to_owned(),
            package: root().canonicalize()?.join("tests"),
            test,
        })
    }

    /// Every file and directory that a guest needs.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.test.clone()];
        let programs = PROGRAMS.split(' ').map(|name| self.directory.join(name));
        files.extend(programs.filter(|path| path.exists()));
        files.extend(["golden", "scenarios", "zctrace.toml"].map(|name| self.package.join(name)));
        files.extend(self.tarball.clone());
        files
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

/// A compiler for an architecture.
pub(super) struct Compiler {
    arch: Arch,
    library: Library,
}

/// Where the standard library is.
#[derive(PartialEq, Eq)]
enum Library {
    /// Where the current compiler looks for it, with the C library musl.
    OfTheToolchain,
    /// In this directory, for Debian's compiler, with the shared C library of the guest.
    OfDebian(PathBuf),
}

impl Compiler {
    /// Finds a compiler, and fetches its library if necessary.
    pub(super) fn find(arch: Arch, cache: &Path) -> Result<Self> {
        let mut rustc = Command::new("rustc");
        rustc.words("--print target-libdir --target");
        let library = match output(rustc.arg(arch.musl())) {
            Some(place) if Path::new(place.trim()).is_dir() => Library::OfTheToolchain,
            _ => Library::OfDebian(fetch(arch, cache)?),
        };
        Ok(Self { arch, library })
    }

    /// A cargo command that builds everything for the architecture.
    fn cargo(&self) -> Command {
        let gcc = format!("{}-linux-gnu-gcc", self.arch.name());
        let (target, linker) = match &self.library {
            // It is one for every architecture.
            Library::OfTheToolchain => (self.arch.musl(), "rust-lld"),
            Library::OfDebian(_) => (self.arch.target(), gcc.as_str()),
        };
        let name = target.replace('-', "_");
        let variable = |what| format!("CARGO_TARGET_{}_{what}", name.to_uppercase());
        let mut cargo = cargo(BUILD_FOR_TESTS);
        if let Library::OfDebian(library) = &self.library {
            cargo = Command::new(Path::new(DEBIAN_RUSTC).with_file_name("cargo"));
            cargo.words(BUILD_FOR_TESTS).current_dir(root());
            cargo.env("RUSTC", DEBIAN_RUSTC);
            cargo.env(variable("RUSTFLAGS"), format!("-L {}", library.display()));
        }
        cargo.env(variable("LINKER"), linker);
        cargo.env(format!("CC_{name}"), &gcc);
        cargo.words("--exclude xtask --target").arg(target);
        cargo
    }
}

/// Fetches the standard library of another architecture for Debian's compiler.
fn fetch(arch: Arch, cache: &Path) -> Result<PathBuf> {
    let version = output(Command::new("dpkg-query").words("-W -f ${Version} rustc-web")).context(
        "rustc has no standard library for the architecture, and the package rustc-web is not \
         installed",
    )?;
    let package = format!("libstd-rust-web-dev={version}");
    let (apt, into) = (Apt::of_guests(cache, arch)?, cache.join("rust"));
    let tree = into.join("tree");
    for package in apt.download(std::slice::from_ref(&package), &into)? {
        check(Command::new("dpkg-deb").arg("-x").arg(package).arg(&tree))?;
    }
    let library = tree.join("usr/lib/rustlib").join(arch.target()).join("lib");
    ensure!(library.exists(), "{package} has no {}", library.display());
    Ok(library)
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
