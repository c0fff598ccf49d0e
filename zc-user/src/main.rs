//! The command line program: parse, run, exit code.

mod cli;
mod identity;
mod output;

use std::process::ExitCode;

use clap::Parser as _;
use cli::{Action, Cli, RunArgs};
use output::Output;
use zctrace::{
    backend::{Backend as _, Limits, RunError, RunOptions, Until, ebpf::Ebpf},
    render,
    report::{self, Report},
    trace::{Exit, Trace},
};

/// Exit status for a failure of zctrace itself, as of `env` and `timeout`.
const FAILED: u8 = 125;

fn main() -> ExitCode {
    let outcome = match Cli::try_parse() {
        Ok(cli) => match cli.into_action() {
            Action::Run(args) => run(&args),
        },
        Err(error) if !error.use_stderr() => {
            // Help or version; that nobody reads it to its end is no error.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => Err(anyhow::anyhow!(cli::one_line(&error))),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("zctrace: {error:#}");
        let launch_status = error.downcast_ref::<RunError>().and_then(RunError::exit_status);
        ExitCode::from(launch_status.unwrap_or(FAILED))
    })
}

/// `zctrace [run]`: launch, trace, report; the command's own exit status.
fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let options = run_options(args)?;
    let output = Output::open(args.output.as_deref())?;
    if args.verbose {
        log::set_logger(&KernelLog).map_err(|error| anyhow::anyhow!("cannot log: {error}"))?;
        log::set_max_level(log::LevelFilter::Debug);
    }
    let trace = Ebpf.run(&options)?;
    let report = Report::from_trace(&trace, &report::Options { detail: args.by, sort: args.sort });
    let look = render::Options {
        width: output.width(),
        colour: output::wants_colour(args.color, output.is_terminal()),
        all_processes: args.all_processes,
    };
    output.write(&render::render(&report, args.format, &look))?;
    Ok(exit_code(&trace))
}

fn run_options(args: &RunArgs) -> anyhow::Result<RunOptions> {
    Ok(RunOptions {
        command: args.command.clone(),
        selection: args.syscalls.clone(),
        until: if args.wait_all { Until::AllEnd } else { Until::RootEnds },
        identity: args.user.as_deref().map(identity::find).transpose()?,
        limits: Limits { max_rows: args.max_rows, max_tasks: args.max_tasks },
        verbose: args.verbose,
    })
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

/// What the eBPF programs say of themselves, with `-v`.
struct KernelLog;

impl log::Log for KernelLog {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        // The libraries' own messages are not for the user.
        metadata.target().starts_with("zctrace")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            eprintln!("zctrace: kernel: {}", record.args());
        }
    }

    fn flush(&self) {}
}
