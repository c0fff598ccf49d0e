//! `zctrace report`: what was saved, shown again.

use std::process::ExitCode;

use super::{
    log_if, report_of,
    saved::{self, Saved},
    show,
};
use crate::{cli::ReportArgs, output::Output};

/// Shows saved reports or logs.
pub fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let output = Output::open(args.look.output.as_deref(), Output::Stdout)?;
    log_if(args.verbose)?;
    let report = match saved::open(&args.inputs, &args.syscalls)? {
        Saved::Report(mut report) => {
            report.sort(args.look.sort);
            *report
        }
        Saved::Trace(trace) => report_of(&trace, &args.look),
    };
    show(&report, &args.look, &output)?;
    Ok(ExitCode::SUCCESS)
}
