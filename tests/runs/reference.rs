//! The published runs, run here.
//!
//! ```text
//! tests/scenarios/*.toml ──places, sink──▶ zctrace compare, zctrace ──▶ Measured ──explain, table──▶ Markdown
//! ```

mod explain;
mod measure;
mod scenario;
mod sink;
mod table;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use self::{measure::Effort, scenario::Scenario};
use crate::{places::Places, tools::Tools};

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
