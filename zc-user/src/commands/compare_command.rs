//! `zctrace compare`: plans, measures, shows and exports a comparison.

use std::process::ExitCode;

use zctrace::{
    compare::{self, Comparison, GivenLines, Parameter, Plan},
    render::{self, CompareFormat},
};

use super::{exports, render_options, show_progress};
use crate::{cli::CompareArgs, output::ReportOutput};

/// Measures the commands and shows them side by side. Errors in the options are found before any
/// command runs.
pub fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let plan = plan(args)?;
    let exports = exports(&args.exports())?;
    let measured = compare::measure(&plan, &mut show_progress(true))?;
    let comparison = Comparison::new(&plan, &measured);
    let stdout = ReportOutput::Stdout;
    // The files come first: they must not be lost if stdout cannot be written.
    let write = |(format, file): (CompareFormat, ReportOutput)| {
        let options = render::Options::default();
        file.write(&render::compare(&comparison, format, &options))
    };
    // The measurement took minutes: it is shown in all other places before a failed one becomes an
    // error.
    let exported: Vec<anyhow::Result<()>> = exports.into_iter().map(write).collect();
    stdout.write_once(&render::compare(
        &comparison,
        args.format,
        &render_options(args.color, &stdout),
    ))?;
    exported.into_iter().collect::<anyhow::Result<()>>()?;
    Ok(ExitCode::SUCCESS)
}

fn plan(args: &CompareArgs) -> anyhow::Result<Plan> {
    let shell = args.shell()?;
    let parameters = args.parameter_list.chunks_exact(2);
    let parameters: Vec<Parameter> = parameters
        .map(|pair| Parameter::from_list(&pair[0], &pair[1]))
        .collect();
    let lines = GivenLines {
        commands: &args.commands,
        names: &args.name,
        prepare: &args.prepare,
        setup: args.setup.as_ref(),
        cleanup: args.cleanup.as_ref(),
        parameters: &parameters,
    };
    Ok(Plan {
        subjects: lines.make_subjects(&shell)?,
        runs: args.runs()?,
        warmup: args.warmup,
        ignores_failures: args.ignore_failure,
        shell,
        identity: args.user,
        backend: args.backend,
        selection: args.syscalls.clone(),
        limits: args.limits.limits(),
    })
}
