//! The head of a report: how the command ended, what it cost, how many calls it made, and what failed.

use std::{cmp::Reverse, collections::BTreeSet};

use super::{
    busiest,
    calls::{self, counted_calls, process_name, which_calls},
    flow_line::FlowLine,
    page::{Style, TextLine, list, titled_list, words},
    part::sum_of_calls,
    slow_calls, syncs,
    text::{self, known, plural},
    transfers::{TransferredBytes, end_label},
    volumes,
};
use crate::{
    report::{
        BeforeSignal, CallAtEnd, EndHolder, Exit, FailedGroup, Failures, FatalFault, Place,
        Process, Report, State, Syscall,
    },
    signal,
    syscalls::Selection,
    units::{self, UNKNOWN},
};

/// How many processes that still run are named.
const MAX_RUNNING: usize = 3;
/// An exit that takes less is not named.
const MIN_EXIT_NS: u64 = 5_000_000;
/// How many calls that had not returned at the end are named.
const MAX_WAITING: usize = 3;
/// How many processes are named that a fault killed.
const MAX_KILLED: usize = 3;
/// How many processes are named that have the other end of what a call waits on.
const MAX_HOLDERS: usize = 3;
/// A call that had lasted less is not named.
const MIN_WAIT_NS: u64 = 100_000_000;
/// How many groups of failed calls the head names.
pub(super) const MAX_FAILURES: usize = 3;

/// The first lines of a report: as many as it has figures for.
pub(super) struct Head {
    /// How the command ended, and its times.
    pub(super) summary: TextLine,
    /// How much was counted, and what of it is not known.
    counts: Vec<TextLine>,
    /// Which other processes a fault killed.
    pub(super) killed: TextLine,
    /// Which calls had not returned at the end.
    pub(super) waiting: TextLine,
    /// Which calls the time went to.
    pub(super) times: TextLine,
    /// Which files were read and written.
    pub(super) data: TextLine,
    /// Which files were read again and again.
    pub(super) read_again: TextLine,
    /// Which way the bytes went through several programs.
    pub(super) flow: TextLine,
    /// Which hosts were connected to.
    pub(super) network: TextLine,
    /// What was done to names and to make data durable.
    pub(super) on_files: TextLine,
    /// Which calls were made most.
    pub(super) calls: TextLine,
    /// What failed; empty if nothing did.
    pub(super) failed: TextLine,
    /// What these errors mean.
    meanings: Vec<TextLine>,
}

impl Head {
    pub(super) fn new(report: &Report, failures: &Failures<'_>, largest: TransferredBytes) -> Self {
        let calls: Vec<Syscall> = report.totals.all_calls().collect();
        let flow = FlowLine::new(report);
        Self {
            summary: summary(report),
            counts: vec![
                counts(report),
                under_way(report),
                earlier(report),
                running(report),
            ],
            killed: killed(report),
            waiting: waiting(report),
            times: busiest::times(report, &calls),
            data: volumes::data(report, &calls, largest, flow.bytes_of_files()),
            read_again: volumes::read_again(report),
            flow: flow.line(),
            network: volumes::network(report),
            on_files: volumes::on_files(report, &calls),
            calls: busiest::calls(report, &calls),
            failed: failed(report, failures),
            meanings: meanings(&failures.groups),
        }
    }

    /// All of them.
    pub(super) fn lines(&self, report: &Report) -> Vec<TextLine> {
        let first = [only(report), self.summary.clone()];
        let syncs = syncs::line(report);
        let slowest = slow_calls::line(report);
        let lines = first.iter().chain(&self.counts);
        let lines = lines
            .chain([&self.killed, &self.waiting, &slowest, &syncs, &self.failed])
            .chain(&self.meanings);
        let lines = lines.chain([&self.times, &self.flow, &self.data, &self.read_again]);
        let lines = lines.chain([&self.network, &self.on_files, &self.calls]);
        lines.filter(|line| !line.is_empty()).cloned().collect()
    }
}

/// What was traced: the command line, or what was attached to.
pub(super) fn traced(report: &Report) -> String {
    if report.attached.is_some() {
        targets(report)
    } else {
        text::command_line(&report.command)
    }
}

