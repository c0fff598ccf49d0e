//! `cargo xtask vm`: the tests as a whole, inside guests with the kernels that people run.

mod account;
mod apt;
mod arch;
mod image;
mod kernels;
mod programs;
mod qemu;
mod selection;

use std::{
    env, fmt,
    fs::{self, File},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::Args;

use crate::{
    command::release_dir,
    setup::{self, Need},
};
use account::Account;
use arch::Arch;
use image::Tree;
use kernels::{Promise, SUBSET, Series, chosen};
use programs::Programs;
use qemu::Machine;
use selection::Selection;

/// The exit status if a guest could not be run at all, and none failed.
const NOT_RUN: u8 = 3;

/// How many tests run at a time in a guest, which has two processors.
const JOBS: &str = "2";

/// What to boot, and what to run there.
#[derive(Args)]
pub(crate) struct Options {
    /// Kernels, like 6.1 or newest; without one, all
    #[arg(value_name = "KERNEL")]
    kernels: Vec<String>,
    /// Architecture of the guests; without one, that of this machine
    #[arg(long)]
    arch: Option<Arch>,
    /// Only the tests that CI runs; without kernels and architecture, only the guests that CI boots, too
    #[arg(long)]
    subset: bool,
    /// Only the tests with this in their names; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "subset")]
    test: Vec<String>,
    /// Say what would be run, and run nothing
    #[arg(long)]
    list: bool,
    /// How long a guest may take
    #[arg(long, value_name = "MINUTES", default_value_t = 120)]
    limit: u64,
}

/// A guest: a kernel on a machine.
#[derive(Clone, Copy)]
struct Guest {
    arch: Arch,
    series: &'static Series,
}

/// What became of a guest.
enum State {
    /// It has shown what it was to show.
    Passed,
    /// It has not.
    Failed,
    /// Something that it takes could not be had today.
    NotRun,
}

/// The line about a guest at the end.
pub(crate) struct Closing {
    guest: Guest,
    release: Option<String>,
    state: State,
    sentence: String,
    took: Duration,
}

/// Boots the guests one after the other, and sums up.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let guests = options.guests()?;
    let selection = options.selection();
    if options.list {
        return list(&guests, &selection);
    }
    let closings = boot_all(&guests, &selection, Duration::from_secs(options.limit * 60))?;
    println!();
    for closing in &closings {
        println!("{closing}");
    }
    Ok(if closings.iter().any(Closing::failed) {
        ExitCode::FAILURE
    } else if closings.iter().any(|closing| matches!(closing.state, State::NotRun)) {
        ExitCode::from(NOT_RUN)
    } else {
        ExitCode::SUCCESS
    })
}

/// What CI boots. Each guest has so long that all of them take eight minutes at most.
pub(crate) fn ci() -> Result<Vec<Closing>> {
    let limit = Duration::from_secs(8 * 60 / SUBSET.len() as u64);
    boot_all(&subset()?, &Selection::subset(), limit)
}

/// The guests of CI.
fn subset() -> Result<Vec<Guest>> {
    let guest = |(arch, name): (Arch, &str)| Ok(Guest { arch, series: chosen(&[name.to_owned()])?[0] });
    SUBSET.into_iter().map(guest).collect()
}

impl Options {
    fn guests(&self) -> Result<Vec<Guest>> {
        if self.subset && self.kernels.is_empty() && self.arch.is_none() {
            return subset();
        }
        let arch =
            self.arch.or_else(Arch::host).context("there are no guests for this machine's architecture: choose with --arch")?;
        Ok(chosen(&self.kernels)?.into_iter().map(|series| Guest { arch, series }).collect())
    }

    fn selection(&self) -> Selection {
        match (self.subset, self.test.as_slice()) {
            (true, _) => Selection::subset(),
            (false, []) => Selection::all(),
            (false, names) => Selection::named(names),
        }
    }
}

/// Says what would be run.
fn list(guests: &[Guest], selection: &Selection) -> Result<ExitCode> {
    for guest in guests {
        let release = guest.series.known_release(&cache(guest.arch)?, guest.arch);
        let release = release.unwrap_or_else(|| format!("not fetched yet, from {}", guest.series.suites.join(", ")));
        let promise = match guest.series.promise {
            Promise::Works => "the tests pass",
            Promise::Refused => "zctrace refuses in one line",
        };
        println!("{guest}  {release}: {promise}");
    }
    println!("tests: {}", selection.describe());
    Ok(ExitCode::SUCCESS)
}

/// Boots the guests one after the other.
fn boot_all(guests: &[Guest], selection: &Selection, limit: Duration) -> Result<Vec<Closing>> {
    let mut closings = Vec::new();
    let mut grounds: Vec<(Arch, Result<Ground, Refusal>)> = Vec::new();
    for &guest in guests {
        if !grounds.iter().any(|(arch, _)| *arch == guest.arch) {
            grounds.push((guest.arch, Ground::prepare(guest.arch)));
        }
        let start = Instant::now();
        let ground =
            grounds.iter().find(|(arch, _)| *arch == guest.arch).map(|(_, ground)| ground).context("it was made above")?;
        let (release, state, sentence) = match ground {
            Ok(ground) => ground.run(guest.series, selection, limit),
            Err(refusal) => (None, refusal.state(), refusal.to_string()),
        };
        let closing = Closing { guest, release, state, sentence, took: start.elapsed() };
        println!("== {closing}");
        closings.push(closing);
    }
    Ok(closings)
}

/// Why guests cannot run.
enum Refusal {
    /// Something could not be installed or fetched.
    Missing(String),
    /// The project itself is at fault.
    Broken(String),
}

