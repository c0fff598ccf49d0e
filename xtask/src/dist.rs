//! `cargo xtask dist`: a release in `target/dist`, as a tarball and as a Debian package. The
//! program in it needs no library; it is tried in a root with no other file.

use std::{
    collections::BTreeSet,
    env,
    fmt::Write as _,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{
    command::{Words as _, as_root, cargo, check, release_dir, root},
    setup::{self, Purpose},
    toolchain::{on_path, output},
};

/// The version of the whole workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A release for one architecture.
struct Release {
    /// The directory of the release.
    directory: PathBuf,
    /// What the tarball is made of, named after the version.
    flat: PathBuf,
    /// What the Debian package is made of.
    tree: PathBuf,
    /// The program.
    program: PathBuf,
}

/// Builds, packs and tries the release, and prints what it made.
pub(crate) fn run() -> Result<ExitCode> {
    setup::install(Purpose::Building)?;
    let program = build()?;
    let about = output(Command::new(&program).arg("--version"))
        .context("the program does not say its version")?;
    ensure!(
        about.contains("\nebpf: in it"),
        "the program was built without its eBPF side: look at the warnings of the build"
    );
    let arch = env::consts::ARCH;
    let directory = release_dir()?.with_file_name("dist");
    let release = Release {
        flat: directory.join(format!("zctrace-{VERSION}-{arch}-linux")),
        tree: directory.join("deb"),
        directory,
        program,
    };
    if release.directory.exists() {
        fs::remove_dir_all(&release.directory)?;
    }
    release.write_files()?;
    println!("dist: {}", path_and_size(&release.tarball()?));
    println!("dist: {}", path_and_size(&release.debian_package()?));
    release.try_in_an_empty_root()?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the program with the C library linked in, so that it runs on any Linux of this
/// architecture.
fn build() -> Result<PathBuf> {
    // With an explicit target, the flag does not apply to build scripts and macros, which must be
    // able to load libraries.
    let target = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    let mut build = cargo("rustc --release --package zctrace --bin zctrace --target");
    // Only the program itself is stripped: the eBPF object needs its symbols.
    build.arg(&target).words("-- -Cstrip=symbols");
    let name = target.to_uppercase().replace('-', "_");
    let flags = "-Ctarget-feature=+crt-static";
    build.env(format!("CARGO_TARGET_{name}_RUSTFLAGS"), flags);
    check(&mut build)?;
    let programs = release_dir()?.with_file_name(target);
    Ok(programs.join("release/zctrace"))
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

fn path_and_size(path: &Path) -> String {
    let bytes = fs::metadata(path).map_or(0, |found| found.len());
    format!("{} ({} KiB)", path.display(), bytes.div_ceil(1024))
}

/// Files that the program writes itself: name, place in a package, arguments.
const WRITTEN: &str = "\
zctrace.1 man/man1/zctrace.1 man
zctrace.bash bash-completion/completions/zctrace completions bash
_zctrace zsh/vendor-completions/_zctrace completions zsh
zctrace.fish fish/vendor_completions.d/zctrace.fish completions fish
report.schema.json zctrace/report.schema.json schema";

/// Files of the repository.
const COPIED: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Makes the root and runs the program in it. Its mounts end with it.
const IN_AN_EMPTY_ROOT: &str = r#"
set -e
mkdir -p "$1/proc" "$1/sys"
cp "$2" "$1/zctrace"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
exec env -i "$(command -v chroot)" "$1" /zctrace --backend ebpf --syscalls all --format json -o - -- /zctrace -V
"#;

impl Release {
    /// Writes all files, for the tarball and for the package.
    fn write_files(&self) -> Result<()> {
        self.write("zctrace", "usr/bin/zctrace", &fs::read(&self.program)?)?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.flat.join("zctrace"), mode.clone())?;
        fs::set_permissions(self.tree.join("usr/bin/zctrace"), mode)?;
        for line in WRITTEN.lines() {
            let (name, line) = line.split_once(' ').context("a name")?;
            let (place, line) = line.split_once(' ').context("a place")?;
            let output = Command::new(&self.program).words(line).output()?;
            let is_written = output.status.success() && !output.stdout.is_empty();
            ensure!(is_written, "`zctrace {line}` writes nothing");
            self.write(name, &format!("usr/share/{place}"), &output.stdout)?;
        }
        for name in COPIED {
            let content = fs::read(root().join(name));
            self.write_document(
                name,
                &content.with_context(|| format!("cannot read {name}"))?,
            )?;
        }
        self.write_document("LICENSES-THIRD-PARTY", licences_of_libraries()?.as_bytes())
    }

    fn write_document(&self, name: &str, content: &[u8]) -> Result<()> {
        self.write(name, &format!("usr/share/doc/zctrace/{name}"), content)
    }

    fn write(&self, name: &str, installed: &str, content: &[u8]) -> Result<()> {
        for path in [self.flat.join(name), self.tree.join(installed)] {
            fs::create_dir_all(path.parent().context("a file has a directory")?)?;
            fs::write(&path, content)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o644))?;
        }
        Ok(())
    }

    /// Packs the tarball, which depends on the sources only.
    fn tarball(&self) -> Result<PathBuf> {
        let name = self.flat.file_name().context("it has a name")?;
        let mut path = self.flat.clone().into_os_string();
        path.push(".tar.gz");
        let mut tar = Command::new("tar");
        tar.words("--create --gzip --sort=name --owner=0 --group=0 --numeric-owner");
        tar.arg(format!("--mtime=@{}", epoch()?));
        tar.arg("--file").arg(&path);
        tar.arg("--directory").arg(&self.directory).arg(name);
        check(&mut tar)?;
        Ok(path.into())
    }

    /// Packs the Debian package.
    fn debian_package(&self) -> Result<PathBuf> {
        on_path("dpkg-deb").context("there is no dpkg-deb: install the package 'dpkg'")?;
        let arch = match env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => bail!("Debian's name of {other} is not known here"),
        };
        let page = self.tree.join("usr/share/man/man1/zctrace.1");
        check(Command::new("gzip").words("--best --no-name").arg(page))?;
        self.write_copyright()?;
        fs::create_dir_all(self.tree.join("DEBIAN"))?;
        let control = self.control(arch)?;
        fs::write(self.tree.join("DEBIAN/control"), control)?;
        let path = format!("zctrace_{VERSION}_{arch}.deb");
        let path = self.directory.join(path);
        let mut build = Command::new("dpkg-deb");
        build.words("--root-owner-group --build");
        build.arg(&self.tree).arg(&path);
        build.env("SOURCE_DATE_EPOCH", epoch()?);
        check(build.stdout(Stdio::null()))?;
        fs::remove_dir_all(&self.tree)?;
        Ok(path)
    }

    /// The control file of the Debian package.
    fn control(&self, arch: &str) -> Result<String> {
        let kib = output(Command::new("du").arg("-sk").arg(&self.tree))
            .and_then(|line| Some(line.split_ascii_whitespace().next()?.to_owned()))
            .context("du does not say how large the package is")?;
        Ok(format!(
            "Package: zctrace
Version: {VERSION}
Architecture: {arch}
Maintainer: zctrace maintainers <zctrace@localhost>
Section: utils
Priority: optional
Installed-Size: {kib}
Recommends: strace (>= 5.15)
Description: shows which system calls moved which bytes, at what cost
 zctrace launches any program, lets the kernel itself sum up what its system
 calls move by eBPF, and says in one report what was called, how many bytes
 went from where to where, by which kernel interface, and at what cost.
 Without the privileges for eBPF it takes strace.
"
        ))
    }

    /// Writes the licence where Debian looks for it.
    fn write_copyright(&self) -> Result<()> {
        let documents = self.tree.join("usr/share/doc/zctrace");
        let licence = fs::read_to_string(documents.join("LICENSE-MIT"))?;
        let text = format!(
            "zctrace is under the MIT licence, which follows, or under the Apache License 2.0,\n\
             which is in LICENSE-APACHE beside this file, as you like. The licences of the\n\
             libraries in it are in LICENSES-THIRD-PARTY.\n\n{licence}"
        );
        fs::write(documents.join("copyright"), text)?;
        Ok(())
    }

    /// Traces the program by itself under eBPF, in a root with only that, /proc and /sys.
    fn try_in_an_empty_root(&self) -> Result<()> {
        let root = self.directory.join("root");
        let mut unshare = as_root("unshare")?;
        unshare.args(["--mount", "sh", "-c", IN_AN_EMPTY_ROOT, "sh"]);
        let said = output(unshare.arg(&root).arg(&self.program));
        // The files in it belong to root.
        check(
            as_root("rm")?
                .words("--recursive --one-file-system")
                .arg(&root),
        )?;
        let said = said.context("the program does not run in an empty root")?;
        ensure!(
            said.contains("\"backend\": \"ebpf\"") && said.contains("\"exact\": true"),
            "in an empty root it says: {said}"
        );
        println!("dist: alone in an empty root, the program traced itself under eBPF: exact");
        Ok(())
    }
}

