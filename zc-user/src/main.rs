//! The command line program: parse, run, exit code.

mod allocator;
mod cli;
mod commands;
mod output;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::bail;
use cli::{Action, Cli};
use zctrace::{backend::RunError, compare::CompareError, privileges, render, report};

/// Exit status for a failure of zctrace itself, as of `env` and `timeout`.
const FAILED: u8 = 125;

fn main() -> ExitCode {
    allocator::exit_with(failed());
    let outcome = match Cli::read() {
        Ok(cli) => act(cli.into_action()),
        Err(error) if !error.use_stderr() => {
            // Help or version; that nobody reads it to its end is no error.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => Err(anyhow::anyhow!(cli::one_line(&error))),
    };
    outcome.unwrap_or_else(|error| {
        say(format_args!("{error:#}"));
        let of_run = error.downcast_ref::<RunError>().and_then(RunError::exit_status);
        let of_compare = || error.downcast_ref::<CompareError>().and_then(CompareError::exit_status);
        ExitCode::from(of_run.or_else(of_compare).unwrap_or_else(failed))
    })
}

/// What the command line asks for.
fn act(action: Action) -> anyhow::Result<ExitCode> {
    if privileges::is_set_id() {
        bail!("zctrace must not be setuid or setgid: use file capabilities, see `zctrace doctor`");
    }
    if !matches!(action, Action::Run(_) | Action::Compare(_) | Action::Doctor(_)) {
        privileges::give_up()?;
    }
    match action {
        Action::Run(args) => commands::run::run(&args),
        Action::Compare(args) => commands::compare::compare(&args),
        Action::Check(args) => Ok(commands::check::check(&args)),
        Action::Report(args) => commands::report::report(&args),
        Action::Doctor(args) => commands::doctor::doctor(&args),
        Action::Schema => commands::print(&render::json(&report::schema())),
        Action::Completions { shell } => commands::print(&cli::completions(shell)),
        Action::Man => cli::manual().map_err(Into::into).and_then(|page| commands::print(&page)),
    }
}

/// Exit status for a command line that cannot be understood, and for all that has no status of its own. That of `check` says that
/// nothing was checked.
fn failed() -> u8 {
    let is_check = std::env::args_os().nth(1).is_some_and(|word| word == "check");
    if is_check { commands::check::COULD_NOT_RUN } else { FAILED }
}

/// A line on stderr. That nobody reads it any more changes nothing.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "zctrace: {line}");
}
