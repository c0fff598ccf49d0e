//! `reference`: the published runs, run here. Started by `cargo xtask reference`.
//!
//! ```text
//! tests/scenarios/*.toml ──places, sink──▶ zctrace compare, zctrace ──▶ Measured ──explain, table──▶ Markdown
//! ```

mod explain;
mod measure;
mod places;
mod scenario;
mod sink;
mod table;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;

use crate::{
    measure::Tools,
    places::{Places, keep_mounts_private},
    scenario::Scenario,
};

/// Run what others have published, and show their figures beside those of this machine.
#[derive(Parser)]
#[command(name = "cargo xtask reference")]
struct Arguments {
    /// Only these runs (see --list): names, or how they begin
    #[arg(value_name = "RUN")]
    only: Vec<String>,
    /// Part of the published sizes: a fraction like 1/4, a number, or `full`
    #[arg(long, default_value = "1/4", value_parser = parse_scale)]
    scale: f64,
    /// Timed runs of each command
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Show the runs and what they need, and do nothing
    #[arg(long)]
    list: bool,
    /// Where zctrace and the copiers are
    #[arg(long, hide = true)]
    programs: PathBuf,
    /// Where the scenarios are
    #[arg(long, hide = true)]
    scenarios: PathBuf,
    /// An empty directory for all that is written
    #[arg(long, hide = true)]
    scratch: PathBuf,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reference: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let scenarios = chosen(scenario::all(&arguments.scenarios)?, &arguments.only)?;
    if arguments.list {
        for scenario in &scenarios {
            println!(
                "{:22} {:2} runs, {:>6} MB: {}",
                scenario.name,
                scenario.runs.len(),
                scenario.bytes(1.0) / 1_000_000,
                scenario.title
            );
        }
        return Ok(());
    }
    keep_mounts_private()?;
    let tools = Tools { programs: arguments.programs.clone(), runs: arguments.runs, scale: arguments.scale };
    let places = Places::below(&arguments.scratch);
    for scenario in &scenarios {
        eprintln!("reference: {}", scenario.title);
        let rows = scenario.measure(&tools, &places).with_context(|| scenario.name.clone())?;
        println!("{}", table::render(scenario, arguments.scale, &rows));
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
