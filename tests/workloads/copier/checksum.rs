//! Counts bytes and computes their checksum: while they pass, or by reading both ends again after
//! the copy, independently of how they were copied.

use std::{
    fmt::{self, Display},
    fs::{self, File, Metadata},
    io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom},
    os::{
        fd::{AsFd, AsRawFd, RawFd},
        unix::fs::FileTypeExt,
    },
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context, Result, bail};
use crc32fast::Hasher;
use rustix::fs::{OFlags, SeekFrom as Position, fcntl_getfl, seek};
use zc_tests::named;

use crate::ends::Spec;

/// A number of bytes, with their checksum if it was requested: `5 bytes, crc32 3610a686`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) bytes: u64,
    pub(crate) crc32: Option<u32>,
}

impl Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)?;
        self.crc32
            .map_or(Ok(()), |crc32| write!(f, ", crc32 {crc32:08x}"))
    }
}

impl FromStr for Moved {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (bytes, rest) = text.split_once(" bytes").ok_or(())?;
        let crc32 = match rest.strip_prefix(", crc32 ") {
            Some(digits) => Some(u32::from_str_radix(digits, 16).map_err(|_| ())?),
            None if rest.is_empty() => None,
            None => return Err(()),
        };
        Ok(Self {
            bytes: bytes.parse().map_err(|_| ())?,
            crc32,
        })
    }
}

/// Counts bytes that pass, and computes their checksum if it was requested.
pub(crate) struct Meter {
    bytes: u64,
    hasher: Option<Hasher>,
}

impl Meter {
    pub(crate) fn new(checksum: bool) -> Self {
        Self {
            bytes: 0,
            hasher: checksum.then(Hasher::new),
        }
    }

    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
    }

    pub(crate) fn read(self) -> Moved {
        Moved {
            bytes: self.bytes,
            crc32: self.hasher.map(Hasher::finalize),
        }
    }
}

/// The size of a read for the checksum.
const BUFFER: usize = 256 * 1024;

/// Where copied bytes are: in a regular file or a block device, from an offset on.
pub(crate) struct Stored {
    path: PathBuf,
    start: u64,
}

impl Stored {
    /// Where a source's bytes are before the copy; `None` if they cannot be read twice.
    pub(crate) fn of_source(spec: &Spec) -> Result<Option<Self>> {
        match (spec, spec.origin()) {
            (Spec::Standard, _) => Self::standard(io::stdin()),
            (_, Some(path)) => Ok(Self::in_file(path).map(|_| Self {
                path: path.to_owned(),
                start: 0,
            })),
            (_, None) => Ok(None),
        }
    }

    /// Where a destination's bytes will be; `None` if they cannot be read there, or if that is only
    /// known after the copy.
    pub(crate) fn of_sink(spec: &Spec, append: bool) -> Result<Option<Self>> {
        match spec {
            Spec::Standard => Self::standard(io::stdout()),
            Spec::Path(path) => Ok(match fs::metadata(path) {
                Err(err) if err.kind() == ErrorKind::NotFound => Some(Self {
                    path: path.clone(),
                    start: 0,
                }),
                _ => Self::in_file(path).map(|about| Self {
                    path: path.clone(),
                    start: if append { about.len() } else { 0 },
                }),
            }),
            _ => Ok(None),
        }
    }

    /// The file behind a descriptor of this process, from an offset on.
    pub(crate) fn descriptor(fd: RawFd, start: u64) -> Self {
        Self {
            path: format!("/proc/self/fd/{fd}").into(),
            start,
        }
    }

    /// A standard stream, from its position on.
    fn standard(stream: impl AsFd) -> Result<Option<Self>> {
        let this = Self::descriptor(stream.as_fd().as_raw_fd(), 0);
        let Some(about) = Self::in_file(&this.path) else {
            return Ok(None);
        };
        let start = if fcntl_getfl(&stream)?.contains(OFlags::APPEND) {
            about.len()
        } else {
            seek(&stream, Position::Current(0))?
        };
        Ok(Some(Self { start, ..this }))
    }

    /// The metadata of the file, if it can be read twice.
    fn in_file(path: &Path) -> Option<Metadata> {
        fs::metadata(path)
            .ok()
            .filter(|about| about.is_file() || about.file_type().is_block_device())
    }

    /// The CRC-32 of the `count` bytes from there on.
    pub(crate) fn crc32(&self, count: u64) -> Result<u32> {
        let context = || format!("read {} again", self.path.display());
        let open = || {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(self.start))?;
            Ok(file)
        };
        let file = open().map_err(named).with_context(context)?;
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
            let (context, missing) = (context(), reader.limit());
            bail!("{context}: {missing} of the {count} bytes are not there");
        }
        Ok(hasher.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::{Meter, Moved};

    #[test]
    fn a_printed_count_can_be_parsed() {
        for (bytes, crc32) in [(0, None), (5, Some(0x3610_a686)), (7, Some(1))] {
            let moved = Moved { bytes, crc32 };
            assert_eq!(moved.to_string().parse(), Ok(moved));
        }
        for text in ["", "5", "x bytes", "5 bytes, crc32 xyz", "5 bytes more"] {
            assert_eq!(text.parse::<Moved>(), Err(()), "{text:?}");
        }
    }

    /// The check value of the CRC's definition.
    #[test]
    fn the_checksum_is_crc_32() {
        let mut meter = Meter::new(true);
        meter.pass(b"1234");
        meter.pass(b"56789");
        assert_eq!(meter.read().to_string(), "9 bytes, crc32 cbf43926");
    }
}
