//! Who made the calls: below rows, below transfers, in a part of its own with the stacks, and the
//! stacks in the format of flame graphs.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use super::{
    page::{Options, Style, TextLine, words},
    part::{DocumentPart, more, sentence_line, split},
    text::{self, plural},
};
use crate::{
    report::{Callers, Frame, Process, Report, Site, Stack, StackSamples},
    trace::{Loss, SampleSum},
    units,
};

/// How many places are named below a transfer.
const MAX_SITES: usize = 3;
/// How many stacks are shown without `--all`.
const MAX_STACKS: usize = 10;
/// How many functions of a stack are shown without `--all`: those that made the call.
const MAX_FRAMES: usize = 24;

/// A line for each place that made a transfer.
pub(super) fn sites(callers: Option<&Callers>, directory: Option<&str>) -> Vec<TextLine> {
    let Some(callers) = callers else {
        return Vec::new();
    };
    let (shown, hidden) = callers.sites.split_at(MAX_SITES.min(callers.sites.len()));
    let mut lines: Vec<String> = shown
        .iter()
        .map(|site| caller(site, callers.calls, directory))
        .collect();
    if let calls @ 1.. = hidden.iter().map(|site| site.calls).sum() {
        let places = plural(hidden.len() as u64, "other caller", "other callers");
        lines.push(format!(
            "{places}, {}",
            units::percent(calls, callers.calls)
        ));
    }
    lines.iter().map(|line| words(line, Style::Plain)).collect()
}

/// `caller: copier::run (src/run.rs:41) via std::io::copy, 99.8 % of 513 calls, by 5 samples`: of
/// the calls that samples stand for.
fn caller(site: &Site, all_calls: u64, directory: Option<&str>) -> String {
    let place = text::escape(&site.shown_caller(directory));
    let share = units::percent(site.calls, all_calls);
    let samples = plural(site.samples, "sample", "samples");
    let all = plural(all_calls, "call", "calls");
    format!("caller: {place}, {share} of {all}, by {samples}")
}

/// Below the row of a call, who made it most often, or a line for each place. Not the loader, which
/// maps libraries before the program begins.
pub(super) fn below_row(
    callers: Option<&Callers>,
    directory: Option<&str>,
    all: bool,
) -> Vec<String> {
    let Some(callers) = callers else {
        return Vec::new();
    };
    let own = callers.sites.iter().filter(|site| !is_loader(&site.at));
    own.take(if all { usize::MAX } else { 1 })
        .map(|site| caller(site, callers.calls, directory))
        .collect()
}

/// Where a function was, for a person.
fn place(frame: &Frame, directory: Option<&str>) -> String {
    text::escape(&frame.shown_place(directory))
}

/// Whether the stack is only of the loader, which maps libraries before the program begins.
fn is_loading(stack: &Stack) -> bool {
    stack.frames.iter().all(is_loader)
}

fn is_loader(frame: &Frame) -> bool {
    let module = frame.module.as_deref();
    module.is_some_and(|path| text::file_name(path).starts_with("ld-"))
}

/// A stack, its samples, and the names of the calls that it made.
type Sampled<'a> = (&'a Stack, SampleSum, BTreeSet<&'a str>);

/// The stacks of all processes, the most frequent first, those of the loader last. `None`: no
/// callers were sampled.
fn sampled_stacks(report: &Report) -> Option<Vec<Sampled<'_>>> {
    let known = report.stacks.as_ref()?;
    let mut by_stack: BTreeMap<usize, (SampleSum, BTreeSet<&str>)> = BTreeMap::new();
    each_stack(report, |_, syscall, of| {
        let (samples, names) = by_stack.entry(of.stack).or_default();
        *samples += of.sum;
        names.insert(syscall);
    });
    let mut stacks: Vec<Sampled<'_>> = by_stack
        .into_iter()
        .filter_map(|(index, (samples, names))| Some((known.get(index)?, samples, names)))
        .collect();
    stacks.sort_by_key(|(stack, samples, _)| (is_loading(stack), Reverse(samples.calls)));
    Some(stacks)
}

