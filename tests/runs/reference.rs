//! The published runs, run here.
//!
//! ```text
//! tests/scenarios/*.toml ──places, sink──▶ zctrace compare, zctrace ──▶ Measured ──explain, table──▶ Markdown
//! ```

mod scenario;
mod table;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use serde::Deserialize;
use zctrace::report::Report;

use self::scenario::{Measure, Place, Run, Scenario, Sink};
use crate::{
    Stdout, Tools, ending_with_us,
    places::{LoopDevice, Places, write_input},
};

/// Which runs, and how large.
#[derive(Args)]
pub struct Options {
    /// Only these runs (see --list): names, or how they begin
    #[arg(value_name = "RUN")]
    only: Vec<String>,
    /// Part of the published sizes: a fraction like 1/4, a number, or `full`
    #[arg(long, default_value = "1/4", value_parser = parse_scale)]
    scale: f64,
    /// Timed runs of each command
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Show the runs and what they copy, and do nothing
    #[arg(long)]
    list: bool,
    /// Where the scenarios are
    #[arg(long, hide = true, default_value = "tests/scenarios")]
    scenarios: PathBuf,
}

/// Runs those that were asked for, and prints the table of each.
pub fn run(options: &Options, tools: &Tools, places: impl FnOnce() -> Result<Places>) -> Result<()> {
    let scenarios = chosen(scenario::all(&options.scenarios)?, &options.only)?;
    if options.list {
        for scenario in &scenarios {
            let megabytes = scenario.bytes(1.0) / 1_000_000;
            println!("{:22} {:2} runs, {megabytes:>6} MB: {}", scenario.name, scenario.runs.len(), scenario.title);
        }
        return Ok(());
    }
    let places = places()?;
    let effort = Effort { runs: options.runs, scale: options.scale };
    for scenario in &scenarios {
        eprintln!("xtask: {}", scenario.title);
        let rows = scenario.measure(tools, effort, &places).with_context(|| scenario.name.clone())?;
        println!("{}", table::render(scenario, options.scale, &rows));
        places.clear().context("cannot tidy up")?;
    }
    Ok(())
}

/// Those that are named, or that begin so.
fn chosen(all: Vec<Scenario>, only: &[String]) -> Result<Vec<Scenario>> {
    if let Some(unknown) = only.iter().find(|name| !all.iter().any(|scenario| scenario.name.starts_with(name.as_str()))) {
        let names: Vec<_> = all.iter().map(|scenario| scenario.name.as_str()).collect();
        bail!("there is no run '{unknown}'; there are {}", names.join(", "));
    }
    let is_chosen = |scenario: &Scenario| only.is_empty() || only.iter().any(|name| scenario.name.starts_with(name.as_str()));
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// `1/4`, `0.25`, `full`.
fn parse_scale(text: &str) -> Result<f64> {
    let number = |text: &str| text.trim().parse::<f64>().with_context(|| format!("'{text}' is no number"));
    let scale = match text.split_once('/') {
        _ if text == "full" => 1.0,
        Some((numerator, denominator)) => number(numerator)? / number(denominator)?,
        None => number(text)?,
    };
    ensure!(scale.is_finite() && scale > 0.0 && scale <= 1.0, "a scale is above 0 and at most 1 (`full`)");
    Ok(scale)
}

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

/// `copier sink --keep`; ended with the value.
pub struct Drain(Child);

impl Drain {
    /// Starts it and returns once it listens.
    pub fn start(copier: &Path, address: &str) -> Result<Self> {
        let mut sink = Command::new(copier);
        sink.args(["sink", address, "--keep"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut sink = Self(sink.spawn().context("cannot start the copier's sink")?);
        let stdout = sink.0.stdout.take().context("the sink has no output")?;
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        if !line.starts_with("listening") {
            bail!("the copier's sink did not start to listen on {address}");
        }
        // Its reports of what it received are nobody's, but must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Ok(sink)
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        // Both fail if it has ended already, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
