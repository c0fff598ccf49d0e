//! What survives a crash, as far as the order of calls promises it.
//!
//! [`Judge`] gets [`FileEvent`]s in their order, whatever they were recorded with, and says of each
//! file and directory whether it was synced in order:
//!
//! | | rule | holds if |
//! |---|---|---|
//! | 1 | data | every change of a file had returned before a successful sync of it was entered |
//! | 2 | name | after a name was made, moved or removed, its directory was synced; so were those of the names above it |
//! | 3 | order | no file was moved to a name while its data were not synced |
//! | 4 | failure | the program did not go on after a failed sync: it told nobody anything, and did not exit with 0 |
//! | 5 | waste | no sync had nothing to do; that is counted, and no verdict depends on it |
//!
//! It judges calls, not filesystems: what was there when the run began counts as synced, and what
//! rules 1 to 4 do not promise counts as lost. A name that was never on the disk, and is not to be
//! there, needs nothing: a temporary file may be left over, but nothing is lost.

mod event;
mod judge;
mod moments;
mod names;
mod on_disk;
mod pending;
mod syncs;
#[cfg(test)]
mod tests;
mod timeline;
mod verdicts;

pub use event::{Change, Doubt, FileAction, FileEvent, ProgramId, SyncId, SyncResult, SyncScope};
pub use judge::Judge;
pub use names::{Names, NodeId, Place, Presence, Resolved};
pub use syncs::{
    FileChange, FileSyncs, MomentFile, ProgramSyncs, SyncMoment, SyncSums, SyncVerdict, Syncs,
};
pub use timeline::{TimelineEvent, TimelineKind};
pub use verdicts::RunEnd;
