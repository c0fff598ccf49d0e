//! Builds the C programs of `workloads/c` and puts them beside the Rust programs, in `<target>/<profile>/`.
//!
//! Cargo has no C binaries, so the profile directory is found as an ancestor of `OUT_DIR` and handed to the library as `ZC_C_DIR`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What `copier-c` is made of.
const COPIER: &[&str] = &[
    "again.c",
    "copier.c",
    "crc32.c",
    "ends.c",
    "inkernel.c",
    "interruptions.c",
    "loops.c",
    "mapped.c",
    "other_end.c",
    "spec.c",
];

/// The C programs, each with its source files.
const PROGRAMS: &[(&str, &[&str])] = &[("copier-c", COPIER), ("int80", &["int80.c"]), ("socketcall", &["socketcall.c"])];

fn main() {
    let source_dir = Path::new(&variable("CARGO_MANIFEST_DIR")).join("workloads/c");
    let out_dir = PathBuf::from(variable("OUT_DIR"));
    let profile_dir = out_dir.ancestors().nth(3).expect("OUT_DIR is <target>/<profile>/build/<package>/out");
    let arch = variable("CARGO_CFG_TARGET_ARCH");
    println!("cargo::rerun-if-changed={}", source_dir.display());
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rustc-env=ZC_C_DIR={}", profile_dir.display());
    println!("cargo::rustc-env=ZC_RUST_VERSION={}", rust_version());
    // `int $0x80` exists on x86 alone.
    for (name, sources) in PROGRAMS.iter().filter(|(name, _)| !["int80", "socketcall"].contains(name) || arch == "x86_64") {
        let built = out_dir.join(name);
        compile(&source_dir, sources, &built);
        install(&built, &profile_dir.join(name));
    }
}

/// An environment variable that Cargo sets for build scripts.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set; this is a Cargo build script"))
}

/// The version of the compiler, which is that of the standard library whose copies are looked at: `1.95.0`.
fn rust_version() -> String {
    let about = Command::new(variable("RUSTC")).arg("--version").output().expect("cargo runs it, too");
    let about = String::from_utf8_lossy(&about.stdout).into_owned();
    about.split(' ').nth(1).unwrap_or_else(|| panic!("rustc says {about:?} of itself")).to_owned()
}

/// Compiles and links one program with `$CC`, or `cc`.
fn compile(source_dir: &Path, sources: &[&str], program: &Path) {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&compiler)
        .args(["-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-o"])
        .arg(program)
        .args(sources.iter().map(|source| source_dir.join(source)))
        .status()
        .unwrap_or_else(|err| panic!("cannot run the C compiler {compiler:?}: {err}; install gcc, or set CC"));
    assert!(status.success(), "{compiler} failed on {}: {status}", sources.join(" "));
}

/// Replaces `to` in one step, so that a copy of it that is running at the moment does not matter.
fn install(from: &Path, to: &Path) {
    let new = to.with_extension("new");
    fs::copy(from, &new)
        .and_then(|_| fs::rename(&new, to))
        .unwrap_or_else(|err| panic!("cannot put {} in place: {err}", to.display()));
}
