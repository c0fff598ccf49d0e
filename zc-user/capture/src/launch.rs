//! Launches the command as a shell would: it keeps the terminal, the working directory, the
//! environment and the process group. Signals to zctrace are blocked while the command runs, and
//! forwarded to it.

pub(crate) mod interpreter;
mod options;

use std::{
    cell::OnceCell,
    ffi::{CString, OsStr, OsString},
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{
            ffi::OsStrExt as _,
            process::{CommandExt as _, ExitStatusExt as _},
        },
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::atomic::{AtomicUsize, Ordering},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        signal::{SigSet, SigmaskHow, Signal, pthread_sigmask},
        signalfd::{SfdFlags, SignalFd},
        stat::stat,
    },
    time::{ClockId, clock_gettime},
    unistd::{
        AccessFlags, Gid, Pid, access, geteuid, getgrouplist, getpid, setgid, setgroups, setuid,
    },
};
use rustix::process::{PidfdFlags, pidfd_open};
use thiserror::Error;
use tokio::io::unix::AsyncFd;

use crate::{
    async_fd::watch_readable,
    descendants::{end_with_parent, send},
    privileges,
    trace::Exit,
};
use zctrace_core::text::{command_line, from_os};

pub use options::{Environment, Identity, LaunchOptions, OnTracerExit, Stream, Streams};

/// The command could not be started.
#[derive(Debug, Error)]
#[error("cannot run '{program}': {why}")]
pub struct LaunchError {
    /// The program that was to be started.
    pub program: String,
    /// Why it could not be started. It is not the `Error::source`, since the message of this error
    /// contains it.
    pub cause: io::Error,
    /// The same in words; the interpreter that is missing if the program itself is there.
    why: String,
}

impl LaunchError {
    /// The error for this program.
    pub fn new(program: impl AsRef<OsStr>, cause: io::Error) -> Self {
        let path = Path::new(program.as_ref());
        let is_missing = cause.kind() == io::ErrorKind::NotFound;
        let mut why = match path.components().count() {
            1 if is_missing && path.is_relative() => "not found in PATH".to_owned(),
            2.. if is_missing => {
                interpreter::missing_interpreter(path).unwrap_or_else(|| reason(&cause))
            }
            _ => reason(&cause),
        };
        let program = from_os(program);
        if cause.kind() == io::ErrorKind::NotFound && program.contains(char::is_whitespace) {
            why += &one_word(&program);
        }
        Self {
            program,
            cause,
            why,
        }
    }

    /// The exit status, as that of `env` and `timeout`: 127 if there is no such program, else 126.
    pub fn exit_status(&self) -> u8 {
        match self.cause.kind() {
            io::ErrorKind::NotFound => 127,
            _ => 126,
        }
    }
}

/// What to do if a whole command line was given as the name of the program.
fn one_word(line: &str) -> String {
    let is_for_a_shell = line.contains(['|', '<', '>', '&', ';', '$', '*', '?', '(', '`']);
    let remedy = if is_for_a_shell {
        format!(
            "run it with a shell: sh -c {}",
            command_line(&[line.to_owned()])
        )
    } else {
        format!("leave out the quotes: {line}")
    };
    format!("; it is a command line in one word: {remedy}")
}

/// The message of an error, without the number that std appends.
pub fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(errno) => Errno::from_raw(errno).desc().to_owned(),
        None => error.to_string(),
    }
}

/// The disposition of SIGPIPE when this process began. Rust's runtime ignores the signal before
/// `main`, and std resets it in children; the command must find it as it would without zctrace.
static SIGPIPE_BEFORE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

/// Which standard streams were closed when this process began, each a bit. Rust's runtime opens
/// `/dev/null` in their place.
static CLOSED_BEFORE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn note_beginning() {
    for stream in STREAMS {
        // SAFETY: plain numbers; the call only asks for the flags of a descriptor.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } < 0 {
            CLOSED_BEFORE.fetch_or(1 << stream, Ordering::Relaxed);
        }
    }
    // SAFETY: an all-zero sigaction is valid, and with a null pointer sigaction only reads the
    // disposition into it.
    unsafe {
        let mut found: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut found) == 0 {
            SIGPIPE_BEFORE.store(found.sa_sigaction, Ordering::Relaxed);
        }
    }
}

/// The loader calls it before Rust's runtime starts.
// SAFETY: the section holds pointers to functions; this one needs no arguments and only makes
// system calls.
#[unsafe(link_section = ".init_array")]
#[used]
static NOTE_BEGINNING: extern "C" fn() = note_beginning;

