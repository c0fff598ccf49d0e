//! `--slower-than`: which calls took longer, against the program's own clock and strace.

use zctrace::{
    report::Report,
    slow_calls::{SlowCall, SlowCalls},
};

use crate::harness::{
    Run, TestDir, Zctrace, each_backend, program, python, shell, untraced, zctrace,
};

/// Sleeps twice, and waits for a thread that writes into a pipe. Prints how long each took, in ns.
const WAITS: &str = "
import os, select, threading, time
def sleep(seconds):
    # The kernel counts this time from the entry of the call.
    select.select([], [], [], seconds)
def timed(work):
    before = time.monotonic_ns()
    work()
    print(time.monotonic_ns() - before)
timed(lambda: sleep(0.02))
timed(lambda: sleep(0.05))
source, sink = os.pipe()
def write():
    sleep(0.2)
    os.write(sink, b'x')
thread = threading.Thread(target=write)
thread.start()
timed(lambda: os.read(source, 1))
thread.join()
";

fn slow_of(report: &Report) -> &SlowCalls {
    report.slow_calls.as_ref().expect("they were asked for")
}

fn waits_under(zctrace: Zctrace) -> (Run, Vec<u64>) {
    let run = zctrace.option("--slower-than=15ms").run(&python(WAITS));
    let printed = run.finished.successful().lines();
    let own = printed.map(|ns| ns.parse().expect("a number")).collect();
    (run, own)
}

/// The calls of this name of the first thread, in their order.
fn of_first_thread<'a>(slow: &'a SlowCalls, name: &str) -> Vec<&'a SlowCall> {
    let own = slow.calls.iter().filter(|call| call.tid == call.pid);
    let mut calls: Vec<_> = own.filter(|call| call.call == name).collect();
    calls.sort_by_key(|call| call.at_ns);
    calls
}

#[test]
fn known_waits_are_listed_with_their_time_and_file() {
    for zctrace in each_backend() {
        let (run, own) = waits_under(zctrace);
        let slow = slow_of(&run.report);
        let sleeps = of_first_thread(slow, "pselect6");
        let [short, long] = sleeps[..] else {
            panic!("{slow:#?}");
        };
        let reads = of_first_thread(slow, "read");
        let read = reads
            .iter()
            .find(|read| read.path.as_deref() == Some("pipe"));
        let read = read.unwrap_or_else(|| panic!("{slow:#?}"));
        for (call, least_ms, most_ns) in
            [(short, 20, own[0]), (long, 50, own[1]), (read, 40, own[2])]
        {
            assert!(call.ns >= least_ms * 1_000_000, "{call:?}");
            assert!(call.ns <= most_ns, "{call:?}: {most_ns}");
            assert!(
                call.program
                    .as_deref()
                    .is_some_and(|name| name.starts_with("python3"))
            );
        }
        assert_eq!((read.result, &read.error), (Some(1), &None));
        let at = |call: &SlowCall| call.at_ns.expect("is known");
        assert!(at(short) + short.ns <= at(long), "{slow:#?}");
        assert!(at(long) + long.ns <= at(read), "{slow:#?}");
        assert!(at(read) + read.ns <= run.report.wall_ns.expect("is known"));
        let others = slow.calls.iter().filter(|call| call.tid != call.pid);
        let mut sleeps = others.filter(|call| call.call == "pselect6");
        assert!(sleeps.any(|call| call.ns >= 200_000_000), "{slow:#?}");
        assert!(slow.calls.is_sorted_by(|one, next| one.ns >= next.ns));
        assert_eq!((slow.left_out, slow.lost, slow.untimed), (0, 0, 0));
    }
}

/// What a log of `strace -f -T` says of a call: its name and its time in us.
fn timed_call(line: &str) -> Option<(String, u64)> {
    let (rest, time) = line.rsplit_once(" <")?;
    let (seconds, fraction) = time.strip_suffix('>')?.split_once('.')?;
    let micros = seconds.parse::<u64>().ok()? * 1_000_000 + fraction.parse::<u64>().ok()?;
    let (_, call) = rest.split_once(' ')?;
    let call = call.trim_start();
    let (_, call) = call.split_once(' ')?;
    let call = call.strip_prefix("<... ").unwrap_or(call);
    let end = call.find(['(', ' '])?;
    Some((call[..end].to_owned(), micros))
}

#[test]
fn the_slow_calls_of_a_log_are_those_of_its_text() {
    let directory = TestDir::new();
    let log = python(WAITS).log_in(&directory, &["-f", "-T", "-ttt", "-y"]);
    let zctrace = zctrace().option("--slower-than=1ms");
    let report = zctrace.report_on_log(&directory);
    let found = slow_of(&report);
    let timed = log.lines().filter_map(timed_call);
    let mut expected: Vec<_> = timed.filter(|(_, micros)| *micros > 1_000).collect();
    let calls = found.calls.iter();
    let mut calls: Vec<_> = calls
        .map(|call| (call.call.clone(), call.ns / 1_000))
        .collect();
    calls.sort();
    expected.sort();
    assert_eq!(calls, expected);
    assert!(calls.len() >= 4, "{calls:?}");
}