/// The same for people, and which span of it: `1.00 s to 2.00 s: cp in out`.
pub(super) fn command(report: &Report) -> String {
    let command = Some(traced(report)).filter(|traced| !traced.is_empty());
    let command = command.unwrap_or_else(|| "(command unknown)".to_owned());
    let Some(span) = &report.span else {
        return command;
    };
    let [since, until] = [span.since_ns, span.until_ns].map(units::duration);
    let name = span.name.as_deref().map(text::escape);
    let name = name.map(|name| format!("{name}, ")).unwrap_or_default();
    format!("{name}{since} to {until}: {command}")
}

/// What was attached to: `nginx (1234), redis-server (77)`.
fn targets(report: &Report) -> String {
    let Some(attached) = &report.attached else {
        return String::new();
    };
    let name = |&pid: &u32| {
        let mut processes = report.processes.iter();
        let process = processes.find(|process| process.pid == pid);
        process.map_or_else(|| format!("process {pid}"), process_name)
    };
    let cgroup = attached.cgroup.iter();
    let cgroup = cgroup.map(|path| format!("cgroup {}", text::escape(path)));
    let system = attached.system.then(|| "the whole system".to_owned());
    let all = system.into_iter().chain(cgroup);
    let all: Vec<String> = all.chain(attached.pids.iter().map(name)).collect();
    all.join(", ")
}

/// Which calls are shown, if they were chosen by their paths: `only calls on /etc/passwd`.
fn only(report: &Report) -> TextLine {
    let paths: Vec<String> = report.paths.iter().map(|path| text::escape(path)).collect();
    titled_list("only calls on", &paths, Style::Warning).unwrap_or_default()
}

/// How the command ended, and its times: `exit 0, wall 14.4 ms, CPU 5.48 ms (user 0 s, system 5.48
/// ms), waited for a CPU 2.10 ms`.
pub(super) fn summary(report: &Report) -> TextLine {
    let usage = &report.totals.usage;
    let modes = calls::user_and_system(usage);
    let modes = modes.map(|[user, system]| format!(" (user {user}, system {system})"));
    let cpu = known(usage.cpu_ns(), units::duration) + &modes.unwrap_or_default();
    let waited = waited_for_cpu(report).map(|time| format!("waited for a CPU {time}"));
    let wall = known(report.wall_ns, units::duration);
    let exit_ns = exit_ns(report).map(|ns| format!(" (its exit {})", units::duration(ns)));
    let mut times = vec![format!("CPU {cpu}")];
    times.extend(waited);
    let mut pieces = Vec::new();
    if report.attached.is_some() {
        let how_long = format!("attached to {} for {wall},", targets(report));
        pieces.extend(words(&how_long, Style::Plain));
    } else {
        times.insert(0, format!("wall {wall}{}", exit_ns.unwrap_or_default()));
        // A span ends, and the command goes on.
        if report.span.is_none() || report.exit != Exit::default() {
            let (exit, style) = exit(report.exit);
            let before = report.before_signal.as_ref().map(before_signal);
            let before = before.unwrap_or_default();
            let mut faults = report.fatal_faults.iter();
            let fault = faults.find(|fault| fault.is_launched).map(fault_place);
            let fault = fault.unwrap_or_default();
            pieces.extend(words(&format!("{exit}{before}{fault},"), style));
        }
    }
    pieces.extend(list(&times, Style::Plain));
    pieces
}

/// Which calls are in no figure, because they were under way.
fn under_way(report: &Report) -> TextLine {
    match busiest::under_way_at_attach(report) {
        None | Some(0) => Vec::new(),
        Some(count) => {
            let calls = plural(count, "call was", "calls were");
            let line = format!("{calls} under way at the attach: not counted, and without a time");
            words(&line, Style::Plain)
        }
    }
}

/// How much of the time of a span's calls was before it.
fn earlier(report: &Report) -> TextLine {
    let earlier_ns = report.span.as_ref().map_or(0, |span| span.earlier_ns);
    if earlier_ns == 0 {
        return Vec::new();
    }
    let time = units::duration(earlier_ns);
    let line = format!("of the time in calls, at least {time} was before this span");
    words(&line, Style::Plain)
}

/// How long the command took to exit, if that is a part of the wall time that one notices.
fn exit_ns(report: &Report) -> Option<u64> {
    let is_noticed = |ns: &u64| *ns >= MIN_EXIT_NS && *ns >= report.wall_ns.unwrap_or(0) / 20;
    report.exit_ns.filter(is_noticed)
}

