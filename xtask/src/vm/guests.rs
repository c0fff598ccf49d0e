//! What the guests of one architecture share, and running a guest: its files, kernels and the programs under test, which are those that
//! `cargo xtask test` builds.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::{
    Guest, State, Verdict,
    arch::{Arch, Cross},
    image::Tree,
    kernels::{Kernel, Promise, Series},
    qemu::Machine,
    selection::Selection,
    transcript::{Shortfall, Transcript},
};
use crate::{
    command::{cargo, check, release_dir, root, show},
    run,
    setup::{self, Need},
};

/// What the guests of an architecture share.
pub(super) struct Shared {
    /// The architecture.
    pub(super) arch: Arch,
    /// Files and kernels; the error says why no guest can run.
    base: Result<Base, Verdict>,
}

/// Files and kernels.
struct Base {
    programs: Programs,
    tree: Tree,
    disk: PathBuf,
    work: PathBuf,
    kernels: BTreeMap<&'static str, Result<Kernel, String>>,
    /// Keeps other processes out of the working directory.
    _lock: File,
}

impl Shared {
    /// Installs, fetches and builds what it takes to boot these kernels.
    pub(super) fn prepare(arch: Arch, series: &[&'static Series]) -> Self {
        Self { arch, base: Base::prepare(arch, series) }
    }

    /// Boots a guest and judges its output. Returns the kernel's release, if there is a kernel, and the verdict.
    pub(super) fn run(&self, guest: Guest, selection: &Selection, limit: Duration) -> (Option<String>, Verdict) {
        let base = match &self.base {
            Ok(base) => base,
            Err(Verdict { state, sentence }) => return (None, Verdict { state: *state, sentence: sentence.clone() }),
        };
        match &base.kernels[guest.series.name] {
            Err(reason) => (None, Verdict { state: State::NotRun, sentence: reason.clone() }),
            Ok(kernel) => {
                let verdict = base.boot(guest, kernel, selection, limit).unwrap_or_else(|error| Verdict::failed(&error));
                (Some(kernel.release.clone()), verdict)
            }
        }
    }
}

impl Base {
    /// If something cannot be installed or fetched, the guests are not run; if something cannot be built, they fail.
    fn prepare(arch: Arch, series: &[&'static Series]) -> Result<Self, Verdict> {
        let not_run = |error| Verdict::not_run(&error);
        let failed = |error| Verdict::failed(&error);
        if arch == Arch::X86_64 && !arch.is_host() {
            return Err(not_run(anyhow!("guests of x86_64 run on machines of x86_64 alone")));
        }
        let need = if arch.is_host() { Need::Booting } else { Need::BootingForeign };
        setup::install(need).map_err(not_run)?;
        let (cache, work) = (cache(arch).map_err(failed)?, work(arch).map_err(failed)?);
        let own = lock(&work).map_err(failed)?;
        let fetching = lock(&cache).map_err(failed)?;
        let tree = Tree::unpack(&cache, &work, arch).map_err(not_run)?;
        let kernel = |series: &&'static Series| (series.name, series.fetch(&cache, arch).map_err(|error| format!("{error:#}")));
        let kernels: BTreeMap<_, _> = series.iter().map(kernel).collect();
        let cross = if arch.is_host() { None } else { Some(Cross::find(arch, &cache).map_err(not_run)?) };
        drop(fetching);
        let programs = Programs::build(arch, cross.as_ref()).map_err(failed)?;
        let base = Self { programs, tree, disk: work.join("disk"), work, kernels, _lock: own };
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

    fn boot(&self, guest: Guest, kernel: &Kernel, selection: &Selection, limit: Duration) -> Result<Verdict> {
        let initramfs = self.work.join(format!("initramfs-{}", guest.series.name));
        let mut plan = selection.plan();
        plan.push(("variables", self.variables(guest.series)));
        self.tree.initramfs(kernel, &plan, &initramfs)?;
        println!("== {} on {}: boots, within {} s", kernel.release, guest.arch.name(), limit.as_secs());
        let (mut transcript, start) = (Transcript::default(), Instant::now());
        let machine = Machine { arch: guest.arch, kernel: &kernel.image()?, initramfs: &initramfs, disk: &self.disk };
        let prefix = format!("{} {}", guest.series.name, guest.arch.name());
        let end = machine.boot(limit, |line| {
            println!("{prefix} {:6.1} | {line}", start.elapsed().as_secs_f64());
            transcript.hear(line);
        })?;
        Ok(match transcript.judge(end, guest.series.promise, selection) {
            Ok(sentence) => Verdict { state: State::Passed, sentence },
            Err(Shortfall::Failed(sentence)) => Verdict { state: State::Failed, sentence },
            Err(Shortfall::TooSlow(sentence)) => Verdict { state: State::NotRun, sentence },
        })
    }

    /// Variables for the guest's script.
    fn variables(&self, series: &Series) -> String {
        let promise = match series.promise {
            Promise::Works => "works",
            Promise::Refused => "refused",
        };
        let Programs { test, zctrace, workloads, package } = &self.programs;
        let paths = [("test", test), ("zctrace", zctrace), ("workloads", workloads), ("package", package)];
        let paths = paths.map(|(name, path)| format!("{name}='{}'\n", path.display()));
        format!("promise={promise}\njobs={}\n{}", series.jobs, paths.concat())
    }
}

/// Where packages are kept between runs, outside the repository.
pub(super) fn cache(arch: Arch) -> Result<PathBuf> {
    let chosen = env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = chosen.or_else(|| Some(env::home_dir()?.join(".cache"))).context("there is no home directory")?;
    Ok(cache.join("zctrace/vm").join(arch.debian()))
}

/// Where the disks of guests are made.
fn work(arch: Arch) -> Result<PathBuf> {
    Ok(release_dir()?.with_file_name("vm").join(arch.name()))
}

/// Waits until no other process works in a directory.
fn lock(directory: &Path) -> Result<File> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let lock = File::create(directory.join("lock"))?;
    if lock.try_lock().is_err() {
        eprintln!("vm: waits for another `cargo xtask vm`");
        lock.lock()?;
    }
    Ok(lock)
}

/// Programs of the package `zc-tests`, in Rust and in C. Some C programs exist for x86 only.
const WORKLOADS: [&str; 9] =
    ["copier", "workload", "odd-files", "random-io", "kernel-copy", "runs", "copier-c", "int80", "socketcall"];

/// Paths of what was built. A guest has everything at the same paths as this machine, because they are compiled into the test binary.
pub(super) struct Programs {
    /// The test binary.
    pub(super) test: PathBuf,
    /// zctrace, as it is released.
    pub(super) zctrace: PathBuf,
    /// The directory of the workloads.
    pub(super) workloads: PathBuf,
    /// The package of the tests.
    pub(super) package: PathBuf,
}

impl Programs {
    /// Builds them. For this machine's architecture, everything is built as `cargo xtask test` does, so nothing is built twice.
    pub(super) fn build(arch: Arch, cross: Option<&Cross>) -> Result<Self> {
        let (zctrace, test) = match cross {
            None => {
                run::build(&["zctrace", "zc-tests"])?;
                (release_dir()?.join("zctrace"), test_binary(cargo().arg("test"))?)
            }
            Some(cross) => {
                // One profile and one set of packages: every dependency is built once.
                check(cross.cargo("build").args(["--workspace", "--bins"]))?;
                let target = release_dir()?.with_file_name(arch.target());
                (target.join("release/zctrace"), test_binary(&mut cross.cargo("test"))?)
            }
        };
        let workloads = test.ancestors().nth(2).context("the test binary is not in a target directory")?.to_owned();
        Ok(Self { test, zctrace, workloads, package: root().canonicalize()?.join("tests") })
    }

