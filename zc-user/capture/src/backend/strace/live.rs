//! A run under `strace`: its log comes through a private FIFO, line by line, while the command runs.

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use nix::{
    errno::Errno,
    sys::{
        prctl,
        signal::{Signal, kill},
    },
    unistd::Pid,
};
use tokio::time::sleep;

use super::{Collector, StraceError, arguments, fifo::Fifo, lines::Lines, look::Proc, script};
use crate::{
    backend::{RunError, RunOptions, Until, new_trace, within},
    launch::{Bond, Child, Environment, LaunchError, Manner, Received, Signals, find_program, send},
    trace::{Exit, Loss, State, Trace},
};

/// How often to look for tasks that came while others were killed.
const KILL_AGAIN: Duration = Duration::from_millis(10);

/// Runs the command under this `strace`, and gives back what it did.
pub(super) async fn run(strace: &Path, options: &RunOptions) -> Result<Trace, RunError> {
    let signals = Signals::hold(options.manner.bond)?;
    // strace would find it missing too, but says so in its own words and with status 1.
    let program = find_program(&options.command, &options.manner)?;
    let shell =
        script::shell_of(&options.manner.locate(&program)).map_err(|cause| LaunchError::new(&options.command[0], cause))?;
    let fifo = Fifo::create(options.manner.identity)?;
    // Should strace be killed, the command becomes our child: its end, and its status, are still ours to tell.
    prctl::set_child_subreaper(true).map_err(io::Error::from)?;
    let command = arguments::command(strace, fifo.path(), shell, &program, options);
    let mut trace = new_trace(super::NAME, options, SystemTime::now())?;
    // strace keeps an environment of its own: it gives the command's to the command.
    let manner = Manner { bond: Bond::DiesWithUs, environment: Environment::default(), ..options.manner.clone() };
    let child = Child::start(strace, &command, &manner, &signals)?;
    let mut show = |line: &str| {
        if options.verbose {
            log::warn!(target: "zctrace::strace", "not understood: {line}");
        }
    };
    // Without /proc there is nothing to look at, and nothing more is known of files than strace says.
    let mut proc = Proc::new().ok();
    let mut collector = Collector::new(&options.selection, options.until, &mut show);
    if let Some(proc) = &mut proc {
        collector = collector.looking(proc);
    }
    let mut session = Session { fifo, lines: Lines::default(), collector, began: None, ended: None };
    let over = session.until_over(&child, &signals, options);
    let Some(over) = within(options.timeout, over).await else {
        session.kill_all(&child).await?;
        return Err(RunError::timed_out(options));
    };
    if over.is_err() {
        // It would complain about a log that nobody reads.
        session.dismiss(&child).await?;
    }
    let strace_exit = over?;
    let orphan_exit = session.outlive(&signals).await?;
    session.into_trace(strace_exit, orphan_exit, options).map(|collected| {
        trace.wall_ns = collected.wall_ns;
        trace.exit = collected.exit;
        trace.losses = collected.losses;
        trace.notes = collected.notes;
        trace.files = collected.files;
        trace.processes = collected.processes;
        trace
    })
}

/// Who traces a task, as /proc tells.
fn tracer(tid: u32) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    tracer.trim().parse().ok().map(Pid::from_raw)
}

/// A run that is under way.
struct Session<'a> {
    fifo: Fifo,
    lines: Lines,
    collector: Collector<'a>,
    /// When the first line came: the command's exec.
    began: Option<Instant>,
    /// When the line of the command's end came.
    ended: Option<Instant>,
}

