//! What dominates a run: the calls that took its time, and those that were made most.

use std::cmp::Reverse;

use super::{
    calls::{name, program_name},
    page::{Style, TextLine, titled_list},
    part::{calls_of_program, sum_of_calls},
    text::{self, plural},
    transfers::end_label,
};
use crate::{
    report::{IdleCalls, Report, Syscall, TimeOnFile},
    syscalls::{CallEffect, Selection, Spec},
    units,
};
use zctrace_core::text::is_library;

/// How many calls a line names.
const MAX_CALLS: usize = 3;
/// A longer name of a file is shortened.
const MAX_NAME: usize = 30;
/// The line of times names a call if at least this fraction of the time was in it (1/100).
const MIN_SHARE_DIVISOR: u64 = 100;

/// Where the time went, the largest part first: `time: 3.00 s in clock_nanosleep, 1.10 ms outside of
/// calls, 210 µs in other calls`. Several threads are in calls at the same time, so what remains of
/// the wall time is known for a single one only. Waits for processes that are counted themselves come
/// last.
pub(super) fn times(report: &Report, calls: &[Syscall]) -> TextLine {
    let is_shared = |call: &Syscall| report.totals.processes > 1 && waits_for_child(call);
    let returned = calls.iter().filter(|call| call.calls > 0);
    let times: Option<Vec<_>> = returned.map(|call| Some((call, call.total_ns?))).collect();
    let Some(times) = times.filter(|_| report.paths.is_empty()) else {
        return Vec::new();
    };
    let (waits, mut times): (Vec<_>, Vec<_>) =
        times.into_iter().partition(|(call, _)| is_shared(call));
    times.sort_by_key(|&(_, ns)| Reverse(ns));
    let sum = |times: &[(&Syscall, u64)]| {
        let times = times.iter().map(|(_, ns)| *ns);
        times.fold(0, u64::saturating_add)
    };
    let in_calls = sum(&times);
    let rest = rest_ns(report, in_calls);
    let least = in_calls.saturating_add(rest.unwrap_or(0)) / MIN_SHARE_DIVISOR;
    let named = times.iter().take(MAX_CALLS).filter(|(_, ns)| *ns >= least);
    let others = times.split_off(named.count());
    let in_call = |&(call, ns): &(&Syscall, u64)| {
        let (time, where_most) = (units::duration(ns), where_most(report, call, ns));
        (ns, format!("{time} in {}{where_most}", name(call)))
    };
    let mut parts: Vec<(u64, String)> = times.iter().map(in_call).collect();
    parts.extend(rest.map(|ns| (ns, outside_of_calls(report, calls, ns))));
    if !others.is_empty() {
        let (ns, counted) = (sum(&others), counted(report));
        let other = if times.is_empty() { "" } else { "other " };
        let others = format!("{} in {other}{counted}calls", units::duration(ns));
        parts.push((ns, others));
    }
    let is_noticed = |(_, ns): &&(&Syscall, u64)| *ns >= least;
    parts.extend(waits.iter().filter(is_noticed).map(in_call));
    let is_single = report.totals.threads == 1;
    if is_single {
        parts.sort_by_key(|&(ns, _)| Reverse(ns));
    }
    let parts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    let title = if is_single {
        "time:".to_owned()
    } else {
        format!("time in calls, sum of {} threads:", report.totals.threads)
    };
    titled_list(&title, &parts, Style::Plain).unwrap_or_default()
}

/// The file and the program of most of a call's time, and how much of it waited in vain: ` (most on
/// pipe by pip)`, ` (500 ms without an event)`.
fn where_most(report: &Report, call: &Syscall, ns: u64) -> String {
    let is_call = |syscall: &str, abi: &str| (syscall, abi) == (&*call.name, &*call.abi);
    let mut files = report.totals.time_on_files.iter();
    let file = files.find(|one| is_call(&one.syscall, &one.abi));
    let is_telling = |one: &&TimeOnFile| !one.file.path.as_deref().is_some_and(is_library);
    let file = file.filter(is_telling).map_or_else(String::new, |one| {
        let name = end_label(&one.file);
        format!(" on {}", text::shorten(&name, MAX_NAME))
    });
    let mut programs = report.programs.iter().filter(|_| report.programs.len() > 1);
    let program = programs.find(|program| {
        let mut calls = program.syscalls.iter();
        let own = calls.find(|own| is_call(&own.name, &own.abi));
        own.and_then(|own| own.total_ns)
            .is_some_and(|own_ns| own_ns > ns / 2)
    });
    let program = program.map(|program| format!(" by {}", program_name(program)));
    let both = file + &program.unwrap_or_default();
    let most = Some(format!("most{both}")).filter(|_| !both.is_empty());
    let mut others = report.totals.other_syscalls.iter().flatten();
    let other = others.find(|one| is_call(&one.name, &one.abi));
    let idle_ns = other.map_or(0, |one| one.sums.timed_out_ns);
    let is_noticed = idle_ns > 0 && idle_ns >= ns / 10;
    let idle = is_noticed.then(|| format!("{} without an event", units::duration(idle_ns)));
    let parts: Vec<String> = most.into_iter().chain(idle).collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!(" ({})", parts.join("; "))
    }
}

