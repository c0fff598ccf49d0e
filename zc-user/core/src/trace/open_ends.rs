//! [`OpenEnd`]: who has which end of a pipe or connection that a call waits on.

/// An end of a pipe, or a Unix socket, that a process had open shortly before the trace ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenEnd {
    /// What it is an end of.
    pub inode: EndInode,
    /// The process.
    pub pid: u32,
    /// Its name; `None` if unknown.
    pub name: Option<String>,
}

/// Which end of a pipe or connection, by its inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndInode {
    /// The end of a pipe that can be read.
    PipeToRead(u64),
    /// The end of a pipe that can be written.
    PipeToWrite(u64),
    /// A Unix socket.
    Socket(u64),
}