/// How long threads waited for a CPU, if one notices that, or if the kernel does not say.
fn waited_for_cpu(report: &Report) -> Option<String> {
    let usage = &report.totals.usage;
    usage.cpu_ns()?;
    let is_noticed = |ns: u64| ns >= report.wall_ns.unwrap_or(0) / 100;
    let ns = usage.run_delay_ns;
    let is_told = ns.is_none_or(is_noticed);
    is_told.then(|| known(ns, units::duration))
}

/// How much was counted: `1 process, 1 thread, 170 calls, 54 that move data, backend ebpf, exact`.
fn counts(report: &Report) -> TextLine {
    let selected = &report.totals.syscalls;
    let with_rows = sum_of_calls(selected).calls;
    let moving = counted_calls(selected, report.counted.as_ref());
    let others = report
        .totals
        .other_syscalls
        .as_ref()
        .filter(|_| report.counted != Some(Selection::All));
    let others = others.map(|others| others.iter().map(|call| call.sums.calls).sum::<u64>());
    let at_least = if report.exact { "" } else { "at least " };
    let which = which_calls(report.counted.as_ref());
    let mut parts = vec![
        plural(report.totals.processes, "process", "processes"),
        plural(report.totals.threads, "thread", "threads"),
    ];
    if let Some(others) = others {
        let all = plural(with_rows.saturating_add(others), "call", "calls");
        parts.push(format!("{at_least}{all}"));
        parts.push(format!("{moving}{which}"));
    } else {
        let shown = plural(moving, "call", "calls");
        parts.push(format!("{at_least}{shown}{which}"));
    }
    parts.push(format!("backend {},", text::escape(&report.backend)));
    let mut pieces = list(&parts, Style::Plain);
    let knows_all = report.exact && report.knows_origins();
    let (transfers, style) = match (report.exact, knows_all) {
        (true, false) => ("; transfers: a lower bound", Style::Warning),
        (true, true) if !report.from_log => ("", Style::Good),
        _ => ("", Style::Warning),
    };
    pieces.extend(words(&format!("{}{transfers}", report.bound()), style));
    if report.misses_stores()
        && let Some(last) = pieces.last_mut()
    {
        last.text.push(';');
        pieces.extend(words("stores to mapped files: not seen", Style::Warning));
    }
    pieces
}

/// How many processes had not ended: `1 process still runs (dd (71)): figures up to here; --wait-all
/// waits for the end`. The end of a command that is still running is waited for anyway.
fn running(report: &Report) -> TextLine {
    let running = report.totals.running;
    // What was attached to goes on.
    if running == 0 || report.span.is_some() || report.attached.is_some() {
        return Vec::new();
    }
    let processes = report.processes.iter();
    let mut names: Vec<String> = processes
        .filter(|process| process.state == State::Running)
        .take(MAX_RUNNING)
        .map(process_name)
        .collect();
    let shown = u64::try_from(names.len()).unwrap_or(u64::MAX);
    if (1..running).contains(&shown) {
        names.push(format!("{} more", running - shown));
    }
    let names = if names.is_empty() {
        String::new()
    } else {
        format!(" ({})", names.join(", "))
    };
    let line = if report.from_log {
        let processes = plural(running, "process", "processes");
        format!("the log does not have the end of {processes}{names}")
    } else {
        let has_ended = report.exit.code.or(report.exit.signal).is_some();
        let advice = has_ended.then_some("; --wait-all waits for the end");
        let processes = plural(running, "process still runs", "processes still run");
        format!(
            "{processes}{names}: figures up to here{}",
            advice.unwrap_or_default()
        )
    };
    words(&line, Style::Warning)
}

