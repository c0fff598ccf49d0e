//! The calls of one process, of one thread, of a program, or of all: a table, and what is said
//! below it.

use std::{cmp::Reverse, sync::LazyLock};

use super::{
    call_rows::{CallRows, UnselectedCalls, moves_data},
    caller_lines,
    page::{Options, Piece, Style, TextLine, list, titled_list},
    part::{DocumentPart, command_of, sentence_line, sum_of_calls},
    table::{STAYS, ShownTable},
    text::{self, known, plural},
};
use crate::{
    counts::CallSums,
    report::{
        Activity, Failures, Loading, Process, Program, Report, State, Syscall, Thread, Usage,
    },
    syscalls::{Abi, CallEffect, Selection, Spec, data_calls},
    units::{self, UNKNOWN},
};

/// The cell of a call. The time is that of all calls of the section; `None` if one is unknown.
type CallCell = fn(&Syscall, Option<u64>) -> String;

/// The columns of the table: the title of each, when it is dropped to save room, the lowest first,
/// and its cells. The name and the count always stay. Different errors of a call have a line below the
/// table.
const COLUMNS: [(&str, u8, CallCell); 11] = [
    ("syscall", STAYS, |call, _| name(call)),
    ("calls", STAYS, |call, _| call.calls.to_string()),
    ("errors", 5, |call, _| number_of_errors(call)),
    ("bytes", 8, |call, _| known(call.bytes, units::bytes)),
    ("avg size", 3, |call, _| {
        known(average_size(call), units::bytes)
    }),
    ("% time", 7, |call, all_ns| {
        known(call.total_ns.zip(all_ns), |(part, whole)| {
            units::share(part, whole)
        })
    }),
    ("total", 9, |call, _| known(call.total_ns, units::duration)),
    ("min", 2, |call, _| known(call.min_ns, units::duration)),
    ("avg", 4, |call, _| known(call.mean_ns, units::duration)),
    ("max", 6, |call, _| known(call.max_ns, units::duration)),
    ("p99", 1, |call, _| known(call.p99_ns, units::duration)),
];

/// The name of the call; if it is not one of the 64-bit table of calls, with its table.
pub(super) fn name(line: &Syscall) -> String {
    let name = text::escape(&line.name);
    if [Abi::X86_64.name(), Abi::Aarch64.name()].contains(&line.abi.as_str()) {
        name
    } else {
        format!("{name} ({})", text::escape(&line.abi))
    }
}

/// `402 EPERM`: how many calls failed, and the error if it is that of all of them.
fn number_of_errors(line: &Syscall) -> String {
    let errno =
        only_errno(line).map_or_else(String::new, |errno| format!(" {}", text::escape(errno)));
    format!("{}{errno}", line.errors)
}

/// The error of all calls that failed.
fn only_errno(line: &Syscall) -> Option<&str> {
    let (errno, calls) = line.errnos.first_key_value()?;
    (*calls == line.errors).then_some(errno)
}

/// Bytes per successful call.
fn average_size(line: &Syscall) -> Option<u64> {
    let successes = line.calls.saturating_sub(line.errors);
    Some(units::mean(line.bytes?, successes).unwrap_or(0))
}

/// How sections are shown.
pub(super) struct ShownCalls<'a> {
    report: &'a Report,
    options: &'a Options,
}

/// What the calls of a section are from.
struct SectionCalls<'a> {
    usage: &'a Usage,
    /// Those with rows.
    syscalls: &'a [Syscall],
    /// Those without.
    others: UnselectedCalls,
    /// Operations of io_uring.
    operations: &'a [Syscall],
    is_running: bool,
}

impl<'a> SectionCalls<'a> {
    fn new(activity: &'a Activity, others: UnselectedCalls) -> Self {
        Self {
            usage: &activity.usage,
            syscalls: &activity.syscalls,
            others,
            operations: &activity.io_uring,
            is_running: false,
        }
    }
}

impl<'a> ShownCalls<'a> {
    pub(super) const fn new(report: &'a Report, options: &'a Options) -> Self {
        Self { report, options }
    }

