//! `zctrace top`: traces a command in the main thread, and shows the live view from another one.

use std::{
    fs::File,
    io::{self, IsTerminal, PipeReader, PipeWriter, Read as _, Write as _},
    process::ExitCode,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::anyhow;
use nix::{
    sys::signal::{SigSet, SigmaskHow, Signal, kill},
    unistd::Pid,
};
use tokio::sync::Notify;
use zctrace::{
    attach::Targets,
    backend::{self, Boundaries, Choice, OnSpan, RunOptions, SpanCounters, Spans},
    launch::{Environment, LaunchOptions, Stream, Streams},
    plain_run,
    privileges::AfterAttach,
    render::command_line,
    top::{KeyEffect, LiveModel, LiveView, draw},
    trace::Trace,
};
use zctrace_core::text::{escape, from_os};

use super::{Outputs, listed, run_command::show_trace};
use crate::{
    cli::TopArgs,
    exit_code,
    output::ReportOutput,
    screen::{Screen, ScreenEvent, open_terminal},
};

/// How often the view is brought up to date. With 500 processes, that takes about 30 ms of CPU time.
const INTERVAL: Duration = Duration::from_millis(1500);

/// Shows what a command does while it does it, and then the report. The exit status is the
/// command's own.
pub fn top(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let tty = open_terminal()?;
    let outputs = Outputs::open(&args.display, ReportOutput::Stderr)?;
    let model = Arc::new(Mutex::new(LiveModel::new(title(args))));
    let stop = Arc::new(Notify::new());
    let (reader, writer) = io::pipe()?;
    let view = ViewThread {
        tty,
        news: reader,
        model: Arc::clone(&model),
        stop: Arc::clone(&stop),
    };
    let view = view.start()?;
    let trace = trace(args, &model, writer, stop);
    // The end of the trace closes the pipe, which ends the view and gives the terminal back.
    let shown = view.join();
    let trace = trace?;
    show_trace(&trace, &args.display, &outputs)?;
    shown.unwrap_or_else(|_| Err(anyhow!("the live view failed; please report this")))?;
    Ok(trace.exit.map_or(ExitCode::SUCCESS, exit_code))
}

/// What is traced, in a few words.
fn title(args: &TopArgs) -> String {
    match args.targets.targets() {
        None => {
            let words: Vec<String> = args.command.iter().map(from_os).collect();
            command_line(&words)
        }
        Some(Targets::Processes(pids)) => {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            format!("-p {}", pids.join(","))
        }
        Some(Targets::Cgroup(name)) => format!("--cgroup {}", escape(&name)),
        Some(Targets::System) => "--system-wide".to_owned(),
    }
}

/// Traces the command to its end, or until the view is left.
fn trace(
    args: &TopArgs,
    model: &Arc<Mutex<LiveModel>>,
    news: PipeWriter,
    stop: Arc<Notify>,
) -> anyhow::Result<Trace> {
    let model = Arc::clone(model);
    let on_span = OnSpan::new(move |trace| {
        lock(&model).apply(&trace);
        // After the command's end there is nothing more to watch, and if the view was left, nobody
        // reads it.
        if trace.exit.is_none() {
            let _ = (&news).write_all(&[0]);
        }
    });
    let options = RunOptions {
        spans: Some(Spans {
            boundaries: Boundaries::Every(INTERVAL),
            on_span,
            counters: SpanCounters::Unknown,
        }),
        stop: Some(stop),
        ..run_options(args)?
    };
    Ok(backend::run(Choice::Ebpf, &options)?)
}

fn run_options(args: &TopArgs) -> anyhow::Result<RunOptions> {
    let mut environment = Environment::default();
    for (name, value) in &args.env {
        environment.set(name, value);
    }
    Ok(RunOptions {
        attach: args.targets.targets(),
        selection: args.syscalls.clone(),
        launch: LaunchOptions {
            identity: args.user,
            environment,
            streams: Streams {
                stdin: stream_beside_view(&io::stdin())?,
                stdout: stream_beside_view(&io::stdout())?,
                stderr: stream_beside_view(&io::stderr())?,
            },
            ..LaunchOptions::default()
        },
        limits: args.limits.limits(),
        listed: listed(&args.display),
        privileges: AfterAttach::GivenUp,
        ..plain_run(args.command.clone())
    })
}

/// The stream of the command: that of zctrace, unless this is a terminal, which the view has.
fn stream_beside_view(stream: &impl IsTerminal) -> io::Result<Stream> {
    if stream.is_terminal() {
        Stream::null()
    } else {
        Ok(Stream::Inherited)
    }
}

/// The model, also after a panic of who had it.
fn lock(model: &Mutex<LiveModel>) -> MutexGuard<'_, LiveModel> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread of the view.
struct ViewThread {
    tty: File,
    /// Has a byte for each span.
    news: PipeReader,
    model: Arc<Mutex<LiveModel>>,
    stop: Arc<Notify>,
}

impl ViewThread {
    /// Starts it. It gets no signals: they are for the thread that traces, which passes them on to
    /// the command.
    fn start(self) -> anyhow::Result<JoinHandle<anyhow::Result<()>>> {
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let started = thread::Builder::new().spawn(move || self.run());
        mask.thread_set_mask()?;
        Ok(started?)
    }

    /// Shows the view from the first span on, so that a command that ends before, or that cannot be
    /// started, leaves no trace on the terminal.
    fn run(mut self) -> anyhow::Result<()> {
        let _end_of_trace = NotifyOnDrop(self.stop);
        if self.news.read(&mut [0])? == 0 {
            return Ok(());
        }
        let mut screen = Screen::open(self.tty)?;
        let mut view = LiveView::default();
        loop {
            screen.draw(|frame| draw(frame, &lock(&self.model), &mut view))?;
            let keys = match screen.wait(&mut self.news)? {
                ScreenEvent::Over => return Ok(()),
                ScreenEvent::News => continue,
                ScreenEvent::Keys(keys) => keys,
            };
            for key in keys {
                match view.press(key, &lock(&self.model)) {
                    KeyEffect::None => {}
                    KeyEffect::Quit => return Ok(()),
                    KeyEffect::Interrupt => kill(Pid::this(), Signal::SIGINT)?,
                }
            }
        }
    }
}

/// Ends the trace when the view ends, for whatever reason.
struct NotifyOnDrop(Arc<Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}
