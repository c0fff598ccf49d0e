//! Runs the command under strace. The log comes through a private FIFO and is read while the
//! command runs.

mod attach;
mod fifo;
mod shell;

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs, io, mem,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use nix::{
    sys::{
        prctl,
        signal::{Signal, kill},
    },
    unistd::{Pid, geteuid},
};
use tokio::time::sleep;

pub(super) use self::attach::attach;
use self::{fifo::Fifo, shell::shell_of};
use super::{
    Collector, StraceError, decode::MAX_FIRST_BYTES, inspect::ProcInspector,
    left_open::opening_calls, read::Lines, tasks::TaskState,
};
use crate::{
    backend::{
        AtDuration, Recorded, RunError, RunOptions, Until,
        file_calls::{touching_calls, watched_calls},
        new_trace,
        progress::Ticker,
        spans::TraceClock,
        within_limit,
    },
    descendants::{own_children, own_descendants, send, signal_all},
    launch::{
        Child, Environment, LaunchError, LaunchOptions, OnTracerExit, Received, Signals,
        find_program, has_ended,
    },
    privileges::restrained_note,
    proc_stat::status_field,
    syscalls::{CallEffect, Selection, Spec, known_calls},
    trace::{Exit, Loss, STRACE, State, Trace},
};

/// How often to look for tasks that were created while others were killed.
const KILL_AGAIN: Duration = Duration::from_millis(10);

/// Runs the command under this `strace` and returns its trace.
pub(super) async fn run(strace: &Path, options: &RunOptions) -> Result<Trace, RunError> {
    let signals = Signals::hold(options.launch.on_tracer_exit)?;
    // strace would notice a missing program, too, but with its own message and status 1.
    let program = find_program(&options.command, &options.launch)?;
    let shell = shell_of(&options.launch.locate(&program))
        .map_err(|cause| LaunchError::new(&options.command[0], cause))?;
    // As root, strace lets setuid programs have their rights.
    let user = options.launch.user().filter(|user| {
        let group = options.launch.identity.map(|identity| identity.gid.into());
        geteuid().is_root() && group == Some(user.gid)
    });
    let identity = options.launch.identity.filter(|_| user.is_none());
    let fifo = Fifo::create(identity)?;
    // If strace is killed, the command becomes a child of zctrace, which can still report its end
    // and status.
    prctl::set_child_subreaper(true).map_err(io::Error::from)?;
    let mut command = strace_output(strace, fifo.path(), options);
    command.extend(user.map(|user| format!("--user={}", user.name).into()));
    command.extend(traced_command(shell, &program, options));
    let trace = new_trace(STRACE, options, SystemTime::now())?;
    // strace itself keeps the environment of zctrace; by its options it gives the command its own.
    let launch = LaunchOptions {
        on_tracer_exit: OnTracerExit::Kill,
        environment: Environment::default(),
        identity,
        ..options.launch.clone()
    };
    let earlier_children = own_children();
    let child = Child::start(strace, &command, &launch, &signals)?;
    let mut show = |line: &str| show_unknown(line, options);
    let mut session = Session::new(fifo, options, options.until, &mut show);
    session.collector.begin(trace);
    session.earlier_children = earlier_children;
    let over = session.until_over(&child, &signals, options);
    let Some(over) = within_limit(options.timeout, over).await else {
        session.kill_all(&child).await?;
        return Err(RunError::timed_out(options));
    };
    if over.is_err() {
        // Otherwise strace would complain that nobody reads its log.
        session.stop_strace(&child).await?;
    }
    let strace_exit = over?;
    let orphan_exit = session.wait_for_orphan(&signals).await?;
    let mut trace = session.into_trace(strace_exit, orphan_exit, options)?;
    if identity.is_some() {
        let why = ": strace ran as its user, who has no name here; use --backend ebpf";
        trace.notes.extend(restrained_note(&trace, why));
    }
    Ok(trace)
}

/// Shows a line that is not understood, if asked to.
fn show_unknown(line: &str, options: &RunOptions) {
    if options.verbose {
        log::warn!(target: "zctrace::strace", "not understood: {line}");
    }
}

fn pid(tid: u32) -> Option<Pid> {
    Some(Pid::from_raw(i32::try_from(tid).ok()?))
}

