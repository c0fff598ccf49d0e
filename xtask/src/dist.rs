//! `cargo xtask dist`: a release in `target/dist`, as a tarball and as a Debian package. The
//! program in it needs no library; it is tried in a root with no other file.

use std::{
    collections::BTreeSet,
    env,
    fmt::Write as _,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{
    command::{as_root, cargo, check, release_dir, root},
    setup::{self, Need},
    toolchain::{on_path, output},
};

/// A release for one architecture.
struct Release {
    /// Version of the workspace.
    version: String,
    /// The architecture, as `uname -m` has it.
    arch: &'static str,
    /// The directory of the release.
    directory: PathBuf,
    /// The program.
    program: PathBuf,
}

/// Builds, packs and tries the release, and prints what it made.
pub(crate) fn run() -> Result<ExitCode> {
    setup::install(Need::Building)?;
    let program = build()?;
    let about = output(Command::new(&program).arg("--version"))
        .context("the program does not say its version")?;
    let version = about
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("zctrace "))
        .context("the program has no version")?;
    ensure!(
        about.contains("\nebpf: in it"),
        "the program was built without its eBPF side: look at the warnings of the build"
    );
    let directory = release_dir()?.with_file_name("dist");
    let release = Release {
        version: version.to_owned(),
        arch: env::consts::ARCH,
        directory,
        program,
    };
    if release.directory.exists() {
        fs::remove_dir_all(&release.directory)?;
    }
    fs::create_dir_all(&release.directory)?;
    let files = all_files(&release)?;
    println!("dist: {}", show(&tarball(&release, &files)?));
    println!("dist: {}", show(&debian_package(&release, &files)?));
    try_in_an_empty_root(&release)?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the program with the C library linked in, so that it runs on any Linux of this
/// architecture.
fn build() -> Result<PathBuf> {
    // With an explicit target, the flag does not apply to build scripts and macros, which must be
    // able to load libraries.
    let target = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    let mut build = cargo();
    // Only the program itself is stripped: the eBPF object needs its symbols.
    build.args([
        "rustc",
        "--release",
        "--package",
        "zctrace",
        "--bin",
        "zctrace",
        "--target",
        &target,
    ]);
    build.args(["--", "-Cstrip=symbols"]);
    build.env(
        format!(
            "CARGO_TARGET_{}_RUSTFLAGS",
            target.to_uppercase().replace('-', "_")
        ),
        "-Ctarget-feature=+crt-static",
    );
    check(&mut build)?;
    let target_dir = release_dir()?;
    Ok(target_dir.with_file_name(target).join("release/zctrace"))
}

/// All files in a directory that is named after the version.
fn tarball(release: &Release, files: &[File]) -> Result<PathBuf> {
    let name = format!("zctrace-{}-{}-linux", release.version, release.arch);
    let directory = release.directory.join(&name);
    for file in files {
        file.write_to(&directory.join(file.name))?;
    }
    let path = release.directory.join(format!("{name}.tar.gz"));
    // The archive depends on the sources only.
    let mut tar = Command::new("tar");
    tar.args([
        "--create",
        "--gzip",
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
    ]);
    tar.arg(format!("--mtime=@{}", epoch()?))
        .arg("--file")
        .arg(&path)
        .arg("--directory")
        .arg(&release.directory)
        .arg(&name);
    check(&mut tar)?;
    Ok(path)
}

/// The time of the last commit in seconds, unless `SOURCE_DATE_EPOCH` sets another one.
fn epoch() -> Result<String> {
    if let Ok(epoch) = env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let time = output(
        Command::new("git")
            .args(["log", "-1", "--format=%ct"])
            .current_dir(root()),
    );
    Ok(time
        .context("the time of the last commit is unknown: set SOURCE_DATE_EPOCH")?
        .trim()
        .to_owned())
}

/// A path and its size.
fn show(path: &Path) -> String {
    let bytes = fs::metadata(path).map_or(0, |found| found.len());
    format!("{} ({} KiB)", path.display(), bytes.div_ceil(1024))
}

/// A file of a release.
struct File {
    /// Its name in the tarball.
    name: &'static str,
    /// Where a package puts it.
    installed: &'static str,
    /// Its permissions.
    mode: u32,
    /// What is in it.
    content: Vec<u8>,
}

/// Files that the program writes itself: name, place, arguments.
const WRITTEN: [(&str, &str, &[&str]); 5] = [
    ("zctrace.1", "usr/share/man/man1/zctrace.1", &["man"]),
    (
        "zctrace.bash",
        "usr/share/bash-completion/completions/zctrace",
        &["completions", "bash"],
    ),
    (
        "_zctrace",
        "usr/share/zsh/vendor-completions/_zctrace",
        &["completions", "zsh"],
    ),
    (
        "zctrace.fish",
        "usr/share/fish/vendor_completions.d/zctrace.fish",
        &["completions", "fish"],
    ),
    (
        "report.schema.json",
        "usr/share/zctrace/report.schema.json",
        &["schema"],
    ),
];

/// Files of the repository: name, place.
const COPIED: [(&str, &str); 3] = [
    ("README.md", "usr/share/doc/zctrace/README.md"),
    ("LICENSE-MIT", "usr/share/doc/zctrace/LICENSE-MIT"),
    ("LICENSE-APACHE", "usr/share/doc/zctrace/LICENSE-APACHE"),
];

/// All files of a release.
fn all_files(release: &Release) -> Result<Vec<File>> {
    let text = |name, installed, content| File {
        name,
        installed,
        mode: 0o644,
        content,
    };
    let program = fs::read(&release.program)?;
    let mut files = vec![File {
        name: "zctrace",
        installed: "usr/bin/zctrace",
        mode: 0o755,
        content: program,
    }];
    for (name, installed, words) in WRITTEN {
        let output = Command::new(&release.program).args(words).output()?;
        ensure!(
            output.status.success() && !output.stdout.is_empty(),
            "`zctrace {}` writes nothing",
            words.join(" ")
        );
        files.push(text(name, installed, output.stdout));
    }
    for (name, installed) in COPIED {
        files.push(text(
            name,
            installed,
            fs::read(root().join(name)).with_context(|| format!("cannot read {name}"))?,
        ));
    }
    files.push(text(
        "LICENSES-THIRD-PARTY",
        "usr/share/doc/zctrace/LICENSES-THIRD-PARTY",
        licences_of_libraries()?.into(),
    ));
    Ok(files)
}

impl File {
    /// Writes the file, and makes its directory.
    fn write_to(&self, path: &Path) -> Result<()> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(path, &self.content)?;
        fs::set_permissions(path, fs::Permissions::from_mode(self.mode))?;
        Ok(())
    }
}

