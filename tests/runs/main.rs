//! `runs`: whole series of traced runs, each with a table at its end. Started by `cargo xtask reference` and `cargo xtask matrix`.

mod device;
mod matrix;
mod places;
mod reference;
mod stack;
mod tools;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::{
    places::{Places, keep_mounts_private},
    tools::Tools,
};

/// Series of traced runs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    /// Where zctrace and the workloads are
    #[arg(long, hide = true, global = true, default_value = ".")]
    programs: PathBuf,
    /// An empty directory for all that is written
    #[arg(long, hide = true, global = true, default_value = ".")]
    scratch: PathBuf,
    /// Which series
    #[command(subcommand)]
    series: Series,
}

/// The series.
#[derive(Subcommand)]
enum Series {
    /// Run what others have published, and show their figures beside those of this machine
    Reference(reference::Options),
    /// Copy between all kinds of ends with `std::io::copy`, and show which kernel interface did it
    Matrix(matrix::Options),
    /// Show how much stack each eBPF program takes, and the calls that take it; fails above the limit
    Stack(stack::Options),
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let tools = Tools::new(&arguments.programs);
    let places = || {
        keep_mounts_private()?;
        anyhow::Ok(Places::below(&arguments.scratch))
    };
    match &arguments.series {
        Series::Reference(options) => reference::run(options, &tools, places),
        Series::Matrix(options) => matrix::run(options, &tools, &places()?),
        Series::Stack(options) => stack::run(options),
    }
}