/// `wait4(2)` and its like: the time is also the child's.
fn waits_for_child(call: &Syscall) -> bool {
    ["wait4", "waitid", "waitpid"].contains(&call.name.as_str())
}

/// Which calls were made most, what most of those did if that was nothing, and the program that made
/// most calls: `calls: 20031 close (19997 EBADF), 4 read; 20027 by faked`.
pub(super) fn calls(report: &Report, calls: &[Syscall]) -> TextLine {
    let mut most: Vec<&Syscall> = calls.iter().filter(|call| call.calls > 0).collect();
    most.sort_by_key(|call| (Reverse(call.calls), &call.name));
    let others = most.split_off(MAX_CALLS.min(most.len()));
    let one = |call: &&Syscall| {
        let mut idle = report.totals.idle_calls.iter();
        let idle = idle.find(|idle| (&idle.syscall, &idle.abi) == (&call.name, &call.abi));
        let idle = idle.map(|idle| format!(" ({})", idle_calls(idle)));
        format!("{} {}{}", call.calls, name(call), idle.unwrap_or_default())
    };
    let mut parts: Vec<String> = most.iter().map(one).collect();
    let others: u64 = others.iter().map(|call| call.calls).sum();
    if others > 0 {
        parts.push(plural(others, "other", "others"));
    }
    if let (Some(program), Some(last)) = (busiest_program(report, calls), parts.last_mut()) {
        *last += &program;
    }
    titled_list("calls:", &parts, Style::Plain).unwrap_or_default()
}

/// `19997 EBADF`, `5000 returned 0 on pipe`.
fn idle_calls(idle: &IdleCalls) -> String {
    let file = idle.file.as_ref();
    let file = file.map_or_else(String::new, |file| format!(" on {}", end_label(file)));
    let how = match idle.errno.as_str() {
        "" => "returned 0",
        errno => &text::escape(errno),
    };
    format!("{} {how}{file}", idle.calls)
}

/// The program that made more than half of the calls, if there are several: `; 20027 by faked`.
fn busiest_program(report: &Report, calls: &[Syscall]) -> Option<String> {
    let all = sum_of_calls(calls);
    let mut programs = report.programs.iter().filter(|_| report.programs.len() > 1);
    let busiest = programs.find(|program| calls_of_program(program) > all / 2)?;
    let calls = calls_of_program(busiest);
    Some(format!("; {calls} by {}", program_name(busiest)))
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
fn outside_of_calls(report: &Report, calls: &[Syscall], ns: u64) -> String {
    let is_most = report.wall_ns.is_some_and(|wall| ns > wall / 2);
    let advice = if is_most && !knows_all_calls(report) {
        " (-e all shows where)"
    } else {
        ""
    };
    format!("{} {}{advice}", units::duration(ns), outside(report, calls))
}

/// Whether every call is in some figure.
fn knows_all_calls(report: &Report) -> bool {
    report.totals.other_syscalls.is_some() || report.counted == Some(Selection::All)
}

/// How many calls were under way at the attach, if that is known.
pub(super) fn under_way_at_attach(report: &Report) -> Option<u64> {
    report.attached.as_ref()?.under_way_at_attach
}

/// What the rest of the time is: `outside of counted calls`.
fn outside(report: &Report, calls: &[Syscall]) -> String {
    // The last call of a process never returns, and takes no time.
    let is_end = |name: &str| Spec::named(name).effect == CallEffect::Exits;
    let mut calls = calls.iter();
    let was_under_way = under_way_at_attach(report).is_some_and(|calls| calls > 0);
    let is_under_way =
        was_under_way || calls.any(|call| call.unfinished > 0 && !is_end(&call.name));
    let returned = if is_under_way { " that returned" } else { "" };
    format!("outside of {}calls{returned}", counted(report))
}

/// What calls are called where some may not be among them.
fn counted(report: &Report) -> &'static str {
    if knows_all_calls(report) && report.exact {
        ""
    } else {
        "counted "
    }
}