/// The tracer of a task, by `/proc`.
fn tracer_pid(tid: u32) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let tracer = status_field(&status, "TracerPid")?;
    tracer.parse().ok().map(Pid::from_raw)
}

/// A run that has started.
struct Session<'a> {
    fifo: Fifo,
    lines: Lines,
    collector: Collector<'a>,
    /// Signals for the command that came before its id was known.
    early: Vec<Received>,
    /// The last signal that ends programs and was forwarded to the command.
    ending: Option<i32>,
    /// Children that this process had before.
    earlier_children: Vec<Pid>,
    /// When the first line came: the command's exec.
    began: Option<Instant>,
    /// When the line of the command's end came.
    ended: Option<Instant>,
    /// Whether the trace has ended and the command goes on.
    is_left: bool,
}

impl<'a> Session<'a> {
    /// One that has seen nothing yet. It passes lines that are not understood to `show`.
    fn new(fifo: Fifo, options: &RunOptions, until: Until, show: &'a mut dyn FnMut(&str)) -> Self {
        Self {
            fifo,
            lines: Lines::default(),
            collector: Collector::new(&options.selection, until, show)
                .recording(options.recorded)
                .with_inspector(ProcInspector::new().ok()),
            early: Vec::new(),
            ending: None,
            earlier_children: Vec::new(),
            began: None,
            ended: None,
            is_left: false,
        }
    }

    /// Waits until the trace is over, and stops strace then, or until strace has ended by itself.
    /// Returns how it ended.
    async fn until_over(
        &mut self,
        child: &Child,
        signals: &Signals,
        options: &RunOptions,
    ) -> Result<Exit, RunError> {
        let mut is_enough = false;
        let mut ticker = Ticker::new(options.on_progress.as_ref());
        let mut clock = TraceClock::new(options)?;
        loop {
            tokio::select! {
                exit = child.wait() => {
                    let exit = exit?;
                    while self.take_chunk()? {}
                    // If strace was killed, the last line is cut; it is missing like all that comes
                    // after it.
                    if matches!(exit, Exit::Code(_)) {
                        self.lines.end(&mut self.collector);
                    }
                    return Ok(exit);
                }
                ready = self.fifo.readable() => {
                    ready?;
                    self.take_chunk()?;
                }
                signal = signals.next() => match (signal?, &options.on_interim_trace) {
                    (Received::ToForward(libc::SIGUSR1), Some(on_interim_trace)) => on_interim_trace.call(Err(RunError::NoInterimTrace)),
                    (signal, _) => is_enough |= self.forward(signal),
                },
                // It has no spans, so only the end is due; strace has to be there first.
                end = clock.next(), if self.began.is_some() => {
                    end?;
                    match options.at_duration {
                        AtDuration::Kill => return self.kill_all(child).await,
                        AtDuration::LeaveRunning => {
                            self.is_left = self.ended.is_none();
                            return self.stop_strace(child).await;
                        }
                    }
                }
                () = ticker.tick() => ticker.read(|elapsed| Some(self.collector.tasks().progress(elapsed))),
            }
            if self.root().is_some() {
                for signal in mem::take(&mut self.early) {
                    is_enough |= self.forward(signal);
                }
            }
            if self.collector.is_over
                || (is_enough && options.until == Until::AllEnd && self.ended.is_some())
            {
                let exit = self.stop_strace(child).await?;
                self.signal_the_rest(child).await?;
                return Ok(exit);
            }
            if self.ended.is_some() {
                self.signal_the_rest(child).await?;
            }
        }
    }

    /// Forwards a signal to the command, now or when its id is known. Returns `true` if it ends the
    /// trace because the command has ended.
    fn forward(&mut self, signal: Received) -> bool {
        if self.ended.is_some() {
            return signal.is_ending();
        }
        let Some(root) = self.root() else {
            self.early.push(signal);
            return false;
        };
        match signal {
            Received::FromTerminal | Received::Own => false,
            // Its last line is still to come.
            Received::ToForward(_) if has_ended(root) => signal.is_ending(),
            Received::ToForward(number) => {
                self.ending = signal.is_ending().then_some(number).or(self.ending);
                // It may have ended just now.
                let _ = send(root, number);
                false
            }
        }
    }

