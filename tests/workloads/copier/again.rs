//! Reading the bytes of an end once more, independently of how they were copied.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use crc32fast::Hasher;
use rustix::fs::{OFlags, SeekFrom as Position, fcntl_getfl, seek};
use zc_tests::named;

use crate::ends::Spec;

/// What one read of the check asks for.
const BUFFER: usize = 256 * 1024;

/// Where copied bytes lie: in a regular file or a block device, from an offset on.
pub(crate) struct Again {
    path: PathBuf,
    start: u64,
}

impl Again {
    /// Where a source's bytes lie, before they are copied; `None` if they cannot be had twice.
    pub(crate) fn of_source(spec: &Spec) -> Result<Option<Self>> {
        match (spec, spec.origin()) {
            (Spec::Standard, _) => Self::standard(io::stdin()),
            (_, Some(path)) => Ok(Self::in_file(path).map(|_| Self { path: path.to_owned(), start: 0 })),
            (_, None) => Ok(None),
        }
    }

    /// Where a destination's bytes will lie; `None` if that cannot be read, or only once they are there.
    pub(crate) fn of_sink(spec: &Spec, append: bool) -> Result<Option<Self>> {
        match spec {
            Spec::Standard => Self::standard(io::stdout()),
            Spec::Path(path) => Ok(match fs::metadata(path) {
                Err(err) if err.kind() == ErrorKind::NotFound => Some(Self { path: path.clone(), start: 0 }),
                _ => Self::in_file(path).map(|about| Self { path: path.clone(), start: if append { about.len() } else { 0 } }),
            }),
            _ => Ok(None),
        }
    }

    /// What is behind one of our descriptors, from an offset on.
    pub(crate) fn descriptor(fd: RawFd, start: u64) -> Self {
        Self { path: format!("/proc/self/fd/{fd}").into(), start }
    }

    /// A standard stream, from its position on.
    fn standard(stream: impl AsFd) -> Result<Option<Self>> {
        let this = Self::descriptor(stream.as_fd().as_raw_fd(), 0);
        let Some(about) = Self::in_file(&this.path) else { return Ok(None) };
        let start =
            if fcntl_getfl(&stream)?.contains(OFlags::APPEND) { about.len() } else { seek(&stream, Position::Current(0))? };
        Ok(Some(Self { start, ..this }))
    }

    /// About the file, if it can be read twice.
    fn in_file(path: &Path) -> Option<Metadata> {
        fs::metadata(path).ok().filter(|about| about.is_file() || about.file_type().is_block_device())
    }

    /// The CRC-32 of its next `count` bytes.
    pub(crate) fn crc32(&self, count: u64) -> Result<u32> {
        let context = || format!("read {} again", self.path.display());
        let mut file = File::open(&self.path).map_err(named).with_context(context)?;
        file.seek(SeekFrom::Start(self.start)).map_err(named).with_context(context)?;
        let mut reader = BufReader::with_capacity(BUFFER, file).take(count);
        let mut hasher = Hasher::new();
        loop {
            let bytes = reader.fill_buf().map_err(named).with_context(context)?;
            let read = bytes.len();
            if read == 0 {
                break;
            }
            hasher.update(bytes);
            reader.consume(read);
        }
        if reader.limit() > 0 {
            bail!("{}: {} of the {count} bytes are not there", context(), reader.limit());
        }
        Ok(hasher.finalize())
    }
}