impl Refusal {
    fn missing(error: &anyhow::Error) -> Self {
        Self::Missing(format!("{error:#}"))
    }

    fn broken(error: &anyhow::Error) -> Self {
        Self::Broken(format!("{error:#}"))
    }

    fn state(&self) -> State {
        match self {
            Self::Missing(_) => State::NotRun,
            Self::Broken(_) => State::Failed,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Missing(reason) | Self::Broken(reason)) = self;
        f.write_str(reason)
    }
}

/// What all guests of an architecture stand on.
struct Ground {
    arch: Arch,
    programs: Programs,
    tree: Tree,
    cache: PathBuf,
    work: PathBuf,
    /// Keeps others away from what is made here and fetched.
    _lock: File,
}

impl Ground {
    /// Installs, fetches and builds what it takes.
    fn prepare(arch: Arch) -> Result<Self, Refusal> {
        if arch == Arch::X86_64 && !arch.is_host() {
            return Err(Refusal::Missing("guests of x86_64 run on machines of x86_64 alone".to_owned()));
        }
        let need = if arch.is_host() { Need::Booting } else { Need::BootingForeign };
        setup::install(need).map_err(|error| Refusal::missing(&error))?;
        let cache = cache(arch).map_err(|error| Refusal::broken(&error))?;
        let work = work(arch).map_err(|error| Refusal::broken(&error))?;
        let lock = lock(&cache).map_err(|error| Refusal::broken(&error))?;
        let tree = Tree::unpack(&cache, &work, arch).map_err(|error| Refusal::missing(&error))?;
        let programs = Programs::build(arch).map_err(|error| Refusal::broken(&error))?;
        tree.add_programs(&programs).map_err(|error| Refusal::broken(&error))?;
        Ok(Self { arch, programs, tree, cache, work, _lock: lock })
    }

    /// Boots one kernel, and judges what it says.
    fn run(&self, series: &Series, selection: &Selection, limit: Duration) -> (Option<String>, State, String) {
        let kernel = match series.fetch(&self.cache, self.arch) {
            Ok(kernel) => kernel,
            Err(error) => return (None, State::NotRun, format!("{error:#}")),
        };
        let judged = self.boot(series, &kernel, selection, limit);
        let (state, sentence) = match judged {
            Ok(Ok(sentence)) => (State::Passed, sentence),
            Ok(Err(sentence)) => (State::Failed, sentence),
            Err(error) => (State::Failed, format!("{error:#}")),
        };
        (Some(kernel.release), state, sentence)
    }

    fn boot(
        &self,
        series: &Series,
        kernel: &kernels::Kernel,
        selection: &Selection,
        limit: Duration,
    ) -> Result<Result<String, String>> {
        self.tree.add_modules(kernel)?;
        let (disk, initramfs) = (self.work.join("disk"), self.work.join("initramfs"));
        self.tree.disk(&disk)?;
        let mut plan = selection.plan().to_vec();
        plan.push(("variables", self.variables(series)));
        self.tree.initramfs(kernel, &plan, &initramfs)?;
        println!("== {} on {}: boots within {} s", kernel.release, self.arch.name(), limit.as_secs());
        let mut account = Account::default();
        let machine = Machine { arch: self.arch, kernel: &kernel.image(), initramfs: &initramfs, disk: &disk };
        let end = machine.boot(limit, |line| {
            println!("{line}");
            account.hear(line);
        })?;
        Ok(account.judge(end, series.promise))
    }

    /// What the guest's script has to know.
    fn variables(&self, series: &Series) -> String {
        let promise = match series.promise {
            Promise::Works => "works",
            Promise::Refused => "refused",
        };
        let Programs { test, zctrace, workloads, package } = &self.programs;
        let paths = [("test", test), ("zctrace", zctrace), ("workloads", workloads), ("package", package)];
        let paths = paths.map(|(name, path)| format!("{name}='{}'\n", path.display()));
        format!("promise={promise}\njobs={JOBS}\n{}", paths.concat())
    }
}

/// Where packages are kept from run to run, outside the repository.
fn cache(arch: Arch) -> Result<PathBuf> {
    let chosen = env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = chosen.or_else(|| Some(env::home_dir()?.join(".cache"))).context("there is no home directory")?;
    Ok(cache.join("zctrace/vm").join(arch.debian()))
}

/// Waits until nobody else works with the cache.
fn lock(cache: &Path) -> Result<File> {
    fs::create_dir_all(cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let lock = File::create(cache.join("lock"))?;
    if lock.try_lock().is_err() {
        eprintln!("vm: waits for another `cargo xtask vm`");
        lock.lock()?;
    }
    Ok(lock)
}

/// Where guests are made of them.
fn work(arch: Arch) -> Result<PathBuf> {
    let work = release_dir()?.with_file_name("vm").join(arch.name());
    fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    Ok(work)
}

impl fmt::Display for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:7} {:7}", self.series.name, self.arch.name())
    }
}

impl Closing {
    /// Whether the guest did not show what it was to show.
    pub(crate) fn failed(&self) -> bool {
        matches!(self.state, State::Failed)
    }
}

impl fmt::Display for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Passed => "ok",
            State::Failed => "FAILED",
            State::NotRun => "NOT RUN",
        };
        write!(f, "{state:7} vm {} {:6.1} s  ", self.guest, self.took.as_secs_f64())?;
        if let Some(release) = &self.release {
            write!(f, "{release}: ")?;
        }
        f.write_str(&self.sentence)
    }
}
