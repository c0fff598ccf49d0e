//! `cargo xtask vm`: the integration tests inside guests with the kernels that people run.
//! `xtask/vm.py` fetches what the guests need and boots them; here their programs are built.

mod programs;

use std::{
    fs,
    num::NonZero,
    path::Path,
    process::{Command, ExitCode},
    thread,
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use programs::{PROGRAMS, Programs};

use crate::{
    arch::Arch,
    command::{CommandWords as _, check, end_with_us, in_scratch, root, target_dir},
    dist::UNPACK_TARBALL,
    setup::{self, Purpose},
};

/// What to boot, and what to run there.
#[derive(Args)]
pub(crate) struct VmOptions {
    /// Kernels, like 6.1 or newest; without one, all
    #[arg(value_name = "KERNEL")]
    kernels: Vec<String>,
    /// Architecture of the guests; without one, that of this machine
    #[arg(long)]
    arch: Option<Arch>,
    /// Only the tests that CI runs; without kernels and architecture, only the guests that CI
    /// boots, too
    #[arg(long)]
    subset: bool,
    /// Only the tests with this in their names; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "subset")]
    test: Vec<String>,
    /// How long each guest may take
    #[arg(long, value_name = "MINUTES", default_value_t = 120)]
    limit: u64,
    /// How many guests run at a time; each keeps one processor busy
    #[arg(long, value_name = "GUESTS", default_value_t = processors())]
    jobs: NonZero<usize>,
}

/// How many processors xtask may use.
fn processors() -> NonZero<usize> {
    thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

impl VmOptions {
    /// The architectures of the guests.
    fn arches(&self) -> Result<Vec<Arch>> {
        if self.subset && self.kernels.is_empty() && self.arch.is_none() {
            return Ok(Arch::ALL.to_vec());
        }
        let arch = self.arch.or_else(Arch::host);
        let arch = arch.context("this machine's architecture has no guests: choose with --arch")?;
        Ok(vec![arch])
    }

    /// The same as arguments of the script.
    fn arguments(&self) -> Vec<String> {
        let mut words = self.kernels.clone();
        words.extend(self.arch.map(|arch| format!("--arch={}", arch.name())));
        words.extend(self.subset.then(|| "--subset".to_owned()));
        words.extend(self.test.iter().map(|name| format!("--test={name}")));
        words.push(format!("--limit={}", self.limit));
        words.push(format!("--jobs={}", self.jobs));
        words
    }
}

/// Boots the guests, and prints a line for each. The exit status is 3 if one could not be run at all,
/// and none failed.
pub(crate) fn run(options: &VmOptions) -> Result<ExitCode> {
    let mut script = script(&options.arguments())?;
    // A whole run is worth an optimized build: emulated programs take hours without.
    add_programs(&mut script, &options.arches()?, !options.subset)?;
    let status = end_with_us(&mut script).status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Boots the guests of CI all at once: the last one by itself would leave a processor idle. Returns a
/// line for each, and whether one failed.
pub(crate) fn ci() -> Result<(Vec<String>, bool)> {
    in_scratch(|scratch| {
        let summary = scratch.join("summary");
        let mut script = script(&["--ci".to_owned()])?;
        add_programs(&mut script, &Arch::ALL, false)?;
        script.arg("--summary").arg(&summary);
        let status = end_with_us(&mut script).status()?;
        let lines = fs::read_to_string(&summary).context("the guests have no results")?;
        let lines = lines.lines().map(str::to_owned).collect();
        Ok((lines, !matches!(status.code(), Some(0 | 3))))
    })
}

/// The script with these arguments.
fn script(arguments: &[String]) -> Result<Command> {
    let mut script = Command::new("python3");
    script
        .arg("-B")
        .arg(root().join("xtask/vm.py"))
        .args(arguments);
    script.arg("--target").arg(target_dir()?);
    Ok(script)
}

/// Adds the programs for the guests of these architectures. If something cannot be installed or fetched,
/// the guests are not run; if something cannot be built, they fail.
fn add_programs(script: &mut Command, arches: &[Arch], is_optimized: bool) -> Result<()> {
    let package = root().canonicalize()?.join("tests");
    for &arch in arches {
        if let Err(error) = prepare(script, arch) {
            script.args(["--without", arch.name(), "NOT RUN", &format!("{error:#}")]);
            continue;
        }
        let work = target_dir()?.join("vm").join(arch.name());
        fs::create_dir_all(&work)?;
        match Programs::build(arch, is_optimized, &work) {
            Ok(Programs { test, tarball }) => {
                script.args(["--programs", arch.name()]).arg(test);
                script.arg(tarball.as_deref().unwrap_or(Path::new("")));
            }
            Err(error) => {
                script.args(["--without", arch.name(), "FAILED", &format!("{error:#}")]);
            }
        }
    }
    let files = ["golden", "runs.py", "sessions", "zctrace.toml"].map(|name| package.join(name));
    script
        .arg("--package")
        .arg(&package)
        .arg("--files")
        .args(files);
    script.arg("--built").words(PROGRAMS);
    script.args(["--unpack", UNPACK_TARBALL]);
    Ok(())
}

/// Installs and fetches what the guests of an architecture need. `script` has the arguments that choose
/// them.
fn prepare(script: &Command, arch: Arch) -> Result<()> {
    let is_possible = arch != Arch::X86_64 || arch.is_host();
    ensure!(
        is_possible,
        "guests of x86_64 run on machines of x86_64 alone"
    );
    setup::install(if arch.is_host() {
        Purpose::Booting
    } else {
        Purpose::BootingForeign
    })?;
    let mut fetch = Command::new(script.get_program());
    fetch.args(script.get_args()).args(["--fetch", arch.name()]);
    check(&mut fetch).context("cannot fetch what guests need")
}