    pub(super) fn total(&self) -> DocumentPart {
        let totals = &self.report.totals;
        let calls = SectionCalls {
            usage: &totals.usage,
            syscalls: &totals.syscalls,
            others: self.all_others(),
            operations: &[],
            is_running: false,
        };
        let processes = plural(totals.processes, "process", "processes");
        self.section(
            ["TOTAL".to_owned(), processes, threads(totals.threads)],
            &calls,
        )
    }

    /// The calls of all processes that have no rows.
    fn all_others(&self) -> UnselectedCalls {
        let totals = &self.report.totals;
        if totals.other_syscalls.is_none() {
            return UnselectedCalls::summed(None);
        }
        UnselectedCalls::told_apart(totals)
    }

    /// The section of a process. The command line of a single one is in the head of the report.
    pub(super) fn process(&self, process: &Process) -> DocumentPart {
        let others = if self.report.totals.programs == 1 {
            self.all_others()
        } else {
            UnselectedCalls::summed(process.other_calls.as_ref())
        };
        let calls = SectionCalls {
            is_running: process.state == State::Running,
            ..SectionCalls::new(process, others)
        };
        let name = process.name_after_others();
        let name = named(name.as_deref(), process.pid);
        let mut part = self.section([name, threads(process.threads)], &calls);
        if self.report.processes.len() > 1 && !part.is_one_line() {
            part.command = command_of(process);
        }
        part
    }

    pub(super) fn program(&self, program: &Program) -> DocumentPart {
        let others = UnselectedCalls::summed(program.other_calls.as_ref());
        let calls = SectionCalls::new(program, others);
        let execs = plural(program.execs, "exec", "execs");
        self.section(
            [program_name(program), execs, threads(program.threads)],
            &calls,
        )
    }

    pub(super) fn thread(&self, process: &Process, thread: &Thread) -> DocumentPart {
        let others = UnselectedCalls::summed(thread.other_calls.as_ref());
        let calls = SectionCalls::new(thread, others);
        let name = named(thread.comm.as_deref(), process.pid);
        self.section([name, format!("thread {}", thread.tid)], &calls)
    }

    /// A section with this heading, to which the number of calls is added.
    fn section(
        &self,
        heading: impl IntoIterator<Item = String>,
        calls: &SectionCalls<'_>,
    ) -> DocumentPart {
        let is_default = counts_data(self.report.counted.as_ref());
        let rows = if is_default && !self.options.all {
            CallRows::telling(calls.syscalls, &calls.others)
        } else {
            CallRows::selected(calls.syscalls, &calls.others)
        };
        let mut heading: Vec<String> = heading.into_iter().collect();
        let with_rows = sum_of_calls(calls.syscalls).calls;
        let others = calls.others.sum;
        if let Some(others) = others.filter(|_| is_default) {
            heading.push(number_of_calls(
                with_rows.saturating_add(others.calls),
                "call",
            ));
        } else {
            let kind = if others.is_none() && is_default {
                "counted call"
            } else {
                "call"
            };
            heading.push(number_of_calls(with_rows, kind));
            heading.extend(others.and_then(other_calls));
        }
        heading.extend(
            calls
                .is_running
                .then(|| running_state(self.report).to_owned()),
        );
        let mut shown = rows.shown;
        self.options.sort.sort(&mut shown);
        let hidden = other_calls(rows.hidden).filter(|_| is_default);
        let hidden = hidden.map(|hidden| format!("and {hidden}: -e all shows them"));
        let mut lines: Vec<TextLine> = sentence_line(hidden).into_iter().collect();
        lines.extend(remarks(calls));
        let is_empty = calls.syscalls.is_empty() && shown.is_empty();
        DocumentPart {
            heading: list(&heading, Style::Heading),
            table: self.table(&shown, rows.all_ns),
            remarks: if is_empty { Vec::new() } else { lines },
            ..DocumentPart::default()
        }
    }

