//! `cargo xtask run`, `test`, `reference`, `matrix` and `stack`: each builds what it runs, as a
//! release. `run` without a command shows what `std::io::copy` does, seen by zctrace.

use std::{
    ffi::OsString,
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    command::{Scratch, as_root, cargo, check, exit_code, is_root, release_dir, root, run_to_end},
    setup::{self, Need},
    toolchain::{on_path, output},
};

/// Installs what is missing and builds these packages for release.
pub(crate) fn build(packages: &[&str]) -> Result<()> {
    setup::install(Need::Building)?;
    let mut build = cargo();
    build.args(["build", "--release"]);
    build.args(packages.iter().flat_map(|package| ["--package", package]));
    check(&mut build)
}

/// zctrace from the release build; the command to trace comes after it.
pub(crate) fn zctrace() -> Result<Command> {
    let mut zctrace = as_root(release_dir()?.join("zctrace"))?;
    zctrace.arg("--");
    Ok(zctrace)
}

/// Traces a command in the caller's directory.
pub(crate) fn run(command: &[OsString]) -> Result<ExitCode> {
    build(&["zctrace"])?;
    // zctrace replaces xtask, so that signals, terminal and exit status are its own.
    let error = zctrace()?.args(command).exec();
    Err(error).context("cannot start zctrace")
}

/// Runs every test of the workspace; `args` go to `cargo test`.
pub(crate) fn test(args: &[OsString]) -> Result<ExitCode> {
    setup::install(Need::Testing)?;
    build(&["zctrace", "zc-tests"])?;
    let mut test = cargo();
    test.args(["test", "--workspace"]).args(args);
    // The integration tests test the program that people run, not a debug build of it.
    test.env("ZCTRACE_BIN", release_dir()?.join("zctrace"));
    if !is_root() {
        // Only the tests need root, to load eBPF programs; the build runs as the caller.
        on_path("sudo").context("the tests need root, and there is no sudo: run them as root")?;
        test.env(runner_variable()?, "sudo -E");
    }
    check(&mut test)?;
    Ok(ExitCode::SUCCESS)
}

/// The variable that tells cargo what to start the test binaries with.
fn runner_variable() -> Result<String> {
    let about = output(Command::new("rustc").arg("-vV")).context("cannot run rustc")?;
    let host = about
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("rustc does not name its host")?;
    Ok(format!(
        "CARGO_TARGET_{}_RUNNER",
        host.to_uppercase().replace('-', "_")
    ))
}

/// Runs what others have published.
pub(crate) fn reference(args: &[OsString]) -> Result<ExitCode> {
    run_series(
        "reference",
        &["--scenarios".into(), root().join("tests/scenarios").into()],
        args,
    )
}

/// Every pair of ends that `std::io::copy` can copy between.
pub(crate) fn matrix(args: &[OsString]) -> Result<ExitCode> {
    run_series("matrix", &[], args)
}

/// Shows how much stack the eBPF programs take. It only reads the object, so it needs no root.
pub(crate) fn stack(record: bool) -> Result<ExitCode> {
    build(&["zctrace", "zc-tests"])?;
    let mut runs = Command::new(release_dir()?.join("runs"));
    runs.arg("stack");
    if record {
        runs.arg("--record")
            .arg(root().join("tests/golden/verifier/kernels.md"));
    }
    Ok(exit_code(
        run_to_end(&mut runs).context("cannot start the program `runs`")?,
    ))
}

/// Builds the programs, and starts the one that runs the series.
fn run_series(series: &str, own: &[OsString], args: &[OsString]) -> Result<ExitCode> {
    setup::install(Need::Testing)?;
    build(&["zctrace", "zc-tests"])?;
    let scratch = Scratch::new(series)?;
    let programs = release_dir()?;
    let mut runs = as_root(programs.join("runs"))?;
    runs.arg("--programs")
        .arg(&programs)
        .arg("--scratch")
        .arg(scratch.directory())
        .arg(series)
        .args(own)
        .args(args);
    Ok(exit_code(
        run_to_end(&mut runs).context("cannot start the program `runs`")?,
    ))
}

/// How much is copied, in MiB.
const FILE_MIB: usize = 256;

/// Traces the project's copier twice: to a file, and to a Unix socket.
pub(crate) fn demo() -> Result<ExitCode> {
    build(&["zctrace", "zc-tests"])?;
    let copier = release_dir()?.join("copier");
    let directory = Scratch::new("demo")?;
    let input = directory.path("in");
    write_input(&input).context("cannot write the file to copy")?;

    let to_file = trace_copy(&copier, &input, directory.path("out").into())?;
    let socket = directory.path("socket");
    let address = unix_address(&socket);
    let mut sink = Sink::start(&copier, &address)?;
    let to_socket = trace_copy(&copier, &input, address)?;
    if to_socket.success() {
        sink.0.wait()?;
    }
    Ok(exit_code(if to_file.success() {
        to_socket
    } else {
        to_file
    }))
}

/// Prints what is copied, and traces one copy.
fn trace_copy(copier: &Path, input: &Path, output: OsString) -> Result<ExitStatus> {
    eprintln!(
        "\n== std::io::copy of {FILE_MIB} MiB, {} to {}\n",
        input.display(),
        output.display()
    );
    let mut zctrace = zctrace()?;
    zctrace
        .arg(copier)
        .args(["std-io-copy", "--from"])
        .arg(input)
        .arg("--to")
        .arg(output);
    run_to_end(&mut zctrace).context("cannot start zctrace")
}

/// The copier's notation for a socket.
fn unix_address(socket: &Path) -> OsString {
    let mut address = OsString::from("unix:");
    address.push(socket);
    address
}

/// Writes data that no filesystem stores as a hole.
fn write_input(path: &Path) -> Result<()> {
    let block: Vec<u8> = (1..=0xff_u8).cycle().take(1 << 20).collect();
    let mut file = File::create_new(path)?;
    for _ in 0..FILE_MIB {
        file.write_all(&block)?;
    }
    Ok(())
}

/// The process that reads the socket; killed with the value if it still runs.
struct Sink(Child);

impl Sink {
    /// Starts it and returns once it listens.
    fn start(copier: &Path, address: &OsString) -> Result<Self> {
        let mut sink = Command::new(copier);
        sink.arg("sink")
            .arg(address)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut sink = Self(sink.spawn().context("cannot start the copier's sink")?);
        let stdout = sink.0.stdout.as_mut().context("the sink has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if !line.starts_with("listening") {
            bail!(
                "the copier's sink did not start to listen on {}",
                address.display()
            );
        }
        Ok(sink)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // Both fail if it has ended already, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
