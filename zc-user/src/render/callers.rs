//! Who made the calls: a line below each transfer, the section of stacks, and the stacks in the format of flame graphs.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use super::{
    page::{Options, Page, Piece, Style, Weight, words},
    section::{INDENT, plural},
    text,
};
use crate::report::{Callers, Frame, Process, Report, Site, Stack};

/// How many places are named below a transfer.
const MOST_SITES: usize = 3;
/// How many stacks are shown without `--all`.
const MOST_STACKS: usize = 10;
/// How many functions of a stack are shown without `--all`: those that made the call.
const MOST_FRAMES: usize = 24;

/// `caller: copier::std_copy::run (tests/workloads/copier/std_copy.rs:41) via std::io::copy, in 5 of 5 samples`, a line for each place.
pub(super) fn sites(callers: Option<&Callers>, directory: Option<&str>) -> Vec<Vec<Piece>> {
    let Some(callers) = callers else { return Vec::new() };
    let (shown, hidden) = callers.sites.split_at(MOST_SITES.min(callers.sites.len()));
    let line = |site: &Site| {
        let via = site.via.as_deref().map(|via| format!(" via {}", text::escape(via))).unwrap_or_default();
        let all = plural(callers.samples, "sample", "samples");
        words(&format!("caller: {}{via}, in {} of {all}", place(&site.at, directory), site.samples), Style::Plain)
    };
    let more: u64 = hidden.iter().map(|site| site.samples).sum();
    let more = (more > 0).then(|| {
        let places = plural(hidden.len() as u64, "other caller", "other callers");
        words(&format!("{places}, in {more}"), Style::Plain)
    });
    shown.iter().map(line).chain(more).collect()
}

/// `copier::run (src/run.rs:41)`; without a line `copier::run (copier)`, without a name `copier+0x4f2a`.
fn place(frame: &Frame, directory: Option<&str>) -> String {
    let module = frame.module.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path));
    let shown = match (&frame.function, &frame.file, module) {
        (Some(function), Some(file), _) => format!("{function} ({}{})", short_path(file, directory), line(frame)),
        (Some(function), None, Some(module)) => format!("{function} ({module})"),
        (Some(function), None, None) => function.clone(),
        (None, _, Some(module)) => format!("{module}+{:#x}", frame.address),
        (None, _, None) => format!("{:#x}, in no file", frame.address),
    };
    text::escape(&shown)
}

fn line(frame: &Frame) -> String {
    frame.line.map(|line| format!(":{line}")).unwrap_or_default()
}

/// The path of a source, below the directory that the command was launched in. One of Rust's library without what says only where that was
/// built: `library/std/src/io/copy.rs`.
fn short_path<'a>(path: &'a str, directory: Option<&str>) -> &'a str {
    let of_rust = path.strip_prefix("/rustc/").and_then(|rest| Some(rest.split_once('/')?.1));
    let below = || path.strip_prefix(directory?.trim_end_matches('/'))?.strip_prefix('/');
    of_rust.or_else(below).unwrap_or(path)
}

/// Whether the stack is only of the loader, which maps libraries before the program begins.
fn is_loading(stack: &Stack) -> bool {
    let is_loader = |frame: &Frame| {
        frame.module.as_deref().is_some_and(|path| path.rsplit('/').next().is_some_and(|name| name.starts_with("ld-")))
    };
    stack.frames.iter().all(is_loader)
}

/// What the stacks of all processes say together.
struct Summary<'a> {
    /// The stack, how many samples it has, and the calls that it made.
    stacks: Vec<(&'a Stack, u64, BTreeSet<&'a str>)>,
    samples: u64,
    complete: u64,
}

