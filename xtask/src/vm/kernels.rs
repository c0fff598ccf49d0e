//! The kernels for guests, and where each is fetched from.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::apt::{Apt, PACKAGES};
use crate::{arch::Arch, command::check};

/// A series of kernels, of which the newest package is taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KernelSeries {
    /// The name on the command line: the first two numbers of the version, or `newest`.
    pub(super) name: &'static str,
    /// Debian's suites that have it.
    pub(super) suites: &'static [&'static str],
}

/// All series.
const SERIES: [KernelSeries; 4] = [
    KernelSeries::new("6.1", &["bookworm", "bookworm-security"]),
    KernelSeries::new("6.12", &["trixie", "trixie-security"]),
    KernelSeries::new("6.18", &["trixie-backports"]),
    KernelSeries::new(NEWEST, &["trixie-backports", "sid"]),
];

/// The name of the series that is whatever is newest.
const NEWEST: &str = "newest";

/// The series that CI boots; the one that takes longest is first.
pub(super) const SUBSET: [(Arch, &str); 3] = [
    (Arch::Aarch64, "6.1"),
    (Arch::X86_64, "6.1"),
    (Arch::X86_64, "6.12"),
];

/// The series with these names, in the order of the table; all of them if there are no names.
pub(super) fn chosen(names: &[String]) -> Result<Vec<&'static KernelSeries>> {
    let known = SERIES.map(|series| series.name);
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!(
            "there is no kernel {unknown}; there are {}",
            known.join(", ")
        );
    }
    let is_chosen =
        |series: &&KernelSeries| names.is_empty() || names.iter().any(|name| name == series.name);
    Ok(SERIES.iter().filter(is_chosen).collect())
}

/// A kernel that was fetched.
#[derive(Debug)]
pub(super) struct Kernel {
    /// What `uname -r` says.
    pub(super) release: String,
    /// The tree of its package.
    tree: PathBuf,
}

impl KernelSeries {
    const fn new(name: &'static str, suites: &'static [&'static str]) -> Self {
        Self { name, suites }
    }

    /// How many tests run at a time in a guest, which has two processors. With two, 7.3 was seen to
    /// skip programs: see docs/decisions/0008-programs-that-are-not-preempted.md.
    pub(super) fn jobs(&self) -> u32 {
        if self.name == NEWEST { 1 } else { 2 }
    }

    /// The newest package of the series among these names, as the kernel's release.
    fn newest_of(&self, names: &[String], arch: Arch) -> Option<String> {
        let (start, end) = (
            format!("{}.", self.name),
            format!("-cloud-{}", arch.debian()),
        );
        let releases = names
            .iter()
            .filter_map(|name| name.strip_prefix("linux-image-"));
        let of_series = |release: &&str| {
            let is_named = self.name == NEWEST || release.starts_with(&start);
            is_named && release.ends_with(&end) && numbers(release).len() > 2
        };
        let newest = releases
            .filter(of_series)
            .max_by_key(|release| numbers(release));
        newest.map(str::to_owned)
    }

    /// Fetches and unpacks it below the cache, unless that was done before.
    pub(super) fn fetch(&self, cache: &Path, arch: Arch) -> Result<Kernel> {
        let directory = cache.join("apt").join(self.name);
        let apt = Apt::new(directory, arch, self.suites, PACKAGES)?;
        let names = apt.names("linux-")?;
        let release = self.newest_of(&names, arch);
        let release = release.with_context(|| {
            let (suites, arch) = (self.suites.join(", "), arch.debian());
            format!(
                "no package linux-image-{}.*-cloud-{arch} in {suites}",
                self.name
            )
        })?;
        let tree = cache.join("kernels").join(&release);
        if !tree.join("complete").exists() {
            unpack(&apt, &names, &release, &tree)?;
        }
        Ok(Kernel { release, tree })
    }
}

/// Unpacks the packages of a kernel. Newer kernels have image and modules in packages of their own.
fn unpack(apt: &Apt, names: &[String], release: &str, tree: &Path) -> Result<()> {
    let parts = ["image", "base", "binary", "modules"];
    let mut parts = parts.map(|part| format!("linux-{part}-{release}")).to_vec();
    parts.retain(|part| names.contains(part));
    let packages = beside(tree, "packages");
    if tree.exists() {
        fs::remove_dir_all(tree)?;
    }
    for package in apt.download(&parts, &packages)? {
        check(Command::new("dpkg-deb").arg("-x").arg(package).arg(tree))?;
    }
    fs::remove_dir_all(packages)?;
    fs::write(tree.join("complete"), "")?;
    Ok(())
}

impl Kernel {
    /// The image that QEMU starts; in newer packages it is beside the modules.
    pub(super) fn image(&self) -> Result<PathBuf> {
        let image = self
            .tree
            .join("boot")
            .join(format!("vmlinuz-{}", self.release));
        let places = [image, self.modules()?.join("vmlinuz")];
        let image = places.into_iter().find(|place| place.is_file());
        image.with_context(|| format!("{} has no image", self.release))
    }

