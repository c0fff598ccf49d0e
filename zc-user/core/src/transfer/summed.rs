//! [`FileSumming`]: replaces files that are no longer told apart by their sums.

use std::collections::BTreeMap;

use super::{
    buffers::{PairWord, WritePart, words_of_pairs},
    facts::{Role, sum_bytes},
};
use crate::{
    trace::{Ends, File, FileId, Input, Part, Process, Row, SummedContent, Thread},
    transfer::Evidence,
};

/// What comparisons showed of the bytes that a process wrote from buffers of one file to another.
#[derive(Debug, Default)]
pub struct ComparedPairs(BTreeMap<(FileId, FileId), PairWord>);

impl ComparedPairs {
    /// Those in the rows and parts of all threads of a process. `files` are those that they name.
    pub fn new<'a>(
        rows: impl Iterator<Item = &'a Row>,
        parts: impl Iterator<Item = &'a Part>,
        files: &[File],
    ) -> Self {
        let mut reads: BTreeMap<FileId, Vec<&Row>> = BTreeMap::new();
        let mut pieces: Vec<WritePart<'_>> = parts.map(WritePart::of_part).collect();
        for row in rows {
            match Role::of_row(row) {
                Role::Reads(Some(file)) => reads.entry(file).or_default().push(row),
                Role::Writes(_) => pieces.extend(WritePart::of_row(row)),
                _ => {}
            }
        }
        pieces.retain(|piece| piece.bytes > 0);
        let read_bytes = |file| reads.get(&file).map_or(Some(0), |rows| sum_bytes(rows));
        Self(words_of_pairs(&pieces, files, read_bytes))
    }

    fn content_of_pair(&self, from: Input, to: FileId) -> SummedContent {
        let Input::Buffer(from, _) = from else {
            return SummedContent::Same;
        };
        match self.0.get(&(from, to)) {
            None | Some(Some(Evidence::Buffer)) => SummedContent::Same,
            Some(Some(Evidence::Changed)) => SummedContent::Changed,
            Some(Some(_)) => SummedContent::Reused,
            Some(None) => SummedContent::Own,
        }
    }
}

/// Replaces some files by their sums in the rows of a process.
#[derive(Debug)]
pub struct FileSumming<'a, S> {
    /// What was compared before.
    pub pairs: ComparedPairs,
    /// The sum that a file belongs to, for bytes of which comparisons showed this; the file itself, if
    /// it is not summed.
    pub sum_of: &'a mut S,
}

