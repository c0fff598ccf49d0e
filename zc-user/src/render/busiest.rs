//! What dominates a run: the calls that took its time, and those that were made most.

use std::cmp::Reverse;

use super::{
    calls::{is_divided, name, program_name},
    page::{Piece, Style, TextLine, list, titled_list, words},
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
/// What is not in calls, beside the program's own code.
const OUTSIDE: &str = "page faults, CPU waits, tracing";
/// Calls that wait for other processes of the trace.
const WAITS_FOR_CHILDREN: [&str; 3] = ["vfork", "wait4", "waitid"];
/// The line of times names a call if at least this fraction of the time was in it (1/100).
const MIN_SHARE_DIVISOR: u64 = 100;

/// Where the time went, the largest part first. That of a single thread adds up to the wall time: `time:
/// 3.01 s = 3.00 s in clock_nanosleep + 210 µs in other calls + 1.10 ms outside of calls (with page
/// faults, CPU waits, tracing)`. Several threads are in calls at the same time, so that there is only a sum.
pub(super) fn times(report: &Report, calls: &[Syscall]) -> TextLine {
    let returned = calls.iter().filter(|call| call.calls > 0);
    let times: Option<Vec<TimedCall<'_>>> =
        returned.map(|call| Some((call, call.total_ns?))).collect();
    let Some(mut times) = times.filter(|_| report.paths.is_empty()) else {
        return TextLine::new();
    };
    times.sort_by_key(|&(_, ns)| Reverse(ns));
    if report.totals.threads == 1 {
        time_of_thread(report, calls, times)
    } else {
        time_of_threads(report, times)
    }
}

/// The time of the only thread.
fn time_of_thread(report: &Report, calls: &[Syscall], times: Vec<TimedCall<'_>>) -> TextLine {
    let rest = rest_ns(report, sum(&times));
    let all = sum(&times).saturating_add(rest.unwrap_or(0));
    let in_user = rest.and_then(|ns| user_ns(report, calls, ns));
    let in_user = in_user.filter(|&ns| ns >= all / MIN_SHARE_DIVISOR);
    let (mut parts, others) = named_parts(report, times, all);
    parts.extend(in_user.map(|ns| (ns, format!("{} user CPU", units::duration(ns)))));
    parts.sort_by_key(|&(ns, _)| Reverse(ns));
    let mut parts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    parts.extend(others);
    parts.extend(rest.map(|ns| match in_user {
        Some(user) => format!("{} other ({OUTSIDE})", units::duration(ns - user)),
        None => outside_of_calls(report, calls, ns),
    }));
    let Some(wall) = report.wall_ns.filter(|_| rest.is_some()) else {
        return titled_list("time:", &parts, Style::Plain).unwrap_or_default();
    };
    let mut line = words(&format!("time: {} =", units::duration(wall)), Style::Plain);
    for (index, part) in parts.iter().enumerate() {
        let plus = if index == 0 { "" } else { "+ " };
        line.push(Piece::new(format!("{plus}{part}"), Style::Plain));
    }
    line
}

/// The time in calls of all threads, those that only wait last.
fn time_of_threads(report: &Report, times: Vec<TimedCall<'_>>) -> TextLine {
    let all = sum(&times);
    let is_wait = |(call, _): &TimedCall<'_>| Spec::named(&call.name).waits;
    let (waits, work): (Vec<_>, Vec<_>) = times.into_iter().partition(is_wait);
    let in_work = sum(&work);
    let (parts, _) = named_parts(report, work, in_work);
    let mut parts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    // The time in which a process waits for its child is that one's.
    let is_noticed = |(call, ns): &&TimedCall<'_>| {
        *ns >= all / MIN_SHARE_DIVISOR && !WAITS_FOR_CHILDREN.contains(&call.name.as_str())
    };
    let waits = waits.iter().filter(is_noticed).take(MAX_CALLS);
    let mut waits: Vec<String> = waits.map(|wait| in_call(report, wait)).collect();
    if let Some(first) = waits.first_mut() {
        *first = format!("waiting: {first}");
    }
    if let (Some(last), false) = (parts.last_mut(), waits.is_empty()) {
        last.push(';');
    }
    if parts.is_empty() && waits.is_empty() {
        return TextLine::new();
    }
    let title = format!("time in calls, sum of {} threads:", report.totals.threads);
    let clauses = [parts, waits].map(|parts| list(&parts, Style::Plain));
    [vec![Piece::new(title, Style::Plain)], clauses.concat()].concat()
}

