//! Builds the C programs of `workloads/c`, and puts them beside the Rust programs, in
//! `<target>/<profile>/`.
//!
//! Cargo has no C binaries, so the profile directory is found as an ancestor of `OUT_DIR` and
//! handed to the library as `ZC_C_DIR`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The source files of `copier-c`.
const COPIER: &[&str] = &["copier.c", "ends.c", "interfaces.c"];

/// The C programs, with their source files.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("allow-calls", &["allow_calls.c"]),
    ("copier-c", COPIER),
    ("failed-paths", &["failed_paths.c"]),
    ("int80", &["int80.c"]),
    ("overwritten-flags", &["overwritten_flags.c"]),
    ("socketcall", &["socketcall.c"]),
];

/// Those that use `int $0x80`.
const X86_ONLY: &[&str] = &["int80", "socketcall"];

fn main() {
    let source_dir = Path::new(&variable("CARGO_MANIFEST_DIR")).join("workloads/c");
    let out_dir = PathBuf::from(variable("OUT_DIR"));
    let profile_dir = out_dir
        .ancestors()
        .nth(3)
        .expect("OUT_DIR is <target>/<profile>/build/<package>/out");
    extract_rust_test("../README.md", &out_dir.join("readme.rs"));
    extract_rust_test("../docs/how-to/tests.md", &out_dir.join("tests_page.rs"));
    let arch = variable("CARGO_CFG_TARGET_ARCH");
    println!("cargo::rerun-if-changed={}", source_dir.display());
    println!("cargo::rustc-env=ZC_C_DIR={}", profile_dir.display());
    let compiler = compiler(&arch);
    for (name, sources) in PROGRAMS {
        if X86_ONLY.contains(name) && arch != "x86_64" {
            continue;
        }
        let sources: Vec<PathBuf> = sources.iter().map(|name| source_dir.join(name)).collect();
        let built = out_dir.join(name);
        build(&compiler, &sources, &built);
        install(&built, &profile_dir.join(name));
    }
}

/// Writes the Rust test of a page into a file that a module of the tests includes.
fn extract_rust_test(page: &str, to: &Path) {
    println!("cargo::rerun-if-changed={page}");
    let text = fs::read_to_string(page).expect("the repository has the page");
    let (_, block) = text.split_once("```rust\n").expect("it has a Rust test");
    let (code, _) = block.split_once("```").expect("its end");
    fs::write(to, code).expect("cargo made the directory");
}

/// An environment variable that Cargo sets for build scripts.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set; this is a Cargo build script"))
}

/// The C compiler for the target, and the variable that chooses another: `$CC`, or else `cc`. For
/// another architecture it is `$CC_<target>`, as in the crate `cc`, or else Debian's cross compiler,
/// such as `aarch64-linux-gnu-gcc`.
fn compiler(arch: &str) -> [String; 2] {
    let target = variable("TARGET");
    let (chosen_by, usual) = if target == variable("HOST") {
        ("CC".to_owned(), "cc".to_owned())
    } else {
        let chosen_by = format!("CC_{}", target.replace('-', "_"));
        (chosen_by, format!("{arch}-linux-gnu-gcc"))
    };
    println!("cargo::rerun-if-env-changed={chosen_by}");
    [env::var(&chosen_by).unwrap_or(usual), chosen_by]
}

/// Compiles and links one program.
fn build([compiler, chosen_by]: &[String; 2], sources: &[PathBuf], program: &Path) {
    let options = "-std=c11 -O2 -g -Wall -Wextra -Werror -D_GNU_SOURCE -o";
    let mut command = Command::new(compiler);
    command.args(options.split(' ')).arg(program).args(sources);
    let status = command.status().unwrap_or_else(|err| {
        panic!("cannot run the C compiler {compiler:?}: {err}; install it, or set {chosen_by}")
    });
    assert!(status.success(), "{command:?} failed: {status}");
}

/// Replaces `to` by a rename, which also works while the old program is running.
fn install(from: &Path, to: &Path) {
    let new = to.with_extension("new");
    fs::copy(from, &new)
        .and_then(|_| fs::rename(&new, to))
        .unwrap_or_else(|err| panic!("cannot put {} in place: {err}", to.display()));
}