    /// The table. Calls that never returned have no figures; a line below the table names them.
    fn table(&self, syscalls: &[Syscall], all_ns: Option<u64>) -> Option<ShownTable> {
        let returned: Vec<&Syscall> = syscalls.iter().filter(|call| call.calls > 0).collect();
        let cells = |call: &&Syscall| {
            let cells = COLUMNS.iter().map(|(_, _, cell)| cell(call, all_ns));
            cells.collect()
        };
        let columns = COLUMNS.map(|(title, dropped, _)| (title, dropped));
        let mut table = ShownTable::new(columns, returned.iter().map(cells));
        for (row, call) in table.rows.iter_mut().zip(&returned) {
            let directory = self.report.directory.as_deref();
            row.below = caller_lines::below_row(call.callers.as_ref(), directory, self.options.all);
        }
        (!returned.is_empty()).then_some(table)
    }
}

/// The lines below the table: the counters of the process, io_uring's operations, errors by errno,
/// calls that were under way at the end or never returned.
fn remarks(calls: &SectionCalls<'_>) -> Vec<TextLine> {
    let mut remarks = vec![usage(calls.usage)];
    // Operations are not system calls, and their times are unknown.
    let operations: Vec<String> = calls.operations.iter().map(operation).collect();
    remarks.extend(titled_list("io_uring:", &operations, Style::Plain));
    let rows = calls.syscalls.iter();
    let different = rows.filter(|call| only_errno(call).is_none());
    let all = different.chain(calls.operations);
    for call in all.filter(|call| call.errors > 0) {
        let title = format!("{} errors:", name(call));
        remarks.extend(titled_list(&title, &errors(call), Style::Warning));
    }
    // The last call of a process never returns.
    let is_end = |call: &&Syscall| Spec::named(&call.name).effect == CallEffect::Exits;
    let others = calls.others.each.iter().filter(|call| !is_end(call));
    let unfinished: Vec<&Syscall> = calls.syscalls.iter().chain(others).collect();
    let listed = |title, count: fn(&Syscall) -> u64| {
        let some = unfinished.iter().filter(|call| count(call) > 0);
        let some: Vec<String> = some
            .map(|call| format!("{} {}", name(call), count(call)))
            .collect();
        titled_list(title, &some, Style::Plain)
    };
    remarks.extend(listed("under way at the end:", |call| call.under_way));
    remarks.extend(listed("never returned:", |call| {
        call.unfinished.saturating_sub(call.under_way)
    }));
    remarks.extend(titled_list(
        "returned without an event:",
        &calls.others.timed_out,
        Style::Plain,
    ));
    remarks
}

/// How much of the calls is not the program's own work: `28 of these calls, 133 µs, read or map shared
/// libraries; 68 lookups found nothing (ENOENT), 18 of them in /usr/include`. Most need not find
/// anything.
pub(super) fn start_up(report: &Report, failures: &Failures<'_>) -> Option<TextLine> {
    let loading = report.totals.loading.filter(|loading| loading.calls > 0);
    let loading = loading.map(|Loading { calls, total_ns }| {
        let time = total_ns.map_or_else(String::new, |ns| format!(", {},", units::duration(ns)));
        format!("{calls} of these calls{time} read or map shared libraries")
    });
    let lookups = plural(failures.lookups, "lookup", "lookups");
    let at_least = if report.totals.failed_paths_complete {
        ""
    } else {
        "at least "
    };
    let most = failures.most_lookups.filter(|(_, most)| *most > 1);
    let most = most.map_or_else(String::new, |(place, most)| {
        let place = text::escape(place);
        if most == failures.lookups {
            format!(", all in {place}")
        } else {
            format!(", {most} of them in {place}")
        }
    });
    let lookups =
        (failures.lookups > 0).then(|| format!("{at_least}{lookups} found nothing (ENOENT){most}"));
    let all: Vec<String> = loading.into_iter().chain(lookups).collect();
    sentence_line(Some(all.join("; ")).filter(|line| !line.is_empty()))
}

/// `116 other calls in 3.00 s`. `None` if there were none.
fn other_calls(sums: CallSums) -> Option<String> {
    let calls = plural(sums.calls, "other call", "other calls");
    let text = match sums.total_ns {
        Some(ns) => format!("{calls} in {}", units::duration(ns)),
        None => calls,
    };
    (sums.calls > 0).then_some(text)
}

/// `no calls`, `1 call`, `12 counted calls`. Calls that never returned are not counted, but a section
/// shows them.
fn number_of_calls(count: u64, kind: &str) -> String {
    match count {
        0 => format!("no {kind}s"),
        count => plural(count, kind, &format!("{kind}s")),
    }
}