/// Whether this standard stream was closed when this process began.
pub fn was_closed(stream: libc::c_int) -> bool {
    CLOSED_BEFORE.load(Ordering::Relaxed) >> stream & 1 != 0
}

/// The descriptors of the standard streams.
const STREAMS: [libc::c_int; 3] = [0, 1, 2];

/// A running command.
pub struct Child {
    pid: Pid,
    pidfd: AsyncFd<OwnedFd>,
}

impl Child {
    /// Starts a program that [`find_program`] found, with this command line. When this returns, the
    /// exec has succeeded.
    pub fn start(
        program: &Path,
        command: &[OsString],
        launch: &LaunchOptions,
        signals: &Signals,
    ) -> Result<Self, LaunchError> {
        let started = prepare(program, command, launch, signals)
            .and_then(|mut prepared| Self::spawn(&mut prepared));
        let name = command.first().map_or(program.as_os_str(), |name| name);
        started.map_err(|cause| LaunchError::new(name, cause))
    }

    /// Starts a [prepared](prepare) command.
    pub fn spawn(prepared: &mut Command) -> io::Result<Self> {
        let id = i32::try_from(prepared.spawn()?.id()).map_err(io::Error::other)?;
        Self::adopt(Pid::from_raw(id))
    }

    /// Waits for a child that somebody else started.
    pub fn adopt(pid: Pid) -> io::Result<Self> {
        // A child that was not waited for keeps its id.
        let id = rustix::process::Pid::from_raw(pid.as_raw()).ok_or(Errno::ESRCH)?;
        Ok(Self {
            pid,
            pidfd: watch_readable(pidfd_open(id, PidfdFlags::empty())?)?,
        })
    }

    /// Its id.
    pub(crate) fn id(&self) -> Pid {
        self.pid
    }

    /// Waits for its end.
    pub async fn wait(&self) -> io::Result<Exit> {
        Ok(self.wait_with_usage().await?.0)
    }

    /// Waits for its end; also returns the resource usage of it and of the children it waited for.
    pub async fn wait_with_usage(&self) -> io::Result<(Exit, libc::rusage)> {
        let _ = self.pidfd.readable().await?;
        let mut status = 0;
        // SAFETY: plain numbers, for which zero is valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `status` and `usage` are ours; the child is ours.
        while unsafe { libc::wait4(self.pid.as_raw(), &raw mut status, 0, &raw mut usage) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        let status = ExitStatus::from_raw(status);
        let exit = match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or_default()),
        };
        Ok((exit, usage))
    }

    /// Forwards the signal of this number. It is no error if the command has ended meanwhile.
    pub fn forward(&self, signal: i32) {
        let _ = send(self.pid, signal);
    }
}

/// Prepares a command for [`Child::spawn`].
pub fn prepare(
    program: &Path,
    command: &[OsString],
    launch: &LaunchOptions,
    signals: &Signals,
) -> io::Result<Command> {
    let mut launched = Command::new(program);
    if let Some((name, arguments)) = command.split_first() {
        launched.arg0(name).args(arguments);
    }
    launch.streams.apply_to(&mut launched)?;
    launch.environment().apply_to(&mut launched);
    if let Some(directory) = &launch.directory {
        launched.current_dir(directory);
    }
    let identity = launch.identity;
    let groups = supplementary_groups(launch);
    let (mask, on_tracer_exit, parent) = (signals.before, launch.on_tracer_exit, getpid());
    let is_elevated = privileges::is_elevated();
    let sigpipe = SIGPIPE_BEFORE.load(Ordering::Relaxed);
    let streams = STREAMS.into_iter().zip(launch.streams.inherited());
    let to_close = streams.filter(|&(stream, is_inherited)| is_inherited && was_closed(stream));
    let to_close: Vec<libc::c_int> = to_close.map(|(stream, _)| stream).collect();
    // SAFETY: the closure runs between fork and exec and only makes system calls.
    unsafe {
        launched.pre_exec(move || {
            if let Some(identity) = identity {
                become_user(identity, &groups)?;
            }
            libc::signal(libc::SIGPIPE, sigpipe);
            for &stream in &to_close {
                libc::close(stream);
            }
            if is_elevated {
                prctl::set_no_new_privs()?;
            }
            if on_tracer_exit != OnTracerExit::KeepRunning {
                end_with_parent(parent, Signal::SIGKILL)?;
            }
            bring_cpu_time_up_to_date();
            pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&mask), None).map_err(io::Error::from)
        });
    }
    Ok(launched)
}

/// The groups of the user that a command runs as; none if that user has no name.
fn supplementary_groups(launch: &LaunchOptions) -> Vec<Gid> {
    let user = launch.user().zip(launch.identity);
    let groups = user.and_then(|(user, identity)| {
        let name = CString::new(user.name).ok()?;
        getgrouplist(&name, identity.gid.into()).ok()
    });
    groups.unwrap_or_default()
}

