//! The report as text: a head, the programs, the transfers, then tables of calls in the style of
//! `perf trace -s`.

use std::cmp::Reverse;

use super::{
    callers,
    columns::Layout,
    files, head, latency,
    page::{Options, Page, Style},
    programs,
    section::{INDENT, Section, plural},
    transfers,
};
use crate::{
    report::{Detail, Process, Report, Syscall},
    units,
};

/// How many processes, or programs, are shown without `--all-processes`.
const MOST_PROCESSES: usize = 10;

pub(super) fn render(report: &Report, options: &Options) -> String {
    let Sections { sections, hidden } = sections(report, options);
    let lines: Vec<&Syscall> = sections.iter().flat_map(Section::returned).collect();
    let layout = Layout::fit(
        &lines,
        options.width.map(|width| width.saturating_sub(INDENT)),
    );

    let mut page = Page::new(options);
    head::write(&mut page, report);
    let programs = programs::listing(report, programs::most(options));
    if let Some(programs) = &programs {
        programs.write(&mut page, options);
    }
    transfers::write(&mut page, report, options);
    let mut after_one_line = false;
    for (index, section) in sections.iter().enumerate() {
        // There are no gaps between processes without calls: they are a list.
        if !(after_one_line && section.is_one_line()) {
            page.gap();
        }
        section.write(&mut page, &layout, report.directory.as_deref(), options);
        after_one_line = section.is_one_line();
        // The first section is that of all calls.
        if let (0, Some(bars)) = (index, options.histogram) {
            page.gap();
            latency::write(&mut page, report, options, bars);
        }
    }
    if let Some(hidden) = &hidden {
        page.gap();
        page.say(0, Style::Plain, hidden);
    }
    files::write(&mut page, report, options);
    files::write_failed_paths(&mut page, report, options);
    callers::write(&mut page, report, options);
    let has_unknown = head::has_unknown(report)
        || programs.is_some_and(|programs| programs.has_unknown())
        || sections.iter().any(|section| section.has_unknown(&layout));
    let left_out = layout.left_out();
    let has_no_room = !lines.is_empty() && !left_out.is_empty();
    if has_unknown || has_no_room {
        page.gap();
    }
    if has_unknown {
        page.say(0, Style::Faint, "\"-\": unknown, not 0");
    }
    if has_no_room {
        page.say(
            0,
            Style::Faint,
            &format!("no room for: {}", left_out.join(", ")),
        );
    }
    page.finish()
}

/// The tables of calls to show.
pub(super) struct Sections<'a> {
    pub(super) sections: Vec<Section<'a>>,
    /// What is not shown, and the option that shows it.
    pub(super) hidden: Option<String>,
}

/// The total, which comes first, because with many processes it is the most interesting; then what
/// `--by` asks for. Without it, a few processes are shown each, and of many only the total: the
/// table of programs has a line for them.
pub(super) fn sections<'a>(report: &'a Report, options: &Options) -> Sections<'a> {
    let processes = &report.processes;
    let is_few =
        processes.len() <= MOST_PROCESSES || options.all_processes || report.programs.is_empty();
    let most = if options.all_processes {
        usize::MAX
    } else {
        MOST_PROCESSES
    };
    // A single process needs no total.
    let mut sections = Vec::new();
    if processes.len() != 1 || options.by == Some(Detail::Total) {
        sections.push(Section::totals(&report.totals));
    }
    let hidden = match options.by {
        Some(Detail::Total) => None,
        Some(Detail::Program) if !report.programs.is_empty() => {
            sections.extend(report.programs.iter().take(most).map(Section::program));
            let more = report.programs.len().saturating_sub(most) as u64;
            let more_programs = plural(more, "more program", "more programs");
            (more > 0).then(|| format!("and {more_programs}: --all shows them"))
        }
        None if !is_few => Some(
            "--by program shows the calls of each program, --by process those of each process"
                .to_owned(),
        ),
        Some(_) | None => {
            let (shown, hidden) = select(processes, most);
            for process in shown {
                sections.extend(of_process(process, processes.len() == 1, options));
            }
            (!hidden.is_empty()).then(|| hidden_processes(&hidden, report))
        }
    };
    Sections { sections, hidden }
}

/// The sections of a process, and of its threads if they are known. A single thread would repeat
/// its process.
fn of_process<'a>(process: &'a Process, is_only: bool, options: &Options) -> Vec<Section<'a>> {
    let own = if is_only {
        Section::only_process(process)
    } else {
        Section::process(process)
    };
    let shows_threads =
        process.by_thread.len() > 1 && options.by.is_none_or(|by| by == Detail::Thread);
    let threads = process
        .by_thread
        .iter()
        .filter(|_| shows_threads)
        .map(|thread| Section::thread(process, thread));
    std::iter::once(own).chain(threads).collect()
}

/// Splits the processes into those to show and those that are only summed. A few processes keep
/// their order; of many, those with the most calls come first.
pub(super) fn select(processes: &[Process], most: usize) -> (Vec<&Process>, Vec<&Process>) {
    let mut shown: Vec<&Process> = processes.iter().collect();
    if shown.len() <= most {
        return (shown, Vec::new());
    }
    shown.sort_by_key(|process| Reverse(calls(&process.syscalls)));
    let hidden = shown.split_off(most);
    (shown, hidden)
}

/// `and 1990 more processes with 7960 calls (66.6 % of all): --all-processes shows them`.
pub(super) fn hidden_processes(hidden: &[&Process], report: &Report) -> String {
    let hidden_calls = hidden.iter().map(|process| calls(&process.syscalls)).sum();
    format!(
        "and {} with {} ({} of all): --all-processes shows them",
        plural(hidden.len() as u64, "more process", "more processes"),
        plural(hidden_calls, "call", "calls"),
        units::percent(hidden_calls, calls(&report.totals.syscalls)),
    )
}

fn calls(syscalls: &[Syscall]) -> u64 {
    calls_of(syscalls.iter())
}

/// How many calls these are together.
pub(super) fn calls_of<'a>(syscalls: impl Iterator<Item = &'a Syscall>) -> u64 {
    syscalls.map(|line| line.calls).sum()
}
