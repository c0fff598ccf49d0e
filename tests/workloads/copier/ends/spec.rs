//! How the ends of a copy are written.

use std::convert::Infallible;
use std::fmt::{self, Display};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, bail};
use rustix::fs::{FileType, fstat, stat};

/// One end of a copy, as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spec {
    /// A path: a regular file, `/dev/null`, a block device, a named pipe.
    Path(PathBuf),
    /// `unix:PATH`: a stream socket of the Unix family.
    Unix(PathBuf),
    /// `tcp:HOST:PORT`.
    Tcp(String),
    /// `pipe:PATH`: a pipe; a process of its own feeds it from PATH, or drains it into PATH.
    Pipe(PathBuf),
    /// `memfd:PATH`: a file in memory that holds what PATH holds; `memfd:` as a destination: one that holds nothing.
    Memfd(PathBuf),
    /// `-`: stdin or stdout, whatever it is.
    Standard,
}

impl FromStr for Spec {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.split_once(':') {
            Some(("unix", path)) => Self::Unix(path.into()),
            Some(("tcp", address)) => Self::Tcp(address.to_owned()),
            Some(("pipe", path)) => Self::Pipe(path.into()),
            Some(("memfd", path)) => Self::Memfd(path.into()),
            _ if text == "-" => Self::Standard,
            _ => Self::Path(text.into()),
        })
    }
}

impl Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Pipe(path) => write!(f, "pipe:{}", path.display()),
            Self::Memfd(path) => write!(f, "memfd:{}", path.display()),
            Self::Standard => f.write_str("-"),
        }
    }
}

impl Spec {
    /// Where a source's bytes lie, if that has a name.
    pub(crate) fn origin(&self) -> Option<&Path> {
        match self {
            Self::Path(path) | Self::Pipe(path) | Self::Memfd(path) => Some(path),
            Self::Unix(_) | Self::Tcp(_) | Self::Standard => None,
        }
    }

    /// Device and inode of the regular file where its bytes lie, or will; `standard` is what `-` stands for.
    pub(crate) fn regular_file(&self, standard: impl AsFd) -> Option<(u64, u64)> {
        let about = match (self, self.origin()) {
            (_, Some(path)) => stat(path),
            (Self::Standard, _) => fstat(standard),
            _ => return None,
        };
        let about = about.ok().filter(|about| FileType::from_raw_mode(about.st_mode) == FileType::RegularFile)?;
        Some((about.st_dev, about.st_ino))
    }

    /// Refuses what cannot be read from.
    pub(crate) fn check_source(&self) -> Result<()> {
        match self {
            Self::Path(path) if path.as_os_str().is_empty() => bail!("--from is empty: name a source"),
            Self::Pipe(path) | Self::Memfd(path) if path.as_os_str().is_empty() => {
                bail!("{self} as a source needs a path: {self}PATH is filled from PATH")
            }
            _ => Ok(()),
        }
    }

    /// Refuses what cannot be written to in this way.
    pub(crate) fn check_destination(&self, append: bool) -> Result<()> {
        match self {
            Self::Path(path) if path.as_os_str().is_empty() => bail!("--to is empty: name a destination"),
            Self::Pipe(path) if path.as_os_str().is_empty() => {
                bail!("pipe: as a destination needs a path: pipe:/dev/null drains it away")
            }
            Self::Memfd(path) if !path.as_os_str().is_empty() => {
                bail!("{self}: a destination in memory has no name: write memfd:")
            }
            Self::Path(_) => Ok(()),
            _ if append => bail!("{self}: --append is for a destination that is a path"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Spec;

    fn parse(text: &str) -> Spec {
        let Ok(spec) = text.parse();
        spec
    }

    #[test]
    fn a_spec_is_shown_as_it_was_written() {
        for text in ["in", "./unix:in", "/dev/null", "unix:/run/x.sock", "tcp:localhost:80", "pipe:in", "memfd:", "memfd:in", "-"]
        {
            assert_eq!(parse(text).to_string(), text);
        }
    }

    #[test]
    fn a_prefix_names_a_kind() {
        assert_eq!(parse("unix:a:b"), Spec::Unix("a:b".into()));
        assert_eq!(parse("tcp:[::1]:80"), Spec::Tcp("[::1]:80".into()));
        assert_eq!(parse("pipe:/dev/null"), Spec::Pipe("/dev/null".into()));
        assert_eq!(parse("udp:x"), Spec::Path("udp:x".into()));
    }

    #[test]
    fn a_source_is_somewhere() {
        for text in ["", "pipe:", "memfd:"] {
            let error = parse(text).check_source().expect_err("nowhere").to_string();
            assert!(error.starts_with(if text.is_empty() { "--from is empty" } else { text }), "{text:?}: {error}");
        }
        for text in ["in", "pipe:in", "memfd:in", "unix:x", "tcp:x:1", "-"] {
            assert!(parse(text).check_source().is_ok(), "{text:?}");
        }
    }

    #[test]
    fn only_a_path_is_appended_to() {
        for (text, emptied, appended) in
            [("out", true, true), ("memfd:", true, false), ("-", true, false), ("memfd:out", false, false), ("", false, false)]
        {
            assert_eq!(parse(text).check_destination(false).is_ok(), emptied, "{text:?}");
            assert_eq!(parse(text).check_destination(true).is_ok(), appended, "{text:?}");
        }
    }
}