impl<'a> Summary<'a> {
    fn of(report: &'a Report) -> Option<Self> {
        let known = report.stacks.as_ref()?;
        let mut by_stack: BTreeMap<usize, (u64, BTreeSet<&str>)> = BTreeMap::new();
        for syscall in report.processes.iter().flat_map(|process| &process.syscalls) {
            for of in syscall.callers.iter().flat_map(|callers| &callers.stacks) {
                let (samples, names) = by_stack.entry(of.stack).or_default();
                *samples += of.samples;
                names.insert(&syscall.name);
            }
        }
        let stack = |(index, (samples, names)): (usize, (u64, BTreeSet<&'a str>))| Some((known.get(index)?, samples, names));
        let mut stacks: Vec<_> = by_stack.into_iter().filter_map(stack).collect();
        stacks.sort_by_key(|(stack, samples, _)| (is_loading(stack), Reverse(*samples)));
        let sum = |complete_only: bool| {
            stacks.iter().filter(|(stack, ..)| stack.complete || !complete_only).map(|(_, samples, _)| samples).sum()
        };
        Some(Self { samples: sum(false), complete: sum(true), stacks })
    }
}

/// Writes the section of stacks, if callers were sampled.
pub(super) fn write(page: &mut Page, report: &Report, options: &Options) {
    let Some(Summary { stacks, samples, complete }) = Summary::of(report) else { return };
    page.gap();
    page.line(0, Style::Heading, &format!("CALLERS, {}, {complete} with a complete stack", plural(samples, "sample", "samples")));
    for name in ["unsampled_callers", "unknown_code"] {
        let loss = crate::trace::Loss::from_name(name);
        if let (Some(&count), Some(loss)) = (report.losses.get(name), loss) {
            page.flow(INDENT, &words(&loss.explain(count), Style::Warning));
        }
    }
    let worth = stacks.iter().take(MOST_STACKS).take_while(|(stack, ..)| !is_loading(stack)).count();
    let most = if options.all_transfers { usize::MAX } else { worth };
    for (stack, samples, names) in stacks.iter().take(most) {
        let names = names.iter().copied().map(text::escape).collect::<Vec<_>>().join(", ");
        page.line(INDENT, Style::Plain, &format!("{}, by {names}", plural(*samples, "sample", "samples")));
        write_stack(page, stack, report.directory.as_deref(), options);
    }
    let hidden = stacks.len().saturating_sub(most);
    if hidden > 0 {
        let (more, samples) = (stacks.iter().skip(most).map(|(_, samples, _)| samples).sum::<u64>(), hidden as u64);
        let (stacks, samples) = (plural(samples, "more stack", "more stacks"), plural(more, "sample", "samples"));
        page.flow(INDENT, &words(&format!("and {stacks} with {samples}: --all shows them"), Style::Plain));
    }
}

/// Whether this is the function that the program itself begins with.
fn is_main(frame: &Frame) -> bool {
    frame.function.as_deref().is_some_and(|name| name == "main" || name.ends_with("::main") || name == "main.main")
}

/// The functions of a stack, and why it is incomplete if it is.
fn write_stack(page: &mut Page, stack: &Stack, directory: Option<&str>, options: &Options) {
    let to_main = stack.frames.iter().position(is_main).map_or(MOST_FRAMES, |place| place + 1);
    let most = if options.all_transfers { usize::MAX } else { to_main.min(MOST_FRAMES) };
    let width = options.width.map_or(usize::MAX, |width| width.saturating_sub(2 * INDENT).max(20));
    for frame in stack.frames.iter().take(most) {
        let inlined = if frame.inlined { ", inlined" } else { "" };
        page.line(2 * INDENT, Style::Faint, &text::shorten_middle(&format!("{}{inlined}", place(frame, directory)), width));
    }
    if let hidden @ 1.. = stack.frames.len().saturating_sub(most) {
        page.line(2 * INDENT, Style::Faint, &format!("and {}", plural(hidden as u64, "more function", "more functions")));
    }
    if let Some(why) = &stack.incomplete_because {
        page.flow(2 * INDENT, &words(&format!("incomplete: {}", text::escape(why)), Style::Warning));
    }
}

/// The stacks as flame graphs take them (`stackcollapse`): a line for each, from the process and its first function to the call, and the
/// weight of its samples.
pub(super) fn folded(report: &Report, weight: Weight) -> String {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    let mut add = |process: Option<&str>, pid: u32, syscall: &str, stack: &Stack, weight: u64| {
        let mut parts = vec![process.map_or_else(|| pid.to_string(), part)];
        parts.extend((!stack.complete).then(|| "[incomplete]".to_owned()));
        parts.extend(stack.frames.iter().rev().map(name_of_frame));
        parts.push(part(syscall));
        *lines.entry(parts.join(";")).or_default() += weight;
    };
    if weight == Weight::Calls {
        each_stack(report, |process, syscall, stack, samples| add(process.name(), process.pid, syscall, stack, samples));
    } else {
        let stacks = report.stacks.as_deref().unwrap_or_default();
        for thread in report.timeline.iter().flat_map(|timeline| &timeline.threads) {
            for (call, stack) in thread.calls.iter().filter_map(|call| Some((call, stacks.get(call.stack)?))) {
                let weight = if weight == Weight::Bytes { call.bytes } else { call.duration_ns };
                add(thread.process.as_deref(), thread.pid, &call.syscall, stack, weight.unwrap_or(0));
            }
        }
    }
    let mut text = String::new();
    for (line, samples) in lines.into_iter().filter(|(_, weight)| *weight > 0) {
        let _ = writeln!(text, "{line} {samples}");
    }
    text
}

/// Calls `for_each` with each stack of each call of each process, and the number of its samples.
pub(super) fn each_stack<'a>(report: &'a Report, mut for_each: impl FnMut(&'a Process, &'a str, &'a Stack, u64)) {
    let known = report.stacks.as_deref().unwrap_or_default();
    for process in &report.processes {
        for syscall in &process.syscalls {
            for of in syscall.callers.iter().flat_map(|callers| &callers.stacks) {
                if let Some(stack) = known.get(of.stack) {
                    for_each(process, &syscall.name, stack, of.samples);
                }
            }
        }
    }
}

/// The name of a function; without one its file and where in it.
pub(super) fn name_of_frame(frame: &Frame) -> String {
    let module = frame.module.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path));
    match (&frame.function, module) {
        (Some(function), _) => part(function),
        (None, Some(module)) => part(&format!("{module}+{:#x}", frame.address)),
        (None, None) => format!("{:#x}", frame.address),
    }
}

/// A name without what separates names.
fn part(name: &str) -> String {
    text::escape(name).replace([';', '\n'], ":")
}