    /// The directory of its modules.
    pub(super) fn modules(&self) -> Result<PathBuf> {
        let places = ["lib/modules", "usr/lib/modules"]
            .map(|place| self.tree.join(place).join(&self.release));
        let modules = places.into_iter().find(|place| place.is_dir());
        modules.with_context(|| format!("{} has no modules", self.release))
    }
}

/// A path with a suffix. `Path::with_extension` would replace the end of a kernel's version.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// The numbers in a release, to compare it with others.
fn numbers(release: &str) -> Vec<u32> {
    release
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_package_of_a_series_is_taken() {
        let names = [
            "linux-image-6.1-cloud-amd64",
            "linux-image-6.1.0-9-cloud-amd64",
            "linux-image-6.1.0-56-cloud-amd64",
            "linux-image-6.1.0-57-cloud-amd64-unsigned",
            "linux-image-6.1.0-58-amd64",
            "linux-image-6.12.90+deb13.1-cloud-amd64",
            "linux-image-6.12.117+deb13-cloud-amd64",
            "linux-image-6.12.117+deb13-cloud-amd64-dbg",
            "linux-image-7.0.13+deb13-cloud-amd64",
            "linux-image-7.0.13+deb13-cloud-arm64",
            "linux-image-cloud-amd64",
        ];
        let names = names.map(str::to_owned);
        for (name, arch, newest) in [
            ("6.1", Arch::X86_64, Some("6.1.0-56-cloud-amd64")),
            ("6.12", Arch::X86_64, Some("6.12.117+deb13-cloud-amd64")),
            (NEWEST, Arch::X86_64, Some("7.0.13+deb13-cloud-amd64")),
            (NEWEST, Arch::Aarch64, Some("7.0.13+deb13-cloud-arm64")),
            ("6.18", Arch::X86_64, None),
        ] {
            let series = chosen(&[name.to_owned()]).expect("a known name")[0];
            assert_eq!(series.newest_of(&names, arch).as_deref(), newest, "{name}");
        }
    }

    #[test]
    fn kernels_are_chosen_by_name_and_all_without_one() {
        let chosen_names = |names: &[&str]| -> Vec<&str> {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let chosen = chosen(&names).expect("known names");
            chosen.into_iter().map(|series| series.name).collect()
        };
        assert_eq!(chosen_names(&["6.12", "6.1"]), ["6.1", "6.12"]);
        assert_eq!(chosen_names(&[]).len(), SERIES.len());
        let error = chosen(&["4.4".to_owned()]).expect_err("it is not there");
        assert!(error.to_string().contains("6.12"));
    }

    #[test]
    fn two_kernels_have_two_directories() {
        let starts = ["i-6.1", "i-6.12"].map(|path| beside(path.as_ref(), "start"));
        assert_eq!(starts, ["i-6.1.start", "i-6.12.start"].map(PathBuf::from));
    }
}
