//! Attaches strace to running processes. It detaches at the end, and the processes go on.
//!
//! strace follows what they create, but not the children that they have: those are named to it, too.

use std::{
    fs,
    path::Path,
    pin::pin,
    time::{Duration, Instant, SystemTime},
};

use nix::{sys::signal::Signal, unistd::Pid};
use tokio::time::sleep;

use super::{Session, fifo::Fifo, strace_output, tracer_pid};
use crate::{
    attach::{AttachError, Targets, running_program},
    backend::{RunError, RunOptions, Until, new_trace, progress::Ticker, strace::StraceError},
    descendants::with_descendants,
    launch::{Child, LaunchOptions, OnTracerExit, Received, SignalError, Signals},
    trace::{Attached, Loss, STRACE, State, Trace},
};

/// How often to look whether strace traces all threads.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Attaches this `strace` to these targets and returns the trace.
pub(in crate::backend::strace) async fn attach(
    strace: &Path,
    targets: &Targets,
    options: &RunOptions,
) -> Result<Trace, RunError> {
    match targets {
        Targets::Cgroup(_) => return Err(AttachError::NeedsEbpf("--cgroup").into()),
        Targets::System => return Err(AttachError::NeedsEbpf("--system-wide").into()),
        Targets::Processes(_) => {}
    }
    let signals = Signals::hold(options.launch.on_tracer_exit)?;
    let held = targets.hold()?;
    let processes = with_children(&held.pids());
    processes.iter().try_for_each(|&pid| check_traceable(pid))?;
    let fifo = Fifo::create(None)?;
    let mut command = strace_output(strace, fifo.path(), options);
    command.extend(processes.iter().map(|pid| format!("--attach={pid}").into()));
    let trace = new_trace(STRACE, options, SystemTime::now())?;
    let launch = LaunchOptions {
        // strace detaches when it is killed.
        on_tracer_exit: OnTracerExit::Kill,
        ..LaunchOptions::default()
    };
    let child = Child::start(strace, &command, &launch, &signals)?;
    let mut show = |line: &str| super::show_unknown(line, options);
    let mut session = Session::new(fifo, options, Until::AllEnd, &mut show);
    session.collector.begin(trace);
    for &pid in &processes {
        threads_of(pid).for_each(|tid| session.collector.add_found(pid, tid));
    }
    let began = session.until_attached(&child, &signals, &processes).await?;
    if let Err(error) = held.check_alive() {
        child.forward(Signal::SIGKILL as i32);
        child.wait().await?;
        return Err(error.into());
    }
    let attached = Attached {
        under_way_at_attach: None,
        ..held.described()
    };
    if let Some(on_attached) = options.on_attached {
        on_attached(&attached);
    }
    let unseen = with_children(&held.pids());
    let unseen = unseen.iter().filter(|pid| !processes.contains(pid));
    let unseen = unseen
        .filter(|&&pid| tracer_pid(pid) != Some(child.id()))
        .count();
    session.until_detached(&child, &signals, options).await?;
    let wall = began.elapsed();
    let mut trace = session.collector.finish();
    trace.wall_ns = u64::try_from(wall.as_nanos()).ok();
    // No command was launched.
    (trace.attached, trace.exit) = (Some(attached), None);
    if unseen > 0 {
        trace.losses.insert(Loss::UnfollowedTasks, unseen as u64);
    }
    for process in &mut trace.processes {
        if process.exe.is_none() && process.state == State::Running {
            let running = running_program(process.pid);
            (process.exe, process.command) = (running.exe, running.command);
        }
    }
    Ok(trace)
}

/// These processes and all their descendants but zctrace itself, with its strace.
fn with_children(pids: &[u32]) -> Vec<u32> {
    let own = with_descendants(vec![Pid::this()]);
    let pids = pids.iter().filter_map(|&pid| super::pid(pid)).collect();
    let others = with_descendants(pids)
        .into_iter()
        .filter(|pid| !own.contains(pid));
    others
        .filter_map(|pid| u32::try_from(pid.as_raw()).ok())
        .collect()
}

/// Checks that ptrace(2) may attach to a process: the kernel asks the same for its memory
/// (`PTRACE_MODE_ATTACH`, ptrace(2)).
fn check_traceable(pid: u32) -> Result<(), AttachError> {
    if let Some(by) = tracer_pid(pid).filter(|by| by.as_raw() != 0) {
        let by = by.as_raw();
        return Err(AttachError::Traced { pid, by });
    }
    match fs::File::open(format!("/proc/{pid}/mem")) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(AttachError::NotPermitted(pid))
        }
        // If it has ended, strace says so.
        _ => Ok(()),
    }
}

/// The ids of the threads of a process.
fn threads_of(pid: u32) -> impl Iterator<Item = u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let names = threads.into_iter().flatten().flatten();
    names.filter_map(|thread| thread.file_name().to_str()?.parse().ok())
}

/// Whether this strace traces a thread, or the thread has ended.
fn is_traced_or_gone(tid: u32, strace: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let has_ended = !status.contains("\nState:\t") || status.contains("\nState:\tZ");
    has_ended || tracer_pid(tid) == Some(strace)
}

impl Session<'_> {
    /// Waits until strace traces all threads of these processes. Returns when that was.
    async fn until_attached(
        &mut self,
        strace: &Child,
        signals: &Signals,
        processes: &[u32],
    ) -> Result<Instant, RunError> {
        let is_traced = |&pid: &u32| threads_of(pid).all(|tid| is_traced_or_gone(tid, strace.id()));
        while !processes.iter().all(is_traced) {
            tokio::select! {
                exit = strace.wait() => return Err(StraceError::NotAttached(exit?).into()),
                ready = self.fifo.readable() => {
                    ready?;
                    self.take_chunk()?;
                }
                signal = signals.next() => if let Some(signal) = signal?.as_ending() {
                    return Err(SignalError::Interrupted(signal).into());
                },
                () = sleep(LOOK_AGAIN) => {}
            }
        }
        Ok(Instant::now())
    }

    /// Waits until the processes have ended, or a signal or the end of the time ends the trace: then
    /// strace detaches.
    async fn until_detached(
        &mut self,
        strace: &Child,
        signals: &Signals,
        options: &RunOptions,
    ) -> Result<(), RunError> {
        let mut ticker = Ticker::new(options.on_progress.as_ref());
        let mut end = pin!(sleep(options.duration.unwrap_or(Duration::MAX)));
        let mut is_ending = false;
        loop {
            tokio::select! {
                exit = strace.wait() => {
                    exit?;
                    while self.take_chunk()? {}
                    self.lines.end(&mut self.collector);
                    return Ok(());
                }
                ready = self.fifo.readable() => {
                    ready?;
                    self.take_chunk()?;
                }
                signal = signals.next() => match (signal?, &options.on_interim_trace) {
                    (Received::ToForward(libc::SIGUSR1), Some(show)) => show.call(Err(RunError::NoInterimTrace)),
                    (signal, _) => if let Some(number) = signal.as_ending() {
                        // Whoever asks twice does not want to wait.
                        if is_ending {
                            return Err(SignalError::Interrupted(number).into());
                        }
                        is_ending = true;
                        strace.forward(libc::SIGINT);
                    },
                },
                () = &mut end, if !is_ending => {
                    is_ending = true;
                    strace.forward(libc::SIGINT);
                }
                () = ticker.tick() => ticker.read(|elapsed| Some(self.collector.tasks().progress(elapsed))),
            }
        }
    }
}
