//! A section of the report: the calls of one process, of one thread, or of all processes.

use std::cmp::Reverse;

use super::{
    callers,
    columns::{self, Layout},
    page::{Options, Page, Piece, Style, list},
    text::{self, known},
};
use crate::{
    report::{OtherCalls, Process, Program, State, Syscall, Thread, Totals, Usage},
    units::{self, UNKNOWN},
};

/// How deep the body of a section is indented.
pub(super) const INDENT: usize = 2;
/// The lines of a table above its rows: titles and a rule.
const HEAD_LINES: usize = 2;

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
    /// A section with this heading, to which the number of calls is added.
    fn new(
        mut heading: Vec<String>,
        usage: &'a Usage,
        syscalls: &'a [Syscall],
        others: Option<&OtherCalls>,
    ) -> Self {
        heading.push(calls(syscalls));
        heading.extend(others.and_then(other_calls));
        Self {
            heading,
            command: None,
            usage,
            syscalls,
            operations: &[],
        }
    }

    pub(super) fn totals(totals: &'a Totals) -> Self {
        let heading = vec![
            "TOTAL".to_owned(),
            plural(totals.processes, "process", "processes"),
            plural(totals.threads, "thread", "threads"),
        ];
        Self::new(heading, &totals.usage, &totals.syscalls, None)
    }

    /// The section of the only process. Its command line is in the head of the report.
    pub(super) fn only_process(process: &'a Process) -> Self {
        let heading = vec![
            process_name(process),
            plural(process.threads, "thread", "threads"),
        ];
        let others = process.other_calls.as_ref();
        let mut section = Self::new(heading, &process.usage, &process.syscalls, others);
        if process.state == State::Running {
            section.heading.push("still running".to_owned());
        }
        section.operations = &process.io_uring;
        section
    }

    /// The section of one process among others.
    pub(super) fn process(process: &'a Process) -> Self {
        Self {
            command: command_of(process),
            ..Self::only_process(process)
        }
    }

    pub(super) fn program(program: &'a Program) -> Self {
        let heading = vec![
            program_name(program),
            plural(program.processes, "process", "processes"),
            plural(program.threads, "thread", "threads"),
        ];
        let others = program.other_calls.as_ref();
        Self {
            operations: &program.io_uring,
            ..Self::new(heading, &program.usage, &program.syscalls, others)
        }
    }

    pub(super) fn thread(process: &Process, thread: &'a Thread) -> Self {
        let heading = vec![
            named(thread.comm.as_deref(), process.pid),
            format!("thread {}", thread.tid),
        ];
        let others = thread.other_calls.as_ref();
        Self::new(heading, &thread.usage, &thread.syscalls, others)
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
        let Usage {
            context_switches: switches,
            page_faults: faults,
            ..
        } = self.usage;
        let counts = [
            switches.voluntary,
            switches.involuntary,
            faults.minor,
            faults.major,
        ];
        let times = [self.usage.user_ns, self.usage.system_ns];
        let in_usage = counts.contains(&None) || times.contains(&None);
        let in_table = || self.returned().iter().any(|line| layout.has_unknown(line));
        !self.is_one_line() && (in_usage || in_table())
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
        page.table(INDENT, head);
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
        let all = || self.syscalls.iter().chain(self.operations);
        let mut remarks = vec![usage(self.usage)];
        // Operations are not system calls, and their times are unknown.
        let operations: Vec<String> = self.operations.iter().map(operation).collect();
        remarks.extend(titled_list("io_uring:", &operations, Style::Plain));
        for call in all().filter(|call| call.errors > 0) {
            let title = format!("{} errors:", columns::name(call));
            remarks.extend(titled_list(&title, &errors(call), Style::Warning));
        }
        let unfinished: Vec<String> = self
            .syscalls
            .iter()
            .filter(|call| call.unfinished > 0)
            .map(|call| format!("{} {}", columns::name(call), call.unfinished))
            .collect();
        remarks.extend(titled_list("never returned:", &unfinished, Style::Plain));
        remarks
    }
}

/// `never returned: read 1, exit_group 1`; `None` without any texts.
pub(super) fn titled_list(title: &str, texts: &[String], style: Style) -> Option<Vec<Piece>> {
    let mut pieces = vec![Piece::new(title, style)];
    pieces.extend(list(texts, style));
    (!texts.is_empty()).then_some(pieces)
}

/// `116 other calls in 3.00 s`. `None` if there were none.
fn other_calls(sums: &OtherCalls) -> Option<String> {
    let calls = plural(sums.calls, "other call", "other calls");
    let text = match sums.total_ns {
        Some(ns) => format!("{calls} in {}", units::duration(ns)),
        None => calls,
    };
    (sums.calls > 0).then_some(text)
}

/// `no calls`, `1 call`, `12 calls`. Calls that never returned are not counted, but a section shows
/// them.
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

/// The command line of a process, if it is known.
pub(super) fn command_of(process: &Process) -> Option<String> {
    let command = process.command.as_deref();
    command
        .filter(|command| !command.is_empty())
        .map(text::command_line)
}

/// `copier (1234)`.
pub(super) fn process_name(process: &Process) -> String {
    named(process.name_after_others().as_deref(), process.pid)
}

/// The name of a program.
pub(super) fn program_name(program: &Program) -> String {
    known(program.name.as_deref(), text::escape)
}

fn named(comm: Option<&str>, pid: u32) -> String {
    format!("{} ({pid})", known(comm, text::escape))
}

/// Context switches, page faults and CPU time. If both figures of a group are unknown, they share
/// one `-`.
fn usage(usage: &Usage) -> Vec<Piece> {
    let (switches, faults) = (usage.context_switches, usage.page_faults);
    let count = |count: u64| count.to_string();
    let pair = |one: Option<String>, of: &str, other: Option<String>, of_other: &str| {
        if one.is_none() && other.is_none() {
            return UNKNOWN.to_owned();
        }
        let text = |figure: Option<String>| known(figure, |text| text);
        format!("{} {of}, {} {of_other}", text(one), text(other))
    };
    let switches = pair(
        switches.voluntary.map(count),
        "voluntary",
        switches.involuntary.map(count),
        "involuntary",
    );
    let faults = pair(
        faults.minor.map(count),
        "minor",
        faults.major.map(count),
        "major",
    );
    let cpu = pair(
        usage.user_ns.map(units::duration),
        "user",
        usage.system_ns.map(units::duration),
        "system",
    );
    [
        format!("context switches: {switches};"),
        format!("page faults: {faults};"),
        format!("cpu: {cpu}"),
    ]
    .map(|text| Piece::new(text, Style::Plain))
    .into()
}

/// `25 read of 1.0 MiB in all`.
fn operation(line: &Syscall) -> String {
    let name = line.as_ring_operation().unwrap_or(&line.name);
    match line.bytes {
        Some(bytes) => format!("{} {name} of {} in all", line.calls, units::bytes(bytes)),
        None => format!("{} {name}", line.calls),
    }
}

/// `EAGAIN 5`, `EBADF 3`, most frequent first.
fn errors(line: &Syscall) -> Vec<String> {
    let mut errnos: Vec<(&String, u64)> = line
        .errnos
        .iter()
        .map(|(name, &count)| (name, count))
        .collect();
    errnos.sort_by_key(|&(name, count)| (Reverse(count), name));
    let named: u64 = errnos.iter().map(|(_, count)| count).sum();
    let mut texts: Vec<String> = errnos
        .iter()
        .map(|(name, count)| format!("{} {count}", text::escape(name)))
        .collect();
    if line.errors > named {
        texts.push(format!("errno lost {}", line.errors - named));
    }
    texts
}
