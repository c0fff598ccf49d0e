//! Debian packages of other suites and architectures, fetched with an apt configuration of our own:
//! the system's sources, lists and packages stay as they are.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    arch::Arch,
    command::{check, show},
    toolchain::output,
};

/// Names a mirror of Debian's main archive, to be used instead of it.
const MIRROR_VARIABLE: &str = "ZCTRACE_DEBIAN_MIRROR";

/// Debian's keys, where Debian's packages put them.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// How lines begin that name packages, and what these are made of.
pub(super) const PACKAGES: &str = "deb [target=Packages";
pub(crate) const SOURCES: &str = "deb-src [target=Sources";

/// Package lists are fetched again after this time.
const LISTS_ARE_FRESH: Duration = Duration::from_hours(24);

/// The `sources.list` for these suites, in lines that begin with `kind`. A `mirror` need not have the
/// security updates.
fn sources(mirror: Option<&str>, suites: &[&str], kind: &str) -> String {
    let line = |suite: &&str| {
        let archive = match (mirror, suite.ends_with("-security")) {
            (Some(_), true) => return None,
            (Some(mirror), false) => mirror,
            (None, true) => "http://deb.debian.org/debian-security",
            (None, false) => "http://deb.debian.org/debian",
        };
        Some(format!("{kind}] {archive} {suite} main\n"))
    };
    suites.iter().filter_map(line).collect()
}

/// The name of this machine's release of Debian. Programs that are built here run with that
/// release's libraries.
fn codename() -> Result<String> {
    let about = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    let mut lines = about.lines();
    let name = lines
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .context("/etc/os-release has no VERSION_CODENAME")?;
    Ok(name.trim_matches('"').to_owned())
}

/// An apt with its own sources, for one architecture.
pub(crate) struct Apt {
    directory: PathBuf,
}

impl Apt {
    /// Sets it up in a directory for these suites, and fetches the package lists if they are old.
    /// If that fails, the old lists are used.
    pub(super) fn new(directory: PathBuf, arch: Arch, suites: &[&str], kind: &str) -> Result<Self> {
        let apt = Self::empty(directory, arch)?;
        let mut kind = format!("{kind} arch={}", arch.debian());
        if Path::new(KEYRING).exists() {
            kind = kind + " signed-by=" + KEYRING;
        }
        let mirror = env::var(MIRROR_VARIABLE).ok();
        apt.refresh(&sources(mirror.as_deref(), suites, &kind))?;
        Ok(apt)
    }

