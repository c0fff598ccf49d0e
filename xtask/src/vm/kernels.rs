//! The kernels for guests, and where each is fetched from.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::{apt::Apt, arch::Arch};
use crate::command::check;

/// What a guest with a kernel must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// The tests pass.
    Works,
    /// zctrace says in one line that the kernel is too old.
    Refused,
}

/// A series of kernels, of which the newest package is taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Series {
    /// The name on the command line: the first two numbers of the version, or `newest`.
    pub(super) name: &'static str,
    /// Debian's suites that have it.
    pub(super) suites: &'static [&'static str],
    /// What its guests must show.
    pub(super) expected: Expected,
    /// How many tests run at a time in a guest, which has two processors.
    pub(super) jobs: u32,
}

/// All series. No suite is known to have 6.6; it is searched in the suite that once had it.
pub(super) const SERIES: [Series; 6] = [
    Series {
        name: "5.10",
        suites: &["bullseye", "bullseye-security"],
        expected: Expected::Refused,
        jobs: 2,
    },
    Series {
        name: "6.1",
        suites: &["bookworm", "bookworm-security"],
        expected: Expected::Works,
        jobs: 2,
    },
    Series {
        name: "6.6",
        suites: &["bookworm-backports"],
        expected: Expected::Works,
        jobs: 2,
    },
    Series {
        name: "6.12",
        suites: &["trixie", "trixie-security"],
        expected: Expected::Works,
        jobs: 2,
    },
    Series {
        name: "6.18",
        suites: &["trixie-backports"],
        expected: Expected::Works,
        jobs: 2,
    },
    // With two tests at a time, 7.3 was seen to skip programs: see
    // docs/decisions/0008-programs-that-are-not-preempted.md.
    Series {
        name: NEWEST,
        suites: &["trixie-backports", "sid"],
        expected: Expected::Works,
        jobs: 1,
    },
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
pub(super) fn chosen(names: &[String]) -> Result<Vec<&'static Series>> {
    if let Some(unknown) = names
        .iter()
        .find(|name| !SERIES.iter().any(|series| series.name == **name))
    {
        let known: Vec<&str> = SERIES.iter().map(|series| series.name).collect();
        bail!(
            "there is no kernel {unknown}; there are {}",
            known.join(", ")
        );
    }
    Ok(SERIES
        .iter()
        .filter(|series| names.is_empty() || names.iter().any(|name| series.name == name))
        .collect())
}

/// A kernel that was fetched.
#[derive(Debug)]
pub(super) struct Kernel {
    /// What `uname -r` says.
    pub(super) release: String,
    /// The tree of its package.
    tree: PathBuf,
}

impl Series {
    /// The newest package of the series among these names, as the kernel's release.
    pub(super) fn newest_of(&self, names: &[String], arch: Arch) -> Option<String> {
        let flavour = format!("-cloud-{}", arch.debian());
        let releases = names
            .iter()
            .filter_map(|name| name.strip_prefix("linux-image-"));
        let of_series = |release: &&str| {
            let numbers = numbers(release);
            release.ends_with(&flavour)
                && numbers.len() > 2
                && (self.name == NEWEST || release.starts_with(&format!("{}.", self.name)))
        };
        releases
            .filter(of_series)
            .max_by_key(|release| numbers(release))
            .map(str::to_owned)
    }

    /// Fetches and unpacks it below the cache, unless that was done before.
    pub(super) fn fetch(&self, cache: &Path, arch: Arch) -> Result<Kernel> {
        let apt = Apt::new(self.lists(cache), arch, self.suites)?;
        let names = apt.names("linux-")?;
        let release = self
            .newest_of(&names, arch)
            .with_context(|| self.absence(arch))?;
        let tree = cache.join("kernels").join(&release);
        if !tree.join("complete").exists() {
            unpack(&apt, &names, &release, &tree)?;
        }
        Ok(Kernel { release, tree })
    }

