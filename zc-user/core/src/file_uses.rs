//! [`FileUses`]: which files rows name, and which pipes can be summed.

use crate::trace::sum_known;
use std::collections::{HashMap, HashSet};

use crate::{
    ended::EndedProcesses,
    trace::{Ends, File, FileId, FileKind, Input, Part, Row},
    transfer::Role,
};

/// The two sides of a file.
const WRITTEN: usize = 0;
const READ: usize = 1;

/// The files that rows of live processes name.
#[derive(Debug, Clone, Default)]
pub struct FileUses {
    used: HashSet<FileId>,
    /// Files that a row names together with another file, or in a call that neither reads nor
    /// writes bytes.
    entangled: HashSet<FileId>,
    /// Bytes that all other rows wrote and read, by file.
    moved: HashMap<FileId, [Option<u64>; 2]>,
    /// Files whose end a read has seen.
    ended: HashSet<FileId>,
}

impl FileUses {
    /// Adds a row.
    pub fn add(&mut self, row: &Row) {
        self.used.extend(row.files());
        let Some((file, side)) = file_and_side(row) else {
            return self.entangled.extend(row.files());
        };
        let sums = self.moved.entry(file).or_insert([Some(0); 2]);
        sums[side] = sum_known(sums[side], row.bytes);
        self.add_end(row);
    }

    /// Adds what a row says about ends, and nothing else: of a process whose files are kept anyway.
    pub fn add_end(&mut self, row: &Row) {
        let read = file_and_side(row).filter(|(_, side)| *side == READ && row.zero_calls > 0);
        self.ended.extend(read.map(|(file, _)| file));
    }

    /// Adds a part.
    pub fn add_part(&mut self, part: &Part) {
        self.used.extend([part.from.file(), part.to]);
        self.entangled.extend([part.from.file(), part.to]);
    }

    /// The files.
    pub fn used(&self) -> &HashSet<FileId> {
        &self.used
    }

    /// Unnamed pipes that were read to the end: nothing goes through them any more.
    pub fn ended_pipes(&self, files: &[File]) -> HashSet<FileId> {
        let is_pipe = |file: &File| {
            file.kind == Some(FileKind::Pipe) && file.path.is_none() && file.identity.is_some()
        };
        self.ended
            .iter()
            .copied()
            .filter(|id| id.in_files(files).is_some_and(is_pipe))
            .collect()
    }

    /// Whether everything written into the pipe was read, and no row connects it with another file.
    /// Processes that have `ended` may have moved some of it.
    pub fn is_used_up(&self, pipe: FileId, ended: &EndedProcesses) -> bool {
        let Some(live) = self.moved.get(&pipe) else {
            return false;
        };
        let of_ended = ended.moved(pipe);
        let [written, read] = [WRITTEN, READ].map(|side| sum_known(live[side], of_ended[side]));
        // Rules 7 and 8 must not take what ended processes moved for all that went through it.
        let ended_seem_alone =
            ![of_ended, *live].contains(&[Some(0); 2]) && of_ended[WRITTEN] == of_ended[READ];
        let is_balanced = written.is_some() && written == read;
        is_balanced && !ended_seem_alone && !self.entangled.contains(&pipe)
    }
}

/// The file of calls that only read it, or only write it from memory of unknown content, and the
/// side.
fn file_and_side(row: &Row) -> Option<(FileId, usize)> {
    match (Role::of_row(row), row.ends.input) {
        (Role::Reads(file), _) => Some((file?, READ)),
        (Role::Writes(file), None) => Some((file?, WRITTEN)),
        _ => None,
    }
}

impl Ends {
    /// The same ends, with this file in place of those.
    #[must_use]
    pub fn replaced(self, files: &HashSet<FileId>, by: FileId) -> Self {
        let output = self
            .output
            .map(|file| if files.contains(&file) { by } else { file });
        let input = match self.input {
            Some(Input::Named(file)) if files.contains(&file) => Some(Input::Named(by)),
            input => input,
        };
        Self { input, output }
    }
}

impl Row {
    /// Whether it names one of these files.
    pub fn names_one_of(&self, files: &HashSet<FileId>) -> bool {
        self.files().any(|file| files.contains(&file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ended::used_connections,
        golden::{GoldenCase, check_golden},
        report::sample::files::Scene,
    };

    /// Whether the pipe has ended and whether it is used up, and which files are used. Processes
    /// called `ended` have ended, those called `kept` keep their files anyway.
    fn describe(case: &str) -> String {
        let mut scene = Scene::read(case);
        let pipe = scene.named("pipe");
        let trace = &scene.trace;
        let (mut uses, mut ended) = (FileUses::default(), EndedProcesses::default());
        for process in &trace.processes {
            let rows = process.threads.iter().flat_map(|thread| &thread.rows);
            match process.comm.as_deref() {
                Some("ended") => ended.add(process.clone(), trace, &trace.files, false),
                Some("kept") => rows.for_each(|row| uses.add_end(row)),
                _ => rows.for_each(|row| uses.add(row)),
            }
        }
        let mut pipes: Vec<u32> = uses
            .ended_pipes(&trace.files)
            .iter()
            .map(|id| id.0)
            .collect();
        pipes.sort_unstable();
        format!(
            "ended {} of {pipes:?}, used up {}, {} files",
            pipes.contains(&pipe.0),
            uses.is_used_up(pipe, &ended),
            uses.used().len()
        )
    }

    #[test]
    fn pipes_are_used_up_as_the_golden_file_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/file_uses.txt");
        check_golden(path, GoldenCase::Lines, describe);
    }

    #[test]
    fn the_other_end_of_a_connection_is_used_with_it() {
        let mut scene = Scene::new();
        let [one, other] = scene.socketpair();
        let [client, server] = scene.connection("127.0.0.1:1000", "[::ffff:127.0.0.1]:80");
        let alone = scene.regular("file");
        for (used, both) in [
            (one, [one, other]),
            (other, [one, other]),
            (client, [client, server]),
            (server, [client, server]),
        ] {
            assert_eq!(
                used_connections(&scene.trace.files, |file| file == used),
                HashSet::from(both)
            );
        }
        assert!(used_connections(&scene.trace.files, |file| file == alone).is_empty());
    }
}