    /// One without sources.
    fn empty(directory: PathBuf, arch: Arch) -> Result<Self> {
        let apt = Self { directory };
        for part in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(apt.path(part))
                .with_context(|| format!("cannot create {}", apt.path(part).display()))?;
        }
        fs::write(apt.path("status"), "")?;
        fs::write(apt.path("apt.conf"), apt.configuration(arch))?;
        Ok(apt)
    }

    /// The one that guests get their programs from: this machine's own release.
    pub(super) fn of_guests(cache: &Path, arch: Arch) -> Result<Self> {
        Self::of_own_release(cache.join("apt/guest"), arch, PACKAGES)
    }

    /// One for this machine's own release.
    pub(crate) fn of_own_release(directory: PathBuf, arch: Arch, kind: &str) -> Result<Self> {
        let codename = codename()?;
        let suites = [codename.as_str(), &format!("{codename}-security")];
        Self::new(directory, arch, &suites, kind)
    }

    /// Fetches the lists of packages, unless they are fresh.
    fn refresh(&self, sources: &str) -> Result<()> {
        let (list, stamp) = (self.path("sources.list"), self.path("fetched"));
        let fetched = fs::read_to_string(&stamp).is_ok_and(|fetched| fetched == sources);
        let written = fs::metadata(&stamp).and_then(|about| about.modified());
        fs::write(&list, sources)?;
        let is_fresh = |at: SystemTime| at.elapsed().is_ok_and(|age| age < LISTS_ARE_FRESH);
        if fetched && written.is_ok_and(is_fresh) {
            return Ok(());
        }
        match check(self.get("180").args(["-q", "update"])) {
            Ok(()) => fs::write(&stamp, sources).context("cannot note that the lists were fetched"),
            Err(error) if fetched => {
                eprintln!("vm: {error}; the lists of packages that were fetched before are used");
                Ok(())
            }
            Err(error) => Err(error).context("cannot fetch the lists of packages"),
        }
    }

    /// Keeps apt away from the system's state. Settings such as proxies still come from the
    /// system's configuration. By default an update succeeds if a mirror does not answer.
    fn configuration(&self, arch: Arch) -> String {
        let directory = self.directory.display();
        let arch = arch.debian();
        format!(
            r#"Dir::Etc::sourcelist "{directory}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "{directory}/state";
Dir::State::status "{directory}/status";
Dir::Cache "{directory}/cache";
APT::Architecture "{arch}";
#clear APT::Architectures;
APT::Architectures {{ "{arch}"; }};
APT::Sandbox::User "root";
APT::Get::List-Cleanup "false";
APT::Update::Error-Mode "any";
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "30";
Debug::NoLocking "true";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"#
        )
    }

    /// Names of the packages with this prefix.
    pub(super) fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let mut apt = Command::new("apt-cache");
        apt.arg("-c").arg(self.path("apt.conf"));
        let names = output(apt.args(["pkgnames", prefix]));
        let names = names.context("apt-cache does not list packages")?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// These packages and all that they depend on, each as `NAME=VERSION`.
    pub(super) fn closure(&self, packages: &[&str]) -> Result<Vec<String>> {
        let mut simulation = self.get("120");
        simulation.args(["-s", "-q", "install"]).args(packages);
        let plan = simulation
            .output()
            .with_context(|| format!("cannot run {}", show(&simulation)))?;
        let [text, errors] = [&plan.stdout, &plan.stderr].map(|text| String::from_utf8_lossy(text));
        let packages = packages.join(" ");
        ensure!(
            plan.status.success(),
            "apt finds no way to install all of {packages}: {errors}{text}"
        );
        Ok(installed(&text))
    }

    /// Downloads packages into a directory, which then has these and no others.
    pub(super) fn download(&self, packages: &[String], into: &Path) -> Result<Vec<PathBuf>> {
        let stamp = into.join("packages");
        if fs::read_to_string(&stamp).is_ok_and(|found| found == packages.join("\n")) {
            return archives(into, ".deb");
        }
        if into.exists() {
            fs::remove_dir_all(into)?;
        }
        fs::create_dir_all(into)?;
        let mut download = self.get("300");
        download.args(["-q", "download"]).args(packages);
        check(download.current_dir(into)).context("cannot fetch packages")?;
        fs::write(&stamp, packages.join("\n"))?;
        archives(into, ".deb")
    }

    /// Downloads what the authors of a package released, without Debian's changes.
    pub(crate) fn source(&self, package: &str, into: &Path) -> Result<PathBuf> {
        let mut download = self.get("300");
        download.args(["-qq", "source", "--download-only", "--tar-only", package]);
        check(download.current_dir(into)).context("cannot fetch the source")?;
        let newest = archives(into, ".orig.tar.gz")?.pop();
        newest.with_context(|| format!("{package} has no source of its authors"))
    }

    /// `apt-get` with a time limit in seconds: behind some proxies a download hangs for ever.
    fn get(&self, limit: &str) -> Command {
        let mut get = Command::new("timeout");
        get.args(["-k", "5", limit, "apt-get", "-c"])
            .arg(self.path("apt.conf"));
        get
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// The packages that apt would install, from what `apt-get -s install` prints: `Inst NAME (VERSION
/// ORIGIN [ARCH])`.
fn installed(simulation: &str) -> Vec<String> {
    let package = |line: &str| {
        let (name, rest) = line.strip_prefix("Inst ")?.split_once(' ')?;
        let version = rest.split_once('(')?.1.split(' ').next()?;
        Some(format!("{name}={version}"))
    };
    simulation.lines().filter_map(package).collect()
}

/// The files of a directory whose names end so.
fn archives(directory: &Path, end: &str) -> Result<Vec<PathBuf>> {
    let mut found = fs::read_dir(directory)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    found.retain(|path| path.to_string_lossy().ends_with(end));
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_stands_for_the_archive_without_its_security_updates() {
        let suites = ["a", "a-security"];
        assert_eq!(
            sources(None, &suites, "deb [o"),
            "deb [o] http://deb.debian.org/debian a main\n\
             deb [o] http://deb.debian.org/debian-security a-security main\n"
        );
        let mirrored = sources(Some("http://mirror.example/debian"), &suites, "deb [o");
        assert_eq!(mirrored, "deb [o] http://mirror.example/debian a main\n");
    }

    #[test]
    fn lists_that_could_not_be_fetched_are_not_noted_as_fetched() {
        let directory = env::temp_dir().join(format!("zctrace-apt-{}", std::process::id()));
        let apt = Apt::empty(directory.clone(), Arch::X86_64).expect("is new");
        // Nobody listens there.
        let error = apt.refresh("deb http://127.0.0.1:1/debian bookworm main\n");
        assert!(error.is_err(), "nothing was fetched");
        assert!(!apt.path("fetched").exists());
        fs::remove_dir_all(directory).expect("is ours");
    }

    #[test]
    fn a_simulation_names_packages_with_their_versions() {
        let printed = "Reading package lists...\nInst libc6 (2.36-9 Debian:12 [arm64]) []\nInst dash (0.5.12-2 Debian:12 [arm64])\n\
                       Conf libc6 (2.36-9 Debian:12 [arm64])\n";
        assert_eq!(installed(printed), ["libc6=2.36-9", "dash=0.5.12-2"]);
    }
}
