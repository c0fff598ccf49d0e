//! Finds the compiler and the linker that build the eBPF programs.
//!
//! `zc-user/capture/build.rs` uses them, and xtask installs what is missing; both include this
//! file.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    process::Command,
};

/// The LLVM that `cargo xtask setup` builds bpf-linker with.
///
/// A linker can only read the bitcode of the same or an older LLVM.
pub(crate) const LLVM_MAJOR: u32 = 22;

/// The variable that names the only rustup toolchain to be used.
pub(crate) const TOOLCHAIN_VAR: &str = "ZCTRACE_BPF_TOOLCHAIN";

/// Where a compiler comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    /// A toolchain of rustup, by its name.
    Rustup(String),
    /// The compiler that builds the rest of the workspace.
    Current,
    /// The distribution's packages, which may be installed besides rustup.
    Distribution,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rustup(name) => write!(f, "rustup's {name}"),
            Self::Current => f.write_str("the current toolchain"),
            Self::Distribution => f.write_str("the distribution's toolchain"),
        }
    }
}

/// Why a compiler cannot build for BPF.
#[derive(Debug, PartialEq)]
pub(crate) enum ToolchainProblem {
    /// There is no such compiler, or it does not run.
    NotInstalled,
    /// It writes bitcode of this version of LLVM, which is too new for the linker.
    LlvmTooNew(u32),
    /// It lacks the sources of the standard library (`rust-src`), from which `core` is built.
    NoSources,
}

impl fmt::Display for ToolchainProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled => f.write_str("not installed"),
            Self::LlvmTooNew(major) => write!(f, "its LLVM {major} is newer than bpf-linker's"),
            Self::NoSources => f.write_str("lacks rust-src"),
        }
    }
}

/// A compiler that can build for BPF.
pub(crate) struct BpfToolchain {
    /// Where it comes from.
    pub(crate) source: Source,
    /// The directory that holds its `bin` and `lib`.
    pub(crate) sysroot: PathBuf,
    /// Its version as `rustc -V` prints it, without the name of the program.
    pub(crate) version: String,
    /// The version of its LLVM.
    pub(crate) llvm: String,
}

impl BpfToolchain {
    /// Finds the first usable compiler whose LLVM is not newer than `llvm_max`; the error says what
    /// is wrong with each.
    pub(crate) fn find(llvm_max: u32) -> Result<Self, String> {
        let sources = match env::var(TOOLCHAIN_VAR) {
            Ok(name) if !name.is_empty() => vec![Source::Rustup(name)],
            _ => vec![
                Source::Rustup("nightly".into()),
                Source::Current,
                Source::Distribution,
            ],
        };
        let mut reasons = Vec::new();
        for source in sources {
            match Self::from(source.clone(), llvm_max) {
                Ok(toolchain) => return Ok(toolchain),
                Err(reason) => reasons.push(format!("{source}: {reason}")),
            }
        }
        Err(reasons.join(", "))
    }

    /// The compiler of one source, if it is usable.
    pub(crate) fn from(source: Source, llvm_max: u32) -> Result<Self, ToolchainProblem> {
        let sysroot = match &source {
            Source::Rustup(name) => {
                print_sysroot(Command::new("rustup").args(["run", name, "rustc"]))
            }
            Source::Current => print_sysroot(&mut Command::new(
                env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()),
            )),
            Source::Distribution => Some(PathBuf::from("/usr")),
        };
        let sysroot = sysroot
            .filter(|dir| dir.join("bin/cargo").is_file())
            .ok_or(ToolchainProblem::NotInstalled)?;
        let about = output(Command::new(sysroot.join("bin/rustc")).arg("-vV"));
        let about = about.ok_or(ToolchainProblem::NotInstalled)?;
        let mut lines = about.lines();
        let version = lines.next().unwrap_or_default();
        let llvm = lines.find_map(|line| line.strip_prefix("LLVM version: "));
        let llvm = llvm.ok_or(ToolchainProblem::NotInstalled)?;
        let llvm_major = major(llvm).ok_or(ToolchainProblem::NotInstalled)?;
        if llvm_major > llvm_max {
            return Err(ToolchainProblem::LlvmTooNew(llvm_major));
        }
        let sources = sysroot.join("lib/rustlib/src/rust/library/Cargo.lock");
        if !sources.is_file() {
            return Err(ToolchainProblem::NoSources);
        }
        Ok(Self {
            source,
            version: version.trim_start_matches("rustc ").to_owned(),
            llvm: llvm.to_owned(),
            sysroot,
        })
    }
}

