//! `zctrace diff`: what changed between two saved reports, or from a saved one to a run of a
//! command.

use std::{iter, path::Path, process::ExitCode};

use anyhow::Context as _;
use zctrace::{
    Report,
    backend::{self, Choice, RunOptions},
    diff::Diff,
    plain_run,
    privileges::AfterAttach,
    render,
    report::Options,
    syscalls::Selection,
};

use super::{
    render_options,
    report_command::{open_report, read_stdin_once},
};
use crate::{cli::DiffArgs, output::ReportOutput};

/// Shows what changed. The exit status says whether anything did.
pub fn diff(args: &DiffArgs) -> anyhow::Result<ExitCode> {
    // The command's stdout is its own.
    let default = if args.command.is_empty() {
        ReportOutput::Stdout
    } else {
        ReportOutput::Stderr
    };
    let output = ReportOutput::open(args.output.as_deref(), default)?;
    let saved: Vec<&Path> = iter::once(args.before.as_path())
        .chain(args.after.as_deref())
        .collect();
    read_stdin_once(&saved)?;
    let before = open_report(&args.before)?;
    let after = match &args.after {
        Some(after) => *open_report(after)?,
        None => run(args, &before)?,
    };
    let diff = Diff::new(&before, &after);
    output.write_once(&render::diff(
        &diff,
        args.format,
        &render_options(args.color, &output),
    ))?;
    Ok(ExitCode::from(diff.outcome.exit_status()))
}

/// Runs the command and counts what was counted for the saved report.
fn run(args: &DiffArgs, before: &Report) -> anyhow::Result<Report> {
    let selection = before.counted.clone().unwrap_or(Selection::All);
    let selection = selection
        .if_known()
        .context("the saved report counted calls that this zctrace does not know")?;
    let options = RunOptions {
        selection,
        limits: args.limits.limits(),
        privileges: AfterAttach::GivenUp,
        ..plain_run(args.command.clone())
    };
    let trace = backend::run(backend_for(args.backend, &before.backend), &options)?;
    Ok(Report::from_trace(&trace, &Options::default()))
}

/// The backend that was asked for; otherwise that of the saved report, because the other one infers
/// other transfers.
fn backend_for(chosen: Choice, before: &str) -> Choice {
    match (chosen, before) {
        (Choice::Auto, "ebpf") => Choice::Ebpf,
        (Choice::Auto, "strace") => Choice::Strace,
        (chosen, _) => chosen,
    }
}
