//! The pipes between processes: who wrote into each, and who read from it. That is seen also where
//! the bytes changed on the way, so that no transfer tells of them.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    calls::process_name,
    page::{Options, Style, words},
    part::{DocumentPart, more, split},
    text::known,
};
use crate::{
    report::{End, Process, Report},
    units::{self, sum_all},
};

/// How many pipes are listed without `--all`.
const MOST_PIPES: usize = 6;
/// How many processes are named on a side.
const MOST_NAMES: usize = 3;

/// What went through a pipe.
#[derive(Debug, Default)]
struct PipeUse<'a> {
    /// The processes that wrote, each with the bytes; `None`: unknown.
    written: Vec<(&'a Process, Option<u64>)>,
    /// Those that read, likewise.
    read: Vec<(&'a Process, Option<u64>)>,
}

/// The pipes by which bytes went from one process to another, the ones with the most bytes first.
pub(super) fn part(report: &Report, options: &Options) -> Option<DocumentPart> {
    let mut pipes: BTreeMap<&End, PipeUse<'_>> = BTreeMap::new();
    for process in &report.processes {
        for to in &process.destinations {
            if let Some(pipe) = to.file.as_ref().filter(|end| is_pipe(end)) {
                let written = &mut pipes.entry(pipe).or_default().written;
                written.push((process, to.written_bytes));
            }
        }
        for from in &process.sources {
            if let Some(pipe) = from.file.as_ref().filter(|end| is_pipe(end)) {
                let read = &mut pipes.entry(pipe).or_default().read;
                read.push((process, from.read_bytes));
            }
        }
    }
    let mut between: Vec<PipeUse<'_>> = pipes.into_values().filter(PipeUse::has_two).collect();
    between.sort_by_key(|pipe| Reverse(sum(&pipe.written)));
    let (shown, hidden) = split(&between, MOST_PIPES, options);
    let bytes = sum_all(hidden.iter().map(|pipe| sum(&pipe.written)));
    let hidden = more(hidden, ["pipe", "pipes"], &known(bytes, units::bytes));
    let mut lines: Vec<String> = shown.iter().map(PipeUse::line).collect();
    lines.extend(hidden);
    (!lines.is_empty()).then(|| DocumentPart {
        heading: words(&format!("PIPES, {}", between.len()), Style::Heading),
        items: lines
            .iter()
            .map(|line| vec![words(line, Style::Plain)])
            .collect(),
        ..DocumentPart::default()
    })
}

/// Whether it is a pipe that is told apart from others.
fn is_pipe(end: &End) -> bool {
    end.kind.as_deref() == Some("pipe") && end.inode.is_some()
}

impl PipeUse<'_> {
    /// Whether one process wrote what another one may have read.
    fn has_two(&self) -> bool {
        let is_other = |(reader, _): &(&Process, Option<u64>)| {
            self.written
                .iter()
                .any(|(writer, _)| writer.pid != reader.pid)
        };
        self.read.iter().any(is_other)
    }

    /// `cat (12) -> gzip (13): 2.9 MiB`; `yes (12) -> head (13): 64.0 KiB written, 8.0 KiB read`.
    fn line(&self) -> String {
        let [written, read] = [&self.written, &self.read].map(|side| sum(side));
        let bytes = if written == read {
            known(written, units::bytes)
        } else {
            let [written, read] = [written, read].map(|bytes| known(bytes, units::bytes));
            format!("{written} written, {read} read")
        };
        format!("{} -> {}: {bytes}", names(&self.written), names(&self.read))
    }
}

fn sum(side: &[(&Process, Option<u64>)]) -> Option<u64> {
    sum_all(side.iter().map(|(_, bytes)| *bytes))
}

fn names(side: &[(&Process, Option<u64>)]) -> String {
    let mut names: Vec<String> = side
        .iter()
        .take(MOST_NAMES)
        .map(|(process, _)| process_name(process))
        .collect();
    if let Some(more @ 1..) = side.len().checked_sub(MOST_NAMES) {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}
