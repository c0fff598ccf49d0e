//! `cargo xtask dist`: a release in `target/dist`, for one architecture: a tarball, a Debian
//! package and an RPM, what they are made of (SBOM), and checksums. The program in them needs no
//! library; it is tried in a root with no other file.
//!
//! What goes where in the packages is in `zc-user/Cargo.toml`, for the tools that make them.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    arch::Arch,
    command::{CommandWords as _, as_root, cargo, check, debug_dir, in_scratch, root, target_dir},
    run::BUILD_FOR_TESTS,
    setup::{self, Purpose},
    toolchain::{on_path, output},
};

mod licences;

/// The version of the whole workspace.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Who makes the packages, with an address.
const MAINTAINER: &str = env!("CARGO_PKG_AUTHORS");

/// What the archive's reader is told.
const README: &str = include_str!("dist/README.md");

/// A release for one architecture.
struct Release {
    arch: Arch,
    /// The directory of what is made.
    directory: PathBuf,
    /// What the packages are made of.
    files: PathBuf,
}

/// Builds, packs and tries the release, and prints what it made.
pub(crate) fn run(arch: Option<Arch>) -> Result<ExitCode> {
    setup::install(Purpose::Releasing)?;
    let arch = arch
        .or_else(Arch::host)
        .context("zctrace is not for this machine's architecture")?;
    let release = Release::new(arch, &files_directory()?.with_file_name(""))?;
    // Set-up has installed every packager.
    for path in release.make(&release.program()?)? {
        let bytes = fs::metadata(&path)?.len();
        println!("dist: {} ({} KiB)", path.display(), bytes.div_ceil(1024));
    }
    Ok(ExitCode::SUCCESS)
}

/// Packs a static program for this machine, which is built already, below this directory, and tries
/// what it packed: the tarball, and the packages whose packager is installed.
pub(crate) fn try_packages(program: &Path, directory: &Path) -> Result<()> {
    let arch = Arch::host().context("zctrace is not for this machine's architecture")?;
    Release::new(arch, directory)?.make(program).map(drop)
}

/// Packs a static program for this architecture, which is built already, as a tarball in this
/// directory. Returns its path.
pub(crate) fn pack_tarball(arch: Arch, program: &Path, directory: &Path) -> Result<PathBuf> {
    let release = Release::new(arch, directory)?;
    release.write_files(program)?;
    release.tarball()
}

/// Whether the program that writes an SBOM is installed.
fn has_sbom() -> bool {
    on_path("cargo-sbom").is_some()
}

/// Makes a kind of package, as one of cargo's subcommands that takes a target and a path.
struct Packager {
    /// How the file's name ends.
    suffix: &'static str,
    /// The arguments of cargo.
    arguments: &'static str,
    /// What unpacks it: a program, and its arguments before the path.
    unpack: &'static str,
}

/// Those of a release, besides the tarball.
const PACKAGERS: [Packager; 2] = [
    Packager {
        suffix: ".deb",
        arguments: "deb --quiet --no-build --no-strip --package zctrace",
        unpack: "dpkg-deb --fsys-tarfile",
    },
    Packager {
        suffix: ".rpm",
        // As the tarball is compressed; every rpm reads it.
        arguments: "generate-rpm --payload-compress gzip --package zc-user",
        unpack: "rpm2cpio",
    },
];

impl Packager {
    /// Whether it is installed, and what unpacks its packages.
    fn is_here(&self) -> bool {
        let first = |words: &'static str| words.split(' ').next().unwrap_or_default();
        let cargo = format!("cargo-{}", first(self.arguments));
        on_path(&cargo).is_some() && on_path(first(self.unpack)).is_some()
    }
}

/// Where the files of a release are gathered, as `zc-user/Cargo.toml` says, too.
fn files_directory() -> Result<PathBuf> {
    Ok(root().canonicalize()?.join("target/dist/files"))
}

/// Unpacks a tarball, whose path follows.
pub(crate) const UNPACK_TARBALL: &str = "tar --extract --strip-components=1 --file";

/// Files that the program writes itself: name and arguments.
const WRITTEN: [(&str, &str); 5] = [
    ("zctrace.1", "man"),
    ("zctrace.bash", "completions bash"),
    ("_zctrace", "completions zsh"),
    ("zctrace.fish", "completions fish"),
    ("report.schema.json", "schema"),
];