#[test]
fn every_call_is_in_the_list_or_counted() {
    for (zctrace, calls) in each_backend().into_iter().zip([200_000, 3_000]) {
        let count = format!("count={calls}");
        let dd = program("dd").args(&[
            "if=/dev/zero",
            "of=/dev/null",
            "bs=1",
            "status=none",
            &count,
        ]);
        let run = zctrace.option("--slower-than=1ns").run(&dd);
        let slow = slow_of(&run.report);
        let made: u64 = run.report.totals.all_calls().map(|call| call.calls).sum();
        assert!(made > 2 * calls);
        assert_eq!(slow.calls.len(), 1_000);
        assert_eq!(
            1_000 + slow.left_out + slow.lost + slow.untimed,
            made,
            "{:?}",
            (slow.left_out, slow.lost)
        );
        let longest = run
            .report
            .totals
            .all_calls()
            .filter_map(|call| call.max_ns)
            .max();
        if slow.lost == 0 {
            assert_eq!(Some(slow.calls[0].ns), longest);
        }
    }
}

#[test]
fn only_selected_calls_are_listed() {
    for zctrace in each_backend() {
        let (run, _) = waits_under(zctrace.syscalls("read"));
        let slow = slow_of(&run.report);
        assert!(!slow.calls.is_empty());
        assert!(
            slow.calls.iter().all(|call| call.call == "read"),
            "{slow:#?}"
        );
    }
}

/// A signal comes in the middle of a long sleep.
fn interrupted(handler: &str) -> String {
    format!(
        "
import signal, time
signal.signal(signal.SIGALRM, {handler})
signal.setitimer(signal.ITIMER_REAL, 0.3)
time.sleep(0.6)
"
    )
}

#[test]
fn a_call_that_a_signal_interrupted_is_listed_if_its_thread_went_on() {
    for zctrace in each_backend() {
        let zctrace = zctrace.option("--slower-than=100ms");
        let run = zctrace
            .clone()
            .run(&python(&interrupted("lambda *_: None")));
        let sleeps = of_first_thread(slow_of(&run.report), "clock_nanosleep");
        let errors: Vec<_> = sleeps.iter().map(|call| call.error.as_deref()).collect();
        let [Some(first), None] = errors[..] else {
            panic!("{sleeps:#?}");
        };
        assert!(first.starts_with("ERESTART"), "{first}");
        let run = zctrace.run(&python(&interrupted("signal.SIG_DFL")));
        assert_eq!(run.report.exit.signal, Some(14));
        let sleeps = of_first_thread(slow_of(&run.report), "clock_nanosleep");
        assert_eq!(sleeps, [] as [&SlowCall; 0]);
    }
}

#[test]
fn the_head_names_the_slowest_call_if_it_was_long() {
    let finished = zctrace()
        .option("--slower-than=100ms")
        .show(&program("sleep").arg("0.2"));
    finished.exits(0).says_all(&[
        "slowest call: clock_nanosleep took ",
        "SLOW CALLS, 1 that took longer than 100 ms",
    ]);
}

/// Two functions that wait, a thread that does, and a call that a signal interrupts.
const WAITING: &str = "\
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#define APART __attribute__((noinline))
APART void nap(long ms) {
    struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL); // nap
}
APART void take(int source) {
    char byte;
    while (read(source, &byte, 1) > 0); // take
}
void *give(void *sink) {
    nap(60);
    close((long)sink);
    return NULL;
}
void ignore(int signal) {}
int main(void) {
    int ends[2];
    pthread_t thread;
    nap(20);
    pipe(ends);
    pthread_create(&thread, NULL, give, (void *)(long)ends[1]);
    take(ends[0]);
    pthread_join(thread, NULL);
    signal(SIGALRM, ignore);
    struct itimerval soon = {{0, 0}, {0, 20000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    pause();
    return 0;
}
";

#[test]
fn each_slow_call_names_the_function_and_the_line_that_made_it() {
    let dir = TestDir::with("waiting.c", WAITING);
    let compile = shell("gcc -g -O1 -pthread -o waiting waiting.c");
    untraced(&compile).dir(dir.path()).finish().exits(0);
    // The library functions in between have other names without debug information.
    let line_of = |function: &str| {
        let end = format!("// {function}");
        let before = WAITING.lines().take_while(|line| !line.ends_with(&end));
        format!("caller: {function} (waiting.c:{})", before.count() + 1)
    };
    let options = ["--callers", "--slower-than=15ms"];
    let zctrace = zctrace().ebpf().dir(dir.path()).options(&options);
    let report = zctrace.clone().run(&program("./waiting")).report;
    let stacks = report.stacks.as_ref().expect("callers were sampled");
    let caller_of = |call: &SlowCall| {
        let line = stacks[call.stack?].caller_line(report.directory.as_deref());
        line.split(" via ").next().map(str::to_owned)
    };
    // On a busy machine, others are slow, too.
    let calls = slow_of(&report).calls.iter().filter(|call| {
        ["clock_nanosleep", "pause"].contains(&&*call.call) || call.path.as_deref() == Some("pipe")
    });
    let callers = calls.map(|call| (&*call.call, call.tid == call.pid, caller_of(call)));
    let mut callers: Vec<_> = callers.collect();
    callers.sort();
    let expected = [
        ("clock_nanosleep", false, Some(line_of("nap"))),
        ("clock_nanosleep", true, Some(line_of("nap"))),
        ("pause", true, None),
        ("read", true, Some(line_of("take"))),
    ];
    assert_eq!(callers, expected);
    let shown = zctrace.show(&program("./waiting"));
    shown.exits(0).says(&format!("    {}", line_of("take")));
}
