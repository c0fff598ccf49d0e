//! A directory for what a task writes.

use std::{
    env,
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context as _, Result};

/// A directory of xtask's own, deleted with the value.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes one for this task.
    pub(crate) fn new(task: &str) -> Result<Self> {
        // Ctrl-C is for the programs that xtask started; it has to live on and delete the files.
        ignore_interrupts();
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

/// Takes SIGINT without any effect; unlike `SIG_IGN`, a handler is not inherited by the programs started from here.
fn ignore_interrupts() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: the handler does nothing, so it is safe to run at any point of the program.
    unsafe { libc::signal(libc::SIGINT, handler as libc::sighandler_t) };
}
