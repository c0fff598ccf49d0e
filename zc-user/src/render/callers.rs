//! Who made the calls: a line below each transfer, the section of stacks, and the stacks in the
//! format of flame graphs.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use super::{
    page::{Options, Page, Piece, Style, words},
    section::{INDENT, plural},
    text,
};
use crate::{
    report::{Callers, Frame, Process, Report, Site, Stack, StackSamples},
    trace::Loss,
};

/// How many places are named below a transfer.
const MOST_SITES: usize = 3;
/// What a line about a caller begins with.
const CALLER: &str = "caller: ";
/// How many stacks are shown without `--all`.
const MOST_STACKS: usize = 10;
/// How many functions of a stack are shown without `--all`: those that made the call.
const MOST_FRAMES: usize = 24;

/// `caller: copier::std_copy::run (tests/workloads/copier/std_copy.rs:41) via std::io::copy, in 5
/// of 5 samples`, a line for each place.
pub(super) fn sites(callers: Option<&Callers>, directory: Option<&str>) -> Vec<Vec<Piece>> {
    let Some(callers) = callers else {
        return Vec::new();
    };
    let (shown, hidden) = callers.sites.split_at(MOST_SITES.min(callers.sites.len()));
    let mut lines: Vec<String> = shown
        .iter()
        .map(|site| {
            let place = place(&site.at, directory);
            format!("{CALLER}{place}{}", rest_of_line(site, callers.samples))
        })
        .collect();
    if let samples @ 1.. = hidden.iter().map(|site| site.samples).sum() {
        let places = plural(hidden.len() as u64, "other caller", "other callers");
        lines.push(format!("{places}, in {samples}"));
    }
    lines.iter().map(|line| words(line, Style::Plain)).collect()
}

/// ` via std::io::copy, in 5 of 9 samples`.
fn rest_of_line(site: &Site, samples: u64) -> String {
    let via = site.via.as_deref();
    let via = via.map_or_else(String::new, |via| format!(" via {}", text::escape(via)));
    let all = plural(samples, "sample", "samples");
    format!("{via}, in {} of {all}", site.samples)
}

/// Writes below the row of a call who made it most often, on one line; with `--all`, a line for
/// each place. Not the loader, which maps libraries before the program begins.
pub(super) fn below_row(
    page: &mut Page,
    callers: &Callers,
    directory: Option<&str>,
    options: &Options,
) {
    let own = callers.sites.iter().filter(|site| !is_loader(&site.at));
    let most = if options.all_transfers { usize::MAX } else { 1 };
    let width = width_of_places(options);
    for site in own.take(most) {
        let line = one_line(site, callers.samples, directory, width);
        page.line(2 * INDENT, Style::Faint, &line);
    }
}

/// How long a line about a place may be.
fn width_of_places(options: &Options) -> usize {
    let width = options.width;
    width.map_or(usize::MAX, |width| width.saturating_sub(2 * INDENT).max(20))
}

/// `caller: copier::run (src/run.rs:41) via std::io::copy, in 5 of 9 samples`. If that does not
/// fit, without the directories of the source, then with a shorter place.
fn one_line(site: &Site, samples: u64, directory: Option<&str>, width: usize) -> String {
    let rest = rest_of_line(site, samples);
    let room = width.saturating_sub(text::width(CALLER) + text::width(&rest));
    let mut shown = place(&site.at, directory);
    if text::width(&shown) > room {
        let mut at = site.at.clone();
        at.file = at.file.map(|path| text::file_name(&path).to_owned());
        shown = place(&at, None);
    }
    let shown = text::shorten_middle(&shown, room.max(10));
    text::shorten_middle(&format!("{CALLER}{shown}{rest}"), width).into_owned()
}

/// Where a function was, for a person.
fn place(frame: &Frame, directory: Option<&str>) -> String {
    text::escape(&frame.place(directory))
}

/// Whether the stack is only of the loader, which maps libraries before the program begins.
fn is_loading(stack: &Stack) -> bool {
    stack.frames.iter().all(is_loader)
}

fn is_loader(frame: &Frame) -> bool {
    let module = frame.module.as_deref();
    module.is_some_and(|path| text::file_name(path).starts_with("ld-"))
}

/// A stack, how many samples it has, and the calls that it made.
type Sampled<'a> = (&'a Stack, u64, BTreeSet<&'a str>);

/// The stacks of all processes, the most frequent first, those of the loader last. `None`: no
/// callers were sampled.
fn sampled_stacks(report: &Report) -> Option<Vec<Sampled<'_>>> {
    let known = report.stacks.as_ref()?;
    let mut by_stack: BTreeMap<usize, (u64, BTreeSet<&str>)> = BTreeMap::new();
    each_stack(report, |_, syscall, of| {
        let (samples, names) = by_stack.entry(of.stack).or_default();
        *samples += of.samples;
        names.insert(syscall);
    });
    let mut stacks: Vec<Sampled<'_>> = by_stack
        .into_iter()
        .filter_map(|(index, (samples, names))| Some((known.get(index)?, samples, names)))
        .collect();
    stacks.sort_by_key(|(stack, samples, _)| (is_loading(stack), Reverse(*samples)));
    Some(stacks)
}

