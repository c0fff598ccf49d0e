//! Finds and kills the descendants of a process, and has a child end with its parent.
//!
//! Public for zctrace's own crates only.

use std::{collections::HashSet, fs, io, time::Duration};

use nix::{
    errno::Errno,
    sys::{
        prctl,
        signal::{Signal, kill},
        wait::waitpid,
    },
    unistd::{Pid, getppid},
};
use tokio::time::sleep;

use crate::proc_stat::name_and_fields;

/// How often to look for processes that were created while others were signalled.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The children of all threads of a process, including zombies; none if the process is gone.
pub(crate) fn children_of(process: &str) -> Vec<Pid> {
    let mut children = Vec::new();
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let ids = list.split_whitespace().filter_map(|id| id.parse().ok());
        children.extend(ids.map(Pid::from_raw));
    }
    children
}

/// Whether `/proc` is there, and is that of the PID namespace of this process. If not, its ids are
/// those of other processes.
pub fn is_proc_ours() -> bool {
    let own = std::process::id().to_string();
    fs::read_link("/proc/self").is_ok_and(|id| id.to_str() == Some(&own))
}

/// The children of this process; none if `/proc` [does not show them](is_proc_ours).
pub fn own_children() -> Vec<Pid> {
    if is_proc_ours() {
        children_of("self")
    } else {
        Vec::new()
    }
}

/// Sends the signal of this number to a process.
pub(crate) fn send(process: Pid, number: i32) -> Result<(), Errno> {
    // SAFETY: no pointers are passed.
    Errno::result(unsafe { libc::kill(process.as_raw(), number) }).map(drop)
}

/// Kills a child of this process with all its descendants, and waits for it. If it is a subreaper,
/// no descendant escapes meanwhile.
pub fn kill_with_descendants(child: Pid) {
    // Descendants first; the next round finds those that were created meanwhile.
    loop {
        let mut alive = with_descendants(children_of(&child.to_string()));
        alive.retain(|&pid| !is_dead(pid));
        if alive.is_empty() {
            break;
        }
        for pid in alive {
            let _ = kill(pid, Signal::SIGKILL);
        }
        std::thread::yield_now();
    }
    let _ = kill(child, Signal::SIGKILL);
    while waitpid(child, None) == Err(Errno::EINTR) {}
}

/// Has the kernel send this process a signal when its parent ends. Fails if that has ended already.
/// Only makes system calls, so it may be called between fork and exec.
pub fn end_with_parent(parent: Pid, signal: Signal) -> io::Result<()> {
    prctl::set_pdeathsig(signal)?;
    // 0: it is in another PID namespace.
    if [parent, Pid::from_raw(0)].contains(&getppid()) {
        Ok(())
    } else {
        Err(Errno::ESRCH.into())
    }
}

/// All descendants of this process, parents before their children.
pub(crate) fn own_descendants() -> Vec<Pid> {
    with_descendants(own_children())
}

/// These processes and all their descendants, parents before their children.
pub(crate) fn with_descendants(mut found: Vec<Pid>) -> Vec<Pid> {
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        found.extend(children_of(&pid.to_string()));
        next += 1;
    }
    found
}

/// Whether a process is gone or a zombie.
fn is_dead(pid: Pid) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    name_and_fields(&stat).is_none_or(|(_, mut fields)| {
        let state = fields.next();
        state.is_some_and(|state| state.starts_with(['Z', 'X']))
    })
}

/// Kills all children of this process but these, until none is left. If this process is a
/// subreaper, the children of a child that dies become its own.
pub fn kill_all_but(keep: &[Pid]) {
    loop {
        let mut children = own_children();
        children.retain(|child| !keep.contains(child));
        for &child in &children {
            // It may have ended meanwhile; it keeps its id until we wait for it.
            let _ = kill(child, Signal::SIGKILL);
        }
        if children.is_empty() {
            return;
        }
        for child in children {
            let _ = waitpid(child, None);
        }
    }
}

/// Sends the signal of this number to each of these processes once, and to those that they create
/// meanwhile.
pub(crate) async fn signal_all<E>(
    number: i32,
    mut processes: impl FnMut() -> Result<Vec<Pid>, E>,
) -> Result<(), E> {
    let mut signalled = HashSet::new();
    loop {
        let mut new = processes()?;
        new.retain(|&pid| pid.as_raw() > 0 && signalled.insert(pid));
        if new.is_empty() {
            return Ok(());
        }
        for pid in new {
            // It may have ended meanwhile.
            let _ = send(pid, number);
        }
        sleep(LOOK_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::getpid;

    use super::*;

    #[test]
    fn a_child_is_told_that_its_parent_has_ended_before_it_asked() {
        assert!(end_with_parent(getppid(), Signal::SIGTERM).is_ok());
        // This process is not its own parent.
        assert!(end_with_parent(getpid(), Signal::SIGTERM).is_err());
        prctl::set_pdeathsig(None).expect("it is a signal");
    }
}
