//! The licences of the libraries that are in the program: most of them must be shipped with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::{command::cargo, toolchain::output};

/// Beginnings of the names of licence files, in lower case.
const NAMES: [&str; 4] = ["license", "licence", "copying", "copyright"];

/// Every library in the program for this target, and then each text once, with those that it is
/// for.
pub(super) fn texts(target: &str) -> Result<String> {
    let mut tree = cargo("tree --locked --package zctrace --edges normal --prefix none");
    tree.args(["--target", target, "--format", "{p}|{l}"]);
    let list = output(&mut tree).context("cargo does not list the libraries")?;
    let lines: BTreeSet<&str> = list
        .lines()
        .map(|line| line.trim_end_matches(" (*)"))
        .collect();
    let mut text = "zctrace contains these libraries. Their licences follow.\n\n".to_owned();
    let mut owners: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    // Our own packages have a path after their version.
    let libraries = lines.iter().filter_map(|line| line.split_once('|'));
    for (package, licence) in libraries.filter(|(package, _)| !package.contains('/')) {
        let package = package.trim_end_matches(" (proc-macro)");
        writeln!(text, "{package}: {licence}")?;
        for licence in licences_in(&sources_of(package)?)? {
            owners.entry(licence).or_default().insert(package);
        }
    }
    for (licence, packages) in owners {
        let packages: Vec<_> = packages.into_iter().collect();
        let (rule, packages) = ("=".repeat(80), packages.join(", "));
        write!(text, "\n{rule}\n{packages}\n\n{licence}\n")?;
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

/// The licences in a library's directory, without blanks at the ends of lines and empty lines around
/// them.
fn licences_in(directory: &Path) -> Result<Vec<String>> {
    let mut licences = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let is_licence = NAMES.iter().any(|start| name.starts_with(start));
        if is_licence && entry.file_type()?.is_file() {
            let text = String::from_utf8_lossy(&fs::read(entry.path())?).into_owned();
            let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
            licences.push(lines.join("\n").trim_matches('\n').to_owned());
        }
    }
    Ok(licences)
}
