//! The files of a release.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

use super::{Release, licences};
use crate::command::root;

/// A file of a release.
pub(super) struct File {
    /// Its name in the tarball.
    pub(super) name: &'static str,
    /// Where a package puts it.
    pub(super) installed: &'static str,
    /// Its permissions.
    pub(super) mode: u32,
    /// What is in it.
    pub(super) content: Vec<u8>,
}

/// Those that the program writes itself: name, place, how it is asked for.
const WRITTEN: [(&str, &str, &[&str]); 5] = [
    ("zctrace.1", "usr/share/man/man1/zctrace.1", &["man"]),
    ("zctrace.bash", "usr/share/bash-completion/completions/zctrace", &["completions", "bash"]),
    ("_zctrace", "usr/share/zsh/vendor-completions/_zctrace", &["completions", "zsh"]),
    ("zctrace.fish", "usr/share/fish/vendor_completions.d/zctrace.fish", &["completions", "fish"]),
    ("report.schema.json", "usr/share/zctrace/report.schema.json", &["schema"]),
];

/// Those of the repository: name, place.
const COPIED: [(&str, &str); 3] = [
    ("README.md", "usr/share/doc/zctrace/README.md"),
    ("LICENSE-MIT", "usr/share/doc/zctrace/LICENSE-MIT"),
    ("LICENSE-APACHE", "usr/share/doc/zctrace/LICENSE-APACHE"),
];

/// All of them.
pub(super) fn all(release: &Release) -> Result<Vec<File>> {
    let text = |name, installed, content| File { name, installed, mode: 0o644, content };
    let program = fs::read(&release.program)?;
    let mut files = vec![File { name: "zctrace", installed: "usr/bin/zctrace", mode: 0o755, content: program }];
    for (name, installed, words) in WRITTEN {
        let output = Command::new(&release.program).args(words).output()?;
        ensure!(output.status.success() && !output.stdout.is_empty(), "`zctrace {}` writes nothing", words.join(" "));
        files.push(text(name, installed, output.stdout));
    }
    for (name, installed) in COPIED {
        files.push(text(name, installed, fs::read(root().join(name)).with_context(|| format!("cannot read {name}"))?));
    }
    files.push(text("LICENSES-THIRD-PARTY", "usr/share/doc/zctrace/LICENSES-THIRD-PARTY", licences::of_libraries()?.into()));
    Ok(files)
}

impl File {
    /// Writes it, with the directories that it takes.
    pub(super) fn write_to(&self, path: &Path) -> Result<()> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(path, &self.content)?;
        fs::set_permissions(path, fs::Permissions::from_mode(self.mode))?;
        Ok(())
    }
}