impl fmt::Display for BpfToolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, version, llvm) = (&self.source, &self.version, &self.llvm);
        write!(
            f,
            "{source}: {version}, LLVM {llvm}, {}",
            self.sysroot.display()
        )
    }
}

/// A working bpf-linker.
pub(crate) struct Linker {
    /// The program.
    pub(crate) path: PathBuf,
    /// Its version.
    pub(crate) version: String,
    /// The version of its LLVM, as far as it is visible.
    pub(crate) llvm: String,
    /// The major version of its LLVM.
    pub(crate) llvm_major: u32,
}

impl Linker {
    /// Finds it in the PATH, or else where `cargo install` puts it; the error says what is wrong.
    pub(crate) fn find() -> Result<Self, String> {
        let path = on_path("bpf-linker").or_else(|| {
            let home = env::var_os("CARGO_HOME")
                .map(PathBuf::from)
                .or_else(|| Some(env::home_dir()?.join(".cargo")))?;
            Some(home.join("bin/bpf-linker")).filter(|path| path.is_file())
        });
        let path = path.ok_or("bpf-linker is not installed")?;
        let about = output(Command::new(&path).arg("--version"));
        let about = about.ok_or_else(|| format!("{} does not run", path.display()))?;
        let version = about.trim().trim_start_matches("bpf-linker ").to_owned();
        let llvm = llvm_of(&path);
        // A statically linked LLVM has no visible version. It is assumed to be the right one; if it
        // is not, linking fails.
        let llvm_major = llvm.as_deref().and_then(major).unwrap_or(LLVM_MAJOR);
        Ok(Self {
            path,
            version,
            llvm: llvm.unwrap_or_else(|| "linked in".to_owned()),
            llvm_major,
        })
    }
}

impl fmt::Display for Linker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, llvm) = (&self.version, &self.llvm);
        write!(
            f,
            "bpf-linker {version}, LLVM {llvm}, {}",
            self.path.display()
        )
    }
}

/// The first program called `name` on the PATH.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
}

/// Standard output of a command that succeeds.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    // rustup must report a missing toolchain and not install it: `cargo xtask setup` does that,
    // with a time limit.
    let output = command.env("RUSTUP_AUTO_INSTALL", "0").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.into_owned())
}

/// The directory of the toolchain whose rustc this command starts.
fn print_sysroot(rustc: &mut Command) -> Option<PathBuf> {
    let sysroot = output(rustc.args(["--print", "sysroot"]))?;
    Some(PathBuf::from(sysroot.trim()))
}

/// The version of the LLVM that a program is dynamically linked with.
fn llvm_of(program: &Path) -> Option<String> {
    let libraries = output(Command::new("ldd").arg(program))?;
    let mut lines = libraries.lines();
    let library = lines.find_map(|line| line.trim().strip_prefix("libLLVM"))?;
    let version = library.trim_start_matches(".so.").trim_start_matches('-');
    Some(version.split(' ').next()?.to_owned())
}

/// The number that a version starts with.
fn major(version: &str) -> Option<u32> {
    let digits = version.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_starts_with_its_major_number() {
        assert_eq!(major("22.1.4"), Some(22));
        assert_eq!(major("17"), Some(17));
        assert_eq!(major("so"), None);
    }

    #[test]
    fn a_compiler_that_is_not_there_or_newer_than_the_linker_is_refused() {
        let found =
            BpfToolchain::from(Source::Rustup("no-such-toolchain".into()), LLVM_MAJOR).err();
        assert_eq!(found, Some(ToolchainProblem::NotInstalled));
        let found = BpfToolchain::from(Source::Current, 0).err();
        assert!(
            matches!(found, Some(ToolchainProblem::LlvmTooNew(major)) if major > 0),
            "{found:?}"
        );
    }
}