impl<S: FnMut(FileId, SummedContent) -> FileId> FileSumming<'_, S> {
    /// The sum that a file belongs to, or the file.
    pub fn sum_of_file(&mut self, file: FileId) -> FileId {
        (self.sum_of)(file, SummedContent::Same)
    }

    /// The ends of calls.
    pub fn sum_ends(&mut self, ends: Ends) -> Ends {
        let Ends { input, output } = ends;
        if let (Some(from), Some(to)) = (input, output) {
            let (from, to) = self.sum_pair(from, to);
            return Ends {
                input: Some(from),
                output: Some(to),
            };
        }
        Ends {
            input: input.map(|input| input.with_file(self.sum_of_file(input.file()))),
            output: output.map(|file| self.sum_of_file(file)),
        }
    }

    /// Where bytes came from and where they went. Only one of both says what was compared.
    pub fn sum_pair(&mut self, from: Input, to: FileId) -> (Input, FileId) {
        let content = self.pairs.content_of_pair(from, to);
        let sum = (self.sum_of)(to, content);
        let is_told = sum != to;
        let content = if is_told {
            SummedContent::Same
        } else {
            content
        };
        (from.with_file((self.sum_of)(from.file(), content)), sum)
    }

    /// All that a process did.
    pub fn process(&mut self, process: &mut Process) {
        for thread in &mut process.threads {
            self.thread(thread);
        }
    }

    fn thread(&mut self, thread: &mut Thread) {
        for row in thread.rows.iter_mut().chain(&mut thread.ring_rows) {
            row.ends = self.sum_ends(row.ends);
        }
        for part in &mut thread.parts {
            (part.from, part.to) = self.sum_pair(part.from, part.to);
        }
        for call in &mut thread.timed_calls {
            call.ends = self.sum_ends(call.ends);
        }
        self.counts(&mut thread.forgotten, |summing, file| {
            file.map(|file| summing.sum_of_file(file))
        });
        self.counts(&mut thread.unseen_mappings, Self::sum_of_file);
    }

    /// Counts by file.
    pub fn counts<K: Ord + Copy>(
        &mut self,
        counts: &mut BTreeMap<K, u64>,
        key: impl Fn(&mut Self, K) -> K,
    ) {
        for (file, count) in std::mem::take(counts) {
            *counts.entry(key(self, file)).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::{
        report::{Api, Report, Transfer, sample::files::Scene},
        trace::FileKind,
    };

    /// The kinds of both ends, interface, evidence, and bytes.
    type Sum = (String, String, Api, Evidence, u64);

    fn sums_by_kind(report: &Report) -> Vec<Sum> {
        let mut sums: BTreeMap<_, u64> = BTreeMap::new();
        for one in &report.transfers {
            let [from, to] = [&one.from, &one.to].map(|end| end.kind.clone().unwrap_or_default());
            let sum = sums.entry((from, to, one.api, one.evidence)).or_default();
            *sum += one.bytes.unwrap_or(0);
        }
        let sums = sums.into_iter();
        let sums = sums.map(|((from, to, api, evidence), bytes)| (from, to, api, evidence, bytes));
        sums.collect()
    }

    /// Replaces the files of this kind by their sums in all processes.
    fn sum_up(scene: &mut Scene, kind: FileKind) {
        let mut files = scene.trace.files.clone();
        let mut sums = HashMap::new();
        let mut sum_of = |file: FileId, content| {
            if file.in_files(&scene.trace.files).and_then(|file| file.kind) != Some(kind) {
                return file;
            }
            *sums.entry(content).or_insert_with(|| {
                files.push(File {
                    kind: Some(kind),
                    sum: Some(content),
                    ..File::default()
                });
                FileId(u32::try_from(files.len() - 1).expect("few"))
            })
        };
        for process in &mut scene.trace.processes {
            let rows = process.threads.iter().flat_map(Thread::all_rows);
            let parts = process.threads.iter().flat_map(|thread| &thread.parts);
            let pairs = ComparedPairs::new(rows, parts, &scene.trace.files);
            let sum_of = &mut sum_of;
            FileSumming { pairs, sum_of }.process(process);
        }
        scene.trace.files = files;
    }

    #[test]
    fn transfers_by_kind_are_the_same_when_connections_were_summed() {
        // One page to many clients, one of which gets it changed, one twice, and one something else;
        // and what clients sent.
        let scene = "\
server: read page 3 9000, write page>tcp1 1 9000, write page>tcp2 1 9000, write page>tcp3 1 4000, \
write page!tcp3 1 4000, write page!tcp4 1 4000, write page>tcp5 2 18000, write tcp6 1 500, \
read tcp1 1 700, write tcp1>log 1 700, read tcp2 1 800, write tcp2>log 1 800, read tcp3 1 900, \
write tcp3!log 1 900, sendfile page->tcp7 1 5000, splice tcp8->pipe 1 300, read tcp9 1 20";
        let mut scene = Scene::read(scene);
        let apart = scene.report();
        sum_up(&mut scene, FileKind::Tcp);
        let summed = scene.report();
        assert_eq!(sums_by_kind(&summed), sums_by_kind(&apart));
        assert!(summed.transfers.len() < apart.transfers.len());
        assert_eq!(crate::report::violations(&summed), [""; 0]);
        let calls = |report: &Report| report.totals.syscalls.clone();
        assert_eq!(calls(&summed), calls(&apart));
    }

    #[test]
    fn no_way_goes_through_pipes_that_were_summed() {
        let two = "one: read in 1 5000, write in>pipe1 1 5000, write other 1 10; \
two: read pipe1 1 5000, write pipe1>out 1 5000";
        let crosses = |scene: &Scene| {
            let report = scene.report();
            let mut transfers = report.transfers.iter();
            transfers.any(Transfer::crosses_processes)
        };
        let mut scene = Scene::read(two);
        assert!(crosses(&scene));
        sum_up(&mut scene, FileKind::Pipe);
        assert!(!crosses(&scene));
        assert_eq!(scene.report().transfers.len(), 2, "the steps are there");
        let copied =
            "cat: read in 1 5000, write in>pipe1 1 5000, read pipe1 1 5000, write pipe1>out 1 5000";
        let mut scene = Scene::read(copied);
        assert_eq!(scene.report().transfers.len(), 1);
        sum_up(&mut scene, FileKind::Pipe);
        assert_eq!(scene.report().transfers.len(), 2);
    }
}
