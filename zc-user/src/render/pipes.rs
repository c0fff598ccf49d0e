//! The pipes and Unix connections between processes: who wrote into each, and who read from it. That is seen also where
//! the bytes changed on the way, so that no transfer tells of them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    calls::named,
    page::{Options, Style, words},
    part::{DocumentPart, more, sentence_line},
    text::{self, known},
};
use crate::{
    report::{End, Inode, Process, Report},
    units::{self, sum_all},
};

/// How many pipes are listed without `--all`.
const MAX_PIPES: usize = 6;
/// Fewer bytes are messages.
const MIN_BYTES: u64 = 4096;
/// How many processes are named on a side.
const MAX_NAMES: usize = 3;

/// A process that used a pipe.
#[derive(Debug)]
pub(super) struct PipeSide<'a> {
    /// Its place in the report.
    place: usize,
    pub(super) process: &'a Process,
    pub(super) end: &'a End,
    /// `None`: unknown.
    pub(super) bytes: Option<u64>,
}

/// What went through a pipe.
#[derive(Debug, Default)]
pub(super) struct PipeUse<'a> {
    written: Vec<PipeSide<'a>>,
    read: Vec<PipeSide<'a>>,
}

/// What went through each pipe.
pub(super) fn pipes_by_inode(report: &Report) -> BTreeMap<Inode, PipeUse<'_>> {
    let mut pipes: BTreeMap<Inode, PipeUse<'_>> = BTreeMap::new();
    for (place, process) in report.processes.iter().enumerate() {
        let side = |end, bytes| PipeSide {
            place,
            process,
            end,
            bytes,
        };
        for to in &process.destinations {
            if let Some(end) = &to.file
                && let Some(pipe) = written_into(end)
            {
                let written = &mut pipes.entry(pipe).or_default().written;
                written.push(side(end, to.written_bytes));
            }
        }
        for from in &process.sources {
            if let Some(end) = &from.file
                && let Some(pipe) = read_from(end)
            {
                let read = &mut pipes.entry(pipe).or_default().read;
                read.push(side(end, from.read_bytes));
            }
        }
    }
    pipes
}

/// The pipes by which bytes went from one process to another, those with the most first.
pub(super) fn pipes_between(report: &Report) -> Vec<PipeUse<'_>> {
    let pipes = pipes_by_inode(report).into_values();
    let mut between: Vec<PipeUse<'_>> = pipes.filter(PipeUse::has_two).collect();
    between.sort_by_key(|pipe| Reverse(sum(&pipe.written)));
    between
}

/// The pipes with the most bytes as a list, in the order of the processes that wrote. Messages are only
/// summed.
pub(super) fn part(report: &Report, options: &Options) -> Option<DocumentPart> {
    let mut between = pipes_between(report);
    let count = between.len();
    let is_data = |pipe: &&PipeUse<'_>| sum(&pipe.written).is_none_or(|bytes| bytes >= MIN_BYTES);
    let of_data = between.iter().filter(is_data).count();
    let mut shown = of_data.min(MAX_PIPES);
    // A line that says that one is left out would be no shorter.
    if options.all || count - shown == 1 {
        shown = count;
    }
    let hidden = between.split_off(shown);
    between.sort_by_key(|pipe| pipe.written[0].place);
    let bytes = sum_all(hidden.iter().map(|pipe| sum(&pipe.written)));
    let line = |pipe: &PipeUse<'_>| vec![words(&pipe.line(), Style::Plain)];
    let bytes = known(bytes, units::bytes);
    // Processes that are not listed may have used others.
    let at_least = if report.processes_left_out() > 0 {
        "at least "
    } else {
        ""
    };
    let (in_heading, hidden) = if between.is_empty() {
        (format!(" with {bytes}: --all lists them"), None)
    } else {
        (String::new(), more(&hidden, ["pipe", "pipes"], &bytes))
    };
    let heading = format!("PIPES, {at_least}{count}{in_heading}");
    (count > 0).then(|| DocumentPart {
        heading: words(&heading, Style::Heading),
        items: between.iter().map(line).collect(),
        remarks: sentence_line(hidden).into_iter().collect(),
        ..DocumentPart::default()
    })
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
    let names: BTreeSet<Option<&str>> = others.iter().map(|side| side.process.name()).collect();
    match names.into_iter().collect::<Vec<_>>().as_slice() {
        [Some(name)] => Some(text::escape(name)),
        _ => None,
    }
}

/// The pipe of this end, or the end of a Unix connection, if it is told apart from others.
pub(super) fn read_from(end: &End) -> Option<Inode> {
    let is_meant = end.kind.as_deref() == Some("pipe") || end.peer_inode.is_some();
    end.inode.filter(|_| is_meant)
}

/// What another process reads of what is written into this end: of a Unix connection, its other end.
pub(super) fn written_into(end: &End) -> Option<Inode> {
    let own = read_from(end)?;
    let number = end.peer_inode.unwrap_or(own.number);
    Some(Inode { number, ..own })
}

impl<'a> PipeUse<'a> {
    /// Whether one process wrote what another one may have read.
    fn has_two(&self) -> bool {
        self.largest_pair().is_some()
    }

    /// The process that wrote most, and another one that read most.
    pub(super) fn largest_pair(&self) -> Option<[&PipeSide<'a>; 2]> {
        let writer = largest_side(&self.written, None)?;
        if let Some(reader) = largest_side(&self.read, Some(writer)) {
            return Some([writer, reader]);
        }
        let reader = largest_side(&self.read, None)?;
        Some([largest_side(&self.written, Some(reader))?, reader])
    }

    /// `cat (12) -> gzip (13): 2.9 MiB`.
    fn line(&self) -> String {
        let [from, to] = [&self.written, &self.read].map(|side| names(side));
        format!("{from} -> {to}: {}", self.amount())
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

/// The process with the most bytes, except this one.
fn largest_side<'s, 'a>(
    sides: &'s [PipeSide<'a>],
    except: Option<&PipeSide<'a>>,
) -> Option<&'s PipeSide<'a>> {
    let except = except.map(|side| side.process.pid);
    let sides = sides.iter();
    let others = sides.filter(|side| Some(side.process.pid) != except);
    others.max_by_key(|side| side.bytes)
}

fn sum(side: &[PipeSide<'_>]) -> Option<u64> {
    sum_all(side.iter().map(|one| one.bytes))
}

fn names(side: &[PipeSide<'_>]) -> String {
    let name = |one: &PipeSide<'_>| named(one.process.name(), one.process.pid);
    let mut names: Vec<String> = side.iter().take(MAX_NAMES).map(name).collect();
    if let Some(more @ 1..) = side.len().checked_sub(MAX_NAMES) {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}
