//! `known`: known numbers of every call that moves data.
//!
//! All of them are made on one bare thread, and everything they need (files, sockets, buffers) is there before it starts, so that
//! the thread's row in a per-thread report holds these calls and no others.

mod files;
mod memory;
mod pipes;
mod sockets;

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use zc_tests::{Tally, print_expectation, with_bare_thread};

use crate::parameters::Parameters;

/// Makes the calls on files in `DIR` (the directory for temporary files), and prints them.
pub(crate) fn run(mut parameters: Parameters) -> Result<()> {
    let dir = parameters.text().map_or_else(std::env::temp_dir, PathBuf::from);
    parameters.end()?;
    let dir = tempfile::tempdir_in(dir)?;
    let mut files = files::Files::new(dir.path())?;
    let mut pipes = pipes::Pipes::new(dir.path())?;
    let mut sockets = sockets::Sockets::new()?;
    let memory = memory::Memory::new(dir.path())?;
    let mut tally = Tally::default();
    let calls = || {
        files.call(&mut tally);
        pipes.call(&mut tally);
        sockets.call(&mut tally);
        memory.call(&mut tally);
    };
    with_bare_thread(c"zc-known", calls, |_| ())?;
    print_expectation("known", &tally.figures()?, json!({ "thread": "zc-known" }))
}
