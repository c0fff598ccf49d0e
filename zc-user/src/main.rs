//! The program `zctrace`: parses the command line, runs a subcommand, prints errors, sets the exit
//! status.

mod cli;
mod commands;
mod guard;
mod output;
mod pager;
mod room;
mod screen;
mod status_line;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::bail;
use cli::{Action, Cli};
use room::with_room;
use zctrace::{
    backend::RunError,
    check::{self, WORKER},
    compare::CompareError,
    privileges, render, report,
    trace::Exit,
};
use zctrace_core::signal;

/// Exit status for a failure of zctrace itself, the same as that of `env` and `timeout`.
const FAILED: u8 = 125;
/// Exit status if the command is no program, the same as that of a shell.
const NOT_EXECUTABLE: u8 = 126;
/// Exit status if there is no such command, the same as that of a shell.
const NOT_FOUND: u8 = 127;

fn main() -> ExitCode {
    let mut meant = None;
    let is_worker = std::env::args_os()
        .next()
        .is_some_and(|name| name == WORKER);
    let outcome = match (!is_worker).then(Cli::read) {
        None => with_room(check::work, give_up_unused)
            .map_err(Into::into)
            .map(|()| ExitCode::SUCCESS),
        Some(Ok(cli)) => {
            meant = cli.meant_instead(&std::env::args_os().collect::<Vec<_>>());
            run(&cli.into_action())
        }
        Some(Err(error)) if !error.use_stderr() => {
            // Help or version. A reader that stops early is not an error.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Some(Err(error)) => Err(anyhow::anyhow!(Cli::explain(&error))),
    };
    outcome.unwrap_or_else(|error| {
        let of_run = error.downcast_ref().and_then(RunError::exit_status);
        let of_compare = || error.downcast_ref().and_then(CompareError::exit_status);
        let status = of_run.or_else(of_compare).unwrap_or_else(failure_status);
        match meant.filter(|_| [NOT_EXECUTABLE, NOT_FOUND].contains(&status)) {
            Some(meant) => say(format_args!("{}; {meant}", message(&error))),
            None => say(format_args!("{}", message(&error))),
        }
        ExitCode::from(status)
    })
}

/// The message of an error, without the numbers that std appends: `No such file or directory (os error
/// 2)`.
fn message(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let rest = part.split_once(')');
        text + rest.map_or(part, |(_, rest)| rest)
    })
}

/// Carries out what the command line asks for.
fn run(action: &Action) -> anyhow::Result<ExitCode> {
    if privileges::is_set_id() {
        bail!(
            "zctrace must not be setuid or setgid; give it file capabilities instead, see `zctrace doctor`"
        );
    }
    let may_trace = match action {
        Action::Run(_) | Action::Top(_) | Action::Compare(_) | Action::Doctor(_) => true,
        Action::Diff(args) => !args.command.is_empty(),
        _ => false,
    };
    if !may_trace {
        privileges::give_up()?;
    }
    let work = || match action {
        Action::Compare(args) => commands::compare_command::compare(args),
        Action::Check(args) => Ok(commands::check_command::check(args)),
        Action::Run(args) => commands::run_command::run(args),
        Action::Top(args) => commands::top_command::top(args),
        Action::Diff(args) => commands::diff_command::diff(args),
        Action::Report(args) => commands::report_command::report(args),
        Action::Doctor(args) => commands::doctor(args),
        Action::Schema => commands::print(&render::json(&report::json_schema())),
        Action::Completions { shell } => commands::print(&Cli::completions(*shell)),
        Action::Man => commands::print(&Cli::manual()),
    };
    match action {
        Action::Compare(_) | Action::Check(_) => guard::guarded(|| with_room(work, give_up_unused)),
        _ => with_room(work, give_up_unused),
    }
}

/// Gives up the capabilities of this thread, since another one works.
fn give_up_unused() {
    // It may have fewer, never more.
    let _ = privileges::give_up();
}

/// Exit status for errors that have none of their own, such as a mistake in the command line. For
/// `check` it says that nothing was checked.
fn failure_status() -> u8 {
    let is_check = std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "check");
    if is_check {
        commands::check_command::COULD_NOT_RUN
    } else {
        FAILED
    }
}

/// The exit status of a process; if a signal killed it, 128 plus its number, as in a shell.
fn exit_code(exit: Exit) -> ExitCode {
    ExitCode::from(match exit {
        Exit::Code(code) => u8::try_from(code).unwrap_or(FAILED),
        Exit::Signal(number) => signal::exit_status(number),
    })
}

/// Writes this to stderr. Names and lines of logs in it cannot control the terminal. A failure is
/// ignored: there is nowhere to report it.
fn say(text: std::fmt::Arguments<'_>) {
    let text = text.to_string();
    let lines: Vec<String> = text.split('\n').map(render::escape).collect();
    let _ = writeln!(io::stderr(), "zctrace: {}", lines.join("\n"));
}