/// Gives up the rights of the user that this process has for those of another. It only makes system
/// calls.
fn become_user(identity: Identity, groups: &[Gid]) -> nix::Result<()> {
    if geteuid().is_root() {
        setgroups(groups)?;
    }
    setgid(identity.gid.into())?;
    setuid(identity.uid.into())
}

/// Has the kernel bring the CPU time of this thread up to date, which it else does at every tick:
/// the CPU time of a trace counts from here.
pub fn bring_cpu_time_up_to_date() {
    let _ = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
}

/// Finds the program of a command as exec does. A relative path starts at the command's working
/// directory.
pub fn find_program(command: &[OsString], launch: &LaunchOptions) -> Result<PathBuf, LaunchError> {
    let Some(name) = command.first() else {
        return Err(LaunchError::new("", io::ErrorKind::InvalidInput.into()));
    };
    if name.is_empty() {
        return Err(LaunchError::new(name, Errno::ENOENT.into()));
    }
    if let Some(directory) = &launch.directory
        && !directory.is_dir()
    {
        let directory = directory.display();
        let cause = format!("the directory '{directory}' does not exist");
        return Err(LaunchError::new(name, io::Error::other(cause)));
    }
    if !launch.identity.is_none_or(privileges::may_become) {
        let cause = "only root may run a command as another user: run zctrace with sudo";
        return Err(LaunchError::new(name, io::Error::other(cause)));
    }
    let failed = |errno: Errno| LaunchError::new(name, errno.into());
    if name.as_bytes().contains(&b'/') {
        check_program(&launch.locate(Path::new(name))).map_err(failed)?;
        return Ok(name.into());
    }
    let mut reason = Errno::ENOENT;
    for folder in std::env::split_paths(&launch.environment.path()) {
        let candidate = folder.join(name);
        match check_program(&launch.locate(&candidate)) {
            Ok(()) => return Ok(candidate),
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            // As exec does: keep looking, and report this error if nothing is found.
            Err(other) => reason = other,
        }
    }
    Err(failed(reason))
}

fn check_program(path: &Path) -> Result<(), Errno> {
    if stat(path)?.st_mode & libc::S_IFMT == libc::S_IFDIR {
        Err(Errno::EISDIR)
    } else {
        access(path, AccessFlags::X_OK)
    }
}

/// The signals by which a person or a supervisor ends a program. zctrace must outlive its command
/// to report on it.
///
/// Public for zctrace's own crates only.
pub const ENDING_SIGNALS: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGHUP,
];
/// The other signals that would end zctrace and that somebody may send to the command (`man 7
/// signal`); real-time signals are added in [`held_signals`]. Not SIGPIPE, which Rust's runtime
/// ignores, nor those that report a fault of zctrace itself.
const OTHER_SIGNALS: [Signal; 10] = [
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGSTKFLT,
    Signal::SIGIO,
    Signal::SIGPWR,
    Signal::SIGXCPU,
    Signal::SIGXFSZ,
];
/// `SI_KERNEL` of the kernel's include/uapi/asm-generic/siginfo.h: the terminal sent the signal, to
/// the whole process group.
const FROM_KERNEL: i32 = 0x80;

/// Signals to zctrace, blocked in this thread so that they can be forwarded.
///
/// They stay blocked as long as the thread lives: a signal that ends the command must not end
/// zctrace before it has reported.
pub struct Signals {
    /// The descriptor that they are read from; `None` if none are blocked.
    fd: Option<AsyncFd<SignalFd>>,
    /// The signal mask for the command.
    before: SigSet,
    on_tracer_exit: OnTracerExit,
}

thread_local! {
    /// The signal mask that this thread began with, which the command gets. It is noted once, since
    /// a second backend may take over.
    static MASK_BEFORE: OnceCell<SigSet> = const { OnceCell::new() };
}