    /// Sends a signal that the command got before its end to all that it has left. If the trace is
    /// over, strace must have ended: it can take the last signal of a process with it.
    async fn signal_the_rest(&mut self, strace: &Child) -> io::Result<()> {
        let Some(signal) = self.ending.take() else {
            return Ok(());
        };
        let left = || {
            let mut left = own_descendants();
            left.retain(|pid| *pid != strace.id() && !self.earlier_children.contains(pid));
            Ok(left)
        };
        signal_all(signal, left).await
    }

    /// Stops strace. What it still traces keeps running.
    async fn stop_strace(&mut self, child: &Child) -> Result<Exit, RunError> {
        self.collector.is_over = true;
        self.find_followed_tasks(child).await?;
        // strace blocks all other signals while a command runs.
        child.forward(libc::SIGKILL);
        Ok(child.wait().await?)
    }

    /// Finds out which of the tasks without a line strace follows; it does not follow those created
    /// with `CLONE_UNTRACED`.
    async fn find_followed_tasks(&mut self, child: &Child) -> io::Result<()> {
        let unseen: Vec<u32> = self.collector.tasks().unseen_tids().collect();
        if unseen.is_empty() {
            return Ok(());
        }
        for tid in unseen {
            if tracer_pid(tid) == Some(child.id()) {
                self.collector.followed.insert(tid);
            }
        }
        // A followed task that has ended meanwhile has a line.
        sleep(KILL_AGAIN).await;
        while self.take_chunk()? {}
        Ok(())
    }

    /// Kills all traced tasks; strace ends with the last one. Tasks that were created meanwhile are
    /// in the log by then.
    async fn kill_all(&mut self, child: &Child) -> Result<Exit, RunError> {
        loop {
            for pid in self.collector.tasks().live_tids().filter_map(pid) {
                // It may have ended meanwhile.
                let _ = kill(pid, Signal::SIGKILL);
            }
            match within_limit(Some(KILL_AGAIN), child.wait()).await {
                Some(exit) => {
                    while self.take_chunk()? {}
                    self.lines.end(&mut self.collector);
                    return Ok(exit?);
                }
                None => while self.take_chunk()? {},
            }
        }
    }

    /// If somebody else killed strace, the command may still run: waits for its end.
    async fn wait_for_orphan(&mut self, signals: &Signals) -> Result<Option<Exit>, RunError> {
        let may_run = self.ended.is_none() && !self.is_left;
        let Some(root) = self.root().filter(|_| may_run) else {
            return Ok(None);
        };
        let Ok(orphan) = Child::adopt(root) else {
            return Ok(None);
        };
        let forward = |signal| {
            if let Received::ToForward(number) = signal {
                orphan.forward(number);
            }
        };
        // Its first line may have come together with the end of strace.
        mem::take(&mut self.early).into_iter().for_each(forward);
        loop {
            tokio::select! {
                exit = orphan.wait() => return Ok(exit.ok()),
                signal = signals.next() => forward(signal?),
            }
        }
    }

    fn root(&self) -> Option<Pid> {
        pid(self.collector.tasks().root()?.tid?)
    }

    /// Reads what there is of the log, without waiting; returns whether there was anything.
    fn take_chunk(&mut self) -> io::Result<bool> {
        let Some(chunk) = self.fifo.read()? else {
            return Ok(false);
        };
        self.began.get_or_insert_with(Instant::now);
        self.lines.push(chunk, &mut self.collector);
        let root = self.collector.tasks().root();
        if self.ended.is_none()
            && root.is_some_and(|root| matches!(root.state, TaskState::Ended(_)))
        {
            self.ended = Some(Instant::now());
        }
        Ok(true)
    }

    fn into_trace(
        self,
        strace: Exit,
        orphan: Option<Exit>,
        options: &RunOptions,
    ) -> Result<Trace, RunError> {
        let Some(began) = self.began else {
            return Err(StraceError::Silent(strace).into());
        };
        if let Some(errno) = self.collector.launch_errno() {
            let cause = io::Error::from_raw_os_error(errno.cast_signed());
            return Err(LaunchError::new(&options.command[0], cause).into());
        }
        let ended = self.ended.filter(|_| options.until == Until::RootEnds);
        let wall = ended
            .unwrap_or_else(Instant::now)
            .saturating_duration_since(began);
        let mut trace = self.collector.finish();
        trace.wall_ns = u64::try_from(Duration::as_nanos(&wall)).ok();
        if self.ended.is_none() && !self.is_left {
            trace.losses.insert(Loss::TracerEnded, 1);
            trace.exit = orphan;
            // Each program that the command's process ran is one of these.
            let root = trace.processes.first().map(|process| process.pid);
            for process in &mut trace.processes {
                if orphan.is_some() && Some(process.pid) == root {
                    process.state = State::Exited;
                }
            }
        }
        Ok(trace)
    }
}

