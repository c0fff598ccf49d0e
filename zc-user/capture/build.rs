//! Brings the eBPF object into `OUT_DIR`, from where the crate embeds it.
//!
//! Where the sources are (a clone, a git dependency, a path dependency), it is built from them. A
//! published package has no sources but the objects. There is no third way: without either, the
//! build fails and says what to do, and the feature `without-ebpf` leaves eBPF out.

#[path = "build/compile.rs"]
mod compile;
#[path = "build/prebuilt.rs"]
mod prebuilt;
#[path = "build/strip.rs"]
mod strip;
#[path = "build/toolchain.rs"]
mod toolchain;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use compile::BpfTools;
use toolchain::TOOLCHAIN_VAR;

/// An object of empty programs that the cost of zctrace is compared with.
const FLOOR_OBJECT: &str = "floor-bpf";

/// If this variable is `1` or `true`, eBPF is not built even where the sources are. aya-build uses
/// the same name.
const SKIP_VAR: &str = "AYA_BUILD_SKIP";

/// What every message ends with.
const WITHOUT: &str = "the feature `without-ebpf` leaves eBPF out, and zctrace uses strace alone";

/// Where an object comes from, for `zctrace doctor`.
struct Provenance {
    /// `prebuilt` or `built from its sources`.
    origin: &'static str,
    /// What made it.
    tools: String,
}

fn main() -> ExitCode {
    for variable in [TOOLCHAIN_VAR, SKIP_VAR] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    // Set by cargo for a feature that is on.
    if env::var_os("CARGO_FEATURE_WITHOUT_EBPF").is_some() {
        return ExitCode::SUCCESS;
    }
    match embed() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Puts the object into `OUT_DIR`, and tells the crate what it is.
fn embed() -> Result<(), String> {
    let package = PathBuf::from(required("CARGO_MANIFEST_DIR"));
    let out_dir = PathBuf::from(required("OUT_DIR"));
    let provenance = match workspace(&package).filter(|_| !is_skipped()) {
        Some(workspace) => build(&workspace, &out_dir)?,
        None => take_prebuilt(&package.join(prebuilt::DIRECTORY), &out_dir)?,
    };
    let sha256 = prebuilt::sha256(&out_dir.join(prebuilt::OBJECT));
    for (name, value) in [
        ("ORIGIN", provenance.origin),
        ("TOOLS", &provenance.tools),
        ("SHA256", sha256.as_deref().unwrap_or("unknown")),
    ] {
        println!("cargo:rustc-env=ZCTRACE_OBJECT_{name}={value}");
    }
    Ok(())
}

/// The root of zctrace's workspace, if the package lies in it: a clone, a git dependency or a path
/// dependency. A published package lies alone.
fn workspace(package: &Path) -> Option<PathBuf> {
    let root = package.join("../..");
    let is_ours = root.join("zc-ebpf/src/main.rs").is_file() && root.join("Cargo.lock").is_file();
    is_ours.then_some(root)
}

/// Whether the environment asks not to build.
fn is_skipped() -> bool {
    env::var(SKIP_VAR).is_ok_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
}

/// Builds the objects from the workspace's sources.
fn build(workspace: &Path, out_dir: &Path) -> Result<Provenance, String> {
    // The workspace's manifest holds the profile, its lock file the versions.
    for path in ["zc-ebpf", "Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={}", workspace.join(path).display());
    }
    let tools = BpfTools::find().map_err(|reason| {
        let root = workspace.canonicalize().unwrap_or(workspace.to_owned());
        let root = root.display();
        format!(
            "eBPF cannot be built: {reason}\n\
             `cd {root} && cargo xtask setup` installs what it needs; {WITHOUT}"
        )
    })?;
    for tool in [
        &tools.toolchain.sysroot.join("bin/rustc"),
        &tools.linker.path,
    ] {
        println!("cargo:rerun-if-changed={}", tool.display());
    }
    let arch = required("CARGO_CFG_TARGET_ARCH");
    let compiled = tools.compile(workspace, &arch, &shared_dir(out_dir, &arch))?;
    for line in compiled.warnings.lines() {
        println!("cargo:warning={line}");
    }
    for name in prebuilt::OBJECTS.into_iter().chain([FLOOR_OBJECT]) {
        compiled.write(name, &out_dir.join(name))?;
    }
    Ok(Provenance {
        origin: "built from its sources",
        tools: tools.versions(),
    })
}

/// Takes the objects that lie in the package. Their checksums must be those beside them.
fn take_prebuilt(directory: &Path, out_dir: &Path) -> Result<Provenance, String> {
    println!("cargo:rerun-if-changed={}", directory.display());
    let arch = required("CARGO_CFG_TARGET_ARCH");
    let mut tools = None;
    for name in prebuilt::OBJECTS {
        let file = prebuilt::file_name(name, &arch);
        let object = directory.join(&file);
        if !object.is_file() {
            let path = object.display();
            return Err(format!(
                "there is no eBPF object for {arch}: {path} is missing\n\
                 In a clone of zctrace, `cargo xtask package` makes those for x86_64 and aarch64; {WITHOUT}"
            ));
        }
        let read = |path: &Path| {
            let content = fs::read_to_string(path);
            content.map_err(|error| format!("{}: {error}", path.display()))
        };
        let provenance = read(&directory.join(prebuilt::PROVENANCE))?;
        let sha256 = prebuilt::sha256(&object);
        if sha256.is_some_and(|sum| !provenance.contains(&format!("{sum}  {file}"))) {
            let path = object.display();
            return Err(format!(
                "{path} is not the object that {} is about: fetch the package again",
                prebuilt::PROVENANCE
            ));
        }
        let target = out_dir.join(name);
        fs::copy(&object, &target).map_err(|error| format!("{}: {error}", target.display()))?;
        let mut lines = provenance.lines();
        let line = lines.find_map(|line| line.strip_prefix(prebuilt::TOOLS));
        tools = line.map(str::to_owned);
    }
    Ok(Provenance {
        origin: "prebuilt",
        tools: tools.unwrap_or("unknown".to_owned()),
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
