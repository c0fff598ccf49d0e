//! `zctrace compare`: plan, measure, show, export.

use std::process::ExitCode;

use zctrace::{
    compare::{self, Comparison, Plan, Tracing, reference_among, subjects},
    render::{self, CompareFormat},
};

use super::{identity, log_if, progress::Bar};
use crate::{
    cli::CompareArgs,
    output::{self, Output},
};

/// Measures the commands, and shows them side by side. Whatever can be wrong is found before they run.
pub fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let plan = plan(args)?;
    let exports = open_exports(args)?;
    log_if(args.verbose)?;
    // What the commands show themselves must not mix with a bar.
    let mut bar = Bar::new(plan.output != compare::Output::Inherit);
    let measured = compare::measure(&plan, &mut bar)?;
    let comparison = Comparison::new(&plan, &measured);
    let stdout = Output::Stdout;
    let look = render::Options {
        width: stdout.width(),
        colour: output::wants_colour(args.color, stdout.is_terminal()),
        ..render::Options::default()
    };
    // The files first: a reader of stdout that has gone away is no reason to lose them.
    let export = |(format, output): (CompareFormat, Output)| {
        output.write(&render::compare(&comparison, format, &render::Options::default()))
    };
    // What was measured for minutes is shown in all the other places, too, before one that failed is an error.
    let exported: Vec<anyhow::Result<()>> = exports.into_iter().map(export).collect();
    stdout.write(&render::compare(&comparison, args.format, &look))?;
    exported.into_iter().collect::<anyhow::Result<()>>()?;
    Ok(ExitCode::SUCCESS)
}

fn plan(args: &CompareArgs) -> anyhow::Result<Plan> {
    let shell = args.shell();
    let subjects = subjects(&args.commands, &args.name, shell, &args.hooks())?;
    Ok(Plan {
        reference: args.reference.as_deref().map(|name| reference_among(&subjects, name)).transpose()?,
        subjects,
        shell: shell.clone(),
        runs: args.runs()?,
        warmup: args.warmup,
        order: args.order(),
        on_failure: args.on_failure(),
        input: args.input(),
        output: args.output()?,
        identity: args.user.as_deref().map(identity::find).transpose()?,
        tracing: Tracing {
            backend: args.backend,
            selection: args.syscalls.clone(),
            limits: args.limits.limits(),
            verbose: args.verbose,
        },
    })
}

fn open_exports(args: &CompareArgs) -> anyhow::Result<Vec<(CompareFormat, Output)>> {
    let open = |(format, path): (CompareFormat, std::path::PathBuf)| Ok((format, Output::open(Some(&path), Output::Stdout)?));
    args.exports()?.into_iter().map(open).collect()
}
