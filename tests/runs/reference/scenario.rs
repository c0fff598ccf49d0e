//! Scenarios: which published runs there are, and what runs here for each. They are data, in `tests/scenarios`.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

pub use crate::places::Place;

/// One published table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of the file, without its ending.
    #[serde(skip)]
    pub name: String,
    /// What is done.
    pub title: String,
    /// Where and how the published figures were measured.
    pub published: String,
    /// What of the runs is measured.
    pub measure: Measure,
    /// What is copied; nothing, if the commands make their own bytes.
    pub input: Option<Input>,
    /// Where it goes.
    pub output: Output,
    /// The runs, the reference first.
    #[serde(rename = "run")]
    pub runs: Vec<Run>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Wall times of the commands against each other, by `zctrace compare`.
    Compare,
    /// Figures of single calls, by one traced run of each command.
    Trace,
    /// Which kernel interface does it, by one traced run of each command.
    Api,
}

/// What is copied.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its size when nothing is scaled, bytes.
    pub bytes: u64,
    /// Where it lies.
    pub on: Place,
    /// Whether its size is a part of what is measured, so that it is not scaled.
    #[serde(default)]
    pub fixed: bool,
}

/// Where copies go to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// What the commands write to.
    pub to: Sink,
    /// Where files that are written lie; as the input, if left out.
    pub on: Option<Place>,
}

/// What the commands write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sink {
    /// `{out}` is a Unix stream socket, drained by a process of its own.
    UnixSocket,
    /// `{out}` is a file.
    File,
    /// The command's stdout is a pipe, drained.
    Pipe,
    /// Nothing that the runner has to provide.
    Nothing,
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// What the row is called where it was published.
    pub name: String,
    /// Program and arguments. `{in}` and `{out}` stand for the scenario's ends, `{device}` for a block device with the input's bytes,
    /// `{file}` for a file to be written. `copier` and `copier-c` are the project's own.
    pub command: Vec<String>,
    /// How many copies one run of the command makes: times are divided by it.
    #[serde(default = "one")]
    pub copies: u32,
    /// The published time.
    pub published: Option<Published>,
    /// The published figures of single calls.
    #[serde(default)]
    pub published_calls: Vec<PublishedCall>,
    /// The published interface.
    pub published_api: Option<String>,
}

/// A published time and what was published with it.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Wall time of one copy.
    pub wall_ms: f64,
    /// In relation to the reference.
    pub diff_percent: f64,
    /// CPU time in user mode.
    pub user_s: Option<f64>,
    /// CPU time in the kernel.
    pub system_s: Option<f64>,
    /// CPU time in relation to wall time.
    pub cpu_percent: Option<f64>,
}

/// Published figures of one call.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedCall {
    /// Its name.
    pub syscall: String,
    /// How often.
    pub calls: u64,
    /// All of them together.
    pub total_ms: f64,
    /// The shortest.
    pub min_ms: f64,
    /// One on average.
    pub mean_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Run {
    /// Whether its command has this placeholder.
    pub fn uses(&self, placeholder: &str) -> bool {
        self.command.iter().any(|word| word.contains(placeholder))
    }
}

const fn one() -> u32 {
    1
}

/// All scenarios of a directory, by name.
pub fn all(directory: &Path) -> Result<Vec<Scenario>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.extension() == Some(OsStr::new("toml")));
    files.sort();
    files.iter().map(|file| load(file)).collect()
}

fn load(file: &Path) -> Result<Scenario> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut scenario: Scenario = toml::from_str(&text).with_context(|| file.display().to_string())?;
    ensure!(!scenario.runs.is_empty(), "{}: has no runs", file.display());
    scenario.name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(scenario)
}
