//! What still runs when a comparison is broken off.

use std::fs;

use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill},
        wait::waitpid,
    },
    unistd::Pid,
};

/// Kills all descendants of this process, which must be a subreaper: as one of them dies, its children become ours.
pub(super) fn kill_all() {
    loop {
        let children = children();
        for &child in &children {
            // It may have ended meanwhile; it keeps its id until we wait for it.
            let _ = kill(child, Signal::SIGKILL);
        }
        // Not one is left, or the kernel does not tell.
        if children.is_empty() || waitpid(None, None) == Err(Errno::ECHILD) {
            return;
        }
    }
}

/// The children of all threads of this process, those included that ended but were not waited for.
fn children() -> Vec<Pid> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let lists = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).map(Pid::from_raw).collect::<Vec<_>>())
        .collect()
}
