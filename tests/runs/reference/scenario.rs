//! Scenarios: the published runs, and the commands that repeat them. They are files in
//! `tests/scenarios`.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

pub use crate::places::RunPlace;

/// One published table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The name of the file without its extension.
    #[serde(skip)]
    pub name: String,
    /// What the runs do.
    pub title: String,
    /// Where and how the published figures were measured.
    pub published: String,
    /// What is measured.
    pub measure: Measure,
    /// The input; `None` if the commands make their own bytes.
    pub input: Option<ScenarioInput>,
    /// The output.
    pub output: ScenarioOutput,
    /// The runs, the reference first.
    #[serde(rename = "run")]
    pub runs: Vec<ScenarioRun>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Wall times of the commands, compared by `zctrace compare`.
    Compare,
    /// The kernel interface and the figures of single calls, from one traced run of each command.
    Trace,
}

/// What is copied.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioInput {
    /// Its published size, in bytes.
    pub bytes: u64,
    /// The place of the file.
    pub on: RunPlace,
    /// Whether it is not scaled, because its size matters for what is measured.
    #[serde(default)]
    pub fixed: bool,
}

/// The output of the copies.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioOutput {
    /// What the commands write to.
    pub to: ScenarioSink,
    /// The place of output files; that of the input, if left out.
    pub on: Option<RunPlace>,
}

/// What the commands write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScenarioSink {
    /// `{out}` is a Unix stream socket that another process drains.
    UnixSocket,
    /// `{out}` is a file.
    File,
    /// The command's stdout is a pipe that this program drains.
    Pipe,
    /// Nothing that this program has to provide.
    Nothing,
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioRun {
    /// The published name of the row.
    pub name: String,
    /// Program and arguments. `{in}` and `{out}` are replaced by the scenario's ends, `{device}` by
    /// a block device with the input's bytes, `{file}` by a file to write. `copier`, `copier-c` and
    /// `kernel-copy` are workloads of this project.
    pub command: Vec<String>,
    /// How many copies one run of the command makes.
    #[serde(default = "one")]
    pub copies: u32,
    /// The published figures: the time of one copy and what it is in percent of the reference's,
    /// figures of single calls, or the interface.
    pub published: Option<String>,
}

const fn one() -> u32 {
    1
}

impl ScenarioRun {
    /// Its name with its published figures, and how many copies the measured ones are of.
    pub fn title(&self) -> String {
        let published = self.published.iter();
        let published = published.map(|figures| format!(" (published: {figures})"));
        let copies = Some(self.copies).filter(|copies| *copies > 1);
        let copies = copies.map(|copies| format!(" ({copies} copies)"));
        self.name.clone() + &published.chain(copies).collect::<String>()
    }
}

/// All scenarios of a directory, by name.
pub fn all(directory: &Path) -> Result<Vec<Scenario>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut files: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.retain(|file| file.extension() == Some(OsStr::new("toml")));
    files.sort();
    files.iter().map(|file| load(file)).collect()
}

fn load(file: &Path) -> Result<Scenario> {
    let name = || file.display().to_string();
    let text = fs::read_to_string(file).with_context(name)?;
    let mut scenario: Scenario = toml::from_str(&text).with_context(name)?;
    ensure!(!scenario.runs.is_empty(), "{}: has no runs", name());
    let stem = file.file_stem().unwrap_or_default();
    scenario.name = stem.to_string_lossy().into_owned();
    Ok(scenario)
}
