//! A directory for what a task writes.

use std::{
    env,
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context as _, Result};

use crate::command::pass_on;

/// A directory of xtask's own, deleted with the value.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes one for this task.
    pub(crate) fn new(task: &str) -> Result<Self> {
        // They are for the programs that xtask started; it has to live on and delete the files.
        outlive_signals();
        let path = env::temp_dir().join(format!("zctrace-{task}-{}", process::id()));
        DirBuilder::new().mode(0o700).create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    /// The directory itself.
    pub(crate) fn directory(&self) -> &Path {
        &self.0
    }

    /// Where a file of this name goes.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("xtask: {} is left behind: {error}", self.0.display());
        }
    }
}

/// Takes the signals that ask for the end, and leaves the end to the program that runs. Ctrl-C reaches that by itself, the others are
/// passed on. Unlike `SIG_IGN`, a handler is not inherited by the programs started from here.
fn outlive_signals() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    let (nothing, pass_on): (extern "C" fn(libc::c_int), extern "C" fn(libc::c_int)) = (nothing, pass_on);
    for (signal, handler) in [(libc::SIGINT, nothing), (libc::SIGTERM, pass_on), (libc::SIGHUP, pass_on)] {
        // SAFETY: what the handlers do, an atomic load and kill(2), is safe at any point of the program.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt as _, process::Command, thread};

    use super::*;
    use crate::command::run_to_end;

    #[test]
    fn a_signal_ends_the_programs_that_run_and_the_files_go() {
        let scratch = Scratch::new("test").expect("a directory");
        let (directory, started) = (scratch.directory().to_owned(), scratch.path("started"));
        let running = thread::spawn({
            let started = started.clone();
            move || run_to_end(Command::new("sh").arg("-c").arg(r#": > "$0"; exec sleep 100"#).arg(started))
        });
        while !started.exists() {
            thread::yield_now();
        }
        // SAFETY: the signal has a handler.
        unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
        assert_eq!(running.join().expect("no panic").expect("it started").signal(), Some(libc::SIGTERM));
        let next = run_to_end(Command::new("sleep").arg("100")).expect("it starts");
        assert_eq!(next.signal(), Some(libc::SIGTERM));
        drop(scratch);
        assert!(!directory.exists());
    }
}
