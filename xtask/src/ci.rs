//! `cargo xtask ci`: everything that must hold before a change is merged.

use std::{
    env,
    ffi::OsString,
    num::NonZero,
    process::{Command, ExitCode},
    thread,
    time::Instant,
};

use anyhow::{Result, bail};

use crate::{
    command::{CommandWords as _, as_root, cargo, check, debug_dir, root, show},
    optional,
    package::package_dir,
    run::runs,
    setup::{self, Purpose},
    vm,
};

/// A command of the gate, and its name.
type CiStep = (&'static str, Command);

/// Runs every step, also after one that failed, and prints a line for each at the end. What could not
/// be run only fails a `strict` gate: who has no network can still work.
pub(crate) fn run(strict: bool) -> Result<ExitCode> {
    // Nothing here is built twice.
    // SAFETY: there is only this thread.
    unsafe { env::set_var("CARGO_INCREMENTAL", "0") };
    let start = Instant::now();
    setup::install(Purpose::Checking)?;
    let missing = [Purpose::Linting, Purpose::Releasing].map(setup::try_to_install);
    let mut summary = vec![line("ok", "set-up", start)];
    summary.extend(missing.concat().iter().map(|name| {
        format!("{NOT_RUN} {name:20} what needs it: it is not here, and cannot be installed")
    }));
    let mut steps = Vec::from(steps()?);
    steps.extend(optional::steps()?);
    let mut failed = run_steps(steps, &mut summary);
    if run_guests(&mut summary) {
        failed.push("guests");
    }
    failed.extend(not_run(&summary).filter(|_| strict));
    conclude(&summary, &failed)
}

/// Runs what needs neither root nor a BPF toolchain, and no set-up.
pub(crate) fn run_fast() -> Result<ExitCode> {
    let mut summary = Vec::new();
    let failed = run_steps(Vec::from(fast_steps()), &mut summary);
    conclude(&summary, &failed)
}

/// Runs these steps, adds a line for each, and returns the names of those that failed.
fn run_steps(steps: Vec<CiStep>, summary: &mut Vec<String>) -> Vec<&'static str> {
    let mut failed = Vec::new();
    for (name, mut command) in steps {
        println!("\n== {name}: {}", show(&command));
        let start = Instant::now();
        let is_passed = check(&mut command).is_ok();
        let line = line(if is_passed { "ok" } else { "FAILED" }, name, start);
        println!("== {line}");
        summary.push(line);
        failed.extend((!is_passed).then_some(name));
    }
    failed
}

/// Prints the lines of all steps, and fails if one failed.
fn conclude(summary: &[String], failed: &[&str]) -> Result<ExitCode> {
    println!("\n{}", summary.join("\n"));
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}

/// How the line of what could not be run begins.
const NOT_RUN: &str = "NOT RUN";

/// [`NOT_RUN`], if a line of the summary says so.
fn not_run(summary: &[String]) -> Option<&'static str> {
    let mut lines = summary.iter();
    let is_one = lines.any(|line| line.starts_with(NOT_RUN));
    is_one.then_some("something was not run")
}

/// Boots the guests, after all else: the tests have built their programs. Returns whether one
/// failed. A guest that cannot be had today, or for which this machine is too slow, does not fail
/// the gate; its line says why it was not run.
fn run_guests(summary: &mut Vec<String>) -> bool {
    println!("\n== guests: cargo xtask vm --subset");
    match vm::ci() {
        Ok((lines, is_failed)) => {
            summary.extend(lines);
            is_failed
        }
        Err(error) => {
            summary.push(format!("FAILED  guests: {error:#}"));
            true
        }
    }
}

/// One line about a step that began at `start`.
fn line(state: &str, name: &str, start: Instant) -> String {
    format!(
        "{state:7} {name:20} {:6.1} s",
        start.elapsed().as_secs_f64()
    )
}

