//! [`Fifo`]: how strace's log comes to zctrace.

use std::{
    io,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{FcntlArg, fcntl},
    sys::stat::Mode,
    unistd::{Gid, Uid, chown, mkfifo},
};
use tempfile::TempDir;
use tokio::net::unix::pipe;

use crate::launch::Identity;

/// The capacity of the FIFO, so that strace rarely has to wait: the most that an unprivileged user
/// may have.
const CAPACITY_BYTES: i32 = 1 << 20;
/// How much is read at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// The private FIFO that strace writes its log to, in a folder that is removed once strace has
/// opened it. The command never sees it.
pub struct Fifo {
    reader: pipe::Receiver,
    path: PathBuf,
    /// `None` once strace has opened the FIFO.
    folder: Option<TempDir>,
    chunk: Vec<u8>,
}

impl Fifo {
    /// Creates one that this user may write to; `None`: the user who runs zctrace.
    pub fn create(writer: Option<Identity>) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("zctrace-").tempdir()?;
        let path = folder.path().join("log");
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        if let Some(Identity { uid, gid }) = writer {
            for part in [folder.path(), &path] {
                chown(part, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
            }
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
            folder: Some(folder),
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
                self.folder = None;
                Ok(Some(&self.chunk[..length]).filter(|chunk| !chunk.is_empty()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}
