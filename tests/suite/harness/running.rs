//! Running programs: process groups with a deadline, conversations through pipes, terminals.

use std::{
    ffi::c_int,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    ops::Deref,
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, kill_process_group, waitid,
};

use super::{Program, launch::Capture, patience};

/// A program that takes longer than this hangs. Hardly a test takes more than a few seconds, even
/// on a busy machine; the table of `std::io::copy` takes more than ten minutes in a guest that
/// shares its processors, where everything may take ten times longer.
const DEADLINE: Duration = Duration::from_mins(2);

/// A program and everything in its process group. When the value is dropped, what still runs is
/// killed.
///
/// The program is not reaped before that, so no other process gets its id.
pub struct ProcessGroup {
    child: Child,
    watchdog: Option<Watchdog>,
}

/// Kills a group that takes too long, unless the sender is dropped before.
struct Watchdog {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl ProcessGroup {
    /// Starts a program as the leader of a new process group. It ignores none of the signals in
    /// [`RESET`].
    pub fn start(command: &mut Command) -> Self {
        let child = with_default_signals(command.process_group(0)).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let watchdog = Some(Watchdog::start(Pid::from_child(&child)));
        Self { child, watchdog }
    }

    /// The program's id, and that of its group.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The program.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Sends a signal to the program alone.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it has not been reaped");
    }

    /// Whether the program has ended.
    pub fn has_ended(&self) -> bool {
        self.wait_with(WaitIdOptions::NOHANG).is_some()
    }

    /// Waits for the program's end, without closing its stdin: its exit status, or `None` if a
    /// signal killed it.
    pub fn wait(&self) -> Option<i32> {
        let ended = self.wait_with(WaitIdOptions::empty()).expect("it ends");
        if let Some(signal) = ended.terminating_signal() {
            println!("killed by signal {signal}");
        }
        ended.exit_status()
    }

    fn wait_with(&self, options: WaitIdOptions) -> Option<WaitIdStatus> {
        waitid(
            WaitId::Pid(self.pid()),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | options,
        )
        .expect("it is our child")
    }
}

/// Signals that the tests themselves may have been started to ignore, and every program inherits
/// that: a shell without job control ignores SIGINT and SIGQUIT in what it starts in the
/// background, and `nohup` ignores SIGHUP.
const RESET: [c_int; 3] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT];

/// Resets the signals in [`RESET`] to their defaults in the program that this command starts, so
/// that a test can send them.
fn with_default_signals(command: &mut Command) -> &mut Command {
    let reset = || {
        for signal in RESET {
            // SAFETY: no handler is installed.
            if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes a few system calls and nothing else.
    unsafe { command.pre_exec(reset) }
}

impl Watchdog {
    fn start(group: Pid) -> Self {
        let (stop, stopped) = channel();
        let limit = patience(DEADLINE);
        let watch = move || {
            if stopped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                eprintln!("killed, because it did not end within {limit:?}: {group:?}");
                let _ = kill_process_group(group, Signal::KILL);
            }
        };
        let thread = thread::spawn(watch);
        Self { stop, thread }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(Watchdog { stop, thread }) = self.watchdog.take() {
            drop(stop);
            let _ = thread.join();
        }
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A running program with pipes at its stdin and stdout.
pub struct Conversation {
    group: ProcessGroup,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: Capture,
}

impl Conversation {
    pub(super) fn new(mut group: ProcessGroup, stderr: Capture) -> Self {
        let stdin = group.child().stdin.take();
        let stdout = BufReader::new(group.child().stdout.take().expect("a pipe"));
        Self {
            group,
            stdin,
            stdout,
            stderr,
        }
    }

    /// Waits for the next line, and returns it without the line end.
    #[track_caller]
    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("text");
        assert!(line.ends_with('\n'), "its output ends with {line:?}");
        line.trim_end().to_owned()
    }

    /// Waits for the next line, which must be this one.
    #[track_caller]
    pub fn expect(&mut self, line: &str) {
        assert_eq!(self.hear(), line);
    }

    /// Sends a line to its stdin.
    pub fn say(&mut self, line: &str) {
        self.stdin
            .as_mut()
            .expect("still open")
            .write_all(format!("{line}\n").as_bytes())
            .expect("it reads");
    }

    /// What it has written to stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }
}

impl Deref for Conversation {
    type Target = ProcessGroup;

    fn deref(&self) -> &ProcessGroup {
        &self.group
    }
}

/// A program that runs in the foreground of its own terminal.
pub struct Terminal {
    talk: Conversation,
    shown: String,
}

impl Terminal {
    /// Starts a program on a new terminal with this many columns.
    pub fn start(columns: u16, launch: &Program) -> Self {
        Self {
            talk: launch.on_terminal(columns).start(),
            shown: String::new(),
        }
    }

    /// Runs a program on a new terminal to its end: its exit status, and everything that was shown.
    pub fn run(columns: u16, launch: &Program) -> (Option<i32>, String) {
        Self::start(columns, launch).finish()
    }

    /// Waits until this text is shown.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        while !self.shown.contains(text) {
            assert!(
                self.read_more(),
                "no {text:?} on the terminal: {}",
                self.shown
            );
        }
    }

    /// Types these keys.
    pub fn type_in(&mut self, keys: &str) {
        let stdin = self.talk.stdin.as_mut().expect("still open");
        stdin.write_all(keys.as_bytes()).expect("it reads");
    }

    /// Waits for the program's end: its exit status, and everything that was shown.
    pub fn finish(mut self) -> (Option<i32>, String) {
        while self.read_more() {}
        (self.talk.wait(), self.shown)
    }

    /// Reads more output. False if no process has the terminal open any more.
    fn read_more(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let count = self.talk.stdout.read(&mut bytes).expect("a pipe");
        self.shown
            .push_str(&String::from_utf8_lossy(&bytes[..count]));
        count > 0
    }
}
