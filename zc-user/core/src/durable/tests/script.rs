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
    pub fn run(text: &str) -> Syncs {
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
                script.step(step);
            }
        }
        end.at_ns = Some(script.steps + 1);
        script.judge.finish(end)
    }

    /// One step.
    pub fn step(&mut self, step: &str) {
        let words: Vec<&str> = step.split(' ').collect();
        let sync = SyncId(1_000_000 + self.steps);
        let given = |number: &str| SyncId(number.parse().expect("is a number"));
        match words[..] {
            ["had", path] => {
                self.node(path);
            }
            ["create", path] => self.make(path, false, "openat"),
            ["create-or-open", path] => {
                let place = self.place(path);
                if !matches!(self.judge.names.presence_at(&place), Presence::Present(_)) {
                    let file = self.judge.names.add();
                    self.push(FileAction::Made {
                        place,
                        file,
                        call: "openat",
                    });
                }
            }
            ["mkdir", path] => self.make(path, true, "mkdir"),
            ["link", old, new] => {
                let file = self.node(old);
                let place = self.place(new);
                self.judge.names.note_absent(place.clone());
                self.push(FileAction::Made {
                    place,
                    file,
                    call: "link",
                });
            }
            ["write", path] => self.change(path, "write", Change::Cached),
            ["write-synced", path] => self.change(path, "write", Change::Synced),
            ["write-cut-off", path] => {
                self.change(path, "write", Change::Maybe(Doubt::NeverReturned));
            }
            ["truncate", path] => self.change(path, "ftruncate", Change::Emptied),
            ["resize", path] => self.change(path, "ftruncate", Change::Resized),
            ["map", path] => self.change(path, "mmap", Change::Mapped),
            ["chmod", path] => {
                let file = self.node(path);
                self.push(FileAction::Touched(file));
            }
            ["move", from, to] => self.rename(from, to, false),
            ["swap", from, to] => self.rename(from, to, true),
            ["remove", path] => {
                let place = self.place(path);
                self.push(FileAction::Removed {
                    place,
                    call: "unlink",
                });
            }
            ["sync", path] => self.sync(sync, path, SyncResult::Succeeded),
            ["sync-fails", path] => self.sync(sync, path, SyncResult::Failed(EIO)),
            ["sync-refused", path] => self.sync(sync, path, SyncResult::Refused),
            ["begin", number, path] => {
                let file = self.node(path);
                self.push(FileAction::SyncEntered(
                    given(number),
                    SyncScope::Object(file),
                ));
            }
            ["end", number] => self.returned(given(number), SyncResult::Succeeded),
            ["msync", path] => {
                let file = self.node(path);
                self.whole(sync, SyncScope::Mapping(file), SyncResult::Succeeded);
            }
            ["syncfs", path] => {
                let file = self.node(path);
                self.whole(sync, SyncScope::FilesystemOf(file), SyncResult::Succeeded);
            }
            ["sync-all"] => self.whole(sync, SyncScope::Everything, SyncResult::Succeeded),
            ["tell"] => self.push(FileAction::Told { to: "stdout" }),
            ["told-again"] => self.push(FileAction::ToldAgain {
                to: "stdout",
                calls: 1,
            }),
            ["mark", name] => self.push(FileAction::Marked(name.into())),
            ["io_uring"] => self.push(FileAction::Unseen(Doubt::AsynchronousOperations)),
            _ => panic!("{step:?} is no step"),
        }
    }

    fn push(&mut self, what: FileAction) {
        self.steps += 1;
        self.judge.push(FileEvent {
            at_ns: Some(self.steps),
            by: ProgramId::default(),
            what,
        });
    }

    fn resolve(&mut self, path: &str) -> Resolved {
        self.judge.names.resolve(Names::ROOT, path, true)
    }

    fn node(&mut self, path: &str) -> NodeId {
        let at = self.resolve(path);
        self.judge.names.node_at(at)
    }

    fn place(&mut self, path: &str) -> Place {
        match self.resolve(path) {
            Resolved::Place(place) => place,
            Resolved::Directory(_) => panic!("{path} is a directory"),
        }
    }

    fn make(&mut self, path: &str, is_directory: bool, call: &'static str) {
        let place = self.place(path);
        self.judge.names.note_absent(place.clone());
        let file = if is_directory {
            self.judge.names.add_directory()
        } else {
            self.judge.names.add()
        };
        self.push(FileAction::Made { place, file, call });
    }

    fn change(&mut self, path: &str, call: &'static str, how: Change) {
        let file = self.node(path);
        self.push(FileAction::Changed {
            file,
            call,
            bytes: Some(10),
            how,
        });
    }

    fn rename(&mut self, from: &str, to: &str, is_exchange: bool) {
        let (from, to) = (self.place(from), self.place(to));
        self.push(FileAction::Moved {
            from,
            to,
            is_exchange,
            call: "rename",
        });
    }

    fn sync(&mut self, sync: SyncId, path: &str, result: SyncResult) {
        let file = self.node(path);
        self.whole(sync, SyncScope::Object(file), result);
    }

    fn whole(&mut self, sync: SyncId, scope: SyncScope, result: SyncResult) {
        self.push(FileAction::SyncEntered(sync, scope));
        self.returned(sync, result);
    }

    fn returned(&mut self, sync: SyncId, result: SyncResult) {
        let ns = Some(7);
        self.push(FileAction::SyncReturned { sync, result, ns });
    }
}
