//! The subcommands, a file for each, and what several of them need.

pub mod check;
pub mod compare;
pub mod doctor;
mod identity;
mod progress;
pub mod report;
pub mod run;
mod saved;

use std::process::ExitCode;

use zctrace::{
    render,
    report::{Files, Report},
    trace::Trace,
};

use crate::{
    cli::LookArgs,
    output::{self, Output},
    say,
};

/// What is said on stdout, and nothing more.
pub fn print(text: &str) -> anyhow::Result<ExitCode> {
    Output::Stdout.write(text)?;
    Ok(ExitCode::SUCCESS)
}

/// The report on a trace, with what the command line asks for.
fn report_of(trace: &Trace, look: &LookArgs) -> Report {
    let listed = |is_wanted| if is_wanted { Files::Listed } else { Files::Omitted };
    let (files, file_calls) = (listed(look.files), listed(look.file_calls));
    Report::from_trace(trace, &zctrace::report::Options { detail: look.by, sort: look.sort, files, file_calls })
}

/// Shows a report where and how the command line says.
fn show(report: &Report, look: &LookArgs, output: &Output) -> anyhow::Result<()> {
    let text = render::render(report, look.format, &options_of(look, output));
    output.write(&text)
}

/// How the command line wants it to look.
fn options_of(look: &LookArgs, output: &Output) -> render::Options {
    render::Options {
        width: output.width(),
        colour: output::wants_colour(look.color, output.is_terminal()),
        all_processes: look.all_processes,
        all_transfers: look.all_transfers,
    }
}

/// With `-v`, has the backends say what they do.
fn log_if(verbose: bool) -> anyhow::Result<()> {
    if verbose {
        log::set_logger(&Log).map_err(|error| anyhow::anyhow!("cannot log: {error}"))?;
        log::set_max_level(log::LevelFilter::Debug);
    }
    Ok(())
}

/// What the backends say of themselves, with `-v`.
struct Log;

impl log::Log for Log {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        // The libraries' own messages are not for the user.
        metadata.target().starts_with("zctrace")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let backend = record.target().strip_prefix("zctrace::").unwrap_or("kernel");
            say(format_args!("{backend}: {}", record.args()));
        }
    }

    fn flush(&self) {}
}
