//! Repeats published measurements: `zctrace compare`, or a traced run of each command, says in
//! Markdown what was measured, and the name of each row has what was published.

mod scenario;

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use nix::{sys::stat::Mode, unistd::mkfifo};
use zc_tests::{Peer, zctrace_to_test};

use self::scenario::{Measure, RunPlace, Scenario, ScenarioRun, ScenarioSink};
use crate::{
    ending_with_us,
    places::{LoopDevice, Places, write_input},
    resolve, trace,
};

/// Which measurements to repeat, and how.
#[derive(Args)]
pub struct ReferenceOptions {
    /// Only these runs: names in tests/scenarios, or beginnings of names
    #[arg(value_name = "RUN")]
    only: Vec<String>,
    /// The part of the published sizes to copy, above 0 and at most 1
    #[arg(long, default_value_t = 0.25, value_parser = parse_scale)]
    scale: f64,
    /// Timed runs of each command
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// The directory with the scenarios
    #[arg(long, hide = true, default_value = "tests/scenarios")]
    scenarios: PathBuf,
}

/// Runs the chosen scenarios, and prints what was measured.
pub fn run(options: &ReferenceOptions, places: &Places) -> Result<()> {
    let scenarios = chosen(scenario::all(&options.scenarios)?, &options.only)?;
    for scenario in &scenarios {
        eprintln!("xtask: {}", scenario.title);
        let measured = scenario.measure(options, places);
        measured.with_context(|| scenario.name.clone())?;
        places.clear().context("cannot tidy up")?;
    }
    Ok(())
}

/// The scenarios whose names begin like one of these; all scenarios if there are none.
fn chosen(all: Vec<Scenario>, only: &[String]) -> Result<Vec<Scenario>> {
    let is = |scenario: &Scenario, name: &String| scenario.name.starts_with(name);
    if let Some(unknown) = only
        .iter()
        .find(|name| !all.iter().any(|one| is(one, name)))
    {
        let names: Vec<_> = all.iter().map(|scenario| scenario.name.as_str()).collect();
        bail!(
            "there is no run '{unknown}'; there are {}",
            names.join(", ")
        );
    }
    let is_chosen = |one: &Scenario| only.is_empty() || only.iter().any(|name| is(one, name));
    Ok(all.into_iter().filter(is_chosen).collect())
}

fn parse_scale(text: &str) -> Result<f64> {
    let scale: f64 = text.parse()?;
    let is_part = scale > 0.0 && scale <= 1.0;
    ensure!(is_part, "a scale is above 0 and at most 1");
    Ok(scale)
}

impl Scenario {
    /// How many bytes are copied at this scale.
    pub fn bytes(&self, scale: f64) -> u64 {
        let Some(input) = &self.input else { return 0 };
        if input.fixed {
            input.bytes
        } else {
            scaled(input.bytes, scale)
        }
    }

    /// Runs and measures every command.
    fn measure(&self, options: &ReferenceOptions, places: &Places) -> Result<()> {
        println!("## {}: {}\n", self.name, self.title);
        println!(
            "Published: {}. Here: {} bytes.\n",
            self.published,
            self.bytes(options.scale)
        );
        let ends = self.ends(options.scale, places)?;
        let keep = ["sink", &ends.output, "--keep"];
        let is_socket = self.output.to == ScenarioSink::UnixSocket;
        let _drain = is_socket.then(|| Peer::start(&keep)).transpose()?;
        let commands = self.runs.iter().map(|run| resolve(ends.command(run)));
        let commands: Vec<Vec<String>> = commands.collect();
        if self.measure == Measure::Compare {
            return compare(self, options.runs, &commands, &ends.scratch);
        }
        for (run, command) in self.runs.iter().zip(&commands) {
            let options = ["--format=markdown", "--wait-all"];
            let report = trace(command, &options, Stdio::null(), &ends.scratch)?;
            println!("{}:\n\n{report}", run.title());
        }
        Ok(())
    }

