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
    let line = |site: &Site| {
        let via = site
            .via
            .as_deref()
            .map(|via| format!(" via {}", text::escape(via)))
            .unwrap_or_default();
        let all = plural(callers.samples, "sample", "samples");
        words(
            &format!(
                "{CALLER}{}{via}, in {} of {all}",
                place(&site.at, directory),
                site.samples
            ),
            Style::Plain,
        )
    };
    let more: u64 = hidden.iter().map(|site| site.samples).sum();
    let more = (more > 0).then(|| {
        let places = plural(hidden.len() as u64, "other caller", "other callers");
        words(&format!("{places}, in {more}"), Style::Plain)
    });
    shown.iter().map(line).chain(more).collect()
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
    let width = options
        .width
        .map_or(usize::MAX, |width| width.saturating_sub(2 * INDENT).max(20));
    for site in own.take(if options.all_transfers { usize::MAX } else { 1 }) {
        page.line(
            2 * INDENT,
            Style::Faint,
            &one_line(site, callers.samples, directory, width),
        );
    }
}

/// `caller: copier::run (src/run.rs:41) via std::io::copy, in 5 of 9 samples`. If that does not
/// fit, without the directories of the source, then with a shorter place.
fn one_line(site: &Site, samples: u64, directory: Option<&str>, width: usize) -> String {
    let via = site
        .via
        .as_deref()
        .map(|via| format!(" via {}", text::escape(via)))
        .unwrap_or_default();
    let rest = format!(
        "{via}, in {} of {}",
        site.samples,
        plural(samples, "sample", "samples")
    );
    let room = width.saturating_sub(text::width(CALLER) + text::width(&rest));
    let whole = place(&site.at, directory);
    let without_directories = || {
        let file = site
            .at
            .file
            .as_deref()
            .map(|path| text::file_name(path).to_owned());
        place(
            &Frame {
                file,
                ..site.at.clone()
            },
            None,
        )
    };
    let shown = if text::width(&whole) <= room {
        whole
    } else {
        without_directories()
    };
    let line = format!(
        "{CALLER}{}{rest}",
        text::shorten_middle(&shown, room.max(10))
    );
    text::shorten_middle(&line, width).into_owned()
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
    frame
        .module
        .as_deref()
        .is_some_and(|path| text::file_name(path).starts_with("ld-"))
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
        each_stack(report, |_, syscall, of| {
            let (samples, names) = by_stack.entry(of.stack).or_default();
            *samples += of.samples;
            names.insert(syscall);
        });
        let stack = |(index, (samples, names)): (usize, (u64, BTreeSet<&'a str>))| {
            Some((known.get(index)?, samples, names))
        };
        let mut stacks: Vec<_> = by_stack.into_iter().filter_map(stack).collect();
        stacks.sort_by_key(|(stack, samples, _)| (is_loading(stack), Reverse(*samples)));
        let sum = |complete_only: bool| {
            stacks
                .iter()
                .filter(|(stack, ..)| stack.complete || !complete_only)
                .map(|(_, samples, _)| samples)
                .sum()
        };
        Some(Self {
            samples: sum(false),
            complete: sum(true),
            stacks,
        })
    }
}

/// Writes the section of stacks, if callers were sampled.
pub(super) fn write(page: &mut Page, report: &Report, options: &Options) {
    let Some(Summary {
        stacks,
        samples,
        complete,
    }) = Summary::of(report)
    else {
        return;
    };
    let losses: Vec<(Loss, u64)> = [Loss::UnsampledCallers, Loss::UnknownCode]
        .into_iter()
        .filter_map(|loss| Some((loss, *report.losses.get(loss.name())?)))
        .collect();
    if samples == 0 && losses.is_empty() {
        return;
    }
    page.gap();
    page.line(
        0,
        Style::Heading,
        &format!(
            "CALLERS, {}, {complete} with a complete stack",
            plural(samples, "sample", "samples")
        ),
    );
    for (loss, count) in losses {
        page.flow(INDENT, &words(&loss.explain(count), Style::Warning));
    }
    let worth = stacks
        .iter()
        .take(MOST_STACKS)
        .take_while(|(stack, ..)| !is_loading(stack))
        .count();
    let most = if options.all_transfers {
        usize::MAX
    } else {
        worth
    };
    for (stack, samples, names) in stacks.iter().take(most) {
        let names = names
            .iter()
            .copied()
            .map(text::escape)
            .collect::<Vec<_>>()
            .join(", ");
        page.line(
            INDENT,
            Style::Plain,
            &format!("{}, by {names}", plural(*samples, "sample", "samples")),
        );
        write_stack(page, stack, report.directory.as_deref(), options);
    }
    let hidden = stacks.len().saturating_sub(most);
    if hidden > 0 {
        let (more, samples) = (
            stacks
                .iter()
                .skip(most)
                .map(|(_, samples, _)| samples)
                .sum::<u64>(),
            hidden as u64,
        );
        let (stacks, samples) = (
            plural(samples, "more stack", "more stacks"),
            plural(more, "sample", "samples"),
        );
        page.flow(
            INDENT,
            &words(
                &format!("and {stacks} with {samples}: --all shows them"),
                Style::Plain,
            ),
        );
    }
}

/// Whether this is the function that the program itself begins with.
fn is_main(frame: &Frame) -> bool {
    frame
        .function
        .as_deref()
        .is_some_and(|name| name == "main" || name.ends_with("::main") || name == "main.main")
}

/// The functions of a stack, and why it is incomplete if it is.
fn write_stack(page: &mut Page, stack: &Stack, directory: Option<&str>, options: &Options) {
    let to_main = stack
        .frames
        .iter()
        .position(is_main)
        .map_or(MOST_FRAMES, |place| place + 1);
    let most = if options.all_transfers {
        usize::MAX
    } else {
        to_main.min(MOST_FRAMES)
    };
    let width = options
        .width
        .map_or(usize::MAX, |width| width.saturating_sub(2 * INDENT).max(20));
    for frame in stack.frames.iter().take(most) {
        let inlined = if frame.inlined { ", inlined" } else { "" };
        page.line(
            2 * INDENT,
            Style::Faint,
            &text::shorten_middle(&format!("{}{inlined}", place(frame, directory)), width),
        );
    }
    if let hidden @ 1.. = stack.frames.len().saturating_sub(most) {
        page.line(
            2 * INDENT,
            Style::Faint,
            &format!(
                "and {}",
                plural(hidden as u64, "more function", "more functions")
            ),
        );
    }
    if let Some(why) = &stack.incomplete_because {
        page.flow(
            2 * INDENT,
            &words(
                &format!("incomplete: {}", text::escape(why)),
                Style::Warning,
            ),
        );
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
