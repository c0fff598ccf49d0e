//! What differs between the architectures of guests, and building for another one than this machine's: with rustup's standard library for it,
//! or else with the compiler of Debian's packages and the library of the same version, fetched from the packages of that architecture.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;

use super::apt::{Apt, guest_suites};
use crate::{
    command::{cargo, check, root},
    setup::DEBIAN_RUSTC,
    toolchain::output,
};

/// A processor architecture, by the name that Linux and Rust have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Arch {
    /// 64-bit x86.
    #[value(name = "x86_64")]
    X86_64,
    /// 64-bit Arm.
    #[value(name = "aarch64")]
    Aarch64,
}

impl Arch {
    /// The architecture as Rust, Linux and QEMU call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// The architecture as Debian calls it.
    pub(super) fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// Rust's target.
    pub(super) fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.name())
    }

    /// This machine's architecture, if guests can have it.
    pub(super) fn host() -> Option<Self> {
        [Self::X86_64, Self::Aarch64].into_iter().find(|arch| arch.is_host())
    }

    /// Whether it is this machine's architecture.
    pub(super) fn is_host(self) -> bool {
        self.name() == env::consts::ARCH
    }

    /// The emulator.
    pub(super) fn qemu(self) -> String {
        format!("qemu-system-{}", self.name())
    }

    /// Options for the emulated machine. Its processor has every feature of QEMU except some that are slow to emulate and not needed:
    /// without pointer authentication and SVE, an arm64 guest takes a third less time.
    pub(super) fn machine(self) -> &'static [&'static str] {
        match self {
            Self::X86_64 => &["-machine", "pc", "-cpu", "max"],
            Self::Aarch64 => &["-machine", "virt", "-cpu", "max,pauth=off,sve=off"],
        }
    }

    /// More options for the kernel. The dynamic loader of arm64 unmaps the excess around a library, if its address leaves any: at random
    /// addresses, runs of the same program differ by a call.
    pub(super) fn kernel_options(self) -> &'static str {
        match self {
            Self::X86_64 => "",
            Self::Aarch64 => " norandmaps",
        }
    }

    /// The kernel's name of the first serial port.
    pub(super) fn console(self) -> &'static str {
        match self {
            Self::X86_64 => "ttyS0",
            Self::Aarch64 => "ttyAMA0",
        }
    }
}

/// A compiler for another architecture.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cross {
    arch: Arch,
    library: Library,
}

/// Where the standard library is.
#[derive(Debug, PartialEq, Eq)]
enum Library {
    /// Where the current compiler looks for it.
    OfTheToolchain,
    /// In this directory, for Debian's compiler.
    OfDebian(PathBuf),
}

impl Cross {
    /// Finds a compiler, and fetches its library if necessary.
    pub(super) fn find(arch: Arch, cache: &Path) -> Result<Self> {
        let place = output(Command::new("rustc").args(["--print", "target-libdir", "--target", &arch.target()]));
        let library = match place {
            Some(place) if Path::new(place.trim()).is_dir() => Library::OfTheToolchain,
            _ => Library::OfDebian(fetch(arch, cache)?),
        };
        Ok(Self { arch, library })
    }

    /// A cargo command that builds a release, without link-time optimization: a quick build saves more time here.
    pub(super) fn cargo(&self, command: &str) -> Command {
        let compiler = format!("{}-linux-gnu-gcc", self.arch.name());
        let target = self.arch.target().replace('-', "_");
        let variable = |name| format!("CARGO_TARGET_{}_{name}", target.to_uppercase());
        let mut cargo = match &self.library {
            Library::OfTheToolchain => cargo(),
            Library::OfDebian(library) => {
                let mut cargo = Command::new(Path::new(DEBIAN_RUSTC).with_file_name("cargo"));
                cargo
                    .current_dir(root())
                    .env("RUSTC", DEBIAN_RUSTC)
                    .env(variable("RUSTFLAGS"), format!("-L {}", library.display()));
                cargo
            }
        };
        cargo.env(variable("LINKER"), &compiler).env(format!("CC_{target}"), &compiler);
        cargo.args([command, "--release", "--target", &self.arch.target()]);
        // Not as environment variables: the cargo that builds the eBPF programs would inherit them and build another object.
        cargo.args(["--config", r#"profile.release.lto="off""#, "--config", "profile.release.codegen-units=16"]);
        cargo
    }
}

/// Fetches the standard library of another architecture for Debian's compiler.
fn fetch(arch: Arch, cache: &Path) -> Result<PathBuf> {
    let version = output(Command::new("dpkg-query").args(["-W", "-f", "${Version}", "rustc-web"]));
    let version =
        version.context("rustc has no standard library for the architecture, and the package rustc-web is not installed")?;
    let suites = guest_suites()?;
    let apt = Apt::new(cache.join("apt/guest"), arch, &suites.each_ref().map(String::as_str))?;
    let packages = apt.download(&[format!("libstd-rust-web-dev={version}")], &cache.join("rust"))?;
    let tree = cache.join("rust/tree");
    for package in packages {
        check(Command::new("dpkg-deb").arg("-x").arg(package).arg(&tree))?;
    }
    let library = tree.join("usr/lib/rustlib").join(arch.target()).join("lib");
    ensure!(fs::exists(&library)?, "libstd-rust-web-dev {version} has no {}", library.display());
    Ok(library)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn variable(cargo: &Command, name: &str) -> Option<String> {
        let value = cargo.get_envs().find(|(variable, _)| *variable == OsStr::new(name))?.1?;
        Some(value.to_string_lossy().into_owned())
    }

    #[test]
    fn cargo_links_with_the_compiler_of_the_architecture() {
        let cargo = Cross { arch: Arch::Aarch64, library: Library::OfTheToolchain }.cargo("build");
        assert_eq!(variable(&cargo, "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER").as_deref(), Some("aarch64-linux-gnu-gcc"));
        assert_eq!(variable(&cargo, "CC_aarch64_unknown_linux_gnu").as_deref(), Some("aarch64-linux-gnu-gcc"));
        assert_eq!(variable(&cargo, "RUSTC"), None);
    }

    #[test]
    fn debians_compiler_is_told_where_the_library_is() {
        let cargo = Cross { arch: Arch::Aarch64, library: Library::OfDebian("/cache/lib".into()) }.cargo("test");
        assert_eq!(cargo.get_program(), "/usr/bin/cargo");
        assert_eq!(variable(&cargo, "RUSTC").as_deref(), Some(DEBIAN_RUSTC));
        assert_eq!(variable(&cargo, "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS").as_deref(), Some("-L /cache/lib"));
    }
}
