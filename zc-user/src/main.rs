//! The command line program: parse, run, exit code.

mod allocator;
mod checking;
mod cli;
mod comparing;
mod identity;
mod output;
mod progress;
mod saved;

use std::{
    io::{self, Write as _},
    os::fd::AsFd,
    process::ExitCode,
    sync::Arc,
};

use anyhow::bail;
use cli::{Action, Cli, DoctorArgs, LookArgs, ReportArgs, RunArgs};
use output::Output;
use rustix::fs::FileType;
use saved::Saved;
use zctrace::{
    backend::{self, Choice, RunError, RunOptions, SoFar, Until},
    compare::CompareError,
    doctor,
    launch::{Bond, Environment, Manner},
    privileges::{self, AfterAttach},
    render,
    report::{self, Files, Report},
    trace::{Exit, Trace},
    verify::Comparison,
};

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
        Action::Run(args) => run(&args),
        Action::Compare(args) => comparing::compare(&args),
        Action::Check(args) => Ok(checking::check(&args)),
        Action::Report(args) => report(&args),
        Action::Doctor(args) => doctor(&args),
        Action::Schema => print(&render::json(&report::schema())),
        Action::Completions { shell } => print(&cli::completions(shell)),
        Action::Man => cli::manual().map_err(Into::into).and_then(|page| print(&page)),
    }
}

/// Exit status for a command line that cannot be understood, and for all that has no status of its own. That of `check` says that
/// nothing was checked.
fn failed() -> u8 {
    let is_check = std::env::args_os().nth(1).is_some_and(|word| word == "check");
    if is_check { checking::COULD_NOT_RUN } else { FAILED }
}

/// `zctrace [run]`: launch, trace, report; the command's own exit status.
fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let options = run_options(args)?;
    let output = Output::open(args.look.output.as_deref(), Output::Stderr)?;
    log_if(args.verbose)?;
    if args.verify {
        return verify(&options, &args.look, &output);
    }
    let output = Arc::new(output);
    let trace = backend::run(args.backend, &RunOptions { so_far: Some(so_far(&args.look, &output)), ..options })?;
    show(&report_of(&trace, &args.look), &args.look, &output)?;
    Ok(exit_code(&trace))
}

/// `zctrace run --verify`: both backends side by side; 1 if they differ.
fn verify(options: &RunOptions, look: &LookArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let Some(format) = look.format.plain() else {
        bail!("--verify shows a table or json, no other format: use --format json, or leave it out")
    };
    let [ebpf, strace] =
        [Choice::Ebpf, Choice::Strace].map(|choice| backend::run(choice, options).map(|trace| report_of(&trace, look)));
    let comparison = Comparison::new(&ebpf?, &strace?);
    let text = render::comparison(&comparison, format, &options_of(look, output));
    output.write(&text)?;
    if !comparison.equal && is_used_up(&io::stdin()) {
        say(format_args!("the first run may have taken what the second would have read from stdin: give them a file by name"));
    }
    Ok(if comparison.equal { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Whether what somebody reads from there is gone for the next one: a pipe, a socket, a file of which both share the position.
fn is_used_up(input: &impl AsFd) -> bool {
    let kind = rustix::fs::fstat(input).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket | FileType::RegularFile))
}

/// `zctrace report`: what was saved, shown again.
fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
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

/// `zctrace doctor`: what this machine can do; 1 if no backend can run.
fn doctor(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
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

/// What is said on stdout, and nothing more.
fn print(text: &str) -> anyhow::Result<ExitCode> {
    Output::Stdout.write(text)?;
    Ok(ExitCode::SUCCESS)
}

fn report_of(trace: &Trace, look: &LookArgs) -> Report {
    let listed = |is_wanted| if is_wanted { Files::Listed } else { Files::Omitted };
    let (files, file_calls) = (listed(look.files), listed(look.file_calls));
    Report::from_trace(trace, &report::Options { detail: look.by, sort: look.sort, files, file_calls })
}

/// Shows the report so far where the last one will be. A file is replaced by the next report.
fn so_far(look: &LookArgs, output: &Arc<Output>) -> SoFar {
    let (look, output) = (look.clone(), Arc::clone(output));
    SoFar::new(move |trace| {
        let shown = trace.map_err(anyhow::Error::from).and_then(|trace| show(&report_of(&trace, &look), &look, &output));
        if let Err(error) = shown {
            say(format_args!("{error:#}"));
        }
    })
}

fn show(report: &Report, look: &LookArgs, output: &Output) -> anyhow::Result<()> {
    let text = render::render(report, look.format, &options_of(look, output));
    output.write(&text)
}

fn options_of(look: &LookArgs, output: &Output) -> render::Options {
    render::Options {
        width: output.width(),
        colour: output::wants_colour(look.color, output.is_terminal()),
        all_processes: look.all_processes,
        all_transfers: look.all_transfers,
    }
}

fn log_if(verbose: bool) -> anyhow::Result<()> {
    if verbose {
        log::set_logger(&Log).map_err(|error| anyhow::anyhow!("cannot log: {error}"))?;
        log::set_max_level(log::LevelFilter::Debug);
    }
    Ok(())
}

fn run_options(args: &RunArgs) -> anyhow::Result<RunOptions> {
    let mut environment = Environment::default();
    for (name, value) in &args.env {
        environment.set(name, value);
    }
    Ok(RunOptions {
        command: args.command.clone(),
        selection: args.syscalls.clone(),
        until: if args.wait_all { Until::AllEnd } else { Until::RootEnds },
        manner: Manner {
            identity: args.user.as_deref().map(identity::find).transpose()?,
            bond: if args.bound { Bond::DiesWithUs } else { Bond::Free },
            environment,
            ..Manner::default()
        },
        limits: args.limits.limits(),
        privileges: if args.verify { AfterAttach::Lowered } else { AfterAttach::GivenUp },
        so_far: None,
        timeout: None,
        verbose: args.verbose,
    })
}

/// A line on stderr. That nobody reads it any more changes nothing.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "zctrace: {line}");
}

/// The command's own status; 128 plus the signal that killed it, as a shell says it.
fn exit_code(trace: &Trace) -> ExitCode {
    let status = match trace.exit {
        Some(Exit::Code(code)) => code,
        Some(Exit::Signal(signal)) => 128 + signal,
        None => 0,
    };
    ExitCode::from(u8::try_from(status).unwrap_or(FAILED))
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
