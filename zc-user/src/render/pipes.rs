//! The pipes and Unix connections between processes: who wrote into each, and who read from it. That is seen also where
//! the bytes changed on the way, so that no transfer tells of them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    calls::named,
    page::{Options, Style, TextLine, titled_list, words},
    part::{DocumentPart, more, sentence_line, split},
    text::{self, known},
};
use crate::{
    report::{End, Inode, Process, Report},
    units::{self, sum_all},
};

/// How many pipes are listed without `--all`.
const MAX_PIPES: usize = 6;
/// How many processes are named on a side.
const MAX_NAMES: usize = 3;
/// How many pipes the head names, and the fewest bytes of one.
const MAX_IN_HEAD: usize = 3;
const MIN_BYTES: u64 = 64 << 10;

/// A process that used a pipe: its place in the report, the process, and the bytes; `None`: unknown.
type PipeSide<'a> = (usize, &'a Process, Option<u64>);

/// What went through a pipe.
#[derive(Debug, Default)]
struct PipeUse<'a> {
    written: Vec<PipeSide<'a>>,
    read: Vec<PipeSide<'a>>,
}

/// What went through each pipe.
fn pipes_by_inode(report: &Report) -> BTreeMap<Inode, PipeUse<'_>> {
    let mut pipes: BTreeMap<Inode, PipeUse<'_>> = BTreeMap::new();
    for (place, process) in report.processes.iter().enumerate() {
        for to in &process.destinations {
            if let Some(pipe) = to.file.as_ref().and_then(written_into) {
                let written = &mut pipes.entry(pipe).or_default().written;
                written.push((place, process, to.written_bytes));
            }
        }
        for from in &process.sources {
            if let Some(pipe) = from.file.as_ref().and_then(read_from) {
                let read = &mut pipes.entry(pipe).or_default().read;
                read.push((place, process, from.read_bytes));
            }
        }
    }
    pipes
}

/// The pipes by which bytes went from one process to another, those with the most first.
fn pipes_between(report: &Report) -> Vec<PipeUse<'_>> {
    let pipes = pipes_by_inode(report).into_values();
    let mut between: Vec<PipeUse<'_>> = pipes.filter(PipeUse::has_two).collect();
    between.sort_by_key(|pipe| Reverse(sum(&pipe.written)));
    between
}

/// The pipes with the most bytes as a list, in the order of the processes that wrote.
pub(super) fn part(report: &Report, options: &Options) -> Option<DocumentPart> {
    let mut between = pipes_between(report);
    let count = between.len();
    let hidden = between.split_off(split(&between, MAX_PIPES, options).0.len());
    between.sort_by_key(|pipe| pipe.written[0].0);
    let bytes = sum_all(hidden.iter().map(|pipe| sum(&pipe.written)));
    let line = |pipe: &PipeUse<'_>| vec![words(&pipe.line(), Style::Plain)];
    let bytes = known(bytes, units::bytes);
    // Processes that are not listed may have used others.
    let at_least = if report.processes_left_out() > 0 {
        "at least "
    } else {
        ""
    };
    (count > 0).then(|| DocumentPart {
        heading: words(&format!("PIPES, {at_least}{count}"), Style::Heading),
        items: between.iter().map(line).collect(),
        remarks: sentence_line(more(&hidden, ["pipe", "pipes"], &bytes))
            .into_iter()
            .collect(),
        ..DocumentPart::default()
    })
}

/// The pipes with many bytes as one line, in the order of the processes that wrote: `pipes: cat -> tr
/// 23.8 MiB, tr -> gzip 23.8 MiB`.
pub(super) fn line(report: &Report) -> TextLine {
    let mut between = pipes_between(report);
    between.retain(|pipe| sum(&pipe.written) >= Some(MIN_BYTES));
    let others = between.split_off(between.len().min(MAX_IN_HEAD));
    between.sort_by_key(|pipe| pipe.written[0].1.pid);
    let mut parts: Vec<String> = between.iter().map(PipeUse::short_line).collect();
    if !others.is_empty() {
        parts.push(format!("{} more", others.len()));
    }
    titled_list("pipes:", &parts, Style::Plain).unwrap_or_default()
}

/// The program at the other end of this pipe, if it is one: the one that reads what is written into it, or
/// that writes what is read from it.
pub(super) fn other_end(report: &Report, end: &End, writes: bool) -> Option<String> {
    let pipe = if writes {
        written_into(end)?
    } else {
        read_from(end)?
    };
    let used = pipes_by_inode(report).remove(&pipe);
    let used = used.filter(PipeUse::has_two)?;
    let others = if writes { used.read } else { used.written };
    let names: BTreeSet<Option<&str>> = others
        .iter()
        .map(|(_, process, _)| process.name())
        .collect();
    match names.into_iter().collect::<Vec<_>>().as_slice() {
        [Some(name)] => Some(text::escape(name)),
        _ => None,
    }
}

/// The pipe of this end, or the end of a Unix connection, if it is told apart from others.
fn read_from(end: &End) -> Option<Inode> {
    let is_meant = end.kind.as_deref() == Some("pipe") || end.peer_inode.is_some();
    end.inode.filter(|_| is_meant)
}

/// What another process reads of what is written into this end: of a Unix connection, its other end.
fn written_into(end: &End) -> Option<Inode> {
    let own = read_from(end)?;
    let number = end.peer_inode.unwrap_or(own.number);
    Some(Inode { number, ..own })
}

impl PipeUse<'_> {
    /// Whether one process wrote what another one may have read.
    fn has_two(&self) -> bool {
        let written = self.written.iter();
        let writers: Vec<u32> = written.map(|(_, writer, _)| writer.pid).collect();
        let mut readers = self.read.iter();
        readers.any(|(_, reader, _)| writers.iter().any(|pid| *pid != reader.pid))
    }

    /// `cat (12) -> gzip (13): 2.9 MiB`.
    fn line(&self) -> String {
        let [from, to] = [&self.written, &self.read].map(|side| names(side));
        format!("{from} -> {to}: {}", self.amount())
    }

    /// `cat -> gzip 2.9 MiB`; of processes with the same name, with their ids.
    fn short_line(&self) -> String {
        let mut all = BTreeSet::new();
        let mut sides = self.written.iter().chain(&self.read);
        let [from, to] = if sides.all(|(_, process, _)| all.insert(process.name())) {
            let name = |(_, process, _): &PipeSide<'_>| known(process.name(), text::escape);
            [&self.written, &self.read].map(|side| names_by(side, name))
        } else {
            [&self.written, &self.read].map(|side| names(side))
        };
        format!("{from} -> {to} {}", self.amount())
    }

    /// `2.9 MiB`; `64.0 KiB written, 8.0 KiB read`.
    fn amount(&self) -> String {
        let [written, read] = [&self.written, &self.read].map(|side| sum(side));
        if written == read {
            return known(written, units::bytes);
        }
        let [written, read] = [written, read].map(|bytes| known(bytes, units::bytes));
        format!("{written} written, {read} read")
    }
}

fn sum(side: &[PipeSide<'_>]) -> Option<u64> {
    sum_all(side.iter().map(|(.., bytes)| *bytes))
}

fn names(side: &[PipeSide<'_>]) -> String {
    names_by(side, |(_, process, _)| named(process.name(), process.pid))
}

fn names_by(side: &[PipeSide<'_>], name: fn(&PipeSide<'_>) -> String) -> String {
    let mut names: Vec<String> = side.iter().take(MAX_NAMES).map(name).collect();
    if let Some(more @ 1..) = side.len().checked_sub(MAX_NAMES) {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}
