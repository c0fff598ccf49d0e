//! What the kernel side says of the descriptors that processes have open.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use zc_ebpf::{HeldDescriptor, NO_DESCRIPTOR};
use zctrace_core::left_open::{LeftDescriptor, LeftOpen};

use crate::backend::ebpf::read::file_table::NumberedFiles;

/// The streams, which a program rarely closes.
const STREAMS: u32 = 3;

/// What the process of the command had open when it began, and what processes had when they exited.
#[derive(Debug, Clone, Default)]
pub struct HeldDescriptors {
    /// The descriptors that the first program began with, and the addresses of their files. zctrace has
    /// the same files open, so no other file gets one of these addresses.
    inherited: BTreeSet<(u32, u64)>,
    knows_start: bool,
    /// By thread. If several threads of a process exit at once, each may report all of it.
    exits: HashMap<u32, ExitingThread>,
}

/// What the last thread of a process had open.
#[derive(Debug, Clone, Default)]
struct ExitingThread {
    pid: u32,
    open: BTreeMap<u32, LeftDescriptor>,
    is_complete: bool,
}

impl HeldDescriptors {
    /// Adds a descriptor.
    pub fn add(&mut self, held: &HeldDescriptor, files: &NumberedFiles) {
        let HeldDescriptor {
            header,
            address,
            fd,
            file,
        } = *held;
        match (header.extra, fd) {
            (0, NO_DESCRIPTOR) => self.knows_start = true,
            (0, _) => drop(self.inherited.insert((fd, address))),
            _ => {
                let thread = self.exits.entry(header.tid).or_default();
                if thread.is_complete {
                    // The id was used again.
                    *thread = ExitingThread::default();
                }
                thread.pid = header.pid;
                if fd == NO_DESCRIPTOR {
                    thread.is_complete = true;
                } else if fd >= STREAMS && !self.inherited.contains(&(fd, address)) {
                    let known = files.known(file);
                    let left = LeftDescriptor {
                        fd,
                        path: known.and_then(|file| file.path.clone()),
                        kind: known
                            .and_then(|file| file.kind)
                            .map(|kind| kind.name().to_owned()),
                        call: None,
                    };
                    thread.open.insert(fd, left);
                }
            }
        }
    }

    /// What this process left open. `is_lossy`: messages may be missing.
    pub fn finish(self, pid: Option<u32>, is_lossy: bool) -> LeftOpen {
        let mut threads = self.exits.into_values();
        let thread = threads.find(|thread| Some(thread.pid) == pid && thread.is_complete);
        let doubts = [
            (
                !self.knows_start || thread.is_none(),
                "the end of the command was not seen",
            ),
            (is_lossy, "messages from the kernel were lost"),
        ];
        let doubts = doubts.into_iter().filter(|(is_so, _)| *is_so);
        let open = thread.map(|thread| thread.open).unwrap_or_default();
        LeftOpen {
            descriptors: open.into_values().collect(),
            doubts: doubts.map(|(_, why)| why.to_owned()).collect(),
        }
    }
}
