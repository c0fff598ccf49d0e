//! Ends what `check` and `compare` have started even if SIGKILL ends zctrace.

use std::process::ExitCode;

use anyhow::ensure;
use nix::{
    sys::{prctl, signal::Signal},
    unistd::{ForkResult, fork, getpid},
};
use zctrace::{
    launch::{Child, OnTracerExit, Received, Signals},
    trace::Exit,
};
use zctrace_capture::{descendants, privileges};

use crate::{FAILED, exit_code, say};

/// Works in a child process, and passes signals on to it. If this process is killed, the kernel
/// sends the child SIGTERM: it ends all that it has started, and removes its temporary files. If
/// the child is killed, this process ends what is left.
///
/// To be called before there are threads.
pub fn guarded(work: impl FnOnce() -> anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    ensure!(
        descendants::is_proc_ours(),
        "check and compare need /proc to find the processes they started, but it is missing or belongs to another PID namespace: mount it (mount -t proc proc /proc)"
    );
    let earlier_children = descendants::own_children();
    let guard = getpid();
    prctl::set_child_subreaper(true)?;
    // SAFETY: there is no other thread, so the child may do whatever this process may.
    let ForkResult::Parent { child } = (unsafe { fork()? }) else {
        return match descendants::end_with_parent(guard, Signal::SIGTERM) {
            Ok(()) => work(),
            Err(_) => Ok(ExitCode::from(FAILED)),
        };
    };
    // It traces nothing. It may have fewer, never more.
    let _ = privileges::give_up();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let exit = runtime.block_on(async {
        let signals = Signals::hold(OnTracerExit::KeepRunning)?;
        let child = Child::adopt(child)?;
        loop {
            tokio::select! {
                exit = child.wait() => return anyhow::Ok(exit?),
                signal = signals.next() => if let Received::ToForward(signal) = signal? { child.forward(signal) },
            }
        }
    })?;
    if let Exit::Signal(_) = exit {
        descendants::kill_all_but(&earlier_children);
        say(format_args!("it was killed, and all that it had started"));
    }
    Ok(exit_code(exit))
}
