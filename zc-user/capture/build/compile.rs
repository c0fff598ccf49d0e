//! Compiles the eBPF programs: for the build script, which embeds them, and for `cargo xtask
//! package`, which puts them into the published package.
//!
//! The same sources, tools and architecture give the same bytes in every directory.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    strip,
    toolchain::{BpfToolchain, Linker},
};

/// Has LLVM clear memory with stores instead of a loop over its bytes, which the verifier follows
/// round by round. bpf-linker's own setting for `memcpy` takes stores away from `memset`.
const STORES: &str = "-Clink-arg=--llvm-args=-max-store-memset=64";
/// The first major version of LLVM with which that was tried; another may not know the option.
const FIRST_WITH_STORES: u32 = 22;

/// Separates the flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\x1f";

/// What cargo calls the kernel's machine. The architectures that the programs know are little
/// endian.
const TARGET: &str = "bpfel-unknown-none";

/// The compiler and the linker of the eBPF programs.
pub(crate) struct BpfTools {
    /// The compiler.
    pub(crate) toolchain: BpfToolchain,
    /// The linker.
    pub(crate) linker: Linker,
}

/// Objects that were compiled.
pub(crate) struct CompiledObjects {
    /// Where they are, as the linker wrote them.
    directory: PathBuf,
    /// What the compiler warned of.
    pub(crate) warnings: String,
}

impl BpfTools {
    /// Finds both; the error says what is missing.
    pub(crate) fn find() -> Result<Self, String> {
        let linker = Linker::find()?;
        let toolchain = BpfToolchain::find(linker.llvm_major)?;
        Ok(Self { toolchain, linker })
    }

    /// Their versions in one line, without paths.
    pub(crate) fn versions(&self) -> String {
        let Self { toolchain, linker } = self;
        format!(
            "rustc {} with LLVM {}, bpf-linker {} with LLVM {}",
            toolchain.version, toolchain.llvm, linker.version, linker.llvm
        )
    }

    /// Compiles the programs of this workspace for kernels of this architecture; the error is the
    /// compiler's own output. The target directory must not be the usual one, whose lock the outer
    /// cargo holds.
    pub(crate) fn compile(
        &self,
        workspace: &Path,
        arch: &str,
        target_dir: &Path,
    ) -> Result<CompiledObjects, String> {
        let Self { toolchain, linker } = self;
        let architecture = format!("--cfg=bpf_target_arch=\"{arch}\"");
        let mut rustflags = vec![architecture.as_str(), "-Cdebuginfo=2", "-Clink-arg=--btf"];
        if linker.llvm_major >= FIRST_WITH_STORES {
            rustflags.push(STORES);
        }

        let mut cargo = Command::new(toolchain.sysroot.join("bin/cargo"));
        // `--quiet` leaves only warnings and errors.
        let words = "build --quiet --release --package zc-ebpf --bins --features kernel \
                     -Z build-std=core -Z trim-paths";
        cargo.args(words.split_ascii_whitespace());
        // The types of the programs name source files: without the directories of this machine.
        cargo.args(["--config", "profile.release.trim-paths=\"all\""]);
        cargo.args(["--target", TARGET, "--target-dir"]);
        cargo.arg(target_dir).current_dir(workspace);
        cargo.env("RUSTC", toolchain.sysroot.join("bin/rustc"));
        // Allows `-Z` on a stable compiler. Set for this child only: other build scripts would
        // assume a nightly compiler.
        cargo.env("RUSTC_BOOTSTRAP", "1");
        cargo.env("CARGO_ENCODED_RUSTFLAGS", rustflags.join(SEPARATOR));
        cargo.env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", &linker.path);
        // Under `cargo clippy` it names clippy's driver for the outer compiler.
        cargo.env_remove("RUSTC_WORKSPACE_WRAPPER");
        // What somebody builds zctrace with must not change the programs: the golden tables count
        // their instructions.
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("CARGO_PROFILE_") {
                cargo.env_remove(name);
            }
        }

        let output = cargo
            .output()
            .map_err(|error| format!("{cargo:?}: {error}"))?;
        let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Err(format!(
                "{warnings}the eBPF programs do not build with\n  {toolchain}\n  {linker}"
            ));
        }
        Ok(CompiledObjects {
            directory: target_dir.join(TARGET).join("release"),
            warnings,
        })
    }
}

impl CompiledObjects {
    /// Writes the object of this name to `target`, without what only costs time when it is loaded.
    pub(crate) fn write(&self, name: &str, target: &Path) -> Result<(), String> {
        let stripped = fs::read(self.directory.join(name))
            .and_then(|object| strip::without_debug_info(&object))
            .and_then(|object| fs::write(target, object));
        stripped.map_err(|error| format!("{}: {error}", target.display()))
    }
}