/// The steps after set-up: first those that fail quickly, last those that need what others have
/// built.
fn steps() -> Result<[CiStep; 11]> {
    Ok([
        ("format", format()),
        ("lint", lint("--workspace --all-targets")),
        // As others depend on it without the program, and who has no BPF toolchain.
        (
            "lint the library",
            lint("--package zctrace --no-default-features --features without-ebpf"),
        ),
        ("lint the eBPF side for x86_64", lint_ebpf("x86_64")),
        ("lint the eBPF side for aarch64", lint_ebpf("aarch64")),
        ("documentation", document("--workspace")),
        (
            "private documentation",
            document("--workspace --document-private-items"),
        ),
        // As CONTRIBUTING has it.
        ("test", cargo("xtask test")),
        ("contracts", runs(&debug_dir()?, "contracts")?),
        ("packages", cargo("xtask package --try")),
        ("checks", checks()?),
    ])
}

/// The crates that can be built without the eBPF programs, which those of the gate contain.
const WITHOUT_EBPF: &str = "--package zctrace --package zctrace-core --package zctrace-capture \
     --package zctrace-callers --package zctrace-macros --package xtask --features zctrace/without-ebpf";

/// The steps of [`run_fast`].
fn fast_steps() -> [CiStep; 3] {
    [
        ("format", format()),
        ("lint", lint(&format!("{WITHOUT_EBPF} --all-targets"))),
        (
            "unit tests",
            cargo(&format!("test {WITHOUT_EBPF} --lib --bins")),
        ),
    ]
}

/// Checks the format of each file. `cargo fmt` does not follow what is included, so it misses the eBPF
/// programs.
fn format() -> Command {
    let mut format = Command::new("sh");
    format.args([
        "-c",
        "git ls-files -z '*.rs' | xargs -0 rustfmt --edition 2024 --check",
    ]);
    format.current_dir(root());
    format
}

/// clippy for these packages; no warning passes.
fn lint(packages: &str) -> Command {
    cargo(&format!("clippy {packages} -- -D warnings"))
}

/// rustdoc for these packages; no warning passes.
fn document(packages: &str) -> Command {
    let mut document = cargo(&format!("doc --no-deps {packages}"));
    document.env("RUSTDOCFLAGS", "-Dwarnings");
    document
}

/// Lints the eBPF programs for kernels of this architecture, as the host's compiler sees them: BPF
/// toolchains come without clippy. There is no unwinding in the kernel, and without the standard
/// library the host cannot do it either.
fn lint_ebpf(arch: &str) -> Command {
    // With a target, the flags are not for procedural macros, which exist already.
    let mut lint = lint("--package zc-ebpf --bins --features kernel --target host-tuple");
    lint.env("CARGO_PROFILE_DEV_PANIC", "abort");
    let flags = format!("--cfg=bpf_target_arch=\"{arch}\"");
    lint.env("CARGO_ENCODED_RUSTFLAGS", flags);
    lint
}

/// Runs the project's own `zctrace.toml` with the workloads that the tests have built, and the
/// zctrace that was installed from the packages. The checks count calls and do not measure time, so
/// they need no quiet machine, and as many run at a time as there are processors.
fn checks() -> Result<Command> {
    let mut path = OsString::from("PATH=");
    path.push(debug_dir()?);
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    // sudo would replace the PATH.
    let mut checks = as_root("env")?;
    checks.arg(path).arg(package_dir()?.join("bin/zctrace"));
    let jobs = thread::available_parallelism().map_or(1, NonZero::get);
    checks
        .words("check tests/zctrace.toml --jobs")
        .arg(jobs.to_string());
    checks.current_dir(root());
    Ok(checks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_run_is_told_from_what_passed() {
        let lines = |last: &str| ["ok      lint".to_owned(), last.to_owned()];
        assert_eq!(not_run(&lines("ok      test")), None);
        assert!(not_run(&lines("NOT RUN vm 6.1 x86_64")).is_some());
    }
}
