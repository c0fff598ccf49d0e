//! [`Fifo`]: how strace's log comes to zctrace.

use std::{
    env, fs, io,
    os::{
        fd::AsFd as _,
        unix::{ffi::OsStrExt as _, fs::FileTypeExt as _},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl, open},
    sys::stat::Mode,
    unistd::{Gid, Uid, chown, mkfifo},
};
use tempfile::TempPath;
use tokio::net::unix::pipe;

use crate::launch::Identity;

/// The capacity of the FIFO, so that strace rarely has to wait: the most that an unprivileged user
/// may have.
const CAPACITY_BYTES: i32 = 1 << 20;
/// How much is read at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// What the names of FIFOs begin with, in the folder for temporary files.
const PREFIX: &str = "zctrace-log-";
/// A FIFO is not removed before this age: its reader may be about to open it.
const YOUNG: Duration = Duration::from_mins(1);

/// The private FIFO that strace writes its log to. Its name is removed once strace has opened it.
/// The command never sees it.
pub struct Fifo {
    reader: pipe::Receiver,
    path: PathBuf,
    /// Removes the name; `None` once strace has opened the FIFO.
    name: Option<TempPath>,
    chunk: Vec<u8>,
}

impl Fifo {
    /// Creates one that this user may write to; `None`: the user who runs zctrace.
    pub fn create(writer: Option<Identity>) -> io::Result<Self> {
        remove_abandoned();
        let make = |path: &Path| Ok(mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?);
        let fifo = tempfile::Builder::new().prefix(PREFIX).make(make)?;
        let name = fifo.into_temp_path();
        let path = name.to_path_buf();
        if let Some(Identity { uid, gid }) = writer {
            chown(&path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        // Open for writing, too, so that an empty one is not at its end.
        let reader = pipe::OpenOptions::new()
            .read_write(true)
            .open_receiver(&path)?;
        // A smaller capacity does no harm.
        let _ = fcntl(reader.as_fd(), FcntlArg::F_SETPIPE_SZ(CAPACITY_BYTES));
        Ok(Self {
            reader,
            path,
            name: Some(name),
            chunk: vec![0; CHUNK_BYTES],
        })
    }

    /// Its path, for strace.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until there is something to read.
    pub async fn readable(&self) -> io::Result<()> {
        self.reader.readable().await
    }

    /// What there is to read; `None` if nothing.
    pub fn read(&mut self) -> io::Result<Option<&[u8]>> {
        match self.reader.try_read(&mut self.chunk) {
            Ok(length) => {
                // strace has opened it. Without the name, nothing is left behind however this ends.
                self.name = None;
                Ok(Some(&self.chunk[..length]).filter(|chunk| !chunk.is_empty()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Removes the FIFOs that nobody reads: SIGKILL ended their zctrace before strace had opened them.
fn remove_abandoned() {
    for entry in fs::read_dir(env::temp_dir())
        .into_iter()
        .flatten()
        .flatten()
    {
        let has_name = entry.file_name().as_bytes().starts_with(PREFIX.as_bytes());
        let is_fifo = entry.file_type().is_ok_and(|kind| kind.is_fifo());
        let changed = entry.metadata().and_then(|found| found.modified());
        let age = changed.ok().and_then(|time| time.elapsed().ok());
        let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        if has_name
            && is_fifo
            && age > Some(YOUNG)
            && open(&entry.path(), flags, Mode::empty()).err() == Some(Errno::ENXIO)
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}
