//! Running a scenario: `zctrace compare` for times, a traced run of each command for what it did.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use zctrace::report::Report;

use super::{
    scenario::{Measure, Place, Run, Scenario, Sink},
    sink::Drain,
};
use crate::{
    device::LoopDevice,
    places::{Places, write_input},
    tools::{Stdout, Tools, ending_with_us},
};

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Timed runs of each command.
    pub runs: u32,
    /// Part of the published sizes.
    pub scale: f64,
}

/// One row, measured.
#[derive(Debug)]
pub struct Measured {
    /// What was run.
    pub run: Run,
    /// Its time beside the others'; `None` if only the calls are of interest.
    pub timing: Option<Timing>,
    /// What its traced run did.
    pub report: Report,
}

/// The times of a command, as `zctrace compare` exports them.
#[derive(Debug, Clone, Deserialize)]
pub struct Timing {
    /// Name of the row.
    pub name: String,
    /// Wall time.
    pub time_s: Time,
    /// In relation to the first command.
    pub relative: Option<Relative>,
    /// Mean CPU time in user mode.
    pub user_s: f64,
    /// Mean CPU time in the kernel.
    pub system_s: f64,
    /// CPU time as a share of wall time.
    pub cpu_percent: Option<f64>,
    /// Mean number of times that it waited.
    pub voluntary_switches: f64,
    /// Mean number of times that somebody else took its place on the CPU.
    pub involuntary_switches: f64,
}

/// Wall times.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Time {
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation; unknown of a single one.
    pub stddev: Option<f64>,
    /// The shortest.
    pub min: f64,
}

/// A time beside the reference's.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Relative {
    /// The reference is 100.
    pub percent: f64,
    /// In percent of it.
    pub relative_error_percent: Option<f64>,
}

/// The part of the export that is read here.
#[derive(Deserialize)]
struct Export {
    commands: Vec<Timing>,
}

impl Scenario {
    /// How much is copied at this scale, bytes.
    pub fn bytes(&self, scale: f64) -> u64 {
        let Some(input) = &self.input else { return 0 };
        if input.fixed { input.bytes } else { scaled(input.bytes, scale) }
    }

    /// Runs everything.
    pub fn measure(&self, tools: &Tools, effort: Effort, places: &Places) -> Result<Vec<Measured>> {
        let ends = self.ends(effort.scale, places)?;
        let _drain = match self.output.to {
            Sink::UnixSocket => Some(Drain::start(&tools.program("copier"), &ends.output)?),
            Sink::File | Sink::Pipe | Sink::Nothing => None,
        };
        let commands: Vec<Vec<String>> = self.runs.iter().map(|run| tools.resolve(ends.command(run))).collect();
        let mut timings = match self.measure {
            Measure::Compare => compare(self, tools, effort.runs, &commands, &ends.scratch)?,
            Measure::Trace | Measure::Api => BTreeMap::new(),
        };
        let stdout = if self.output.to == Sink::Pipe { Stdout::Pipe } else { Stdout::Null };
        let measure = |(run, command): (&Run, &Vec<String>)| {
            let report = tools.trace(command, &["--wait-all"], stdout, &ends.scratch)?;
            Ok(Measured { run: run.clone(), timing: timings.remove(&run.name), report })
        };
        self.runs.iter().zip(&commands).map(measure).collect()
    }

    /// Makes what is copied, and the names of both ends.
    fn ends(&self, scale: f64, places: &Places) -> Result<Ends> {
        let bytes = self.bytes(scale);
        let place = self.input.as_ref().map_or(Place::Disk, |input| input.on);
        // A file that is written needs as much room again.
        let output_on = (self.output.to == Sink::File).then(|| self.output.on.unwrap_or(place));
        let directory = places.directory(place, if output_on == Some(place) { 2 * bytes } else { bytes })?;
        let input = directory.join("in");
        if self.input.is_some() {
            write_input(&input, bytes)?;
        }
        let output = match (self.output.to, output_on) {
            (Sink::UnixSocket, _) => format!("unix:{}", directory.join("socket").display()),
            (_, Some(place)) => places.directory(place, bytes)?.join("out").display().to_string(),
            _ => String::new(),
        };
        let scratch = places.directory(Place::Disk, 0)?;
        let device = self.runs.iter().any(|run| run.uses("{device}")).then(|| block_device(&scratch, bytes)).transpose()?;
        Ok(Ends { input: input.display().to_string(), output, device, scratch })
    }
}

/// Both ends of a copy, as commands name them.
struct Ends {
    input: String,
    output: String,
    device: Option<LoopDevice>,
    /// Where what is measured is written.
    scratch: PathBuf,
}

impl Ends {
    /// The command with the ends in it.
    fn command(&self, run: &Run) -> Vec<String> {
        let device = self.device.as_ref().map_or(Path::new(""), LoopDevice::path).display().to_string();
        let file = self.scratch.join("file").display().to_string();
        let places = [("{in}", &self.input), ("{out}", &self.output), ("{device}", &device), ("{file}", &file)];
        let with_places = |word: &String| places.iter().fold(word.clone(), |word, (name, place)| word.replace(name, place));
        run.command.iter().map(with_places).collect()
    }
}

/// A device with so many bytes.
fn block_device(scratch: &Path, bytes: u64) -> Result<LoopDevice> {
    let image = scratch.join("device.image");
    write_input(&image, bytes.next_multiple_of(4096))?;
    LoopDevice::over(&image)
}

/// Times of all commands of a scenario against each other, by name.
fn compare(
    scenario: &Scenario,
    tools: &Tools,
    runs: u32,
    commands: &[Vec<String>],
    scratch: &Path,
) -> Result<BTreeMap<String, Timing>> {
    let file = scratch.join("compare.json");
    let mut compare = Command::new(tools.program("zctrace"));
    compare.args(["compare", "-N", "--warmup", "1", "--runs", &runs.to_string()]);
    compare.arg("--export").arg("json").arg(&file);
    if scenario.output.to == Sink::Pipe {
        compare.args(["--output", "pipe"]);
    }
    for (run, command) in scenario.runs.iter().zip(commands) {
        compare.args(["--name", &run.name]).arg(shell_words::join(command));
    }
    // Its own table is not what this program shows; its progress and its warnings are.
    compare.stdin(Stdio::null()).stdout(Stdio::null());
    let status = ending_with_us(&mut compare).status().context("cannot start zctrace")?;
    if !status.success() {
        bail!("zctrace compare failed ({status})");
    }
    let export: Export = serde_json::from_slice(&fs::read(&file)?).context("the export of zctrace compare")?;
    Ok(export.commands.into_iter().map(|timing| (timing.name.clone(), timing)).collect())
}

/// A part of so many bytes.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are far below 2^52 and not negative"
)]
fn scaled(bytes: u64, scale: f64) -> u64 {
    (bytes as f64 * scale) as u64
}