/// Beginnings of the names of licence files, in lower case.
const NAMES: [&str; 4] = ["license", "licence", "copying", "copyright"];

/// Every library in the program with the full text of its licences: most of them must be shipped
/// with it.
fn licences_of_libraries() -> Result<String> {
    let mut tree = cargo("tree --locked --package zctrace --edges normal --prefix none --format");
    let list = output(tree.arg("{p}|{l}")).context("cargo does not list the libraries")?;
    let mut text = "zctrace contains these libraries.\n".to_owned();
    let lines: BTreeSet<&str> = list
        .lines()
        .map(|line| line.trim_end_matches(" (*)"))
        .collect();
    // Our own packages have a path after their version.
    let libraries = lines.iter().filter_map(|line| line.split_once('|'));
    for (package, licence) in libraries.filter(|(package, _)| !package.contains('/')) {
        let package = package.trim_end_matches(" (proc-macro)");
        write!(text, "\n{}\n{package}: {licence}\n", "=".repeat(80))?;
        for (name, licence) in licences_in(&sources_of(package)?)? {
            write!(text, "\n--- {name}\n{licence}\n")?;
        }
    }
    Ok(text)
}

/// Where cargo keeps the sources of a library, as in `anyhow v1.0.0`.
fn sources_of(package: &str) -> Result<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home
        .or_else(|| Some(env::home_dir()?.join(".cargo")))
        .context("there is no HOME")?;
    let directory = package.replacen(" v", "-", 1);
    fs::read_dir(home.join("registry/src"))?
        .filter_map(|registry| Some(registry.ok()?.path().join(&directory)))
        .find(|directory| directory.is_dir())
        .with_context(|| format!("the sources of {package} are not there"))
}

/// The licences in a library's directory, by name.
fn licences_in(directory: &Path) -> Result<Vec<(String, String)>> {
    let mut licences = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_licence = NAMES
            .iter()
            .any(|start| name.to_lowercase().starts_with(start));
        if is_licence && entry.file_type()?.is_file() {
            let text = String::from_utf8_lossy(&fs::read(entry.path())?).into_owned();
            licences.push((name, text));
        }
    }
    licences.sort();
    Ok(licences)
}
