//! The Debian package. `dpkg-deb` and a few lines do it: the program needs no other package.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::{File, Release, epoch};
use crate::{command::check, toolchain::on_path};

/// What `dpkg` knows of a package.
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
pub(super) fn package(release: &Release, files: &[File]) -> Result<PathBuf> {
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
    check(Command::new("gzip").args(["--best", "--no-name"]).arg(tree.join("usr/share/man/man1/zctrace.1")))?;
    write_copyright(&tree)?;
    fs::create_dir_all(tree.join("DEBIAN"))?;
    let bytes = files.iter().map(|file| file.content.len()).sum();
    fs::write(tree.join("DEBIAN/control"), control(release, arch, bytes))?;
    let path = release.directory.join(format!("zctrace_{}_{arch}.deb", release.version));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "--build"]).arg(&tree).arg(&path).env("SOURCE_DATE_EPOCH", epoch()?);
    check(build.stdout(std::process::Stdio::null()))?;
    fs::remove_dir_all(&tree)?;
    Ok(path)
}

/// Where Debian looks for the licence.
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
