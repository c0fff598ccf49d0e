//! What dominates a run: the calls that took its time, and those that were made most.

use std::cmp::Reverse;

use super::{
    calls::{is_divided, name, program_name},
    page::{Piece, Style, TextLine, list, titled_list},
    part::sum_of_calls,
    pipes,
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
/// If no call was made more often, the numbers say nothing that one would look for.
const MIN_CALLS: u64 = 1000;
/// The line of times names a call if at least this fraction of the time was in it (1/100).
const MIN_SHARE_DIVISOR: u64 = 100;

/// Where the time went, the largest part first: `time: 3.00 s in clock_nanosleep, 210 µs in other
/// calls, 1.10 ms outside of calls (with page faults, CPU waits, tracing)`. Several threads are in calls
/// at the same time, so what remains of the wall time is known for a single one only. Calls of several
/// threads that only wait come last.
pub(super) fn times(report: &Report, calls: &[Syscall]) -> TextLine {
    let returned = calls.iter().filter(|call| call.calls > 0);
    let times: Option<Vec<TimedCall<'_>>> =
        returned.map(|call| Some((call, call.total_ns?))).collect();
    let Some(mut times) = times.filter(|_| report.paths.is_empty()) else {
        return Vec::new();
    };
    times.sort_by_key(|&(_, ns)| Reverse(ns));
    let in_calls = sum(&times);
    let rest = rest_ns(report, in_calls);
    let is_single = report.totals.threads == 1;
    let is_wait = |call: &Syscall| !is_single && Spec::named(&call.name).waits;
    let (waits, mut work): (Vec<_>, Vec<_>) =
        times.into_iter().partition(|(call, _)| is_wait(call));
    let all = sum(&work).saturating_add(rest.unwrap_or(0));
    let least = all / MIN_SHARE_DIVISOR;
    let of_user = rest.and_then(|ns| user_ns(report, calls, ns));
    let in_user = of_user.filter(|&ns| ns >= least);
    let named = work.iter().take(MAX_CALLS).filter(|(_, ns)| *ns >= least);
    let others = work.split_off(named.count());
    let mut parts: Vec<(u64, String)> = in_calls_parts(report, &work);
    parts.extend(in_user.map(|ns| (ns, format!("{} user CPU", units::duration(ns)))));
    parts.sort_by_key(|&(ns, _)| Reverse(ns));
    let mut parts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    if !others.is_empty() {
        let other = if work.is_empty() { "" } else { "other " };
        let (ns, counted) = (units::duration(sum(&others)), counted(report));
        parts.push(format!("{ns} in {other}{counted}calls"));
    }
    parts.extend(rest.and_then(|ns| match of_user {
        Some(user) => neither(ns - user, least),
        None => Some(outside_of_calls(report, calls, ns)),
    }));
    let title = if is_single {
        "time:".to_owned()
    } else {
        format!("time in calls, sum of {} threads:", report.totals.threads)
    };
    let is_noticed = |(_, ns): &TimedCall<'_>| *ns >= in_calls / MIN_SHARE_DIVISOR;
    let waits: Vec<TimedCall<'_>> = waits.into_iter().filter(is_noticed).collect();
    let waits = in_calls_parts(report, &waits).into_iter();
    let mut waits: Vec<String> = waits.map(|(_, text)| text).collect();
    if let Some(first) = waits.first_mut() {
        *first = format!("waiting: {first}");
    }
    if let (Some(last), false) = (parts.last_mut(), waits.is_empty()) {
        last.push(';');
    }
    let clauses = [parts, waits]
        .map(|parts| list(&parts, Style::Plain))
        .concat();
    if clauses.is_empty() {
        return clauses;
    }
    [vec![Piece::new(title, Style::Plain)], clauses].concat()
}

/// A call and the time in it.
type TimedCall<'a> = (&'a Syscall, u64);