    /// Every file and directory that a guest needs.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let workloads = WORKLOADS.into_iter().map(|name| self.workloads.join(name)).filter(|path| path.exists());
        let of_the_package = ["golden", "scenarios", "zctrace.toml"].map(|name| self.package.join(name));
        [self.test.clone(), self.zctrace.clone()].into_iter().chain(workloads).chain(of_the_package).collect()
    }
}

/// Builds the integration tests and returns the path of the binary. It names the same packages as `cargo xtask test`: with others, the
/// dependencies would have other features and be built again.
fn test_binary(cargo: &mut Command) -> Result<PathBuf> {
    cargo.args(["--workspace", "--test", "all", "--no-run", "--message-format=json-render-diagnostics"]);
    let built = cargo.stderr(Stdio::inherit()).output().with_context(|| format!("cannot run {}", show(cargo)))?;
    ensure!(built.status.success(), "`{}` failed ({})", show(cargo), built.status);
    let messages = String::from_utf8_lossy(&built.stdout).into_owned();
    let Some(test) = messages.lines().find_map(test_executable) else { bail!("cargo does not name the test binary") };
    Ok(Path::new(test).to_owned())
}

/// The executable in cargo's message about the test `all`.
fn test_executable(message: &str) -> Option<&str> {
    let is_it = message.contains(r#""reason":"compiler-artifact""#)
        && message.contains(r#""kind":["test"]"#)
        && message.contains(r#""name":"all""#);
    let (_, rest) = message.split_once(r#""executable":""#).filter(|_| is_it)?;
    Some(rest.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_binary_is_found_in_cargos_messages() {
        let of = |kind: &str, name: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","target":{{"kind":["{kind}"],"name":"{name}"}},"executable":"/t/debug/deps/{name}-1"}}"#
            )
        };
        assert_eq!(test_executable(&of("test", "all")), Some("/t/debug/deps/all-1"));
        assert_eq!(test_executable(&of("bin", "all")), None);
        assert_eq!(test_executable(&of("test", "other")), None);
        assert_eq!(test_executable(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
