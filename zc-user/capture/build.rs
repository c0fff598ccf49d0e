//! Builds the eBPF programs into `OUT_DIR`, from where the crate embeds them.
//!
//! Without the tools for that, it writes empty files instead: zctrace still builds, and says at run
//! time what is missing.

#[path = "build/strip.rs"]
mod strip;
#[path = "build/toolchain.rs"]
mod toolchain;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use toolchain::{Linker, TOOLCHAIN_VAR, Toolchain};

/// The eBPF objects: the one that zctrace loads, and one of empty programs that its cost is
/// compared with.
const OBJECTS: [&str; 2] = ["zctrace-bpf", "floor-bpf"];

/// If this variable is `1` or `true`, eBPF is not built. aya-build uses the same name.
const SKIP_VAR: &str = "AYA_BUILD_SKIP";

/// Has LLVM clear memory with stores instead of a loop over its bytes, which the verifier follows
/// round by round. bpf-linker's own setting for `memcpy` takes stores away from `memset`.
const STORES: &str = "-Clink-arg=--llvm-args=-max-store-memset=64";
/// The first major version of LLVM with which that was tried; another may not know the option.
const FIRST_WITH_STORES: u32 = 22;

/// Separates the flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\x1f";

fn main() -> ExitCode {
    watch_sources();
    let out_dir = PathBuf::from(required("OUT_DIR"));
    let embedded = match tools() {
        Ok((toolchain, linker)) => build(&toolchain, &linker, &out_dir),
        Err(reason) => {
            println!(
                "cargo:warning=eBPF is not embedded: {reason} (needed are bpf-linker and a nightly with rust-src; in a clone of zctrace, `cargo xtask setup` installs them)"
            );
            embed(&out_dir, |_, target| fs::write(target, []))
        }
    };
    match embedded {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Tells cargo which files and variables the result depends on, as far as they are known before the
/// build.
fn watch_sources() {
    for variable in [TOOLCHAIN_VAR, SKIP_VAR] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    // The workspace's manifest holds the profile, its lock file the versions.
    for path in "build.rs build ../../zc-ebpf ../../Cargo.toml ../../Cargo.lock".split(' ') {
        println!("cargo:rerun-if-changed={path}");
    }
}

/// The compiler and the linker, or why there is no build.
fn tools() -> Result<(Toolchain, Linker), String> {
    if env::var(SKIP_VAR).is_ok_and(|value| value == "1" || value.eq_ignore_ascii_case("true")) {
        return Err(format!("{SKIP_VAR} is set"));
    }
    let tools = Linker::find().and_then(|linker| Ok((Toolchain::find(linker.llvm_major)?, linker)));
    match &tools {
        Ok((toolchain, linker)) => {
            for tool in [&toolchain.sysroot.join("bin/rustc"), &linker.path] {
                println!("cargo:rerun-if-changed={}", tool.display());
            }
        }
        // A file that never exists makes the next build look for the tools again.
        Err(_) => println!("cargo:rerun-if-changed=tools-were-missing"),
    }
    tools
}

/// Builds the programs; the error is the compiler's own output.
fn build(toolchain: &Toolchain, linker: &Linker, out_dir: &Path) -> Result<(), String> {
    let endian = if required("CARGO_CFG_TARGET_ENDIAN") == "big" {
        "bpfeb"
    } else {
        "bpfel"
    };
    let target = format!("{endian}-unknown-none");
    let arch = required("CARGO_CFG_TARGET_ARCH");
    let target_dir = shared_dir(out_dir, &arch);
    let architecture = format!("--cfg=bpf_target_arch=\"{arch}\"");
    let mut rustflags = vec![architecture.as_str(), "-Cdebuginfo=2", "-Clink-arg=--btf"];
    if linker.llvm_major >= FIRST_WITH_STORES {
        rustflags.push(STORES);
    }

    // `--quiet` leaves only warnings and errors. The target directory is a separate one, because
    // the outer cargo holds the lock of the usual one.
    let mut cargo = Command::new(toolchain.sysroot.join("bin/cargo"));
    let words = "build --quiet --release --package zc-ebpf --bins --features kernel \
                 -Z build-std=core --target-dir";
    cargo.args(words.split(' ')).arg(&target_dir);
    cargo.args(["--target", &target]);
    cargo.env("RUSTC", toolchain.sysroot.join("bin/rustc"));
    // Allows `-Z build-std` on a stable compiler. Set for this child only: other build scripts
    // would assume a nightly compiler.
    cargo.env("RUSTC_BOOTSTRAP", "1");
    cargo.env("CARGO_ENCODED_RUSTFLAGS", rustflags.join(SEPARATOR));
    let linker_variable = format!("CARGO_TARGET_{}_UNKNOWN_NONE_LINKER", endian.to_uppercase());
    cargo.env(linker_variable, &linker.path);
    // Under `cargo clippy` it names clippy's driver for the outer compiler.
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER");
    // What somebody builds zctrace with must not change the programs: the golden tables count their
    // instructions.
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PROFILE_") {
            cargo.env_remove(name);
        }
    }

    let output = cargo
        .output()
        .map_err(|error| format!("{cargo:?}: {error}"))?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!(
            "{messages}the eBPF programs do not build with\n  {toolchain}\n  {linker}"
        ));
    }
    for line in messages.lines() {
        println!("cargo:warning={line}");
    }
    let built = target_dir.join(target).join("release");
    embed(out_dir, |name, target| {
        let object = fs::read(built.join(name))?;
        fs::write(target, strip::without_debug_info(&object)?)
    })
}

/// Writes each object with `put`, which gets its name and its path.
fn embed(out_dir: &Path, put: impl Fn(&str, &Path) -> std::io::Result<()>) -> Result<(), String> {
    OBJECTS.iter().try_for_each(|name| {
        let target = out_dir.join(name);
        put(name, &target).map_err(|error| format!("{}: {error}", target.display()))
    })
}

/// The target directory of the eBPF build: the same for debug and release, so that `core` is
/// compiled once.
///
/// Each architecture has its own: two builds may run at the same time, and their objects have the
/// same names.
fn shared_dir(out_dir: &Path, arch: &str) -> PathBuf {
    let is_native = required("TARGET") == required("HOST");
    // cargo marks its target directory with this file.
    let mut ancestors = out_dir.ancestors();
    let target_dir = ancestors.find(|dir| dir.join("CACHEDIR.TAG").is_file());
    let name = if is_native {
        "bpf".to_owned()
    } else {
        format!("bpf-{arch}")
    };
    target_dir.unwrap_or(out_dir).join(name)
}

/// A variable that cargo sets for every build script.
fn required(variable: &str) -> String {
    env::var(variable)
        .unwrap_or_else(|error| panic!("{variable}: {error}; cargo sets it for build scripts"))
}