impl Release {
    /// One in this directory, of which nothing is there yet.
    fn new(arch: Arch, directory: &Path) -> Result<Self> {
        Ok(Self {
            arch,
            directory: directory.to_owned(),
            files: files_directory()?,
        })
    }

    /// Packs this program as a tarball, which is tried, and as the packages whose packager is
    /// installed. Returns what was made, besides the checksums.
    fn make(&self, program: &Path) -> Result<Vec<PathBuf>> {
        self.write_files(program)?;
        let tarball = self.tarball()?;
        self.try_in_an_empty_root(&tarball, UNPACK_TARBALL)?;
        let mut made = vec![tarball];
        for packager in PACKAGERS.iter().filter(|packager| packager.is_here()) {
            made.push(self.package(packager)?);
        }
        if has_sbom() {
            made.push(self.sbom()?);
        }
        self.write_checksums(&made)?;
        Ok(made)
    }

    /// A file of the release.
    fn path(&self, suffix: &str) -> PathBuf {
        self.directory.join(base_name(self.arch) + suffix)
    }

    /// Builds the program. rustc's own linker is one for every architecture.
    fn program(&self) -> Result<PathBuf> {
        let target = self.arch.musl();
        let mut build = cargo("rustc --release --locked --package zctrace --bin zctrace --target");
        // Only the program itself is stripped: the eBPF object needs its symbols.
        build.arg(&target).words("-- -Cstrip=symbols");
        if !self.arch.is_host() {
            let name = target.to_uppercase().replace('-', "_");
            build.env(format!("CARGO_TARGET_{name}_LINKER"), "rust-lld");
        }
        check(&mut build)?;
        Ok(target_dir()?.join(target).join("release/zctrace"))
    }

    /// A program of this machine's architecture, for the files that it writes itself.
    fn native(&self, program: &Path) -> Result<PathBuf> {
        if self.arch.is_host() {
            return Ok(program.to_owned());
        }
        check(&mut cargo(BUILD_FOR_TESTS))?;
        Ok(debug_dir()?.join("zctrace"))
    }

