//! `zctrace doctor`: what this machine can do.

use std::process::ExitCode;

use zctrace::{doctor, render};

use crate::{
    cli::DoctorArgs,
    output::{self, Output},
};

/// Shows what this machine can do; the exit status is 1 if no backend can run.
pub fn doctor(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let output = Output::Stdout;
    let look = render::Options {
        width: output.width(),
        colour: output::wants_colour(args.color, output.is_terminal()),
        ..render::Options::default()
    };
    let diagnosis = doctor::diagnose(&doctor::probe());
    output.write(&render::diagnosis(&diagnosis, args.format, &look))?;
    Ok(ExitCode::from(diagnosis.exit_status()))
}
