//! `zctrace [run]`: runs a command under a backend and shows the report.

use std::{
    io,
    os::fd::AsFd,
    process::ExitCode,
    sync::{Arc, Mutex},
};

use anyhow::{bail, ensure};
use rustix::fs::FileType;
use zctrace::{
    backend::{self, Choice, Listed, OnInterimTrace, OnProgress, RunOptions, Until},
    diff::{Diff, DiffOutcome},
    launch::{Environment, LaunchOptions},
    plain_run,
    privileges::AfterAttach,
    render::{self, Format},
    syscalls::Selection,
    trace::{Attached, Trace},
};

use super::{Outputs, listed, log_if, report_of, report_options, show, span_writer::SpanWriter};
use crate::{
    cli::{DisplayArgs, RunArgs},
    exit_code,
    output::ReportOutput,
    say,
    status_line::StatusLine,
};

/// Traces a command and shows the report. The exit status is the command's own.
pub fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    if let Some(note) = args.strace.note() {
        say(format_args!("{note}"));
    }
    let options = run_options(args);
    ensure!(
        !args.syncs || options.attach.is_none(),
        "--syncs judges a command from its start: run it with zctrace --syncs -- CMD"
    );
    if args.display.format == Format::Firefox {
        ensure!(
            args.callers.is_some(),
            "this format needs sampled calls: add --callers or --callers=all"
        );
        ensure!(
            !args.counts_only,
            "this format needs the times of calls: leave out --counts-only"
        );
        ensure!(
            args.display.paths.is_empty(),
            "this format shows all sampled calls: leave out -P"
        );
    }
    let outputs = Outputs::open(&args.display, ReportOutput::Stderr)?;
    log_if(args.verbose)?;
    if args.verify {
        return verify(&options, &args.display, &outputs.report);
    }
    let outputs = Arc::new(outputs);
    let spans = SpanWriter::new(&args.spans, &args.display, &outputs)?;
    let is_wanted = !args.no_status;
    let status = is_wanted.then(StatusLine::open).flatten();
    let status = status.map(|status| Arc::new(Mutex::new(status)));
    let trace = backend::run(
        args.backend,
        &RunOptions {
            on_interim_trace: Some(on_interim_trace(
                &args.display,
                &outputs,
                spans.as_ref(),
                status.as_ref(),
            )),
            on_progress: status.clone().map(on_progress),
            spans: spans.as_ref().and_then(|spans| spans.spans(&args.spans)),
            stop: spans.as_ref().map(|spans| Arc::clone(&spans.stop)),
            on_attached: Some(say_attached),
            ..options
        },
    );
    erase(status.as_ref());
    let trace = trace?;
    match spans {
        Some(spans) => spans.finish()?,
        None => show_trace(&trace, &args.display, &outputs)?,
    }
    Ok(trace.exit.map_or(ExitCode::SUCCESS, exit_code))
}

/// `zctrace run --verify`: runs the command under both backends, and shows what differs as `diff`
/// does. The exit status is 1 if it is known that they differ.
fn verify(
    options: &RunOptions,
    display: &DisplayArgs,
    output: &ReportOutput,
) -> anyhow::Result<ExitCode> {
    let Some(format) = display.format.for_diff() else {
        bail!("--verify supports only --format table, json and markdown")
    };
    let options = &RunOptions {
        privileges: AfterAttach::Lowered,
        ..options.clone()
    };
    let [ebpf, strace] = [Choice::Ebpf, Choice::Strace]
        .map(|choice| backend::run(choice, options).map(|trace| report_of(&trace, display)));
    let diff = Diff::new(&ebpf?, &strace?);
    let text = render::diff(&diff, format, &report_options(display, output));
    output.write_once(&text)?;
    let differs = diff.outcome == DiffOutcome::Changed;
    if differs && is_used_up(&io::stdin()) {
        say(format_args!(
            "the first run may have read what the second needed from stdin; let the command open a file by name instead"
        ));
    }
    Ok(ExitCode::from(u8::from(differs)))
}

/// Whether bytes that one run reads from it are gone for the next run: a pipe, a socket, or a file
/// whose position both share.
fn is_used_up(input: &impl AsFd) -> bool {
    let kind = rustix::fs::fstat(input).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(
        kind,
        Ok(FileType::Fifo | FileType::Socket | FileType::RegularFile)
    )
}

pub(super) fn show_trace(
    trace: &Trace,
    display: &DisplayArgs,
    outputs: &Outputs,
) -> anyhow::Result<()> {
    show(report_of(trace, display), Some(trace), display, outputs)
}

/// Shows the report so far in the place where the final report goes. The next report replaces it in
/// a file, unless spans follow each other there.
fn on_interim_trace(
    display: &DisplayArgs,
    outputs: &Arc<Outputs>,
    spans: Option<&Arc<SpanWriter>>,
    status: Option<&Arc<Mutex<StatusLine>>>,
) -> OnInterimTrace {
    let (mut display, outputs, status) = (display.clone(), Arc::clone(outputs), status.cloned());
    let spans = spans.cloned();
    // The command may need the terminal meanwhile.
    display.pager = false;
    OnInterimTrace::new(move |trace| {
        erase(status.as_ref());
        let shown = trace
            .map_err(anyhow::Error::from)
            .and_then(|trace| match &spans {
                Some(spans) => {
                    spans.write(&trace);
                    Ok(())
                }
                None => show_trace(&trace, &display, &outputs),
            });
        if let Err(error) = shown {
            say(format_args!("{error:#}"));
        }
    })
}

/// Shows how far the run is.
fn on_progress(status: Arc<Mutex<StatusLine>>) -> OnProgress {
    OnProgress::new(move |progress| {
        if let Ok(mut status) = status.lock() {
            status.show(&progress);
        }
    })
}

/// Says that the trace has begun, and how it ends.
fn say_attached(attached: &Attached) {
    let pids: Vec<String> = attached.pids.iter().map(u32::to_string).collect();
    let targets = match &attached.cgroup {
        _ if attached.system => "the whole system".to_owned(),
        Some(cgroup) => cgroup.clone(),
        None => pids.join(", "),
    };
    say(format_args!(
        "attached to {targets}; Ctrl-C stops the trace, not the processes"
    ));
}

/// Erases the status line, if there is one.
fn erase(status: Option<&Arc<Mutex<StatusLine>>>) {
    if let Some(Ok(mut status)) = status.map(|status| status.lock()) {
        status.erase();
    }
}

fn run_options(args: &RunArgs) -> RunOptions {
    let mut environment = Environment::default();
    for (name, value) in &args.env {
        environment.set(name, value);
    }
    RunOptions {
        attach: args.targets.targets(),
        // A profile lists every call, which strace counts only if it is asked to.
        selection: if args.display.format.is_profile() {
            Selection::All
        } else {
            args.syscalls.clone()
        },
        until: if args.wait_all {
            Until::AllEnd
        } else {
            Until::RootEnds
        },
        launch: LaunchOptions {
            identity: args.user,
            environment,
            ..LaunchOptions::default()
        },
        limits: args.limits.limits(),
        // Processes that are merged have no callers of their own.
        listed: if args.verify || args.callers.is_some() {
            Listed::All
        } else {
            listed(&args.display)
        },
        recorded: args.what_is_recorded(),
        duration: args.spans.duration,
        at_duration: args.spans.at_duration(),
        privileges: AfterAttach::GivenUp,
        verbose: args.verbose,
        ..plain_run(args.command.clone())
    }
}