    /// Writes what the packages of this program are made of.
    fn write_files(&self, program: &Path) -> Result<()> {
        if self.files.exists() {
            fs::remove_dir_all(&self.files)?;
        }
        fs::create_dir_all(&self.files)?;
        self.write("zctrace", 0o755, &fs::read(program)?)?;
        let native = self.native(program)?;
        for (name, arguments) in WRITTEN {
            let output = Command::new(&native).words(arguments).output()?;
            let is_written = output.status.success() && !output.stdout.is_empty();
            ensure!(is_written, "`zctrace {arguments}` writes nothing");
            self.write(name, 0o644, &output.stdout)?;
        }
        for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let content = fs::read(root().join(name));
            self.write(name, 0o644, &content.with_context(|| name)?)?;
        }
        self.write("README.md", 0o644, README.as_bytes())?;
        let licences = licences::texts(&self.arch.musl())?;
        self.write("LICENSES-THIRD-PARTY", 0o644, licences.as_bytes())
    }

    fn write(&self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        let path = self.files.join(name);
        fs::write(&path, content)?;
        Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
    }

    /// Packs the tarball, which depends on the sources only.
    fn tarball(&self) -> Result<PathBuf> {
        let (path, inside) = (self.path(".tar.gz"), self.path(""));
        let inside = inside.file_name().context("it has a name")?;
        let mut tar = Command::new("tar");
        tar.words("--create --gzip --sort=name --owner=0 --group=0 --numeric-owner");
        tar.arg(format!("--mtime=@{}", epoch()?));
        tar.arg(format!("--transform=s,^[.],{},", inside.display()));
        tar.arg("--file").arg(&path);
        check(tar.arg("--directory").arg(&self.files).arg("."))?;
        Ok(path)
    }

    /// Makes a package, and tries it.
    fn package(&self, packager: &Packager) -> Result<PathBuf> {
        let path = self.path(packager.suffix);
        let mut package = cargo(packager.arguments);
        if packager.suffix == ".rpm" {
            // The Debian package has it from the manifest.
            let vendor = format!("vendor = \"{MAINTAINER}\"");
            package.arg("--set-metadata").arg(vendor);
        }
        package.arg("--target").arg(self.arch.musl());
        package.arg("--output").arg(&path);
        check(package.env("SOURCE_DATE_EPOCH", epoch()?))?;
        self.try_in_an_empty_root(&path, packager.unpack)?;
        Ok(path)
    }

    /// Writes which libraries are in the program, as an SBOM in the format SPDX.
    fn sbom(&self) -> Result<PathBuf> {
        let path = self.path(".spdx.json");
        let mut sbom = cargo("sbom --output-format spdx_json_2_3 --cargo-package zctrace");
        let sbom = output(&mut sbom).context("cargo-sbom writes nothing")?;
        fs::write(&path, sbom)?;
        Ok(path)
    }

    /// Writes the checksums of what was made beside it, for `sha256sum --check`.
    fn write_checksums(&self, made: &[PathBuf]) -> Result<()> {
        let mut sum = Command::new("sha256sum");
        sum.args(made.iter().filter_map(|path| path.file_name()));
        let sums = output(sum.current_dir(&self.directory)).context("there is no sha256sum")?;
        Ok(fs::write(self.path(".sha256"), sums)?)
    }

    /// Unpacks a package, and traces its program by itself under eBPF, in a root with only that,
    /// /proc and /sys. That of another architecture is only unpacked.
    fn try_in_an_empty_root(&self, package: &Path, unpack: &str) -> Result<()> {
        in_scratch(|scratch| {
            let mut unshare = as_root("unshare")?;
            unshare.args(["--mount", "sh", "-c", IN_AN_EMPTY_ROOT, "sh"]);
            unshare.arg(package).arg(scratch);
            unshare.args([unpack, self.arch.name(), env::consts::ARCH]);
            let tried = check(&mut unshare);
            // The files in it may belong to root.
            let mut remove = as_root("sh")?;
            remove.args(["-c", "rm -r --one-file-system \"$1\"/*", "sh"]);
            check(remove.arg(scratch))?;
            let name = package.file_name().context("a package has a name")?;
            tried.with_context(|| format!("{} does not run in an empty root", name.display()))
        })
    }
}

/// A script that tries a package in an empty root. It says what its arguments are.
pub(crate) const IN_AN_EMPTY_ROOT: &str = include_str!("dist/in-an-empty-root.sh");

/// What the names of a release's files begin with.
fn base_name(arch: Arch) -> String {
    format!("zctrace-{VERSION}-{}", arch.musl())
}

/// The time of the last commit in seconds, unless `SOURCE_DATE_EPOCH` sets another one.
fn epoch() -> Result<String> {
    if let Ok(epoch) = env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let mut git = Command::new("git");
    let time = output(git.words("log -1 --format=%ct").current_dir(root()));
    let time = time.context("the time of the last commit is unknown: set SOURCE_DATE_EPOCH")?;
    Ok(time.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = include_str!("../../zc-user/Cargo.toml");

    #[test]
    fn binstall_looks_for_the_tarball_by_its_name() {
        let value = |key: &str| {
            let mut lines = MANIFEST.lines();
            let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
            let value = value.expect("the manifest has it").trim_matches('"');
            let value = value.replace("{ name }", "zctrace");
            let value = value.replace("{ version }", VERSION);
            value.replace("{ target-arch }", "aarch64")
        };
        let base = base_name(Arch::Aarch64);
        assert_eq!(value("repository.workspace"), "true", "for {{ repo }}");
        let url = value("pkg-url");
        assert!(
            url.ends_with(&format!("/{base}{{ archive-suffix }}")),
            "{url}"
        );
        assert_eq!(
            value("bin-dir"),
            format!("{base}/{{ bin }}{{ binary-ext }}")
        );
    }

    #[test]
    fn both_packages_have_every_file() {
        let written = WRITTEN.map(|(name, _)| name);
        for name in written.iter().chain(&["zctrace", "README.md", "LICENSE*"]) {
            let path = format!("target/dist/files/{name}\"");
            assert_eq!(MANIFEST.matches(&path).count(), 2, "{name}");
        }
    }
}