impl Signals {
    /// Blocks the signals, unless zctrace is a guest in this process. To be called in a tokio
    /// runtime, and in the program zctrace before any other thread exists: the kernel delivers a
    /// signal to any thread that does not block it.
    pub fn hold(on_tracer_exit: OnTracerExit) -> io::Result<Self> {
        if on_tracer_exit == OnTracerExit::KillInHost {
            return Ok(Self {
                fd: None,
                before: SigSet::thread_get_mask()?,
                on_tracer_exit,
            });
        }
        let held = held_signals();
        let mut before = SigSet::empty();
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&held), Some(&mut before))?;
        let before = MASK_BEFORE.with(|noted| *noted.get_or_init(|| before));
        let fd = SignalFd::with_flags(&held, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self {
            fd: Some(watch_readable(fd)?),
            before,
            on_tracer_exit,
        })
    }

    /// The next signal. One from the terminal has reached the command already.
    pub async fn next(&self) -> Result<Received, SignalError> {
        let Some(fd) = &self.fd else {
            return std::future::pending().await;
        };
        loop {
            let mut ready = fd.readable().await?;
            match self.pending()? {
                Some(received) => return Ok(received),
                None => ready.clear_ready(),
            }
        }
    }

    /// Like [`next`](Self::next), but does not wait.
    pub fn pending(&self) -> Result<Option<Received>, SignalError> {
        let Some(fd) = &self.fd else { return Ok(None) };
        let Some(info) = fd.get_ref().read_signal().map_err(io::Error::from)? else {
            return Ok(None);
        };
        let number = i32::try_from(info.ssi_signo).map_err(io::Error::other)?;
        match ending_signal(number) {
            Some(signal) if self.on_tracer_exit != OnTracerExit::KeepRunning => {
                Err(SignalError::Interrupted(signal))
            }
            Some(_) if info.ssi_code == FROM_KERNEL => Ok(Some(Received::FromTerminal)),
            // The kernel reports that zctrace itself exceeded its limit of CPU time or file size.
            None if [libc::SIGXCPU, libc::SIGXFSZ].contains(&number) && is_from_itself(&info) => {
                Ok(Some(Received::Own))
            }
            _ => Ok(Some(Received::ToForward(number))),
        }
    }
}

fn ending_signal(number: i32) -> Option<Signal> {
    let mut signals = ENDING_SIGNALS.into_iter();
    signals.find(|signal| *signal as i32 == number)
}

/// The signals that are blocked.
fn held_signals() -> SigSet {
    let set: SigSet = ENDING_SIGNALS.into_iter().chain(OTHER_SIGNALS).collect();
    let mut set = *set.as_ref();
    for number in libc::SIGRTMIN()..=libc::SIGRTMAX() {
        // SAFETY: the set is initialized; for an invalid number it fails and changes nothing.
        unsafe { libc::sigaddset(&raw mut set, number) };
    }
    // SAFETY: it was made of a valid set.
    unsafe { SigSet::from_sigset_t_unchecked(set) }
}

/// Whether a signal waits that this thread blocks.
pub fn is_signal_pending() -> bool {
    let mut pending = *SigSet::empty().as_ref();
    // SAFETY: the set is ours, and the call only fills it in.
    let result = unsafe { libc::sigpending(&raw mut pending) };
    // SAFETY: as above; the kernel has filled it in.
    let pending = unsafe { SigSet::from_sigset_t_unchecked(pending) };
    result == 0 && pending.iter().next().is_some()
}

fn is_from_itself(info: &libc::signalfd_siginfo) -> bool {
    info.ssi_code == FROM_KERNEL || info.ssi_pid == std::process::id()
}

/// Why there is no signal to forward.
#[derive(Debug, Error)]
pub enum SignalError {
    /// A signal came that ends both the command and zctrace.
    #[error("interrupted by {0}")]
    Interrupted(Signal),
    /// Signals could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A signal to zctrace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The terminal sent it to the command, too.
    FromTerminal,
    /// The signal of this number has to be forwarded to the command.
    ToForward(i32),
    /// It is about zctrace itself, and has no effect.
    Own,
}

impl Received {
    /// The signal, if a person or a supervisor wants zctrace to end. One from the terminal counts as
    /// SIGINT.
    pub fn as_ending(self) -> Option<Signal> {
        match self {
            Self::FromTerminal => Some(Signal::SIGINT),
            Self::ToForward(number) => ending_signal(number),
            Self::Own => None,
        }
    }

    /// Whether a person or a supervisor wants the command to end.
    pub fn is_ending(self) -> bool {
        self.as_ending().is_some()
    }
}

/// Whether no thread of a process is alive, also if nobody has waited for it yet.
pub(crate) fn has_ended(process: Pid) -> bool {
    let Some(id) = rustix::process::Pid::from_raw(process.as_raw()) else {
        return true;
    };
    match pidfd_open(id, PidfdFlags::empty()) {
        Ok(pidfd) => !is_alive(&pidfd),
        Err(error) => error == rustix::io::Errno::SRCH,
    }
}

/// Whether a thread of the process of a pidfd is alive. Until then, no other process gets its id.
pub(crate) fn is_alive(pidfd: &OwnedFd) -> bool {
    let mut waiting = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
    poll(&mut waiting, PollTimeout::ZERO) == Ok(0)
}
