//! [`FileEvents`]: makes events of calls, and has them judged.

use std::{
    collections::{HashMap, HashSet},
    fs,
    os::unix::fs::MetadataExt as _,
};

use zctrace_core::{
    durable::{
        Change, Doubt, FileAction, FileEvent, Judge, Names, NodeId, ProgramId, RunEnd, SyncId,
        SyncResult, SyncScope, Syncs,
    },
    touched::Touched,
};

use super::{
    call::{CallerId, Ending, FileCall},
    descriptors::{DescriptorTables, Descriptors, Handles},
    flag,
    kinds::{changes_names, is_sync, sync_result, written},
    touches::Touches,
};

/// Makes events of calls, and has them judged.
#[derive(Default)]
pub struct FileEvents {
    pub(super) judge: Judge,
    pub(super) tables: DescriptorTables,
    pub(super) handles: Handles,
    /// The syncs that were entered in a line before.
    in_sync: HashSet<SyncId>,
    /// What tasks write whose calls were entered in a line before.
    under_way: HashMap<CallerId, NodeId>,
    by: ProgramId,
    at_ns: Option<u64>,
    last_ns: Option<u64>,
    /// What was touched, if that is asked for.
    pub(super) touches: Option<Touches>,
}

impl FileEvents {
    /// Also notes what was touched, if `notes_touches`.
    pub fn new(notes_touches: bool) -> Self {
        Self {
            touches: notes_touches.then(Touches::default),
            ..Self::default()
        }
    }

    /// What was touched; `None`: it was not asked for. `is_here`: the files are those of this machine.
    pub fn take_touched(&mut self, doubts: &[Doubt], is_here: bool) -> Option<Touched> {
        let touches = self.touches.take()?;
        Some(touches.finish(doubts, is_here))
    }

    /// Looks up files on the machine of the run: what may be symbolic links, and whether two paths lead to
    /// one file. What still has the name that it had is what it was.
    pub fn look_up_files(&mut self) {
        let mut files = HashSet::new();
        let paths = self.judge.changed_paths();
        let found = paths
            .values()
            .filter_map(|path| fs::symlink_metadata(path).ok());
        for file in found {
            if !files.insert((file.dev(), file.ino())) {
                return self.note_unseen(Doubt::TwoPaths);
            }
        }
        let names = &mut self.judge.names;
        for (id, path) in names.doubtful_paths() {
            let found = fs::symlink_metadata(path);
            if found.is_ok_and(|found| !found.is_symlink()) {
                names.confirm_no_link(id);
            }
        }
    }

    /// The verdicts; `is_success` says whether the run exited with 0.
    pub fn finish(mut self, is_success: bool, doubts: Vec<Doubt>) -> Syncs {
        for doubt in doubts {
            self.note_unseen(doubt);
        }
        self.judge.finish_verdicts(RunEnd {
            at_ns: self.last_ns,
            is_success,
        })
    }

    /// The run went on at least until then.
    pub fn note_time(&mut self, at_ns: Option<u64>) {
        self.last_ns = at_ns.or(self.last_ns);
    }

    pub(super) fn push(&mut self, what: FileAction) {
        self.judge.push_event(FileEvent {
            at_ns: self.at_ns,
            by: self.by,
            what,
        });
    }

    pub(super) fn note_unseen(&mut self, doubt: Doubt) {
        self.push(FileAction::Unseen(doubt));
    }

    pub(super) fn changed(
        &mut self,
        file: NodeId,
        call: &'static str,
        bytes: Option<u64>,
        how: Change,
    ) {
        self.push(FileAction::Changed {
            file,
            call,
            bytes,
            how,
        });
    }

    pub(super) fn table(&mut self, call: FileCall<'_>) -> &mut Descriptors {
        self.tables.of_task(call.task, call.tid, call.creator)
    }

    /// A call was entered that returns in a later line.
    pub fn entered(&mut self, call: FileCall<'_>) {
        self.begin(call);
        if let Some(scope) = self.scope(call) {
            self.in_sync.insert(sync_of(call));
            self.sync_entered(call, scope);
        } else if let Some((argument, _)) = written(call.name)
            && let Some(file) = self.file(call, argument)
        {
            self.under_way.insert(call.task, file);
        }
    }

    /// A sync was entered. It is not wasted if a write has begun, although that has not returned.
    fn sync_entered(&mut self, call: FileCall<'_>, scope: SyncScope) {
        let mut files: Vec<NodeId> = self.under_way.values().copied().collect();
        if call.seen.is_some_and(|seen| seen.is_written) {
            files.extend(match scope {
                SyncScope::Object(file) | SyncScope::FilesystemOf(file) => Some(file),
                // One that it covers.
                SyncScope::Everything => Some(Names::ROOT),
                SyncScope::Mapping(_) => None,
            });
        }
        for file in files {
            self.push(FileAction::Touched(file));
        }
        self.push(FileAction::SyncEntered(sync_of(call), scope));
    }

