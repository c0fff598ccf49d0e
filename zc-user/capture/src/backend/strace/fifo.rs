//! The private FIFO that strace writes its log to. The command never sees it: strace opens it for itself alone.

use std::{
    fs::File,
    io::{self, Read as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::OpenOptionsExt as _,
    },
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{FcntlArg, fcntl},
    sys::stat::Mode,
    unistd::{Gid, Uid, chown, mkfifo},
};
use tempfile::TempDir;
use tokio::io::unix::AsyncFd;

use crate::{launch::Identity, readable::readable};

/// Room in the FIFO, so that strace waits for us less often: the most that a user may have without privileges.
const CAPACITY_BYTES: i32 = 1 << 20;
/// How much is read at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// A FIFO in a folder of its own, which vanishes when it is in use.
pub(super) struct Fifo {
    reader: File,
    ready: AsyncFd<OwnedFd>,
    /// As long as somebody has it open for writing, an empty FIFO is not at its end.
    _writer: File,
    path: PathBuf,
    /// Until strace has opened what is in it.
    folder: Option<TempDir>,
    chunk: Vec<u8>,
}

impl Fifo {
    /// Makes one that this user may write to; without a user, the one who runs zctrace.
    pub(super) fn create(writer: Option<Identity>) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("zctrace-").tempdir()?;
        let path = folder.path().join("log");
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        if let Some(Identity { uid, gid }) = writer {
            for part in [folder.path(), &path] {
                chown(part, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
            }
        }
        let reader = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path)?;
        let writer = File::options().write(true).open(&path)?;
        // Less room does no harm.
        let _ = fcntl(reader.as_fd(), FcntlArg::F_SETPIPE_SZ(CAPACITY_BYTES));
        let ready = readable(reader.as_fd().try_clone_to_owned()?)?;
        Ok(Self { reader, ready, _writer: writer, path, folder: Some(folder), chunk: vec![0; CHUNK_BYTES] })
    }

    /// Where strace finds it.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until there is something to read.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.ready.readable().await?.clear_ready();
        Ok(())
    }

    /// What there is to read; `None` if nothing.
    pub(super) fn read(&mut self) -> io::Result<Option<&[u8]>> {
        match self.reader.read(&mut self.chunk) {
            Ok(length) => {
                // Nobody needs the name any more: nothing stays behind, however this ends.
                self.folder = None;
                Ok(Some(&self.chunk[..length]).filter(|chunk| !chunk.is_empty()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}
