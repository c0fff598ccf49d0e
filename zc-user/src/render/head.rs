//! The head of a report: how the command ended, what it cost, how many calls it made, and where its
//! time went.

use std::cmp::Reverse;

use super::{
    call_rows::moves_data,
    calls::{self, counts_data, is_log, process_name, which_calls},
    page::{Piece, Style, TextLine, list, titled_list, words},
    part::sum_of_calls,
    text::{self, known, plural},
};
use crate::{
    report::{Exit, FailedGroup, Loading, Place, Report, State, Syscall},
    signal,
    syscalls::{CallEffect, Selection, Spec},
    trace::Loss,
    units::{self, UNKNOWN},
};

/// How many calls of a group the line of times names.
const MAX_CALLS: usize = 3;
/// It names a call if at least this fraction of the time was in it (1/100).
const MIN_SHARE_DIVISOR: u64 = 100;
/// An exit that takes less is not named.
const MIN_EXIT_NS: u64 = 5_000_000;
/// How many groups of failed calls the head names.
const MAX_FAILURES: usize = 3;

/// The first lines of a report.
pub(super) struct Head {
    /// How it ended, how much was counted, where the time went: as many of these lines as the
    /// report has figures for.
    pub(super) lines: Vec<TextLine>,
    /// Of them that of what failed; empty if nothing did.
    pub(super) failed: TextLine,
}

