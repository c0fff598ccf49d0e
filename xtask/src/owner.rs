//! `cargo xtask owner`: names the owner of the repository on GitHub, wherever its address is written.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    command::{Words as _, root},
    toolchain::output,
};

/// What follows the owner's name: in the repository's address, and in that of the maintainer.
const AFTER_THE_NAME: [&str; 2] = ["/zctrace", "@users.noreply.github.com"];

/// Replaces the owner that Cargo.toml names by this one, in every file of the repository.
pub(crate) fn run(name: &str) -> Result<ExitCode> {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    ensure!(
        !name.is_empty() && is_name(name),
        "'{name}' cannot be the name of an owner on GitHub"
    );
    let root = root();
    let old = current(&root)?;
    for path in texts(&root)? {
        let text = fs::read_to_string(&path)?;
        let renamed = rename(&text, &old, name);
        if renamed != text {
            fs::write(&path, renamed)?;
            println!("owner: {}", path.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The owner that the repository's address in Cargo.toml names.
fn current(root: &Path) -> Result<String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let (_, address) = manifest
        .split_once("repository = \"https://github.com/")
        .context("Cargo.toml has no `repository` on GitHub")?;
    let (owner, _) = address
        .split_once('/')
        .context("`repository` in Cargo.toml names no owner")?;
    Ok(owner.to_owned())
}

/// The text with the new owner instead of the old one.
fn rename(text: &str, old: &str, new: &str) -> String {
    let mut text = text.to_owned();
    for after in AFTER_THE_NAME {
        text = text.replace(&format!("{old}{after}"), &format!("{new}{after}"));
    }
    text
}

/// The text files in git, but for this one, whose tests name owners.
fn texts(root: &Path) -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    let listed = output(
        git.words("grep --cached -I --name-only -e .")
            .current_dir(root),
    );
    let listed = listed.context("git lists no files")?;
    let others = listed.lines().filter(|path| *path != file!());
    Ok(others.map(|path| root.join(path)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set before the first release.
    const PLACEHOLDER: &str = "OWNER";

    /// What stands in front of an owner, where files name the repository.
    const BEFORE_THE_NAME: [&str; 4] = [
        "https://github.com/",
        "uses: ",
        "repository: ",
        "REPOSITORY=",
    ];

    /// The owners that a text names.
    fn owners(text: &str) -> Vec<&str> {
        let ends = text.match_indices("/zctrace").map(|(at, _)| &text[..at]);
        let owner = |until: &'static str, end: &str| end.rfind(until).map(|at| at + until.len());
        ends.filter_map(|end| {
            let starts = BEFORE_THE_NAME.iter().filter_map(|until| owner(until, end));
            let owner = &end[starts.max()?..];
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
            owner.chars().all(is_name).then_some(owner)
        })
        .collect()
    }

    #[test]
    fn every_file_names_the_same_owner() {
        let owner = current(&root()).expect("an owner");
        let mut named = 0;
        for path in texts(&root()).expect("files") {
            let text = fs::read_to_string(&path).expect("text");
            let owners = owners(&text);
            assert!(owners.iter().all(|&name| name == owner), "{path:?}");
            named += owners.len();
            // No other spelling of the placeholder would be found.
            let renamed = rename(&text, PLACEHOLDER, "somebody");
            let is_left = renamed.contains(&format!("{PLACEHOLDER}/"))
                || renamed.contains(&format!("{PLACEHOLDER}@"))
                || renamed.contains(&format!("`{PLACEHOLDER}`"));
            assert!(!is_left, "{path:?}");
        }
        assert!(named > 2, "Cargo.toml, and the docs of the action");
    }

    #[test]
    fn a_new_owner_is_named_everywhere() {
        let text = "repository: OWNER/zctrace, git clone https://github.com/OWNER/zctrace\n\
             <OWNER@users.noreply.github.com> IN(\"OWNER\")";
        assert_eq!(owners(text), ["OWNER", "OWNER"]);
        let renamed = rename(text, "OWNER", "some-body");
        assert_eq!(owners(&renamed), ["some-body", "some-body"]);
        assert!(renamed.ends_with("<some-body@users.noreply.github.com> IN(\"OWNER\")"));
        assert_eq!(rename(&renamed, "some-body", "OWNER"), text);
    }
}
