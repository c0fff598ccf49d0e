//! The way of the most bytes from program to program, as one line of the head.

use std::collections::{BTreeMap, VecDeque};

use super::{
    page::{Piece, Style, TextLine},
    pipes::{PipeSide, PipeUse, pipes_between, pipes_by_inode, read_from, written_into},
    text::{self, known},
    transfers::{ShownFileSums, end_label, is_file},
};
use crate::{
    report::{End, Inode, Process, Report},
    units,
};
use zctrace_core::text::is_library;

/// Fewer bytes through a pipe do not count.
const MIN_BYTES: u64 = 64 << 10;
/// Fewer bytes are what a program reads for itself.
const MIN_READ_BYTES: u64 = 4096;
/// How many programs a line names.
const MAX_PROGRAMS: usize = 8;
/// A longer name of a file is shortened.
const MAX_NAME: usize = 30;

type Pipes<'a> = BTreeMap<Inode, PipeUse<'a>>;

/// Programs, each of which read from the pipe that the one before it wrote into.
#[derive(Debug, Default)]
pub(super) struct FlowLine<'a> {
    /// What the first one read, if that is no pipe of another one.
    source: Option<FlowStop>,
    steps: VecDeque<FlowStep<'a>>,
}

/// A program, and what it wrote.
#[derive(Debug)]
struct FlowStep<'a> {
    process: &'a Process,
    written: Option<FlowStop>,
}

/// What is between two programs, or at an end.
#[derive(Debug)]
struct FlowStop {
    label: String,
    bytes: u64,
    /// What the next program read.
    read_bytes: Option<u64>,
    is_file: bool,
}

impl<'a> FlowLine<'a> {
    /// The way through the pipe with the most bytes. Before it and after it, each program is followed by
    /// the pipe that it read most of or wrote most to; only those at the ends have files.
    pub(super) fn new(report: &'a Report) -> Self {
        let between = pipes_between(report);
        let Some(pair) = between.first().and_then(PipeUse::largest_pair) else {
            return Self::default();
        };
        if pair[0].bytes < Some(MIN_BYTES) {
            return Self::default();
        }
        let pipes = pipes_by_inode(report);
        let mut steps = VecDeque::from([
            FlowStep::into_pipe(pair),
            FlowStep {
                process: pair[1].process,
                written: None,
            },
        ]);
        while let Some(pair) = pair_before(steps[0].process, &pipes)
            && steps
                .iter()
                .all(|step| step.process.pid != pair[0].process.pid)
        {
            steps.push_front(FlowStep::into_pipe(pair));
        }
        while let Some(pair) = pair_after(steps[steps.len() - 1].process, &pipes)
            && steps
                .iter()
                .all(|step| step.process.pid != pair[1].process.pid)
        {
            let last = steps.len() - 1;
            steps[last] = FlowStep::into_pipe(pair);
            steps.push_back(FlowStep {
                process: pair[1].process,
                written: None,
            });
        }
        let source = source(steps[0].process);
        let last = steps.len() - 1;
        steps[last].written = destination(steps[last].process);
        Self { source, steps }
    }

    /// How much of files the first one read, and how much the last one wrote to files.
    pub(super) fn bytes_of_files(&self) -> [u64; 2] {
        let last = self.steps.back().and_then(|step| step.written.as_ref());
        [self.source.as_ref(), last].map(|stop| {
            let of_file = stop.filter(|stop| stop.is_file);
            of_file.map_or(0, |stop| stop.bytes)
        })
    }

    /// `flow: in (20.0 MiB) -> cat -> pipe (20.0 MiB) -> gzip -> out.gz (6.1 MiB)`.
    pub(super) fn line(&self) -> TextLine {
        let mut texts: Vec<String> = self.source.iter().map(FlowStop::text).collect();
        for step in self.steps.iter().take(MAX_PROGRAMS) {
            texts.push(known(step.process.name(), text::escape));
            texts.extend(step.written.as_ref().map(FlowStop::text));
        }
        if let Some(more @ 1..) = self.steps.len().checked_sub(MAX_PROGRAMS) {
            texts.push(text::plural(more as u64, "more program", "more programs"));
        }
        if texts.is_empty() {
            return TextLine::new();
        }
        let arrow = |(index, text): (usize, &String)| match index {
            0 => text.clone(),
            _ => format!("-> {text}"),
        };
        let texts = texts.iter().enumerate().map(arrow);
        let texts = std::iter::once("flow:".to_owned()).chain(texts);
        texts.map(|text| Piece::new(text, Style::Plain)).collect()
    }
}

