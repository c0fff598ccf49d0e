//! [`Ends`]: the files of a trace as ends of transfers.

use crate::{
    trace::{File, FileId, Trace},
    transfer::{End, Inode},
};

/// Describes the files of a trace.
#[derive(Debug)]
pub(crate) struct Ends<'a> {
    files: &'a [File],
    /// What paths are shown relative to, with a slash at its end.
    below: Option<String>,
}

impl<'a> Ends<'a> {
    /// Of this trace.
    pub(crate) fn new(trace: &'a Trace) -> Self {
        let below = trace.directory.as_deref().map(|directory| format!("{}/", directory.trim_end_matches('/')));
        Self { files: &trace.files, below }
    }

    /// The file as an end of a transfer.
    pub(crate) fn end(&self, id: FileId) -> End {
        usize::try_from(id.0).ok().and_then(|index| self.files.get(index)).map_or_else(End::default, |file| self.describe(file))
    }

    /// The program's own memory as an end.
    pub(crate) fn memory() -> End {
        End { kind: Some(End::MEMORY.to_owned()), ..End::default() }
    }

    fn describe(&self, file: &File) -> End {
        End {
            kind: file.kind.map(|kind| kind.name().to_owned()),
            fs: file.filesystem.clone(),
            path: file.path.as_deref().map(|path| self.relative(path).to_owned()),
            size: file.size_bytes,
            local: file.local.clone(),
            peer: file.peer.clone(),
            inode: file.identity.map(|identity| Inode { device: identity.device, number: identity.inode }),
        }
    }

    fn relative<'p>(&self, path: &'p str) -> &'p str {
        self.below.as_deref().filter(|below| *below != "/").and_then(|below| path.strip_prefix(below)).unwrap_or(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn paths_below_the_directory_are_relative() {
        let mut trace = sample::nothing();
        let path_in = |trace: &Trace, path: &'static str| Ends::new(trace).relative(path).to_owned();
        assert_eq!(path_in(&trace, "/work/data/in"), "data/in");
        assert_eq!(path_in(&trace, "/workshop/in"), "/workshop/in");
        trace.directory = Some("/".into());
        assert_eq!(path_in(&trace, "/etc/passwd"), "/etc/passwd");
        trace.directory = None;
        assert_eq!(path_in(&trace, "/work/in"), "/work/in");
    }
}