impl Head {
    pub(super) fn new(report: &Report) -> Self {
        let failures = report.failures();
        let failed = failed(report, &failures.groups);
        let mut lines = vec![
            only(report),
            summary(report),
            counts(report),
            under_way(report),
            running(report),
            times(report),
            failed.clone(),
            loading(report, failures.searches),
        ];
        lines.retain(|line| !line.is_empty());
        Self { lines, failed }
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
    let all: Vec<String> = cgroup.chain(attached.pids.iter().map(name)).collect();
    all.join(", ")
}

/// The losses and notes.
pub(super) fn remarks(report: &Report) -> Vec<TextLine> {
    // The other losses have a note of their own.
    let is_told = |loss: Loss| loss.touches_counts() || loss.touches_origins();
    let losses = report.losses.iter();
    let losses = losses
        .filter(|(name, _)| Loss::from_name(name).is_none_or(is_told))
        .map(|(name, &count)| words(&loss(name, count), Style::Warning));
    let note = |note: &String| words(&format!("note: {}", text::escape(note)), Style::Plain);
    losses.chain(report.notes.iter().map(note)).collect()
}

/// Which calls are shown, if they were chosen by their paths: `only calls on /etc/passwd`.
fn only(report: &Report) -> TextLine {
    let paths: Vec<String> = report.paths.iter().map(|path| text::escape(path)).collect();
    titled_list("only calls on", &paths, Style::Warning).unwrap_or_default()
}

/// How the command ended, and its times: `exit 0, wall 14.4 ms, CPU 5.48 ms (user 0 s, system 5.48
/// ms), off CPU 8.92 ms`.
pub(super) fn summary(report: &Report) -> TextLine {
    let usage = &report.totals.usage;
    let modes = calls::user_and_system(usage);
    let modes = modes.map(|[user, system]| format!(" (user {user}, system {system})"));
    let cpu = known(usage.cpu_ns(), units::duration) + &modes.unwrap_or_default();
    let off_cpu = off_cpu_ns(report).map(|ns| format!("off CPU {}", units::duration(ns)));
    let wall = known(report.wall_ns, units::duration);
    let exit_ns = exit_ns(report).map(|ns| format!(" (its exit {})", units::duration(ns)));
    let mut times = vec![format!("CPU {cpu}")];
    times.extend(off_cpu);
    let mut pieces = Vec::new();
    if report.attached.is_some() {
        let how_long = format!("attached to {} for {wall},", targets(report));
        pieces.extend(words(&how_long, Style::Plain));
    } else {
        times.insert(0, format!("wall {wall}{}", exit_ns.unwrap_or_default()));
        // A span ends, and the command goes on.
        if report.span.is_none() || report.exit != Exit::default() {
            let (exit, style) = exit(report.exit);
            pieces.push(Piece::new(format!("{exit},"), style));
        }
    }
    pieces.extend(list(&times, Style::Plain));
    pieces
}

/// How many calls were under way at the attach, if that is known.
fn under_way_at_attach(report: &Report) -> Option<u64> {
    report.attached.as_ref()?.under_way_at_attach
}

/// Which calls are in no figure, because they were under way.
fn under_way(report: &Report) -> TextLine {
    match under_way_at_attach(report) {
        None | Some(0) => Vec::new(),
        Some(count) => {
            let calls = plural(count, "call was", "calls were");
            let line = format!("{calls} under way at the attach: not counted, and without a time");
            words(&line, Style::Plain)
        }
    }
}

/// How long the command took to exit, if that is a part of the wall time that one notices.
fn exit_ns(report: &Report) -> Option<u64> {
    let is_noticed = |ns: &u64| *ns >= MIN_EXIT_NS && *ns >= report.wall_ns.unwrap_or(0) / 20;
    report.exit_ns.filter(is_noticed)
}

/// How long the command was not on a CPU: it waited, or another task ran there. Only known for a
/// single thread, since several may be off their CPUs at the same time.
fn off_cpu_ns(report: &Report) -> Option<u64> {
    report
        .wall_ns
        .filter(|_| report.totals.threads == 1)?
        .checked_sub(report.totals.usage.cpu_ns()?)
}

/// How much was counted: `1 process, 1 thread, 170 calls, 54 that move data, backend ebpf, exact`.
fn counts(report: &Report) -> TextLine {
    let selected = &report.totals.syscalls;
    let with_rows = sum_of_calls(selected);
    let moving = if counts_data(report.counted.as_ref()) {
        let moving = selected.iter().filter(|call| moves_data(call));
        moving.map(|call| call.calls).sum()
    } else {
        with_rows
    };
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
    let (bound, style) = match (report.exact, report.knows_origins()) {
        (true, true) => ("exact", Style::Good),
        (true, false) => ("exact; transfers: a lower bound", Style::Warning),
        (false, _) => ("lower bound", Style::Warning),
    };
    pieces.extend(words(bound, style));
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
        .take(MAX_CALLS)
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
    let line = if is_log(report) {
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

/// Where the time went, the largest part first: `time: 3.00 s in other calls (clock_nanosleep 3.00
/// s), 1.10 ms outside of calls, 210 µs in calls that move data (mmap 120 µs, pread64 22.1 µs)`.
/// Several threads are in calls at the same time, so what remains of the wall time is known for a
/// single one only.
fn times(report: &Report) -> TextLine {
    let Some([with_rows, others]) = groups(report).filter(|_| report.paths.is_empty()) else {
        return Vec::new();
    };
    let in_calls = with_rows.total_ns.saturating_add(others.total_ns);
    let rest = rest_ns(report, in_calls);
    let all = in_calls.saturating_add(rest.unwrap_or(0));
    let mut parts: Vec<(u64, String)> = [with_rows, others]
        .into_iter()
        .filter(|group| !group.calls.is_empty())
        .map(|group| (group.total_ns, group.text(all)))
        .collect();
    parts.extend(rest.map(|ns| (ns, outside_of_calls(report, ns))));
    if parts.is_empty() {
        return Vec::new();
    }
    parts.sort_by_key(|&(ns, _)| Reverse(ns));
    let parts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    let title = if report.totals.threads == 1 {
        "time:"
    } else {
        "time, all threads:"
    };
    words(&format!("{title} {}", parts.join(", ")), Style::Plain)
}

/// The calls of the heading that returned, and all others. `None` if a time is unknown.
fn groups(report: &Report) -> Option<[CallGroup; 2]> {
    let group = |name: String, calls: &[Syscall]| {
        let returned = calls.iter().filter(|call| call.calls > 0);
        let times = returned.map(|call| Some((calls::name(call), call.total_ns?)));
        Some(CallGroup::new(name, times.collect::<Option<_>>()?))
    };
    let shows_moving = counts_data(report.counted.as_ref());
    let selected = report.totals.syscalls.iter().cloned();
    let (counted, mut others): (Vec<Syscall>, Vec<Syscall>) =
        selected.partition(|call| !shows_moving || moves_data(call));
    let name_of_others = if knows_all_calls(report) {
        "other calls"
    } else {
        "other counted calls"
    };
    others.extend(report.totals.rows_of_others());
    let name = format!("calls{}", which_calls(report.counted.as_ref()));
    Some([
        group(name, &counted)?,
        group(name_of_others.to_owned(), &others)?,
    ])
}

/// Calls that are shown together.
struct CallGroup {
    /// What they are.
    name: String,
    /// The sum of their times.
    total_ns: u64,
    /// The name of each call, and the sum of its times; the largest first.
    calls: Vec<(String, u64)>,
}

impl CallGroup {
    fn new(name: String, mut calls: Vec<(String, u64)>) -> Self {
        calls.sort_by_key(|&(_, ns)| Reverse(ns));
        let times = calls.iter().map(|(_, ns)| *ns);
        Self {
            name,
            total_ns: times.fold(0, u64::saturating_add),
            calls,
        }
    }

    /// The time of the group, and which calls it was in, as far as they matter in a time of
    /// `all_ns`.
    fn text(&self, all_ns: u64) -> String {
        let is_shown = |(_, ns): &&(String, u64)| *ns >= all_ns / MIN_SHARE_DIVISOR;
        let shown = self.calls.iter().take_while(is_shown).take(MAX_CALLS);
        let shown: Vec<String> = shown
            .map(|(call, ns)| format!("{call} {}", units::duration(*ns)))
            .collect();
        let names = if shown.is_empty() {
            String::new()
        } else {
            format!(" ({})", shown.join(", "))
        };
        format!("{} in {}{names}", units::duration(self.total_ns), self.name)
    }
}

/// The wall time that was not in calls. Only known for a single thread, and not for a span: a call may
/// have been under way that returned later.
fn rest_ns(report: &Report, in_calls: u64) -> Option<u64> {
    report
        .wall_ns
        .filter(|_| report.totals.threads == 1 && report.span.is_none())?
        .checked_sub(in_calls)
}

/// The time outside of the calls that are known, and how to learn more of it if it is most of the
/// wall time.
fn outside_of_calls(report: &Report, ns: u64) -> String {
    let is_most = report.wall_ns.is_some_and(|wall| ns > wall / 2);
    let advice = if is_most && !knows_all_calls(report) {
        " (-e all shows where)"
    } else {
        ""
    };
    format!("{} {}{advice}", units::duration(ns), outside(report))
}

/// Whether every call is in some figure.
fn knows_all_calls(report: &Report) -> bool {
    report.totals.other_syscalls.is_some() || report.counted == Some(Selection::All)
}

/// What the rest of the time is: `outside of counted calls`.
fn outside(report: &Report) -> String {
    // The last call of a process never returns, and takes no time.
    let is_end = |name: &str| Spec::named(name).effect == CallEffect::Exits;
    let rows = report.totals.syscalls.iter().cloned();
    let mut all = rows.chain(report.totals.rows_of_others());
    let was_under_way = under_way_at_attach(report).is_some_and(|calls| calls > 0);
    let is_under_way = was_under_way || all.any(|call| call.unfinished > 0 && !is_end(&call.name));
    let returned = if is_under_way { " that returned" } else { "" };
    let calls = if knows_all_calls(report) && report.exact {
        "calls"
    } else {
        "counted calls"
    };
    format!("outside of {calls}{returned}")
}

/// What failed: `failed: EACCES /etc/shadow (openat), 40 x ENOENT /etc/app.d/... (openat), 3 more`.
/// What only looked for something is left to [`loading`].
fn failed(report: &Report, groups: &[FailedGroup<'_>]) -> TextLine {
    let mut texts: Vec<String> = groups.iter().take(MAX_FAILURES).map(failure).collect();
    let others = groups.iter().skip(MAX_FAILURES);
    if let more @ 1.. = others.map(|group| group.calls).sum::<u64>() {
        texts.push(format!("{more} more"));
    }
    let title = if report.totals.failed_paths_complete {
        "failed:"
    } else {
        "failed, at least:"
    };
    titled_list(title, &texts, Style::Plain).unwrap_or_default()
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
        Place::Nowhere(name, directories) => {
            format!(" {} in {directories} directories", text::escape(name))
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
    let name = name.map_or_else(String::new, |name| format!(" ({})", text::escape(name)));
    format!("{times}{}{place}{below}{name}", text::escape(group.errno))
}

/// How much of that was about shared libraries: `loading: 14 of the calls, 245 µs, read or map
/// shared libraries; 40 searches found nothing`. Those looked where nothing need be.
fn loading(report: &Report, searches: u64) -> TextLine {
    let reads = report
        .totals
        .loading
        .filter(|loading| loading.calls > 0)
        .map(|Loading { calls, total_ns }| {
            let time =
                total_ns.map_or_else(String::new, |ns| format!(", {},", units::duration(ns)));
            format!("{calls} of the calls{time} read or map shared libraries")
        });
    let line = match (reads, searches) {
        (None, 0) => return Vec::new(),
        (Some(reads), 0) => format!("loading: {reads}"),
        (reads, searches) => {
            let reads = reads.map(|reads| format!("{reads}; "));
            let searches = plural(searches, "search", "searches");
            format!(
                "loading: {}{searches} found nothing",
                reads.unwrap_or_default()
            )
        }
    };
    words(&line, Style::Plain)
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

/// What was lost and what helps. A report of a newer zctrace may name losses that this one does not
/// know.
pub(super) fn loss(name: &str, count: u64) -> String {
    let touches_origins = Loss::from_name(name).is_some_and(Loss::touches_origins);
    let what = if touches_origins {
        "transfers are a lower bound"
    } else {
        "lower bound"
    };
    format!(
        "{what}: {}",
        text::escape(&Loss::explain_named(name, count))
    )
}