/// Which calls of processes that did not end by themselves had lasted longest: `in a call at the end:
/// cat (71) in write on pipe for 1.98 s`.
fn waiting(report: &Report) -> TextLine {
    let is_cut = report.exit.code.is_none();
    let processes = report.processes.iter();
    let processes = processes.filter(|process| is_cut || process.state == State::Running);
    let calls =
        processes.flat_map(|process| process.calls_at_end.iter().map(move |call| (process, call)));
    let mut calls: Vec<(&Process, &CallAtEnd)> = calls
        .filter(|(_, call)| call.lasted_ns >= Some(MIN_WAIT_NS))
        .collect();
    calls.sort_by_key(|(_, call)| Reverse(call.lasted_ns));
    let mut texts: Vec<String> = calls.iter().take(MAX_WAITING).map(wait).collect();
    if let more @ 1.. = calls.len().saturating_sub(MAX_WAITING) {
        texts.push(format!("{more} more"));
    }
    if texts.is_empty() {
        return Vec::new();
    }
    // In words: as one piece, a long name would push out what follows it.
    let line = format!("in a call at the end: {}", texts.join(", "));
    words(&line, Style::Plain)
}

/// `cat (71) in write on pipe for 1.98 s (other end: less (72))`.
fn wait((process, at_end): &(&Process, &CallAtEnd)) -> String {
    let threads = match at_end.threads {
        1 => String::new(),
        threads => format!(" ({threads} threads)"),
    };
    let file = at_end.file.as_ref();
    let file = file.map(end_label);
    let place = file.or_else(|| at_end.path.as_deref().map(text::escape));
    let file = place.map_or_else(String::new, |place| format!(" on {place}"));
    let lasted = known(at_end.lasted_ns, units::duration);
    let call = text::escape(&at_end.syscall);
    format!(
        "{} in {call}{file} for {lasted}{threads}{}",
        process_name(process),
        other_end(&at_end.other_end)
    )
}

/// ` (other end: less (72), sleep (73) outside of the trace)`.
fn other_end(holders: &[EndHolder]) -> String {
    let name = |holder: &EndHolder| {
        let name = known(holder.name.as_ref(), |name| text::escape(name));
        let outside = if holder.is_traced {
            ""
        } else {
            " outside of the trace"
        };
        format!("{name} ({}){outside}", holder.pid)
    };
    let mut names: Vec<String> = holders.iter().take(MAX_HOLDERS).map(name).collect();
    if let more @ 1.. = holders.len().saturating_sub(MAX_HOLDERS) {
        names.push(format!("{more} more"));
    }
    if names.is_empty() {
        String::new()
    } else {
        format!(" (other end: {})", names.join(", "))
    }
}

/// What failed: `failed: EACCES /etc/shadow (openat), 40 x ENOENT /etc/app.d/... (openat), 3 more`. Of a
/// command that failed for another reason: `failed: no cause found`.
fn failed(report: &Report, failures: &Failures<'_>) -> TextLine {
    let groups = &failures.groups;
    let mut texts: Vec<String> = groups.iter().take(MAX_FAILURES).map(failure).collect();
    let others = groups.iter().skip(MAX_FAILURES);
    if let more @ 1.. = others.map(|group| group.calls).sum::<u64>() {
        texts.push(format!("{more} more"));
    }
    if texts.is_empty() && failures.calls > 0 && report.exit.has_given_up() {
        let missing = failures.last_missing.as_ref().map(failure);
        let missing = missing.map_or_else(String::new, |one| format!("; last missing: {one}"));
        texts.push(format!("no cause found{missing}"));
    }
    let title = if report.totals.failed_paths_complete {
        "failed:"
    } else {
        "failed, at least:"
    };
    titled_list(title, &texts, Style::Plain).unwrap_or_default()
}