/// The control file of the Debian package.
fn control(release: &Release, arch: &str, installed_bytes: usize) -> String {
    format!(
        "Package: zctrace
Version: {}
Architecture: {arch}
Maintainer: zctrace maintainers <zctrace@localhost>
Section: utils
Priority: optional
Installed-Size: {}
Recommends: strace (>= 5.15)
Description: shows which system calls moved which bytes, at what cost
 zctrace launches any program, lets the kernel itself sum up what its system
 calls move by eBPF, and says in one report what was called, how many bytes
 went from where to where, by which kernel interface, and at what cost.
 Without the privileges for eBPF it takes strace.
",
        release.version,
        installed_bytes.div_ceil(1024),
    )
}

/// Makes the package.
fn debian_package(release: &Release, files: &[File]) -> Result<PathBuf> {
    on_path("dpkg-deb").context("there is no dpkg-deb: install the package 'dpkg'")?;
    let arch = match release.arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("Debian's name of {other} is not known here"),
    };
    let tree = release.directory.join("deb");
    for file in files {
        file.write_to(&tree.join(file.installed))?;
    }
    check(
        Command::new("gzip")
            .args(["--best", "--no-name"])
            .arg(tree.join("usr/share/man/man1/zctrace.1")),
    )?;
    write_copyright(&tree)?;
    fs::create_dir_all(tree.join("DEBIAN"))?;
    let bytes = files.iter().map(|file| file.content.len()).sum();
    fs::write(tree.join("DEBIAN/control"), control(release, arch, bytes))?;
    let path = release
        .directory
        .join(format!("zctrace_{}_{arch}.deb", release.version));
    let mut build = Command::new("dpkg-deb");
    build
        .args(["--root-owner-group", "--build"])
        .arg(&tree)
        .arg(&path)
        .env("SOURCE_DATE_EPOCH", epoch()?);
    check(build.stdout(std::process::Stdio::null()))?;
    fs::remove_dir_all(&tree)?;
    Ok(path)
}

