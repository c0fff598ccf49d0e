//! The standard streams of a command.

use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    process::{Command, Stdio},
    sync::Arc,
};

/// Where a command reads from and writes to. By default it shares zctrace's own streams, so that it behaves as without zctrace.
#[derive(Debug, Clone, Default)]
pub struct Streams {
    /// Standard input.
    pub stdin: Stream,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
}

/// One standard stream.
#[derive(Debug, Clone, Default)]
pub enum Stream {
    /// As zctrace has it.
    #[default]
    Inherited,
    /// An open file.
    Open(Arc<OwnedFd>),
}

impl Stream {
    /// `/dev/null`, for reading and writing.
    pub fn null() -> io::Result<Self> {
        Ok(File::options().read(true).write(true).open("/dev/null")?.into())
    }

    fn to_stdio(&self) -> io::Result<Stdio> {
        Ok(match self {
            Self::Inherited => Stdio::inherit(),
            Self::Open(fd) => fd.try_clone()?.into(),
        })
    }
}

impl<F: Into<OwnedFd>> From<F> for Stream {
    fn from(file: F) -> Self {
        Self::Open(Arc::new(file.into()))
    }
}

impl Streams {
    pub(super) fn apply_to(&self, command: &mut Command) -> io::Result<()> {
        command.stdin(self.stdin.to_stdio()?).stdout(self.stdout.to_stdio()?).stderr(self.stderr.to_stdio()?);
        Ok(())
    }
}
