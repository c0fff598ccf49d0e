//! A started program: its process group, its end, and a deadline for it.

use std::{
    io,
    os::unix::process::CommandExt as _,
    process::{Child, Command},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, kill_process_group, waitid};

use super::patience;

/// What takes longer than this hangs. Everything here takes a few seconds at most, also on a busy machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// A program and everything in its process group. What is left of it is killed when this goes.
///
/// The program is not reaped before that: so its id stays its own, however many processes come and go meanwhile.
pub struct Group {
    child: Child,
    watchdog: Option<Watchdog>,
}

struct Watchdog {
    stop: Sender<()>,
    thread: JoinHandle<()>,
    has_bitten: Arc<AtomicBool>,
}

impl Group {
    /// Starts a program as the leader of a new process group, with SIGINT and SIGQUIT at their defaults.
    pub fn start(command: &mut Command) -> Self {
        Self::of(with_default_interrupts(command).process_group(0).spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}")))
    }

    /// The group of a program that is its leader already.
    pub fn of(child: Child) -> Self {
        let mut group = Self { child, watchdog: None };
        group.watchdog = Some(Watchdog::start(group.pid()));
        group
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

    /// Waits for the program's end: its exit status, or `None` if a signal killed it.
    pub fn wait(&self) -> Option<i32> {
        let ended = self.wait_with(WaitIdOptions::empty()).expect("it ends");
        let overdue = self.watchdog.as_ref().is_some_and(|watchdog| watchdog.has_bitten.load(SeqCst));
        assert!(!overdue, "it did not end within {:?}", patience(DEADLINE));
        ended.exit_status()
    }

    fn wait_with(&self, options: WaitIdOptions) -> Option<WaitIdStatus> {
        waitid(WaitId::Pid(self.pid()), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | options).expect("it is our child")
    }
}

/// Resets SIGINT and SIGQUIT in the program that this command starts. A shell without job control ignores both in what it starts in the
/// background, and every program inherits that: tests run from there could not interrupt anything.
pub(super) fn with_default_interrupts(command: &mut Command) -> &mut Command {
    let reset = || {
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: no handler is installed.
            if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes two system calls and nothing else.
    unsafe { command.pre_exec(reset) }
}

impl Watchdog {
    fn start(group: Pid) -> Self {
        let (stop, stopped) = channel();
        let has_bitten = Arc::new(AtomicBool::new(false));
        let bites = Arc::clone(&has_bitten);
        let thread = thread::spawn(move || {
            if stopped.recv_timeout(patience(DEADLINE)) == Err(RecvTimeoutError::Timeout) {
                bites.store(true, SeqCst);
                let _ = kill_process_group(group, Signal::KILL);
            }
        });
        Self { stop, thread, has_bitten }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(Watchdog { stop, thread, .. }) = self.watchdog.take() {
            drop(stop);
            let _ = thread.join();
        }
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{program, untraced};

    #[test]
    fn a_started_program_does_not_ignore_interrupts() {
        let status = untraced(&program("cat").arg("/proc/self/status")).finish();
        let mask = status.successful().lines().find_map(|line| line.strip_prefix("SigIgn:\t")).expect("a mask");
        let ignored = u64::from_str_radix(mask, 16).expect("a mask");
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            assert_eq!(ignored & 1 << (signal - 1), 0, "signal {signal} is ignored: {mask}");
        }
    }

    /// Runs the other test in a process that ignores both signals, as a shell starts it in the background.
    #[test]
    fn tests_that_run_in_the_background_start_programs_that_do_not_ignore_interrupts() {
        let (_, module) = module_path!().split_once("::").expect("a module of the crate");
        let test = format!("{module}::a_started_program_does_not_ignore_interrupts");
        let this = program(std::env::current_exe().expect("known")).args(&["--exact", &test]);
        let finished = untraced(&this.through(&["env", "--ignore-signal=INT", "--ignore-signal=QUIT"])).finish();
        assert!(finished.successful().contains("1 passed"), "{}", finished.text());
    }
}