/// Writes the licence where Debian looks for it.
fn write_copyright(tree: &Path) -> Result<()> {
    let documents = tree.join("usr/share/doc/zctrace");
    let licence = fs::read_to_string(documents.join("LICENSE-MIT"))?;
    let text = format!(
        "zctrace is under the MIT licence, which follows, or under the Apache License 2.0,\n\
         which is in LICENSE-APACHE beside this file, as you like. The licences of the\n\
         libraries in it are in LICENSES-THIRD-PARTY.\n\n{licence}"
    );
    fs::write(documents.join("copyright"), text)?;
    Ok(())
}

/// Beginnings of the names of licence files, in lower case.
const NAMES: [&str; 4] = ["license", "licence", "copying", "copyright"];

/// Every library in the program with the full text of its licences: most of them must be shipped
/// with it.
fn licences_of_libraries() -> Result<String> {
    let sources = sources()?;
    let mut tree = cargo();
    tree.args([
        "tree",
        "--locked",
        "--package",
        "zctrace",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}|{l}",
    ]);
    let list = output(&mut tree).context("cargo does not list the libraries")?;
    let mut text = "zctrace contains these libraries.\n".to_owned();
    for line in list
        .lines()
        .map(|line| line.trim_end_matches(" (*)"))
        .collect::<BTreeSet<_>>()
    {
        // Our own packages have a path after their version.
        let Some((package, licence)) = line
            .split_once('|')
            .filter(|(package, _)| !package.contains('/'))
        else {
            continue;
        };
        let package = package.trim_end_matches(" (proc-macro)");
        write!(text, "\n{}\n{package}: {licence}\n", "=".repeat(80))?;
        let directory = package.replacen(" v", "-", 1);
        let found = sources
            .iter()
            .map(|source| source.join(&directory))
            .find(|directory| directory.is_dir());
        let directory = found.with_context(|| format!("the sources of {package} are not there"))?;
        for (name, licence) in licences_in(&directory)? {
            write!(text, "\n--- {name}\n{licence}\n")?;
        }
    }
    Ok(text)
}

/// Where cargo keeps the sources of libraries.
fn sources() -> Result<Vec<PathBuf>> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))
        .context("there is no HOME")?;
    Ok(fs::read_dir(home.join("registry/src"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?)
}

/// The licences in a library's directory, by name.
fn licences_in(directory: &Path) -> Result<Vec<(String, String)>> {
    let mut licences = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_file()
            && NAMES
                .iter()
                .any(|start| name.to_lowercase().starts_with(start))
        {
            licences.push((
                name,
                String::from_utf8_lossy(&fs::read(entry.path())?).into_owned(),
            ));
        }
    }
    licences.sort();
    Ok(licences)
}

/// Makes the root and runs the program in it. Its mounts end with it.
const SCRIPT: &str = r#"
set -e
mkdir -p "$1/proc" "$1/sys"
cp "$2" "$1/zctrace"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
exec env -i "$(command -v chroot)" "$1" /zctrace --backend ebpf --syscalls all --format json -o - -- /zctrace -V
"#;

/// Traces the program by itself under eBPF, in a root with only that, /proc and /sys.
fn try_in_an_empty_root(release: &Release) -> Result<()> {
    let root = release.directory.join("root");
    let mut unshare = as_root("unshare")?;
    unshare
        .args(["--mount", "sh", "-c", SCRIPT, "sh"])
        .arg(&root)
        .arg(&release.program);
    let said = output(&mut unshare);
    // The files in it belong to root.
    check(
        as_root("rm")?
            .arg("--recursive")
            .arg("--one-file-system")
            .arg(&root),
    )?;
    let said = said.context("the program does not run in an empty root")?;
    ensure!(
        said.contains("\"backend\": \"ebpf\"") && said.contains("\"exact\": true"),
        "in an empty root it says: {said}"
    );
    println!(
        "dist: in an empty root, with no file but this program, it traced itself under eBPF: exact"
    );
    Ok(())
}