impl<'a> FlowStep<'a> {
    /// The first one of these, which wrote into a pipe that the other one read.
    fn into_pipe([writer, reader]: [&PipeSide<'a>; 2]) -> Self {
        let bytes = writer.bytes.unwrap_or(0);
        let written = FlowStop {
            label: end_label(writer.end),
            bytes,
            read_bytes: reader.bytes,
            is_file: false,
        };
        Self {
            process: writer.process,
            written: Some(written),
        }
    }
}

impl FlowStop {
    /// `out.gz (6.1 MiB)`, `pipe (64.0 KiB written, 8.0 KiB read)`.
    fn text(&self) -> String {
        let label = text::shorten(&self.label, MAX_NAME);
        let bytes = units::bytes(self.bytes);
        match self.read_bytes.map(units::bytes) {
            Some(read) if read != bytes => format!("{label} ({bytes} written, {read} read)"),
            _ => format!("{label} ({bytes})"),
        }
    }
}

/// The program that wrote most into the pipe that this one read most of.
fn pair_before<'p, 'a>(process: &Process, pipes: &'p Pipes<'a>) -> Option<[&'p PipeSide<'a>; 2]> {
    let ends = process.sources.iter().filter_map(|one| one.file.as_ref());
    let pairs = ends.filter_map(|end| pipes.get(&read_from(end)?)?.largest_pair());
    let own = pairs.filter(|pair| pair[1].process.pid == process.pid);
    largest_pair(own.map(|pair| (pair, pair[1].bytes)))
}

/// The program that read most of the pipe that this one wrote most to.
fn pair_after<'p, 'a>(process: &Process, pipes: &'p Pipes<'a>) -> Option<[&'p PipeSide<'a>; 2]> {
    let ends = process
        .destinations
        .iter()
        .filter_map(|one| one.file.as_ref());
    let pairs = ends.filter_map(|end| pipes.get(&written_into(end)?)?.largest_pair());
    let own = pairs.filter(|pair| pair[0].process.pid == process.pid);
    largest_pair(own.map(|pair| (pair, pair[0].bytes)))
}

fn largest_pair<'p, 'a>(
    pairs: impl Iterator<Item = ([&'p PipeSide<'a>; 2], Option<u64>)>,
) -> Option<[&'p PipeSide<'a>; 2]> {
    let data = pairs.filter(|(_, bytes)| *bytes >= Some(MIN_BYTES));
    let largest = data.max_by_key(|(_, bytes)| *bytes);
    largest.map(|(pair, _)| pair)
}

/// What a program read most of.
fn source(process: &Process) -> Option<FlowStop> {
    let files = process.sources.iter();
    let files = files.filter_map(|one| Some((one.file.as_ref()?, one.read_bytes?)));
    stop(files).filter(|stop| stop.bytes >= MIN_READ_BYTES)
}

/// What it wrote most to.
fn destination(process: &Process) -> Option<FlowStop> {
    let files = process.destinations.iter();
    stop(files.filter_map(|one| Some((one.file.as_ref()?, one.written_bytes?))))
}

/// The files together, or the pipe or connection that has more bytes. Libraries are what a program loads
/// for itself.
fn stop<'a>(files: impl Iterator<Item = (&'a End, u64)>) -> Option<FlowStop> {
    let mut sums = ShownFileSums::default();
    let mut other: Option<(String, u64)> = None;
    for (end, bytes) in files.filter(|(_, bytes)| *bytes > 0) {
        if end.path.as_deref().is_some_and(is_library) {
            continue;
        }
        if is_file(end) {
            sums.add(end, bytes);
        } else if other.as_ref().is_none_or(|(_, most)| bytes > *most) {
            other = Some((end_label(end), bytes));
        }
    }
    let of_files = sums.label();
    let is_file =
        of_files.as_ref().map(|(_, bytes)| bytes) >= other.as_ref().map(|(_, bytes)| bytes);
    let (label, bytes) = if is_file { of_files } else { other }?;
    Some(FlowStop {
        label,
        bytes,
        read_bytes: None,
        is_file,
    })
}