fn threads(count: u64) -> String {
    plural(count, "thread", "threads")
}

/// `copier (1234)`.
pub(super) fn process_name(process: &Process) -> String {
    named(process.name(), process.pid)
}

/// What is said of a process that had not ended.
pub(super) const fn running_state(report: &Report) -> &'static str {
    if report.from_log {
        "its end is not in the log"
    } else {
        "still running"
    }
}

/// The name of a program.
pub(super) fn program_name(program: &Program) -> String {
    known(program.name.as_deref(), text::escape)
}

/// `copier (1234)`.
pub(super) fn named(comm: Option<&str>, pid: u32) -> String {
    format!("{} ({pid})", known(comm, text::escape))
}

/// Context switches, page faults and CPU time.
fn usage(usage: &Usage) -> TextLine {
    let (switches, faults) = (usage.context_switches, usage.page_faults);
    let count = |count: Option<u64>| known(count, |count| count.to_string());
    let switches = [count(switches.voluntary), count(switches.involuntary)];
    let faults = [count(faults.minor), count(faults.major)];
    let cpu = user_and_system(usage).map_or_else(
        || known(usage.cpu_ns(), units::duration),
        |modes| pair(modes, ["user", "system"]),
    );
    [
        format!(
            "context switches: {};",
            pair(switches, ["voluntary", "involuntary"])
        ),
        format!("page faults: {};", pair(faults, ["minor", "major"])),
        format!("cpu: {cpu}"),
    ]
    .map(|text| Piece::new(text, Style::Plain))
    .into()
}

/// Whether exactly the calls of the default set were counted.
pub(super) fn counts_data(counted: Option<&Selection>) -> bool {
    static DEFAULT: LazyLock<Selection> = LazyLock::new(Selection::default);
    let Some(Selection::Names(names)) = counted else {
        return false;
    };
    names.iter().all(|name| DEFAULT.contains(name))
        && data_calls().all(|spec| names.contains(spec.name))
}

/// How many of these rows' calls are shown as counted: in the default set those that move data.
pub(super) fn counted_calls(rows: &[Syscall], counted: Option<&Selection>) -> u64 {
    let moves_only = counts_data(counted);
    let rows = rows.iter().filter(|call| !moves_only || moves_data(call));
    rows.map(|call| call.calls).sum()
}

/// Which calls have rows, after their number: ` that move data`, ` of read/write`. Empty if all
/// have, or if that is unknown.
pub(super) fn which_calls(counted: Option<&Selection>) -> String {
    /// Up to this many are named.
    const FEW_NAMES: usize = 6;
    match counted {
        Some(Selection::Names(_)) if counts_data(counted) => " that move data".to_owned(),
        Some(Selection::Names(names)) if names.len() <= FEW_NAMES => {
            let names: Vec<String> = names.iter().map(|name| text::escape(name)).collect();
            format!(" of {}", names.join("/"))
        }
        Some(Selection::Names(names)) => format!(" of {} chosen kinds", names.len()),
        Some(Selection::All) | None => String::new(),
    }
}

/// The kernel samples at ticks, of 1 to 10 ms, whether a task runs in user mode. Of a CPU time
/// shorter than ten of the longest, the division says nothing.
const MIN_DIVIDED_NS: u64 = 100_000_000;

/// CPU time in user mode and in the kernel. `None`: unknown, or too short to be divided.
pub(super) fn user_and_system(usage: &Usage) -> Option<[String; 2]> {
    let modes = [usage.user_ns?, usage.system_ns?].map(units::duration);
    is_divided(usage).then_some(modes)
}

/// Whether the CPU time is long enough for the division to say something.
pub(super) fn is_divided(usage: &Usage) -> bool {
    usage.cpu_ns().is_some_and(|ns| ns >= MIN_DIVIDED_NS)
}

/// `12 voluntary, 3 involuntary`. If both figures are unknown, they share one `-`.
fn pair([one, other]: [String; 2], [kind, other_kind]: [&str; 2]) -> String {
    if one == UNKNOWN && other == UNKNOWN {
        return one;
    }
    format!("{one} {kind}, {other} {other_kind}")
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