impl Session<'_> {
    /// Until the trace is over, or strace is. Gives back how strace ended by itself; `None` if it was told to.
    async fn until_over(&mut self, child: &Child, signals: &Signals, options: &RunOptions) -> Result<Option<Exit>, RunError> {
        let mut is_enough = false;
        loop {
            tokio::select! {
                exit = child.wait() => {
                    let exit = exit?;
                    while self.take_chunk()? {}
                    // Of a strace that was killed, the last line is cut; that is part of what is missing then.
                    if matches!(exit, Exit::Code(_)) {
                        self.lines.end(&mut self.collector);
                    }
                    return Ok(Some(exit));
                }
                ready = self.fifo.readable() => {
                    ready?;
                    self.take_chunk()?;
                }
                signal = signals.next() => match (signal?, &options.so_far) {
                    (Received::ToForward(libc::SIGUSR1), Some(so_far)) => so_far.give(Err(RunError::NotSoFar)),
                    (signal, _) => is_enough |= self.hand_on(signal),
                },
            }
            if self.collector.is_over() || (is_enough && options.until == Until::AllEnd && self.ended.is_some()) {
                return self.dismiss(child).await;
            }
        }
    }

    /// Hands a signal on to the command. `true` if it ends the trace, since there is no command any more.
    fn hand_on(&self, signal: Received) -> bool {
        let Some(root) = self.root().filter(|_| self.ended.is_none()) else {
            return self.ended.is_some() && signal.is_ending();
        };
        match signal {
            Received::FromTerminal | Received::Own => false,
            // It may have ended without its last line having come.
            Received::ToForward(number) => send(root, number) == Err(Errno::ESRCH) && signal.is_ending(),
        }
    }

    /// Ends strace. What it still traces goes on without it.
    async fn dismiss(&mut self, child: &Child) -> Result<Option<Exit>, RunError> {
        self.collector.end_now();
        self.look_at_unseen(child).await?;
        // Of all signals it holds back the others: it must survive what a terminal sends to the command.
        child.forward(libc::SIGKILL);
        child.wait().await?;
        Ok(None)
    }

    /// Finds out which of the tasks without a line strace follows: not those that were made with `CLONE_UNTRACED`.
    async fn look_at_unseen(&mut self, child: &Child) -> io::Result<()> {
        let unseen = self.collector.unseen();
        if unseen.is_empty() {
            return Ok(());
        }
        for tid in unseen.into_iter().filter(|&tid| tracer(tid) == Some(child.id())) {
            self.collector.is_followed(tid);
        }
        // Who is followed and has ended meanwhile has a line.
        sleep(KILL_AGAIN).await;
        while self.take_chunk()? {}
        Ok(())
    }

    /// Kills all that is traced; strace ends with the last of them. One that forks meanwhile is in the log then.
    async fn kill_all(&mut self, child: &Child) -> Result<(), RunError> {
        loop {
            for pid in self.collector.living().filter_map(|tid| i32::try_from(tid).ok()) {
                // It may have ended meanwhile.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            match within(Some(KILL_AGAIN), child.wait()).await {
                Some(exit) => return Ok(exit.map(drop)?),
                None => while self.take_chunk()? {},
            }
        }
    }

    /// If strace was killed by somebody, the command may still run: waits for its end.
    async fn outlive(&self, signals: &Signals) -> Result<Option<Exit>, RunError> {
        let Some(root) = self.root().filter(|_| self.ended.is_none()) else { return Ok(None) };
        let Ok(orphan) = Child::adopt(root) else { return Ok(None) };
        loop {
            tokio::select! {
                exit = orphan.wait() => return Ok(exit.ok()),
                signal = signals.next() => if let Received::ToForward(signal) = signal? { orphan.forward(signal) },
            }
        }
    }

    fn root(&self) -> Option<Pid> {
        self.collector.root_tid().and_then(|tid| i32::try_from(tid).ok()).map(Pid::from_raw)
    }

    /// Takes what there is of the log, without waiting. Whether there was anything.
    fn take_chunk(&mut self) -> io::Result<bool> {
        let Some(chunk) = self.fifo.read()? else { return Ok(false) };
        self.began.get_or_insert_with(Instant::now);
        self.lines.push(chunk, &mut self.collector);
        if self.ended.is_none() && self.collector.has_root_ended() {
            self.ended = Some(Instant::now());
        }
        Ok(true)
    }

    fn into_trace(self, strace: Option<Exit>, orphan: Option<Exit>, options: &RunOptions) -> Result<Trace, RunError> {
        let Some(began) = self.began else { return Err(StraceError::Silent(strace).into()) };
        if let Some(errno) = self.collector.launch_errno().and_then(|errno| i32::try_from(errno).ok()) {
            let program = options.command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
            return Err(LaunchError { program, cause: io::Error::from_raw_os_error(errno) }.into());
        }
        let ended = self.ended.filter(|_| options.until == Until::RootEnds);
        let wall = ended.unwrap_or_else(Instant::now).saturating_duration_since(began);
        let mut trace = self.collector.finish();
        trace.wall_ns = u64::try_from(Duration::as_nanos(&wall)).ok();
        if self.ended.is_none() {
            trace.losses.insert(Loss::TracerEnded, 1);
            trace.exit = orphan;
            if let Some(root) = trace.processes.first_mut().filter(|_| orphan.is_some()) {
                root.state = State::Exited;
            }
        }
        Ok(trace)
    }
}
