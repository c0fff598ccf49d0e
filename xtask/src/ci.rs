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
    command::{Words as _, as_root, cargo, check, nightly_cargo, release_dir, root, show},
    setup::{self, Purpose},
    vm,
};

/// A command of the gate.
struct CiStep {
    name: &'static str,
    command: Command,
    /// Installs what only this step needs. If that fails, the step is not run, and the gate does
    /// not fail.
    prepare: fn() -> Result<()>,
}

/// What became of a step.
#[derive(Debug, PartialEq, Eq)]
enum CiOutcome {
    Passed,
    Failed,
    /// What it needs cannot be had today, for this reason.
    NotRun(String),
}

/// Runs every step, also after one that failed, and prints a line for each at the end.
pub(crate) fn run() -> Result<ExitCode> {
    let start = Instant::now();
    setup::install(Purpose::Checking)?;
    let mut summary = vec![CiOutcome::Passed.line("set-up", start)];
    let mut failed = Vec::new();
    for mut step in steps()? {
        println!("\n== {}: {}", step.name, show(&step.command));
        let start = Instant::now();
        let outcome = step.run();
        let line = outcome.line(step.name, start);
        println!("== {line}");
        summary.push(line);
        if outcome == CiOutcome::Failed {
            failed.push(step.name);
        }
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

/// Boots the guests, after all else: the tests have built their programs. Returns whether one
/// failed. A guest that cannot be had today, or for which this machine is too slow, does not fail
/// the gate; its line says why it was not run.
fn run_guests(summary: &mut Vec<String>) -> bool {
    println!("\n== guests: cargo xtask vm --subset");
    match vm::ci() {
        Ok(results) => {
            summary.extend(results.iter().map(ToString::to_string));
            results.iter().any(vm::GuestResult::failed)
        }
        Err(error) => {
            summary.push(format!("FAILED  guests: {error:#}"));
            true
        }
    }
}

impl CiStep {
    /// A step for which the set-up of the gate is enough.
    fn new(name: &'static str, command: Command) -> Self {
        Self {
            name,
            command,
            prepare: || Ok(()),
        }
    }

    fn run(&mut self) -> CiOutcome {
        if let Err(reason) = (self.prepare)() {
            return CiOutcome::NotRun(format!("{reason:#}"));
        }
        if check(&mut self.command).is_ok() {
            CiOutcome::Passed
        } else {
            CiOutcome::Failed
        }
    }
}

impl CiOutcome {
    /// One line about a step that began at `start`.
    fn line(&self, name: &str, start: Instant) -> String {
        let (state, reason) = match self {
            Self::Passed => ("ok", ""),
            Self::Failed => ("FAILED", ""),
            Self::NotRun(reason) => ("NOT RUN", reason.as_str()),
        };
        let seconds = start.elapsed().as_secs_f64();
        let line = format!("{state:7} {name:20} {seconds:6.1} s  {reason}");
        line.trim_end().to_owned()
    }
}

/// The steps after set-up: first those that fail quickly, last the checks, which need the programs
/// that the tests build.
fn steps() -> Result<[CiStep; 9]> {
    let mut document = cargo("doc --no-deps --workspace");
    document.env("RUSTDOCFLAGS", "-Dwarnings");
    Ok([
        CiStep::new("format", cargo("fmt --all --check")),
        CiStep::new("lint", lint("--workspace --all-targets")),
        // As others depend on it, without the program.
        CiStep::new(
            "lint the library",
            lint("--package zctrace --no-default-features"),
        ),
        CiStep::new("lint the eBPF side for x86_64", lint_ebpf("x86_64")),
        CiStep::new("lint the eBPF side for aarch64", lint_ebpf("aarch64")),
        CiStep::new("documentation", document),
        CiStep {
            name: "fuzz targets",
            command: fuzz_targets()?,
            prepare: || setup::install_only(Purpose::Fuzzing),
        },
        // As the README has it.
        CiStep::new("test", cargo("xtask test")),
        CiStep::new("checks", checks()?),
    ])
}

/// clippy for these packages; no warning passes.
fn lint(packages: &str) -> Command {
    cargo(&format!("clippy {packages} -- -D warnings"))
}

/// Lints the eBPF programs for kernels of this architecture, as the host's compiler sees them: BPF
/// toolchains come without clippy. There is no unwinding in the kernel, and without the standard
/// library the host cannot do it either.
fn lint_ebpf(arch: &str) -> Command {
    let mut lint = lint("--package zc-ebpf --bins --features kernel");
    lint.env("CARGO_PROFILE_DEV_PANIC", "abort");
    let flags = format!("--cfg=bpf_target_arch=\"{arch}\"");
    lint.env("CARGO_ENCODED_RUSTFLAGS", flags);
    lint
}

/// Compiles the fuzz targets without linking them: neither libFuzzer, which is C++, nor the eBPF
/// programs are built for that.
fn fuzz_targets() -> Result<Command> {
    let mut check = nightly_cargo("check --offline --manifest-path tests/fuzz/Cargo.toml");
    let target = release_dir()?.with_file_name("fuzz");
    check.arg("--target-dir").arg(target);
    check.env("AYA_BUILD_SKIP", "1");
    // Read by libfuzzer-sys: where to link it from, instead of compiling it. Nothing looks there
    // before the link.
    check.env("CUSTOM_LIBFUZZER_PATH", "/nonexistent/libfuzzer.a");
    Ok(check)
}

/// Runs the project's own `zctrace.toml` with the programs that the tests have built. The checks
/// count calls and do not measure time, so they need no quiet machine, and as many run at a time as
/// there are processors.
fn checks() -> Result<Command> {
    let programs = release_dir()?;
    let mut path = OsString::from("PATH=");
    path.push(&programs);
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    // sudo would replace the PATH.
    let mut checks = as_root("env")?;
    checks.arg(path).arg(programs.join("zctrace"));
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
    fn a_step_ends_as_its_command_does_or_is_not_run_for_a_reason() {
        let mut step = CiStep::new("a", Command::new("true"));
        assert_eq!(step.run(), CiOutcome::Passed);
        assert!(!CiOutcome::Passed.line("a", Instant::now()).ends_with(' '));
        step.command = Command::new("false");
        assert_eq!(step.run(), CiOutcome::Failed);
        step.prepare = || bail!("no registry");
        let outcome = step.run();
        assert_eq!(outcome, CiOutcome::NotRun("no registry".to_owned()));
        let line = outcome.line("fuzz targets", Instant::now());
        assert!(line.starts_with("NOT RUN fuzz targets ") && line.ends_with(" s  no registry"));
    }
}