    /// Makes the input and the names of both ends.
    fn ends(&self, scale: f64, places: &Places) -> Result<ScenarioEnds> {
        let bytes = self.bytes(scale);
        let place = self.input.as_ref().map_or(RunPlace::Disk, |input| input.on);
        // An output file needs as much room again.
        let output_on =
            (self.output.to == ScenarioSink::File).then(|| self.output.on.unwrap_or(place));
        let is_twice = output_on == Some(place);
        let directory = places.directory(place, if is_twice { 2 * bytes } else { bytes })?;
        let input = directory.join("in");
        if self.input.is_some() {
            write_input(&input, bytes)?;
        }
        let output = match (self.output.to, output_on) {
            (ScenarioSink::UnixSocket, _) => format!("unix:{}", directory.join("socket").display()),
            (_, Some(place)) => {
                let directory = places.directory(place, bytes)?;
                directory.join("out").display().to_string()
            }
            _ => String::new(),
        };
        let scratch = places.directory(RunPlace::Disk, 0)?;
        let mut words = self.runs.iter().flat_map(|run| &run.command);
        let needs_device = words.any(|word| word.contains("{device}"));
        let device = needs_device.then(|| block_device(&scratch, bytes));
        let device = device.transpose()?;
        let input = input.display().to_string();
        Ok(ScenarioEnds {
            input,
            output,
            device,
            scratch,
        })
    }
}

/// Both ends of a copy, as arguments of commands.
struct ScenarioEnds {
    input: String,
    output: String,
    device: Option<LoopDevice>,
    /// The directory for reports and exports.
    scratch: PathBuf,
}

impl ScenarioEnds {
    /// The command with its placeholders replaced.
    fn command(&self, run: &ScenarioRun) -> Vec<String> {
        let device = self.device.as_ref().map_or(Path::new(""), LoopDevice::path);
        let device = device.display().to_string();
        let file = self.scratch.join("file").display().to_string();
        let places = [
            ("{in}", &self.input),
            ("{out}", &self.output),
            ("{device}", &device),
            ("{file}", &file),
        ];
        let with_places = |word: &String| {
            places.iter().fold(word.clone(), |word, (name, place)| {
                word.replace(name, place)
            })
        };
        run.command.iter().map(with_places).collect()
    }
}

/// A block device with this many bytes.
fn block_device(scratch: &Path, bytes: u64) -> Result<LoopDevice> {
    let image = scratch.join("device.image");
    write_input(&image, bytes.next_multiple_of(4096))?;
    LoopDevice::over(&image)
}

/// Times and compares all commands of a scenario.
fn compare(scenario: &Scenario, runs: u32, commands: &[Vec<String>], scratch: &Path) -> Result<()> {
    let mut compare = Command::new(zctrace_to_test());
    compare.args(["compare", "--format=markdown", "--warmup=1"]);
    compare.args(["--runs", &runs.to_string()]);
    // Only a shell can connect the pipe. Its own time is subtracted.
    let to_pipe = if scenario.output.to == ScenarioSink::Pipe {
        format!(" > {}", drained_pipe(scratch)?.display())
    } else {
        compare.arg("-N");
        String::new()
    };
    for (run, command) in scenario.runs.iter().zip(commands) {
        compare.args(["--name", &run.title()]);
        compare.arg(shell_words::join(command) + &to_pipe);
    }
    let status = ending_with_us(compare.stdin(Stdio::null())).status();
    let status = status.context("cannot start zctrace")?;
    ensure!(status.success(), "zctrace compare failed ({status})");
    println!();
    Ok(())
}

/// A pipe with a name that this process drains until it ends.
fn drained_pipe(scratch: &Path) -> Result<PathBuf> {
    let path = scratch.join("pipe");
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
    // Open for both, so that it does not end with a writer.
    let mut pipe = File::options().read(true).write(true).open(&path)?;
    std::thread::spawn(move || std::io::copy(&mut pipe, &mut std::io::sink()));
    Ok(path)
}

/// This part of a number of bytes.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are far below 2^52 and not negative"
)]
fn scaled(bytes: u64, scale: f64) -> u64 {
    (bytes as f64 * scale) as u64
}