    /// The release that would be taken according to the package lists fetched before; `None`
    /// without lists.
    pub(super) fn known_release(&self, cache: &Path, arch: Arch) -> Option<String> {
        let names = Apt::known(self.lists(cache))?.names("linux-image-").ok()?;
        Some(
            self.newest_of(&names, arch)
                .unwrap_or_else(|| self.absence(arch)),
        )
    }

    fn lists(&self, cache: &Path) -> PathBuf {
        cache.join("apt").join(self.name)
    }

    fn absence(&self, arch: Arch) -> String {
        format!(
            "no package linux-image-{}.*-cloud-{} in {}",
            self.name,
            arch.debian(),
            self.suites.join(", ")
        )
    }
}

/// Unpacks the packages of a kernel. Newer kernels have image and modules in packages of their own.
fn unpack(apt: &Apt, names: &[String], release: &str, tree: &Path) -> Result<()> {
    let parts = ["linux-image", "linux-base", "linux-binary", "linux-modules"]
        .map(|part| format!("{part}-{release}"));
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|part| names.contains(part))
        .collect();
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
        let places = [
            self.tree
                .join("boot")
                .join(format!("vmlinuz-{}", self.release)),
            self.modules()?.join("vmlinuz"),
        ];
        places
            .into_iter()
            .find(|place| place.is_file())
            .with_context(|| format!("{} has no image", self.release))
    }

    /// The directory of its modules.
    pub(super) fn modules(&self) -> Result<PathBuf> {
        let places = ["lib/modules", "usr/lib/modules"]
            .map(|place| self.tree.join(place).join(&self.release));
        places
            .into_iter()
            .find(|place| place.is_dir())
            .with_context(|| format!("{} has no modules", self.release))
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

    fn series(name: &str) -> &'static Series {
        SERIES
            .iter()
            .find(|series| series.name == name)
            .expect("it is there")
    }

    fn names() -> Vec<String> {
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
        names.map(str::to_owned).to_vec()
    }

    #[test]
    fn the_newest_package_of_a_series_is_taken() {
        let newest = |name, arch| series(name).newest_of(&names(), arch);
        assert_eq!(
            newest("6.1", Arch::X86_64).as_deref(),
            Some("6.1.0-56-cloud-amd64")
        );
        assert_eq!(
            newest("6.12", Arch::X86_64).as_deref(),
            Some("6.12.117+deb13-cloud-amd64")
        );
        assert_eq!(
            newest(NEWEST, Arch::X86_64).as_deref(),
            Some("7.0.13+deb13-cloud-amd64")
        );
        assert_eq!(
            newest(NEWEST, Arch::Aarch64).as_deref(),
            Some("7.0.13+deb13-cloud-arm64")
        );
        assert_eq!(newest("6.6", Arch::X86_64), None);
    }

    #[test]
    fn kernels_are_chosen_by_name_and_all_without_one() {
        let chosen_names = |names: &[&str]| -> Vec<&str> {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            chosen(&names)
                .expect("known names")
                .into_iter()
                .map(|series| series.name)
                .collect()
        };
        assert_eq!(chosen_names(&["6.12", "6.1"]), ["6.1", "6.12"]);
        assert_eq!(chosen_names(&[]).len(), SERIES.len());
        assert!(
            chosen(&["4.4".to_owned()])
                .expect_err("it is not there")
                .to_string()
                .contains("6.12")
        );
    }

    #[test]
    fn every_kernel_of_ci_is_in_the_table() {
        for (_, name) in SUBSET {
            assert_eq!(series(name).expected, Expected::Works);
        }
    }

    #[test]
    fn two_kernels_have_two_directories() {
        let starts = ["initramfs-6.1", "initramfs-6.12"].map(|path| beside(path.as_ref(), "start"));
        assert_eq!(
            starts,
            ["initramfs-6.1.start", "initramfs-6.12.start"].map(PathBuf::from)
        );
    }
}
