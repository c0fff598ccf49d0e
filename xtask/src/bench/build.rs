//! What tracing adds to the build of a program that people use.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::{
    STRACE,
    measure::{BenchSample, BenchSubject, interleaved, start, words},
    print, zctrace,
};
use crate::{
    arch::Arch,
    command::{Words as _, check, target_dir},
    toolchain::on_path,
    vm::{Apt, SOURCES},
};

/// The source package whose C files are compiled.
const PACKAGE: &str = "redis";

/// Without what only some machines have, and without optimizing, which is not what is measured.
const MAKE: &str = "make -j2 MALLOC=libc USE_SYSTEMD=no OPTIMIZATION=-O0 -C";

/// A build, where its source can be fetched.
pub(super) fn measure(rounds: u32) -> Result<()> {
    let directory = target_dir()?.join("bench");
    if let Err(error) = measure_in(&directory, rounds.min(3)) {
        println!("## Build of {PACKAGE}\n\nNOT RUN: {error:#}\n");
    }
    Ok(())
}

fn measure_in(directory: &Path, rounds: u32) -> Result<()> {
    let arch = Arch::host().context("Debian does not have this architecture")?;
    let apt = Apt::of_own_release(directory.join("apt"), arch, SOURCES)?;
    let (archive, tree) = (apt.source(PACKAGE, directory)?, directory.join(PACKAGE));
    let source = archive.file_name().unwrap_or_default();
    let title = format!("Build of {}", source.display());
    let build = move |prefix: &[String]| -> Result<BenchSample> {
        let _ = fs::remove_dir_all(&tree);
        fs::create_dir(&tree)?;
        let mut unpack = Command::new("tar");
        unpack.words("--strip-components=1 -xf").arg(&archive);
        check(unpack.arg("-C").arg(&tree))?;
        let make = [words(MAKE), vec![tree.display().to_string()]].concat();
        Ok(start(&[prefix, &make].concat())?.0)
    };
    // It brings compiler and source into memory.
    build(&[])?;
    let subject = |name, rounds, prefix: Vec<String>| {
        let build = build.clone();
        BenchSubject::new(name, rounds, move || build(&prefix))
    };
    let mut subjects = vec![
        subject("untraced", rounds, vec![]),
        subject("zctrace", rounds, zctrace("")?),
    ];
    if on_path("strace").is_some() {
        subjects.push(subject("strace -c -f", 1, words(STRACE)));
    }
    print(&title, &interleaved(&subjects)?, 0);
    Ok(())
}