/// The calls with the most time, each with its time, and the sum of the others.
fn named_parts(
    report: &Report,
    mut times: Vec<TimedCall<'_>>,
    all: u64,
) -> (Vec<(u64, String)>, Option<String>) {
    let least = all / MIN_SHARE_DIVISOR;
    let named = times.iter().take(MAX_CALLS).filter(|(_, ns)| *ns >= least);
    let others = times.split_off(named.count());
    let parts = times.iter().map(|one| (one.1, in_call(report, one)));
    let other = if times.is_empty() { "" } else { "other " };
    let in_others = (!others.is_empty()).then(|| {
        let (ns, counted) = (units::duration(sum(&others)), counted(report));
        format!("{ns} in {other}{counted}calls")
    });
    (parts.collect(), in_others)
}

/// A call and the time in it.
type TimedCall<'a> = (&'a Syscall, u64);

fn sum(times: &[TimedCall<'_>]) -> u64 {
    let times = times.iter().map(|(_, ns)| *ns);
    times.fold(0, u64::saturating_add)
}

/// `607 ms in fdatasync (at least 441 ms of it waiting for a CPU)`.
fn in_call(report: &Report, &(call, ns): &TimedCall<'_>) -> String {
    let (time, where_most) = (units::duration(ns), where_most(report, call, ns));
    format!("{time} in {}{where_most}", name(call))
}

/// How long the only thread was in user mode, as far as it can have been in this time outside of calls.
/// `None`: unknown.
fn user_ns(report: &Report, calls: &[Syscall], outside_ns: u64) -> Option<u64> {
    let usage = &report.totals.usage;
    let is_all = knows_all_calls(report) && report.exact && !is_under_way(report, calls);
    let ns = usage.user_ns.filter(|_| is_all && is_divided(usage))?;
    Some(ns.min(outside_ns))
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
    let one = |(index, call): (usize, &&Syscall)| {
        let mut idle = report.totals.idle_calls.iter();
        let idle = idle.find(|idle| (&idle.syscall, &idle.abi) == (&call.name, &call.abi));
        let advice = (index == 0 && lacks_paths(report, call)).then_some("--paths shows on what");
        let remark = idle.map(idle_calls).or(advice.map(str::to_owned));
        let remark = remark.map(|remark| format!(" ({remark})"));
        format!(
            "{} {}{}",
            call.calls,
            name(call),
            remark.unwrap_or_default()
        )
    };
    let mut parts: Vec<String> = most.iter().enumerate().map(one).collect();
    let others: u64 = others.iter().map(|call| call.calls).sum();
    if others > 0 {
        parts.push(plural(others, "other", "others"));
    }
    if let (Some(program), Some(last)) = (busiest_program(report, calls), parts.last_mut()) {
        *last += &program;
    }
    titled_list("calls:", &parts, Style::Plain).unwrap_or_default()
}

/// Whether the call takes a path, and those of calls that succeeded were not recorded.
fn lacks_paths(report: &Report, call: &Syscall) -> bool {
    let is_recorded = report.touched.is_some() || !report.paths.is_empty() || report.from_log;
    Spec::named(&call.name).takes_path() && !is_recorded
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
    let busiest = programs.find(|program| program.sum_calls().calls > all / 2)?;
    let calls = busiest.sum_calls().calls;
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
        format!(" (with {OUTSIDE})")
    } else if is_most {
        " (-e all shows where)".to_owned()
    } else {
        String::new()
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
