//! Running a guest, and what the guests of one architecture share: files, kernels and the programs
//! under test.

use std::{
    collections::BTreeMap,
    env, fmt,
    fs::{self, File},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::{
    image::Tree,
    kernels::{Kernel, KernelSeries},
    programs::Programs,
    qemu::EmulatedMachine,
    selection::TestSelection,
    transcript::{GuestState, Judgement, Transcript},
};
use crate::{
    arch::Arch,
    command::target_dir,
    dist::UNPACK_TARBALL,
    setup::{self, Purpose},
};

/// A guest: a kernel on a machine.
#[derive(Clone, Copy)]
pub(super) struct Guest {
    /// The machine.
    pub(super) arch: Arch,
    /// The kernel.
    pub(super) series: &'static KernelSeries,
}

impl fmt::Display for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:7} {:7}", self.series.name, self.arch.name())
    }
}

/// Something that a guest needs could not be installed or fetched.
fn not_run(error: impl Into<anyhow::Error>) -> Judgement {
    Judgement(GuestState::NotRun, format!("{:#}", error.into()))
}

/// Something in this repository is wrong.
fn failed(error: impl Into<anyhow::Error>) -> Judgement {
    Judgement(GuestState::Failed, format!("{:#}", error.into()))
}

/// What the guests of an architecture share.
pub(super) struct Shared {
    /// The architecture.
    pub(super) arch: Arch,
    /// Files and kernels; the error says why no guest can run.
    base: Result<Base, Judgement>,
}

/// Files and kernels.
struct Base {
    programs: Programs,
    tree: Tree,
    disk: PathBuf,
    work: PathBuf,
    kernels: BTreeMap<&'static str, Result<Kernel, Judgement>>,
    /// Keeps other processes out of the working directory.
    _lock: File,
}

impl Shared {
    /// Installs, fetches and builds what it takes to boot these kernels.
    pub(super) fn prepare(
        arch: Arch,
        series: &[&'static KernelSeries],
        selection: &TestSelection,
    ) -> Self {
        Self {
            arch,
            base: Base::prepare(arch, series, selection),
        }
    }

    /// Boots a guest and judges its output. Returns the kernel's release, if there is a kernel, and
    /// the verdict.
    pub(super) fn run(
        &self,
        guest: Guest,
        selection: &TestSelection,
        limit: Duration,
    ) -> (Option<String>, Judgement) {
        let base = match &self.base {
            Ok(base) => base,
            Err(verdict) => return (None, verdict.clone()),
        };
        match &base.kernels[guest.series.name] {
            Err(verdict) => (None, verdict.clone()),
            Ok(kernel) => {
                let verdict = base.boot(guest, kernel, selection, limit);
                (Some(kernel.release.clone()), verdict.unwrap_or_else(failed))
            }
        }
    }
}

impl Base {
    /// If something cannot be installed or fetched, the guests are not run; if something cannot be
    /// built, they fail.
    fn prepare(
        arch: Arch,
        series: &[&'static KernelSeries],
        selection: &TestSelection,
    ) -> Result<Self, Judgement> {
        if arch == Arch::X86_64 && !arch.is_host() {
            let sentence = "guests of x86_64 run on machines of x86_64 alone";
            return Err(Judgement(GuestState::NotRun, sentence.to_owned()));
        }
        let purpose = if arch.is_host() {
            Purpose::Booting
        } else {
            Purpose::BootingForeign
        };
        setup::install(purpose).map_err(not_run)?;
        let cache = cache(arch).map_err(failed)?;
        let work = work(arch).map_err(failed)?;
        let own = lock(&work).map_err(failed)?;
        let fetching = lock(&cache).map_err(failed)?;
        let tree = Tree::unpack(&cache, &work, arch).map_err(not_run)?;
        let kernel = |series: &&'static KernelSeries| {
            let kernel = series.fetch(&cache, arch).map_err(not_run);
            (series.name, kernel)
        };
        let kernels: BTreeMap<_, _> = series.iter().map(kernel).collect();
        drop(fetching);
        // A whole run is worth an optimized build: emulated programs take hours without.
        let is_optimized = !selection.is_subset();
        let programs = Programs::build(arch, is_optimized, &work).map_err(failed)?;
        let base = Self {
            programs,
            tree,
            disk: work.join("disk"),
            work,
            kernels,
            _lock: own,
        };
        base.make_disk().map_err(failed)?;
        Ok(base)
    }

    /// All kernels share one disk: a guest's changes to it are not kept.
    fn make_disk(&self) -> Result<()> {
        self.tree.add_programs(&self.programs)?;
        for kernel in self.kernels.values().flatten() {
            self.tree.add_modules(kernel)?;
        }
        self.tree.disk(&self.disk)
    }

    fn boot(
        &self,
        guest: Guest,
        kernel: &Kernel,
        selection: &TestSelection,
        limit: Duration,
    ) -> Result<Judgement> {
        let initramfs = self.work.join(format!("initramfs-{}", guest.series.name));
        let mut plan = selection.plan();
        plan.push(("variables", self.variables(guest.series)));
        self.tree.initramfs(kernel, &plan, &initramfs)?;
        let (release, arch, seconds) = (&kernel.release, guest.arch.name(), limit.as_secs());
        println!("== {release} on {arch}: boots, within {seconds} s");
        let (mut transcript, start) = (Transcript::default(), Instant::now());
        let machine = EmulatedMachine {
            arch: guest.arch,
            kernel: &kernel.image()?,
            initramfs: &initramfs,
            disk: &self.disk,
        };
        let prefix = format!("{} {arch}", guest.series.name);
        let end = machine.boot(limit, |line| {
            println!("{prefix} {:6.1} | {line}", start.elapsed().as_secs_f64());
            transcript.read_line(line);
        })?;
        Ok(transcript.judge(end))
    }

    /// Variables for the guest's script.
    fn variables(&self, series: &KernelSeries) -> String {
        let programs = &self.programs;
        let tarball = programs.tarball.as_ref().map(|path| ("tarball", path));
        let paths = [
            ("test", &programs.test),
            ("programs", &programs.directory),
            ("package", &programs.package),
        ];
        let line = |(name, path): (_, &PathBuf)| format!("{name}='{}'\n", path.display());
        let lines: Vec<_> = paths.into_iter().chain(tarball).map(line).collect();
        let jobs = series.jobs();
        lines.concat() + &format!("jobs={jobs}\nunpack='{UNPACK_TARBALL}'\n")
    }
}

/// Where packages are kept between runs, outside the repository.
fn cache(arch: Arch) -> Result<PathBuf> {
    let chosen = env::var_os("XDG_CACHE_HOME")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    let cache = chosen
        .or_else(|| Some(env::home_dir()?.join(".cache")))
        .context("there is no home directory")?;
    Ok(cache.join("zctrace/vm").join(arch.debian()))
}

/// Where the disks of guests are made.
fn work(arch: Arch) -> Result<PathBuf> {
    Ok(target_dir()?.join("vm").join(arch.name()))
}

/// Waits until no other process works in a directory.
fn lock(directory: &Path) -> Result<File> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let lock = File::create(directory.join("lock"))?;
    if lock.try_lock().is_err() {
        eprintln!("vm: waits for another `cargo xtask vm`");
        lock.lock()?;
    }
    Ok(lock)
}