fn samples_of(stacks: &[Sampled<'_>]) -> u64 {
    stacks.iter().map(|(_, samples, _)| samples).sum()
}

/// Writes the section of stacks, if callers were sampled.
pub(super) fn write(page: &mut Page, report: &Report, options: &Options) {
    let Some(stacks) = sampled_stacks(report) else {
        return;
    };
    let losses: Vec<(Loss, u64)> = [Loss::UnsampledCallers, Loss::UnknownCode]
        .into_iter()
        .filter_map(|loss| Some((loss, *report.losses.get(loss.name())?)))
        .collect();
    if stacks.is_empty() && losses.is_empty() {
        return;
    }
    let complete: u64 = stacks
        .iter()
        .filter(|(stack, ..)| stack.complete)
        .map(|(_, samples, _)| samples)
        .sum();
    let samples = plural(samples_of(&stacks), "sample", "samples");
    page.gap();
    let heading = format!("CALLERS, {samples}, {complete} with a complete stack");
    page.line(0, Style::Heading, &heading);
    for (loss, count) in losses {
        page.say(INDENT, Style::Warning, &loss.explain(count));
    }
    let worth = stacks
        .iter()
        .take(MOST_STACKS)
        .take_while(|(stack, ..)| !is_loading(stack))
        .count();
    let most = if options.all_transfers {
        stacks.len()
    } else {
        worth
    };
    let (shown, hidden) = stacks.split_at(most);
    for (stack, samples, names) in shown {
        let names: Vec<String> = names.iter().map(|name| text::escape(name)).collect();
        let samples = plural(*samples, "sample", "samples");
        let title = format!("{samples}, by {}", names.join(", "));
        page.line(INDENT, Style::Plain, &title);
        write_stack(page, stack, report.directory.as_deref(), options);
    }
    if !hidden.is_empty() {
        let samples = plural(samples_of(hidden), "sample", "samples");
        let stacks = plural(hidden.len() as u64, "more stack", "more stacks");
        let more = format!("and {stacks} with {samples}: --all shows them");
        page.say(INDENT, Style::Plain, &more);
    }
}

/// Whether this is the function that the program itself begins with.
fn is_main(frame: &Frame) -> bool {
    let function = frame.function.as_deref();
    function.is_some_and(|name| name == "main" || name.ends_with("::main") || name == "main.main")
}

/// The functions of a stack, and why it is incomplete if it is.
fn write_stack(page: &mut Page, stack: &Stack, directory: Option<&str>, options: &Options) {
    let to_main = stack.frames.iter().position(is_main);
    let to_main = to_main.map_or(MOST_FRAMES, |place| place + 1);
    let most = if options.all_transfers {
        usize::MAX
    } else {
        to_main.min(MOST_FRAMES)
    };
    let width = width_of_places(options);
    for frame in stack.frames.iter().take(most) {
        let inlined = if frame.inlined { ", inlined" } else { "" };
        let line = format!("{}{inlined}", place(frame, directory));
        page.line(
            2 * INDENT,
            Style::Faint,
            &text::shorten_middle(&line, width),
        );
    }
    if let hidden @ 1.. = stack.frames.len().saturating_sub(most) {
        let more = plural(hidden as u64, "more function", "more functions");
        page.line(2 * INDENT, Style::Faint, &format!("and {more}"));
    }
    if let Some(why) = &stack.incomplete_because {
        let why = format!("incomplete: {}", text::escape(why));
        page.say(2 * INDENT, Style::Warning, &why);
    }
}

/// The stacks as flame graphs take them (`stackcollapse`): a line for each, from the process and
/// its first function to the call, and how many samples it has.
pub(super) fn folded(report: &Report) -> String {
    let known = report.stacks.as_deref().unwrap_or_default();
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    each_stack(report, |process, syscall, of| {
        let Some(stack) = known.get(of.stack) else {
            return;
        };
        let mut parts = vec![process.name().map_or_else(|| process.pid.to_string(), part)];
        parts.extend((!stack.complete).then(|| "[incomplete]".to_owned()));
        parts.extend(stack.frames.iter().rev().map(name_of_frame));
        parts.push(part(syscall));
        *lines.entry(parts.join(";")).or_default() += of.samples;
    });
    let mut text = String::new();
    for (line, samples) in lines {
        let _ = writeln!(text, "{line} {samples}");
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
        (Some(function), _) => part(function),
        (None, Some(module)) => part(&format!("{module}+{:#x}", frame.address)),
        (None, None) => format!("{:#x}", frame.address),
    }
}

/// A name without what separates names.
fn part(name: &str) -> String {
    text::escape(name).replace([';', '\n'], ":")
}
