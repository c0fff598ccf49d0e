//! Programs in words, for the judge.

use super::super::{
    Change, Doubt, FileAction, FileEvent, Judge, Names, NodeId, Place, Presence, ProgramId,
    Resolved, RunEnd, SyncId, SyncResult, SyncScope, Syncs,
};

/// The errno of a disk error.
const EIO: u32 = 5;

/// Performs the steps of a program on a judge.
#[derive(Default)]
pub struct Script {
    pub judge: Judge,
    steps: u64,
}

impl Script {
    /// All steps of a text: `create a; write a; sync a`.
    pub fn run_text(text: &str) -> Syncs {
        let mut script = Self::default();
        let mut end = RunEnd {
            at_ns: None,
            is_success: true,
        };
        for step in text
            .split(';')
            .map(str::trim)
            .filter(|step| !step.is_empty())
        {
            if step == "fail" {
                end.is_success = false;
            } else {
                script.run_step(step);
            }
        }
        end.at_ns = Some(script.steps + 1);
        script.judge.finish_verdicts(end)
    }

    /// One step.
    pub fn run_step(&mut self, step: &str) {
        let words: Vec<&str> = step.split(' ').collect();
        let sync = SyncId(1_000_000 + self.steps);
        let given = |number: &str| SyncId(number.parse().expect("is a number"));
        match words[..] {
            ["had", path] => {
                self.node_at(path);
            }
            ["create", path] => self.make_node(path, false, "openat"),
            ["create-or-open", path] => {
                let place = self.place_at(path);
                if !matches!(self.judge.names.presence_at(&place), Presence::Present(_)) {
                    let file = self.judge.names.add_unnamed();
                    self.push_action(FileAction::Made {
                        place,
                        file,
                        call: "openat",
                    });
                }
            }
            ["mkdir", path] => self.make_node(path, true, "mkdir"),
            ["link", old, new] => {
                let file = self.node_at(old);
                let place = self.place_at(new);
                self.judge.names.note_absent(place.clone());
                self.push_action(FileAction::Made {
                    place,
                    file,
                    call: "link",
                });
            }
            ["write", path] => self.change_node(path, "write", Change::Cached),
            ["write-synced", path] => self.change_node(path, "write", Change::Synced),
            ["write-cut-off", path] => {
                self.change_node(path, "write", Change::Maybe(Doubt::NeverReturned));
            }
            ["truncate", path] => self.change_node(path, "ftruncate", Change::Emptied),
            ["resize", path] => self.change_node(path, "ftruncate", Change::Resized),
            ["map", path] => self.change_node(path, "mmap", Change::Mapped),
            ["chmod", path] => {
                let file = self.node_at(path);
                self.push_action(FileAction::Touched(file));
            }
            ["move", from, to] => self.rename_place(from, to, false),
            ["swap", from, to] => self.rename_place(from, to, true),
            ["remove", path] => {
                let place = self.place_at(path);
                self.push_action(FileAction::Removed {
                    place,
                    call: "unlink",
                });
            }
            ["sync", path] => self.sync_node(sync, path, SyncResult::Succeeded),
            ["sync-fails", path] => self.sync_node(sync, path, SyncResult::Failed(EIO)),
            ["sync-refused", path] => self.sync_node(sync, path, SyncResult::Refused),
            ["begin", number, path] => {
                let file = self.node_at(path);
                self.push_action(FileAction::SyncEntered(
                    given(number),
                    SyncScope::Object(file),
                ));
            }
            ["end", number] => self.note_return(given(number), SyncResult::Succeeded),
            ["msync", path] => {
                let file = self.node_at(path);
                self.sync_scope(sync, SyncScope::Mapping(file), SyncResult::Succeeded);
            }
            ["syncfs", path] => {
                let file = self.node_at(path);
                self.sync_scope(sync, SyncScope::FilesystemOf(file), SyncResult::Succeeded);
            }
            ["sync-all"] => self.sync_scope(sync, SyncScope::Everything, SyncResult::Succeeded),
            ["tell"] => self.push_action(FileAction::Told { to: "stdout" }),
            ["told-again"] => self.push_action(FileAction::ToldAgain {
                to: "stdout",
                calls: 1,
            }),
            ["mark", name] => self.push_action(FileAction::Marked(name.into())),
            ["io_uring"] => self.push_action(FileAction::Unseen(Doubt::AsynchronousOperations)),
            _ => panic!("{step:?} is no step"),
        }
    }

    fn push_action(&mut self, what: FileAction) {
        self.steps += 1;
        self.judge.push_event(FileEvent {
            at_ns: Some(self.steps),
            by: ProgramId::default(),
            what,
        });
    }

    fn resolve_path(&mut self, path: &str) -> Resolved {
        self.judge.names.resolve_path(Names::ROOT, path, true)
    }

    fn node_at(&mut self, path: &str) -> NodeId {
        let at = self.resolve_path(path);
        self.judge.names.node_at(at)
    }

    fn place_at(&mut self, path: &str) -> Place {
        match self.resolve_path(path) {
            Resolved::Place(place) => place,
            Resolved::Directory(_) => panic!("{path} is a directory"),
        }
    }

    fn make_node(&mut self, path: &str, is_directory: bool, call: &'static str) {
        let place = self.place_at(path);
        self.judge.names.note_absent(place.clone());
        let file = if is_directory {
            self.judge.names.add_directory()
        } else {
            self.judge.names.add_unnamed()
        };
        self.push_action(FileAction::Made { place, file, call });
    }

    fn change_node(&mut self, path: &str, call: &'static str, how: Change) {
        let file = self.node_at(path);
        self.push_action(FileAction::Changed {
            file,
            call,
            bytes: Some(10),
            how,
        });
    }

    fn rename_place(&mut self, from: &str, to: &str, is_exchange: bool) {
        let (from, to) = (self.place_at(from), self.place_at(to));
        self.push_action(FileAction::Moved {
            from,
            to,
            is_exchange,
            call: "rename",
        });
    }

    fn sync_node(&mut self, sync: SyncId, path: &str, result: SyncResult) {
        let file = self.node_at(path);
        self.sync_scope(sync, SyncScope::Object(file), result);
    }

    fn sync_scope(&mut self, sync: SyncId, scope: SyncScope, result: SyncResult) {
        self.push_action(FileAction::SyncEntered(sync, scope));
        self.note_return(sync, result);
    }

    fn note_return(&mut self, sync: SyncId, result: SyncResult) {
        let ns = Some(7);
        self.push_action(FileAction::SyncReturned { sync, result, ns });
    }
}
