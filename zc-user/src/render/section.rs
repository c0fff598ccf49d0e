//! A section of the report: the calls of one process, of one thread, or of all processes.

use super::{
    callers,
    columns::{self, Layout},
    page::{Options, Page, Piece, Style, list},
    text,
};
use crate::{
    report::{OtherCalls, Process, Program, State, Syscall, Thread, Totals, Usage},
    units::{self, UNKNOWN},
};

/// A section.
#[derive(Debug)]
pub(super) struct Section<'a> {
    /// Parts that are joined by commas.
    heading: Vec<String>,
    /// The command line, if there are several processes to tell apart.
    command: Option<String>,
    usage: &'a Usage,
    syscalls: &'a [Syscall],
    /// Operations of io_uring.
    operations: &'a [Syscall],
}

impl<'a> Section<'a> {
    pub(super) fn totals(totals: &'a Totals) -> Self {
        let heading = vec![
            "TOTAL".to_owned(),
            plural(totals.processes, "process", "processes"),
            plural(totals.threads, "thread", "threads"),
            calls(&totals.syscalls),
        ];
        Self {
            heading,
            command: None,
            usage: &totals.usage,
            syscalls: &totals.syscalls,
            operations: &[],
        }
    }

    /// The section of the only process. Its command line is in the head of the report.
    pub(super) fn only_process(process: &'a Process) -> Self {
        let mut heading = vec![
            process_name(process),
            plural(process.threads, "thread", "threads"),
            calls(&process.syscalls),
        ];
        heading.extend(process.other_calls.as_ref().and_then(other_calls));
        if process.state == State::Running {
            heading.push("still running".to_owned());
        }
        Self {
            heading,
            command: None,
            usage: &process.usage,
            syscalls: &process.syscalls,
            operations: &process.io_uring,
        }
    }

    /// The section of one process among others.
    pub(super) fn process(process: &'a Process) -> Self {
        let command = process
            .command
            .as_deref()
            .filter(|command| !command.is_empty())
            .map(text::command_line);
        Self {
            command,
            ..Self::only_process(process)
        }
    }

    pub(super) fn program(program: &'a Program) -> Self {
        let mut heading = vec![
            program_name(program),
            plural(program.processes, "process", "processes"),
            plural(program.threads, "thread", "threads"),
            calls(&program.syscalls),
        ];
        heading.extend(program.other_calls.as_ref().and_then(other_calls));
        Self {
            heading,
            command: None,
            usage: &program.usage,
            syscalls: &program.syscalls,
            operations: &program.io_uring,
        }
    }

    pub(super) fn thread(process: &Process, thread: &'a Thread) -> Self {
        let mut heading = vec![
            named(thread.comm.as_deref(), process.pid),
            format!("thread {}", thread.tid),
            calls(&thread.syscalls),
        ];
        heading.extend(thread.other_calls.as_ref().and_then(other_calls));
        Self {
            heading,
            command: None,
            usage: &thread.usage,
            syscalls: &thread.syscalls,
            operations: &[],
        }
    }

    /// The rows of its table. Calls that never returned have no figures; a line below the table
    /// names them.
    pub(super) fn returned(&self) -> Vec<&'a Syscall> {
        self.syscalls.iter().filter(|line| line.calls > 0).collect()
    }

    /// Whether it has only its heading, because there were no calls.
    pub(super) const fn is_one_line(&self) -> bool {
        self.syscalls.is_empty()
    }

    /// Whether its body has an [`UNKNOWN`] figure.
    pub(super) fn has_unknown(&self, layout: &Layout) -> bool {
        !self.is_one_line()
            && (figures(self.usage).contains(&None)
                || self
                    .returned()
                    .into_iter()
                    .any(|line| layout.has_unknown(line)))
    }

    /// `directory` is the one that the command was launched in.
    pub(super) fn write(
        &self,
        page: &mut Page,
        layout: &Layout,
        directory: Option<&str>,
        options: &Options,
    ) {
        page.flow(0, &list(&self.heading, Style::Heading));
        if self.is_one_line() {
            return;
        }
        if let Some(command) = &self.command {
            page.line(INDENT, Style::Faint, &format!("$ {command}"));
        }
        let returned = self.returned();
        let table = layout.table(&returned);
        let (head, rows) = table.split_at(HEAD_LINES.min(table.len()));
        for line in head {
            page.line(INDENT, Style::Faint, line);
        }
        for (row, line) in rows.iter().zip(returned) {
            page.line(INDENT, Style::Plain, row);
            if let Some(callers) = &line.callers {
                callers::below_row(page, callers, directory, options);
            }
        }
        for remark in self.remarks() {
            page.flow(INDENT, &remark);
        }
    }

    /// The heading as one text.
    pub(super) fn title(&self) -> String {
        self.heading.join(", ")
    }

    /// The command line, if there are several processes to tell apart.
    pub(super) fn command(&self) -> Option<&str> {
        self.command.as_deref()
    }

    /// The lines below the table: the counters of the process, io_uring's operations, errors by
    /// errno, calls that never returned.
    pub(super) fn remarks(&self) -> Vec<Vec<Piece>> {
        let operations =
            Some(operations(self.operations)).filter(|operations| !operations.is_empty());
        let errors = self
            .syscalls
            .iter()
            .chain(self.operations)
            .filter(|line| line.errors > 0)
            .map(errors);
        let unfinished =
            Some(unfinished(self.syscalls)).filter(|unfinished| !unfinished.is_empty());
        std::iter::once(usage(self.usage))
            .chain(operations)
            .chain(errors)
            .chain(unfinished)
            .collect()
    }
}

