//! The licences of the libraries that are in the program: most of them want to be shipped with it.

use std::{
    collections::BTreeSet,
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::{command::cargo, toolchain::output};

/// What the name of a file with a licence begins with, in capitals or not.
const NAMES: [&str; 4] = ["license", "licence", "copying", "copyright"];

/// Every library with its licences, whole.
pub(super) fn of_libraries() -> Result<String> {
    let sources = sources()?;
    let mut tree = cargo();
    tree.args(["tree", "--locked", "--package", "zctrace", "--edges", "normal", "--prefix", "none", "--format", "{p}|{l}"]);
    let list = output(&mut tree).context("cargo does not tell which libraries there are")?;
    let mut text = "zctrace contains these libraries.\n".to_owned();
    for line in list.lines().map(|line| line.trim_end_matches(" (*)")).collect::<BTreeSet<_>>() {
        // Ours have a path beside their version.
        let Some((package, licence)) = line.split_once('|').filter(|(package, _)| !package.contains('/')) else { continue };
        let package = package.trim_end_matches(" (proc-macro)");
        write!(text, "\n{}\n{package}: {licence}\n", "=".repeat(80))?;
        let directory = package.replacen(" v", "-", 1);
        let found = sources.iter().map(|source| source.join(&directory)).find(|directory| directory.is_dir());
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
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"))).context("there is no HOME")?;
    Ok(fs::read_dir(home.join("registry/src"))?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?)
}

/// The licences in a library's directory, by name.
fn licences_in(directory: &Path) -> Result<Vec<(String, String)>> {
    let mut licences = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_file() && NAMES.iter().any(|start| name.to_lowercase().starts_with(start)) {
            licences.push((name, String::from_utf8_lossy(&fs::read(entry.path())?).into_owned()));
        }
    }
    licences.sort();
    Ok(licences)
}