    fn begin(&mut self, call: FileCall<'_>) {
        self.begin_event(call.program, call.at_ns);
        if call.seen.is_none() {
            self.table(call);
        }
    }

    pub(super) fn begin_event(&mut self, program: &str, at_ns: Option<u64>) {
        self.by = self.judge.program_id(program);
        self.at_ns = at_ns;
    }

    /// A call returned.
    pub fn returned(&mut self, call: FileCall<'_>) {
        self.begin(call);
        self.touched(call);
        self.under_way.remove(&call.task);
        if is_sync(call.name) {
            return self.note_sync(call);
        }
        match call.ending {
            Ending::Value(value) => {
                self.succeeded(call, value);
            }
            Ending::Error(Some(errno)) if errno == libc::ENOENT.unsigned_abs() => {
                self.not_found(call);
            }
            Ending::Never | Ending::UnderWay => self.did_not_return(call),
            Ending::Error(_) => {}
        }
    }

    /// A call may have done what it was asked for, and the program does not know.
    fn did_not_return(&mut self, call: FileCall<'_>) {
        if changes_names(call.name) {
            self.note_unseen(Doubt::NeverReturned);
        } else if let Some((argument, name)) = written(call.name)
            && let Some(file) = self.file(call, argument)
        {
            self.changed(file, name, None, Change::Maybe(Doubt::NeverReturned));
        }
    }

    fn note_sync(&mut self, call: FileCall<'_>) {
        let sync = sync_of(call);
        let was_entered = self.in_sync.remove(&sync);
        let Some(result) = sync_result(call.ending) else {
            return;
        };
        if !was_entered {
            let Some(scope) = self.scope(call) else {
                return self.note_unknown_sync(call, result);
            };
            self.sync_entered(call, scope);
        }
        let ns = call.duration_ns;
        self.push(FileAction::SyncReturned { sync, result, ns });
    }

    /// It is unknown which file was synced.
    fn note_unknown_sync(&mut self, call: FileCall<'_>, result: SyncResult) {
        let is_of_file = call.name != "msync" && result == SyncResult::Succeeded;
        if is_of_file && self.open_of_argument(call, 0).is_none() {
            self.note_unseen(Doubt::UnknownDescriptor);
        }
    }

    /// What a sync is asked to write; `None`: the call is none, or its file is unknown.
    fn scope(&mut self, call: FileCall<'_>) -> Option<SyncScope> {
        match call.name {
            "sync" => Some(SyncScope::Everything),
            "msync" => {
                let file = if let Some(seen) = call.seen {
                    self.of_handle(seen.about)?.file()
                } else {
                    let (address, bytes) = (call.number(0)?, call.number(1)?);
                    self.tables.whole_mapped_at(call.task, address, bytes)
                };
                let waits = call.has_any(2, flag::MS_SYNC);
                Some(SyncScope::Mapping(file.filter(|_| waits)?))
            }
            "syncfs" => Some(SyncScope::FilesystemOf(self.file_or_stream(call)?)),
            name if is_sync(name) => Some(SyncScope::Object(self.file_or_stream(call)?)),
            _ => None,
        }
    }

    /// The file that a call syncs. It may be what the command was given as output.
    fn file_or_stream(&mut self, call: FileCall<'_>) -> Option<NodeId> {
        let file = self.file(call, 0);
        file.or_else(|| self.file_of_stream(call, 0))
    }

    /// The file behind the descriptor in this argument, which the call changed.
    pub(super) fn changed_file(&mut self, call: FileCall<'_>, argument: u8) -> Option<NodeId> {
        let open = self.open_of_argument(call, argument);
        if open.is_none() {
            self.note_unseen(Doubt::UnknownDescriptor);
        }
        open?.target.file()
    }

    /// The file behind the descriptor in this argument.
    pub(super) fn file(&mut self, call: FileCall<'_>, argument: u8) -> Option<NodeId> {
        self.open_of_argument(call, argument)?.target.file()
    }
}

/// A thread makes one call at a time.
fn sync_of(call: FileCall<'_>) -> SyncId {
    let of_task = SyncId(call.task as u64);
    let tid = call.tid.filter(|_| call.seen.is_some());
    tid.map_or(of_task, |tid| SyncId(tid.into()))
}