/// What the errors mean that the head names, where their names do not say that: `EMFILE (accept4): the
/// process has as many ...`.
fn meanings(groups: &[FailedGroup<'_>]) -> Vec<TextLine> {
    let named = groups.iter().take(MAX_FAILURES);
    let meanings = named.filter_map(|group| {
        let calls = group.syscalls.iter().map(|name| text::escape(name));
        let calls: Vec<String> = calls.collect();
        let errno = text::escape(group.errno);
        Some(format!(
            "{errno} ({}): {}",
            calls.join(", "),
            text::escape(group.meaning?)
        ))
    });
    let meanings: BTreeSet<String> = meanings.collect();
    let line = |meaning: &String| words(meaning, Style::Faint);
    meanings.iter().map(line).collect()
}

/// `40 x ENOENT /etc/app.d/... (openat)`.
fn failure(group: &FailedGroup<'_>) -> String {
    let times = if group.calls == 1 {
        String::new()
    } else {
        format!("{} x ", group.calls)
    };
    let place = match group.place {
        Place::Path(path) => format!(" {}", text::paths([path], false)),
        Place::Paths(first, second, is_cut) => {
            format!(" {}", text::paths([first, second], is_cut))
        }
        Place::LongPath(beginning) => format!(" {}", text::paths([beginning], true)),
        Place::Directory(directory) => format!(" {}/...", text::escape(directory)),
        Place::Nowhere(name, directories, shortest) => {
            let [first, second] = shortest.map(directory_name);
            let places = match directories.saturating_sub(shortest.len()) {
                0 => format!("{first} and {second}"),
                more => {
                    let more = plural(more as u64, "more directory", "more directories");
                    format!("{first}, {second} and {more}")
                }
            };
            format!(" {} in {places}", text::escape(name))
        }
        Place::Unknown => String::new(),
    };
    let below = if group.is_below_descriptor {
        " below another directory"
    } else {
        ""
    };
    // Several calls on one path mostly belong together; their names would take more room than they
    // tell.
    let name = group.syscalls.first().filter(|_| group.syscalls.len() == 1);
    // Which connection had the error is inferred.
    let (probably, by_error) = if group.is_socket_error {
        ("probably ", ", by SO_ERROR")
    } else {
        ("", "")
    };
    let name = name.map(|name| format!(" ({}{by_error})", text::escape(name)));
    let name = name.unwrap_or_default();
    let errno = text::escape(group.errno);
    format!("{probably}{times}{errno}{place}{below}{name}")
}

/// A directory of paths; that of those that name none is the working directory.
fn directory_name(directory: &str) -> String {
    text::escape(if directory.is_empty() { "." } else { directory })
}

/// ` after write on pipe (EPIPE)`.
fn before_signal(before: &BeforeSignal) -> String {
    let BeforeSignal {
        syscall,
        errno,
        file,
    } = before;
    let file = file.as_ref();
    let file = file.map_or_else(String::new, |file| format!(" on {}", end_label(file)));
    let [syscall, errno] = [syscall, errno].map(|name| text::escape(name));
    format!(" after {syscall}{file} ({errno})")
}

/// Which other processes a fault killed: `killed: cc1 (71) by SIGSEGV at 0x10 (SEGV_MAPERR: nothing is
/// mapped there)`.
fn killed(report: &Report) -> TextLine {
    let others = report.fatal_faults.iter().filter(|one| !one.is_launched);
    let text = |one: &FatalFault| {
        let name = known(one.process.as_ref(), |name| text::escape(name));
        let signal = text::escape(&one.signal);
        format!("{name} ({}) by {signal}{}", one.pid, fault_place(one))
    };
    let mut texts: Vec<String> = others.clone().take(MAX_KILLED).map(text).collect();
    if let more @ 1.. = others.skip(MAX_KILLED).count() {
        texts.push(format!("{more} more"));
    }
    // In words: as one piece, what the codes mean would not fit.
    let line = format!("killed: {}", texts.join(", "));
    let line = Some(line).filter(|_| !texts.is_empty());
    line.map_or_else(Vec::new, |line| words(&line, Style::Bad))
}

/// ` at 0x10 (SEGV_MAPERR: nothing is mapped there) after read`.
fn fault_place(fault: &FatalFault) -> String {
    let place = if fault.is_in_instruction() {
        "in the instruction at"
    } else {
        "at"
    };
    let [address, code] = [&fault.address, &fault.code].map(|text| text::escape(text));
    let meaning = fault.meaning.as_deref();
    let meaning = meaning.map_or_else(String::new, |text| format!(": {}", text::escape(text)));
    let call = fault.last_call.as_deref();
    let call = call.map_or_else(String::new, |call| format!(" after {}", text::escape(call)));
    format!(" {place} {address} ({code}{meaning}){call}")
}

/// How the command ended.
fn exit(exit: Exit) -> (String, Style) {
    match exit {
        Exit {
            signal: Some(number),
            ..
        } => (format!("killed by {}", signal::name(number)), Style::Bad),
        Exit { code: Some(0), .. } => ("exit 0".to_owned(), Style::Plain),
        Exit {
            code: Some(code), ..
        } => (format!("exit {code}"), Style::Bad),
        Exit {
            code: None,
            signal: None,
        } => (format!("exit {UNKNOWN}"), Style::Plain),
    }
}
