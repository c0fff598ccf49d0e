//! [`End`]: a file as reports show it, wherever bytes came from or went to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    slow_calls::SlowCalls,
    text::relative_to,
    trace::{File, FileId, OpenFlags, SampledStack, Trace},
};

/// A file, device, pipe or socket that a call used. `None`: unknown, or none.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct End {
    /// `regular`, `memfd`, `directory`, `block`, `char`, `pipe`, `unix-stream`, `unix-dgram`,
    /// `unix-seqpacket`, `tcp`, `udp`, `netlink`, `socket`, `eventfd` or `anonymous`.
    pub kind: Option<String>,
    /// The filesystem's type, as in `/proc/mounts`.
    pub fs: Option<String>,
    /// The path of its first use, relative to
    /// [`Report::directory`](crate::report::Report::directory) if it is below that. For a Unix
    /// socket, the address; for a file in no directory, the kernel's name (`memfd:NAME`). `
    /// (deleted)` follows if the name had been removed by then.
    pub path: Option<String>,
    /// Its path at the end, if it was renamed within its directory: the same device, inode and
    /// generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_at_end: Option<String>,
    /// Length of a regular file or memfd at its first use.
    pub size: Option<u64>,
    /// Which of `O_SYNC`, `O_DSYNC` and `O_DIRECT` its first descriptor had; in a log, that of its
    /// first `open`. Left out: none, or unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_flags: Vec<String>,
    /// Of a socket, its own `HOST:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// Of a socket, the other end's `HOST:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Of a connected Unix socket, the other end's inode number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_inode: Option<u64>,
    /// Device and inode, as in `stat`. On btrfs, eBPF gives the device of the filesystem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode: Option<Inode>,
}

impl End {
    /// Its path. A socket without a path has the address of its peer, or else its own.
    pub fn name(&self) -> Option<&str> {
        self.all_names().next()
    }

    pub(crate) fn all_names(&self) -> impl Iterator<Item = &str> {
        let names = [&self.path_at_end, &self.path, &self.peer, &self.local];
        let names = names.into_iter().flatten().map(String::as_str);
        names.filter(|name| !name.is_empty())
    }
}

/// Identifies a file.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Inode {
    /// Device number of the filesystem.
    pub device: u64,
    /// Inode number.
    pub number: u64,
}

/// Describes the files of a trace as ends of transfers.
#[derive(Debug)]
pub(crate) struct EndTable<'a> {
    files: &'a [File],
    /// The directory that paths are shown relative to; empty: unknown.
    directory: &'a str,
    /// The stacks of calls, if callers were sampled.
    pub(crate) stacks: Option<&'a [SampledStack]>,
}

impl<'a> EndTable<'a> {
    /// The files of a trace.
    pub(crate) fn new(trace: &'a Trace) -> Self {
        Self::with_files(trace, &trace.files)
    }

    /// Files that are not in their trace yet.
    pub(crate) fn with_files(trace: &'a Trace, files: &'a [File]) -> Self {
        Self {
            files,
            directory: trace.directory.as_deref().unwrap_or_default(),
            stacks: trace.stacks.as_deref(),
        }
    }

    /// The file as an end of a transfer.
    pub(crate) fn find_end(&self, id: FileId) -> End {
        let file = id.in_files(self.files);
        file.map_or_else(End::default, |file| self.describe_file(file))
    }

    fn describe_file(&self, file: &File) -> End {
        let shown = |path: Option<&str>| path.map(|path| self.relative_path(path).to_owned());
        let flags = file.open_flags.into_iter().flat_map(OpenFlags::names);
        End {
            kind: file.kind.map(|kind| kind.name().to_owned()),
            fs: file.filesystem.clone(),
            path: shown(file.path.as_deref()),
            path_at_end: shown(file.path_at_end.as_deref()),
            size: file.size_bytes,
            open_flags: flags.map(str::to_owned).collect(),
            local: file.local.clone(),
            peer: file.peer.clone(),
            peer_inode: file.peer_inode,
            inode: file.identity.map(|identity| Inode {
                device: identity.device,
                number: identity.inode,
            }),
        }
    }

    /// The calls, with paths as reports show them.
    pub(crate) fn relative_to_directory(&self, mut slow: SlowCalls) -> SlowCalls {
        for path in slow.calls.iter_mut().filter_map(|call| call.path.as_mut()) {
            *path = self.relative_path(path).to_owned();
        }
        slow
    }

    fn relative_path<'p>(&self, path: &'p str) -> &'p str {
        relative_to(self.directory, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn paths_below_the_directory_are_relative() {
        let mut trace = sample::nothing();
        for (directory, path, shown) in [
            (Some("/work"), "/work/data/in", "data/in"),
            (Some("/work"), "/workshop/in", "/workshop/in"),
            (Some("/"), "/etc/passwd", "/etc/passwd"),
            (None, "/work/in", "/work/in"),
        ] {
            trace.directory = directory.map(str::to_owned);
            assert_eq!(EndTable::new(&trace).relative_path(path), shown);
        }
    }
}
