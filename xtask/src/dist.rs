//! `cargo xtask dist`: what is released, in `target/dist`: a program that needs nothing else, as a tarball and as a Debian package.

mod debian;
mod files;
mod licences;
mod trial;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    command::{cargo, check, release_dir, root},
    setup::{self, Need},
    toolchain::output,
};
use files::File;

/// What is released, and for whom.
struct Release {
    /// Version of the workspace.
    version: String,
    /// The machine, as `uname -m` has it.
    arch: &'static str,
    /// Where it is put together.
    directory: PathBuf,
    /// The program.
    program: PathBuf,
}

/// Builds, packs and tries it, and says what there is.
pub(crate) fn run() -> Result<ExitCode> {
    setup::install(Need::Building)?;
    let program = build()?;
    let about = output(Command::new(&program).arg("--version")).context("the program does not say its version")?;
    let version = about.lines().next().and_then(|line| line.strip_prefix("zctrace ")).context("the program has no version")?;
    ensure!(about.contains("\nebpf: in it"), "the program was built without its eBPF side: look at the warnings of the build");
    let directory = release_dir()?.with_file_name("dist");
    let release = Release { version: version.to_owned(), arch: env::consts::ARCH, directory, program };
    if release.directory.exists() {
        fs::remove_dir_all(&release.directory)?;
    }
    fs::create_dir_all(&release.directory)?;
    let files = files::all(&release)?;
    println!("dist: {}", show(&tarball(&release, &files)?));
    println!("dist: {}", show(&debian::package(&release, &files)?));
    trial::in_an_empty_root(&release)?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the program with its C library inside: it runs on any Linux of this architecture, whatever libraries that has.
fn build() -> Result<PathBuf> {
    // A target that is named keeps the flag away from build scripts and macros, which must be able to load libraries.
    let target = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    let mut build = cargo();
    // Only the program itself is stripped: the kernel side needs its symbols.
    build.args(["rustc", "--release", "--package", "zctrace", "--bin", "zctrace", "--target", &target]);
    build.args(["--", "-Cstrip=symbols"]);
    build.env(format!("CARGO_TARGET_{}_RUSTFLAGS", target.to_uppercase().replace('-', "_")), "-Ctarget-feature=+crt-static");
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
    // The same sources give the same archive.
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", epoch()?)).arg("--file").arg(&path).arg("--directory").arg(&release.directory).arg(&name);
    check(&mut tar)?;
    Ok(path)
}

/// The time of the last commit, in seconds; as others have it in `SOURCE_DATE_EPOCH`.
fn epoch() -> Result<String> {
    if let Ok(epoch) = env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let time = output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()));
    Ok(time.context("the time of the last commit is unknown: set SOURCE_DATE_EPOCH")?.trim().to_owned())
}

/// A path and its size.
fn show(path: &Path) -> String {
    let bytes = fs::metadata(path).map_or(0, |found| found.len());
    format!("{} ({} KiB)", path.display(), bytes.div_ceil(1024))
}