/// What strace prints.
const OPTIONS: [&str; 7] = [
    // Follow children; print durations, the name of each process and its id in strace's PID
    // namespace, and the file behind each descriptor.
    "--follow-forks",
    "-T",
    "--decode-pids=comm,pidns",
    "--decode-fds=all",
    // Print vectors whole, since their sizes count, and say which process is in 32-bit mode. If a
    // signal is not shown, strace does not show that it killed a process, either; so all are shown
    // but SIGCHLD, which is frequent and cannot kill.
    "--abbrev=execve,execveat",
    "--signal=!SIGCHLD",
    "--quiet=attach",
];

/// The options and words that have strace run the command, through `shell` if the program is a
/// script that needs one.
///
/// There is no `--seccomp-bpf`: a process that outlives strace, or whose strace is killed, keeps the
/// filter without its tracer, and then every traced call fails with ENOSYS.
fn traced_command(
    shell: Option<&'static str>,
    program: &Path,
    options: &RunOptions,
) -> Vec<OsString> {
    let mut words = Vec::new();
    for (name, value) in options.launch.environment().differences() {
        let mut word = OsString::from("--env=");
        word.push(name);
        if let Some(value) = value {
            word.push("=");
            word.push(value);
        }
        words.push(word);
    }
    words.extend(["--"].into_iter().chain(shell).map(OsString::from));
    let mut command = options.command.clone();
    // strace looks for the program in the PATH of its own environment.
    if options.launch.environment.changes_path() {
        command[0] = program.into();
    }
    words.extend(command);
    words
}

/// strace with what it prints and where: its log goes to `log`.
fn strace_output(strace: &Path, log: &Path, options: &RunOptions) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![strace.into()];
    words.extend(OPTIONS.map(OsString::from));
    words.push(format!("--string-limit={MAX_FIRST_BYTES}").into());
    words.push(
        format!(
            "--trace={}",
            trace_set(&options.selection, options.recorded)
        )
        .into(),
    );
    let recorded = options.recorded;
    if recorded.has_syncs() || recorded.has_touches() || recorded.slower_than_ns().is_some() {
        // What changed last is told with its time, what touched a path first, and each slow call.
        words.push("--absolute-timestamps=format:unix,precision:us".into());
    }
    words.extend(["--output".into(), log.into()]);
    words
}

/// The set of calls in strace's syntax. With the `?`, strace accepts calls that this machine does
/// not have.
fn trace_set(selection: &Selection, recorded: Recorded) -> String {
    match selection {
        Selection::All => "all".into(),
        Selection::Names(names) => {
            let selected = names
                .iter()
                .map(|name| name.split('(').next().unwrap_or_default());
            let others = known_calls()
                .filter(|spec| is_always_traced(spec))
                .map(|spec| spec.name);
            let of_syncs = watched_calls().filter(|_| recorded.has_syncs());
            let mut names: BTreeSet<&str> = selected.chain(others).collect();
            let of_touches = touching_calls().filter(|_| recorded.has_touches());
            let of_descriptors = opening_calls().filter(|_| recorded.has_descriptors());
            let others = of_syncs.chain(of_touches).chain(of_descriptors);
            names.extend(others.map(|name| -> &str { name }));
            let words = names.into_iter().map(|name| format!("?{name}"));
            words.collect::<Vec<_>>().join(",")
        }
    }
}

/// Whether the call is traced even if it is not counted: it shows which task created which, which
/// program runs, or which file is which, it overwrites what was read, takes a path, or tells the error of a socket.
fn is_always_traced(spec: &Spec) -> bool {
    use CallEffect::{CreatesTask, Executes, FillsMemory, ReadsSocketError, Submits};
    spec.path.is_some()
        || spec.changes_directory
        || spec.effect.is_about_files()
        || matches!(
            spec.effect,
            CreatesTask | Executes | FillsMemory | ReadsSocketError | Submits
        )
}
