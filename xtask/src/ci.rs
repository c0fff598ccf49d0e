//! `cargo xtask ci`: everything that must hold before a change goes in.

use std::{
    env,
    ffi::OsString,
    num::NonZero,
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Result, bail};

use crate::{
    command::{as_root, cargo, check, release_dir, root, show},
    setup::{self, Need},
    vm,
};

/// Runs every step, also after one that failed, and sums up.
pub(crate) fn run() -> Result<ExitCode> {
    let start = Instant::now();
    setup::install(Need::Checking)?;
    let mut summary = vec![line("ok", "set-up", start)];
    let mut failed = Vec::new();
    for (name, mut command) in steps()? {
        println!("\n== {name}: {}", show(&command));
        let start = Instant::now();
        let result = check(&mut command);
        let state = if result.is_ok() { "ok" } else { "FAILED" };
        summary.push(line(state, name, start));
        println!("== {}", line(state, name, start));
        failed.extend(result.err().map(|_| name));
    }
    if run_guests(&mut summary) {
        failed.push("guests");
    }
    println!("\n{}", summary.join("\n"));
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}

/// Boots the guests, after all else: the tests have built their programs. Whether one failed. One that cannot be had today, or for which
/// this machine is too slow, fails nothing, and its line says why.
fn run_guests(summary: &mut Vec<String>) -> bool {
    println!("\n== guests: cargo xtask vm --subset");
    match vm::ci() {
        Ok(closings) => {
            summary.extend(closings.iter().map(ToString::to_string));
            closings.iter().any(vm::Closing::failed)
        }
        Err(error) => {
            summary.push(format!("FAILED guests: {error:#}"));
            true
        }
    }
}

/// The steps after set-up, in order: what is quick to fail comes first, the tests' own results last.
fn steps() -> Result<[(&'static str, Command); 7]> {
    let mut format = cargo();
    format.args(["fmt", "--all", "--check"]);

    let mut lint = cargo();
    lint.args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);

    // What others depend on, without the program.
    let mut lint_library = cargo();
    lint_library.args(["clippy", "--package", "zctrace", "--no-default-features", "--", "-D", "warnings"]);

    // The eBPF programs as the host's compiler sees them: BPF toolchains come without clippy. There is no unwinding in
    // the kernel, and without the standard library the host cannot do it either.
    let mut lint_ebpf = cargo();
    lint_ebpf.args(["clippy", "--package", "zc-ebpf", "--bins", "--features", "kernel", "--", "-D", "warnings"]);
    lint_ebpf.env("CARGO_PROFILE_DEV_PANIC", "abort");
    lint_ebpf.env("CARGO_ENCODED_RUSTFLAGS", format!("--cfg=bpf_target_arch=\"{}\"", env::consts::ARCH));

    let mut document = cargo();
    document.args(["doc", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-Dwarnings");

    // As the README has it.
    let mut test = cargo();
    test.args(["xtask", "test"]);

    let checks = checks()?;
    Ok([
        ("format", format),
        ("lint", lint),
        ("lint the library", lint_library),
        ("lint the eBPF side", lint_ebpf),
        ("documentation", document),
        ("test", test),
        ("checks", checks),
    ])
}

/// The project checked by itself, with the programs that the tests have built. It counts calls and looks at no time, so it needs no
/// quiet machine, and may run as many at a time as there are processors.
fn checks() -> Result<Command> {
    let programs = release_dir()?;
    let mut path = programs.clone().into_os_string();
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    let mut variable = OsString::from("PATH=");
    variable.push(path);
    // sudo would take another PATH.
    let mut checks = as_root("env")?;
    let jobs = std::thread::available_parallelism().map_or(1, NonZero::get);
    checks.arg(variable).arg(programs.join("zctrace")).args(["check", "tests/zctrace.toml", "--jobs", &jobs.to_string()]);
    checks.current_dir(root());
    Ok(checks)
}

/// One line about a step that began at `start`.
fn line(state: &str, name: &str, start: Instant) -> String {
    format!("{state:6} {name:20} {:6.1} s", start.elapsed().as_secs_f64())
}