fn sum(times: &[TimedCall<'_>]) -> u64 {
    let times = times.iter().map(|(_, ns)| *ns);
    times.fold(0, u64::saturating_add)
}

/// `607 ms in fdatasync (at least 441 ms of it waiting for a CPU)`.
fn in_calls_parts(report: &Report, times: &[TimedCall<'_>]) -> Vec<(u64, String)> {
    let part = |&(call, ns): &TimedCall<'_>| {
        let (time, where_most) = (units::duration(ns), where_most(report, call, ns));
        (ns, format!("{time} in {}{where_most}", name(call)))
    };
    times.iter().map(part).collect()
}

/// How long the only thread was in user mode, as far as it can have been in this time outside of calls.
/// `None`: unknown.
fn user_ns(report: &Report, calls: &[Syscall], outside_ns: u64) -> Option<u64> {
    let usage = &report.totals.usage;
    let is_all = knows_all_calls(report) && report.exact && !is_under_way(report, calls);
    let ns = usage.user_ns.filter(|_| is_all && is_divided(usage))?;
    Some(ns.min(outside_ns))
}

/// What is left: time in no call and not in user mode.
fn neither(ns: u64, least: u64) -> Option<String> {
    let time = units::duration(ns);
    let such_as = "such as page faults, CPU waits, tracing";
    (ns >= least).then(|| format!("{time} neither in calls nor user CPU ({such_as})"))
}

/// The file and the program of most of a call's time, and how much of it waited in vain: ` (most on
/// pipe by pip)`, ` (500 ms without an event)`.
fn where_most(report: &Report, call: &Syscall, ns: u64) -> String {
    let is_call = |syscall: &str, abi: &str| (syscall, abi) == (&*call.name, &*call.abi);
    let mut files = report.totals.time_on_files.iter();
    let file = files.find(|one| is_call(&one.syscall, &one.abi));
    let is_telling = |one: &&TimeOnFile| !one.file.path.as_deref().is_some_and(is_library);
    let file = file.filter(is_telling);
    let both = match file {
        Some(one) => time_place(report, one, Spec::named(&call.name).may_write()),
        None => busiest_by(report, is_call, ns),
    };
    let most = Some(format!("most{both}")).filter(|_| !both.is_empty());
    let mut others = report.totals.other_syscalls.iter().flatten();
    let other = others.find(|one| is_call(&one.name, &one.abi));
    let idle_ns = other.map_or(0, |one| one.sums.timed_out_ns);
    let is_noticed = idle_ns > 0 && idle_ns >= ns / 10;
    let idle = is_noticed.then(|| format!("{} without an event", units::duration(idle_ns)));
    let waited_ns = least_cpu_wait_ns(report, ns).filter(|&waited| waited > ns / 2);
    let waited = waited_ns.map(units::duration);
    let waited = waited.map(|time| format!("at least {time} of it waiting for a CPU"));
    let parts: Vec<String> = most.into_iter().chain(idle).chain(waited).collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!(" ({})", parts.join(", "))
    }
}

/// The file, and the program that spent most of the call's time there: ` on pipe by pip`, ` by cat into
/// the pipe to tr`.
fn time_place(report: &Report, one: &TimeOnFile, writes: bool) -> String {
    let by = one.program.as_deref().filter(|_| report.programs.len() > 1);
    let by = by.map_or_else(String::new, |program| {
        format!(" by {}", text::escape(program))
    });
    match pipes::other_end(report, &one.file, writes).filter(|_| !by.is_empty()) {
        Some(other) if writes => format!("{by} into the pipe to {other}"),
        Some(other) => format!("{by} from the pipe of {other}"),
        None => {
            let name = end_label(&one.file);
            format!(" on {}{by}", text::shorten(&name, MAX_NAME))
        }
    }
}

/// The program of most of a call's time, if there are several: ` by curl`.
fn busiest_by(report: &Report, is_call: impl Fn(&str, &str) -> bool, ns: u64) -> String {
    let mut programs = report.programs.iter().filter(|_| report.programs.len() > 1);
    let program = programs.find(|program| {
        let mut calls = program.syscalls.iter();
        let own = calls.find(|own| is_call(&own.name, &own.abi));
        own.and_then(|own| own.total_ns)
            .is_some_and(|own_ns| own_ns > ns / 2)
    });
    program.map_or_else(String::new, |program| {
        format!(" by {}", program_name(program))
    })
}

/// How much of this time in calls a single thread waited for a CPU at least: what does not fit into the
/// wall time in which it did not.
fn least_cpu_wait_ns(report: &Report, in_calls_ns: u64) -> Option<u64> {
    let is_single = report.totals.threads == 1 && report.span.is_none();
    let waited_ns = report.totals.usage.run_delay_ns.filter(|_| is_single)?;
    let wall_ns = report.wall_ns.filter(|&wall| in_calls_ns <= wall)?;
    in_calls_ns.checked_sub(wall_ns.checked_sub(waited_ns)?)
}

/// Which calls were made most, if often, what most of those did if that was nothing, and the program
/// that made most calls: `calls: 20031 close (19997 EBADF), 4 read; 20027 by faked`.
pub(super) fn calls(report: &Report, calls: &[Syscall]) -> TextLine {
    let mut most: Vec<&Syscall> = calls.iter().filter(|call| call.calls > 0).collect();
    most.sort_by_key(|call| (Reverse(call.calls), &call.name));
    if most.first().is_none_or(|call| call.calls < MIN_CALLS) {
        return TextLine::new();
    }
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
    let all = sum_of_calls(calls).calls;
    let mut programs = report.programs.iter().filter(|_| report.programs.len() > 1);
    let busiest = programs.find(|program| program.sums().calls > all / 2)?;
    let calls = busiest.sums().calls;
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
    let advice = if knows_all_calls(report) {
        " (with page faults, CPU waits, tracing)"
    } else if is_most {
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
    let returned = if is_under_way(report, calls) {
        " that returned"
    } else {
        ""
    };
    format!("outside of {}calls{returned}", counted(report))
}

/// Whether some call was under way at the beginning or at the end, whose time nobody knows.
fn is_under_way(report: &Report, calls: &[Syscall]) -> bool {
    // The last call of a process never returns, and takes no time.
    let is_end = |name: &str| Spec::named(name).effect == CallEffect::Exits;
    let mut calls = calls.iter();
    under_way_at_attach(report).is_some_and(|calls| calls > 0)
        || calls.any(|call| call.unfinished > 0 && !is_end(&call.name))
}

/// What calls are called where some may not be among them.
fn counted(report: &Report) -> &'static str {
    if knows_all_calls(report) && report.exact {
        ""
    } else {
        "counted "
    }
}