/// The lines of a table above its rows: titles and a rule.
const HEAD_LINES: usize = 2;
/// How deep the body of a section is indented.
pub(super) const INDENT: usize = 2;

/// `no calls`, `1 call`, `12 calls`. Calls that never returned are not counted, but a section shows
/// them. `116 other calls in 3.00 s`. `None` if there were none.
fn other_calls(sums: &OtherCalls) -> Option<String> {
    let time = sums
        .total_ns
        .map_or_else(String::new, |ns| format!(" in {}", units::duration(ns)));
    (sums.calls > 0).then(|| format!("{}{time}", plural(sums.calls, "other call", "other calls")))
}

fn calls(syscalls: &[Syscall]) -> String {
    match syscalls.iter().map(|line| line.calls).sum() {
        0 => "no calls".to_owned(),
        calls => plural(calls, "call", "calls"),
    }
}

/// `1 thread`, `2 threads`.
pub(super) fn plural(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

/// `copier (1234)`.
pub(super) fn process_name(process: &Process) -> String {
    named(process.name(), process.pid)
}

/// The name of a program.
pub(super) fn program_name(program: &Program) -> String {
    program
        .name
        .as_deref()
        .map_or_else(|| UNKNOWN.to_owned(), text::escape)
}

fn named(comm: Option<&str>, pid: u32) -> String {
    format!(
        "{} ({pid})",
        comm.map_or_else(|| UNKNOWN.to_owned(), text::escape)
    )
}

fn figures(usage: &Usage) -> [Option<u64>; 6] {
    let (switches, faults) = (usage.context_switches, usage.page_faults);
    [
        switches.voluntary,
        switches.involuntary,
        faults.minor,
        faults.major,
        usage.user_ns,
        usage.system_ns,
    ]
}

/// Context switches, page faults and CPU time. If both figures of a group are unknown, they share
/// one `-`.
fn usage(usage: &Usage) -> Vec<Piece> {
    let [voluntary, involuntary, minor, major, user, system] = figures(usage);
    let known = |figure: Option<u64>, show: fn(u64) -> String| {
        figure.map_or_else(|| UNKNOWN.to_owned(), show)
    };
    let group = |title, figures: [(Option<u64>, &str); 2], show, end| {
        let text = match figures {
            [(None, _), (None, _)] => UNKNOWN.to_owned(),
            [(one, of), (other, of_other)] => format!(
                "{} {of}, {} {of_other}",
                known(one, show),
                known(other, show)
            ),
        };
        Piece::new(format!("{title}: {text}{end}"), Style::Plain)
    };
    vec![
        group(
            "context switches",
            [(voluntary, "voluntary"), (involuntary, "involuntary")],
            |count| count.to_string(),
            ";",
        ),
        group(
            "page faults",
            [(minor, "minor"), (major, "major")],
            |count| count.to_string(),
            ";",
        ),
        group(
            "cpu",
            [(user, "user"), (system, "system")],
            units::duration,
            "",
        ),
    ]
}

/// `io_uring: 25 read of 1.0 MiB in all, 1 fsync`. Operations are not system calls, and their times
/// are unknown.
fn operations(operations: &[Syscall]) -> Vec<Piece> {
    let text = |line: &Syscall| {
        let name = line.as_ring_operation().unwrap_or(&line.name);
        let bytes = line
            .bytes
            .map(|bytes| format!(" of {} in all", units::bytes(bytes)))
            .unwrap_or_default();
        format!("{} {name}{bytes}", line.calls)
    };
    let texts: Vec<String> = operations.iter().map(text).collect();
    if texts.is_empty() {
        return Vec::new();
    }
    let mut pieces = vec![Piece::new("io_uring:".to_owned(), Style::Plain)];
    pieces.extend(list(&texts, Style::Plain));
    pieces
}

/// `read errors: EAGAIN 5, EBADF 3`, most frequent first.
fn errors(line: &Syscall) -> Vec<Piece> {
    let mut errnos: Vec<(&str, u64)> = line
        .errnos
        .iter()
        .map(|(name, &count)| (name.as_str(), count))
        .collect();
    errnos.sort_by_key(|&(name, count)| (std::cmp::Reverse(count), name));
    let named: u64 = errnos.iter().map(|(_, count)| count).sum();
    let mut texts: Vec<String> = errnos
        .iter()
        .map(|(name, count)| format!("{} {count}", text::escape(name)))
        .collect();
    if line.errors > named {
        texts.push(format!("errno lost {}", line.errors - named));
    }
    let mut pieces = vec![Piece::new(
        format!("{} errors:", columns::name(line)),
        Style::Warning,
    )];
    pieces.extend(list(&texts, Style::Warning));
    pieces
}

/// `never returned: read 1, exit_group 1`; empty if all calls returned.
fn unfinished(syscalls: &[Syscall]) -> Vec<Piece> {
    let unfinished = syscalls.iter().filter(|line| line.unfinished > 0);
    let texts: Vec<String> = unfinished
        .map(|line| format!("{} {}", columns::name(line), line.unfinished))
        .collect();
    if texts.is_empty() {
        return Vec::new();
    }
    let mut pieces = vec![Piece::new("never returned:", Style::Plain)];
    pieces.extend(list(&texts, Style::Plain));
    pieces
}