fn samples_of(stacks: &[Sampled<'_>]) -> u64 {
    stacks.iter().map(|(_, samples, _)| samples.samples).sum()
}

/// The stacks, if callers were sampled.
pub(super) fn part(report: &Report, options: &Options) -> Option<DocumentPart> {
    let stacks = sampled_stacks(report)?;
    let losses = [Loss::UnsampledCallers, Loss::UnknownCode];
    let losses = losses
        .into_iter()
        .filter_map(|loss| Some(loss.explain(*report.losses.get(loss.name())?)));
    let mut items: Vec<Vec<TextLine>> = losses
        .map(|loss| vec![words(&loss, Style::Warning)])
        .collect();
    if stacks.is_empty() && items.is_empty() {
        return None;
    }
    let is_complete = |(stack, ..): &&Sampled<'_>| stack.complete;
    let complete: u64 = stacks
        .iter()
        .filter(is_complete)
        .map(|(_, samples, _)| samples.samples)
        .sum();
    let samples = plural(samples_of(&stacks), "sample", "samples");
    let heading = format!("CALLERS, {samples}, {complete} with a complete stack");
    let own = stacks.iter().take_while(|(stack, ..)| !is_loading(stack));
    let (shown, hidden) = split(&stacks, own.count().min(MAX_STACKS), options);
    items.extend(shown.iter().map(|sampled| item(sampled, report, options)));
    let samples = plural(samples_of(hidden), "sample", "samples");
    let more = more(hidden, ["stack", "stacks"], &samples);
    items.extend(sentence_line(more).map(|more| vec![more]));
    Some(DocumentPart {
        heading: words(&heading, Style::Heading),
        items,
        ..DocumentPart::default()
    })
}

/// Whether this is the function that the program itself begins with.
fn is_main(frame: &Frame) -> bool {
    let function = frame.function.as_deref();
    function.is_some_and(|name| name == "main" || name.ends_with("::main") || name == "main.main")
}

/// The functions of a stack, and why it is incomplete if it is.
fn item(
    (stack, samples, names): &Sampled<'_>,
    report: &Report,
    options: &Options,
) -> Vec<TextLine> {
    let names: Vec<String> = names.iter().map(|name| text::escape(name)).collect();
    let calls = plural(samples.calls, "call", "calls");
    let samples = plural(samples.samples, "sample", "samples");
    let title = format!("{calls}, by {samples}: {}", names.join(", "));
    let mut lines = vec![words(&title, Style::Plain)];
    let to_main = stack.frames.iter().position(is_main);
    let most = to_main.map_or(MAX_FRAMES, |place| MAX_FRAMES.min(place + 1));
    let (shown, hidden) = split(&stack.frames, most, options);
    for frame in shown {
        let inlined = if frame.inlined { ", inlined" } else { "" };
        let place = place(frame, report.directory.as_deref());
        lines.push(words(&format!("{place}{inlined}"), Style::Faint));
    }
    if let count @ 1.. = hidden.len() {
        let more = plural(count as u64, "more function", "more functions");
        lines.push(words(&format!("and {more}"), Style::Faint));
    }
    if let Some(why) = &stack.incomplete_because {
        let why = format!("incomplete: {}", text::escape(why));
        lines.push(words(&why, Style::Warning));
    }
    lines
}

/// The stacks as flame graphs take them (`stackcollapse`): a line for each, from the process and
/// its first function to the call, and how many calls its samples stand for.
pub(super) fn folded(report: &Report) -> String {
    let known = report.stacks.as_deref().unwrap_or_default();
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    each_stack(report, |process, syscall, of| {
        let Some(stack) = known.get(of.stack) else {
            return;
        };
        let mut parts = vec![
            process
                .name()
                .map_or_else(|| process.pid.to_string(), part_name),
        ];
        parts.extend((!stack.complete).then(|| "[incomplete]".to_owned()));
        parts.extend(stack.frames.iter().rev().map(name_of_frame));
        parts.push(part_name(syscall));
        *lines.entry(parts.join(";")).or_default() += of.calls;
    });
    let mut text = String::new();
    for (line, calls) in lines {
        let _ = writeln!(text, "{line} {calls}");
    }
    text
}

/// Calls `for_each` with the stacks of each call of each process.
fn each_stack<'a>(
    report: &'a Report,
    mut for_each: impl FnMut(&'a Process, &'a str, &'a StackSamples),
) {
    for process in &report.processes {
        for syscall in &process.syscalls {
            let stacks = syscall.callers.iter().flat_map(|callers| &callers.stacks);
            stacks.for_each(|of| for_each(process, &syscall.name, of));
        }
    }
}

/// The name of a function; without one its file and where in it.
pub(super) fn name_of_frame(frame: &Frame) -> String {
    let module = frame.module.as_deref().map(text::file_name);
    match (&frame.function, module) {
        (Some(function), _) => part_name(function),
        (None, Some(module)) => part_name(&format!("{module}+{:#x}", frame.address)),
        (None, None) => format!("{:#x}", frame.address),
    }
}

/// A name without what separates names.
fn part_name(name: &str) -> String {
    text::escape(name).replace([';', '\n'], ":")
}
