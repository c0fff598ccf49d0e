//! Parts of a run: `--interval`, `--control`, and `--duration`, which ends the trace before the command.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use rustix::process::{Pid, Signal, kill_process};
use zctrace::report::{Report, violations};

use crate::harness::{
    Program, TestDir, Zctrace, bpf_programs_of, counted_by_strace, each_backend, fifo, program,
    python, shell, state_of, wait_until, zctrace,
};

/// The reports in these lines. The sums of each must add up.
#[track_caller]
fn spans(lines: &str) -> Vec<Report> {
    let span = |line: &str| {
        let report = Report::from_json(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(violations(&report), [""; 0], "its sums do not add up");
        assert!(report.exact, "{:?}", report.losses);
        report
    };
    lines.lines().map(span).collect()
}

/// The calls and errors of all spans, by name.
fn sums(spans: &[Report]) -> BTreeMap<String, (u64, u64)> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for call in spans.iter().flat_map(|span| &span.totals.syscalls) {
        let (calls, errors) = sums.entry(call.name.clone()).or_default();
        *calls += call.calls;
        *errors += call.errors;
    }
    sums
}

/// How often the calls of this name returned in a span.
fn calls(span: &Report, name: &str) -> u64 {
    sums(std::slice::from_ref(span))
        .get(name)
        .map_or(0, |sums| sums.0)
}

/// Many short processes, which make the same calls in every run.
const CHURN: &str =
    "i=0; while [ $i -lt 300 ]; do cat /etc/passwd /nowhere 2>&1; i=$((i+1)); done >/dev/null";

#[test]
fn the_spans_of_an_interval_follow_each_other_and_add_up_to_what_strace_counts() {
    let program = shell(CHURN);
    let dir = TestDir::new();
    zctrace()
        .options(&["--interval=50ms", "--all", "-e", "all"])
        .json_to(dir.join("spans"))
        .show(&program)
        .exits(0);
    let spans = spans(&dir.read("spans"));
    assert!(spans.len() > 2, "{} spans", spans.len());
    let mut since_ns = 0;
    for report in &spans {
        let span = report.span.as_ref().expect("it is a span");
        assert_eq!((span.since_ns, &span.name), (since_ns, &None));
        since_ns = span.until_ns;
        assert_eq!(report.wall_ns, Some(span.until_ns - span.since_ns));
    }
    let (last, before) = spans.split_last().expect("there are some");
    assert_eq!(last.exit.code, Some(0));
    assert!(before.iter().all(|span| span.exit.code.is_none()));
    let (found, expected) = (sums(&spans), counted_by_strace(&program, &[]));
    for name in [
        "execve", "openat", "read", "write", "close", "vfork", "clone",
    ] {
        assert_eq!(found.get(name), expected.get(name), "{name}");
    }
    // A process is in no span after that in which it ended; only the shell is in all.
    let pids = spans.iter().flat_map(|span| &span.processes);
    let pids: Vec<u32> = pids
        .filter(|one| one.comm.as_deref() == Some("cat"))
        .map(|one| one.pid)
        .collect();
    let different = pids.iter().collect::<BTreeSet<_>>().len();
    assert!(
        different == 300 && pids.len() < 300 + 2 * spans.len(),
        "{different} of {}",
        pids.len()
    );
}

#[test]
fn calls_without_rows_failed_paths_and_counters_of_spans_add_up_to_the_whole() {
    // The program counts its own faults.
    let script = "
import os, resource
before = resource.getrusage(resource.RUSAGE_SELF)
for i in range(400000):
    if i % 1000 == 0:
        os.access('/nowhere', 0)
        block = bytearray(1 << 20)
    os.getppid()
after = resource.getrusage(resource.RUSAGE_SELF)
print(after.ru_minflt - before.ru_minflt)
";
    let dir = TestDir::new();
    let finished = zctrace()
        .options(&["--interval=50ms", "-e", "read"])
        .json_to(dir.join("spans"))
        .show(&python(script));
    let spans = spans(&dir.read("spans"));
    assert!(spans.len() > 2, "{} spans", spans.len());
    let others = |name: &str| {
        let others = spans
            .iter()
            .flat_map(|span| span.totals.other_syscalls.iter().flatten());
        let calls = others
            .filter(|call| call.name == name)
            .map(|call| call.sums.calls);
        calls.sum::<u64>()
    };
    assert_eq!(others("getppid"), 400_000);
    let of_process = |span: &Report| {
        let others = span.processes.iter().map(|one| one.other_calls);
        others
            .map(|sums| sums.expect("is known").calls)
            .sum::<u64>()
    };
    let of_all = |span: &Report| {
        let others = span.totals.other_syscalls.iter().flatten();
        others.map(|call| call.sums.calls).sum::<u64>()
    };
    let [of_process, of_all] = [of_process, of_all].map(|sum| spans.iter().map(sum).sum::<u64>());
    assert_eq!(of_process, of_all, "of the process, and of all");
    let failed = spans
        .iter()
        .flat_map(|span| span.totals.failed_paths.iter().flatten());
    let failed = failed.filter(|failed| failed.path.as_deref() == Some("/nowhere"));
    assert_eq!(failed.map(|failed| failed.calls).sum::<u64>(), 400);
    // The command may not have begun in the first span.
    let faults = spans.iter().flat_map(|span| &span.processes);
    let faults = faults.map(|one| one.usage.page_faults.minor.expect("is known"));
    let own: u64 = finished.successful().trim().parse().expect("a number");
    assert!(faults.sum::<u64>() >= own);
}

/// A program in Python that says when spans begin and end, with two FIFOs in its directory.
fn controlling(script: &str) -> Program {
    let head = "
import os
commands = os.open('commands', os.O_WRONLY)
answers = os.open('answers', os.O_RDONLY)
null = os.open('/dev/null', os.O_WRONLY)
def say(line):
    os.write(commands, line.encode() + b'\\n')
    return os.read(answers, 1000).decode().strip()
def write(count):
    for _ in range(count): os.write(null, b'x')
";
    python(&format!("{head}{script}"))
}

/// zctrace in a directory with these FIFOs.
fn controlled() -> (TestDir, Zctrace) {
    let dir = TestDir::new();
    fifo(dir.join("commands"));
    fifo(dir.join("answers"));
    let control = "--control=fifo:commands,answers";
    let zctrace = zctrace().option(control).dir(dir.path());
    (dir, zctrace)
}

#[test]
fn a_controlled_span_has_exactly_the_calls_between_its_two_lines() {
    let (dir, zctrace) = controlled();
    let script = "
for phase in range(3):
    assert say(f'start phase {phase}') == 'ok'
    write(1000 + phase)
    assert say('stop') == 'ok'
    write(7)
";
    zctrace.json_to("spans").show(&controlling(script)).exits(0);
    let spans = spans(&dir.read("spans"));
    for (phase, span) in spans.iter().enumerate() {
        let found = span.span.as_ref().and_then(|span| span.name.as_deref());
        assert_eq!(found, Some(&*format!("phase {phase}")));
        let expected = 1000 + phase as u64;
        assert_eq!(
            sums(std::slice::from_ref(span)),
            [("write".to_owned(), (expected, 0))].into()
        );
    }
    assert_eq!(spans.len(), 3);
}

#[test]
fn a_span_that_begins_and_ends_among_other_processes_has_theirs() {
    let (dir, zctrace) = controlled();
    // A child that began before makes a call for each byte that it gets, and others come and go.
    let script = "
inlet, outlet = os.pipe()
back, forth = os.pipe()
if os.fork() == 0:
    os.close(outlet)
    while os.read(inlet, 1): os.write(forth, b'x')
    os._exit(0)
for phase in range(10):
    assert say('start') == 'ok'
    for _ in range(50):
        os.write(outlet, b'x')
        os.read(back, 1)
        child = os.fork()
        if child == 0:
            write(3)
            os._exit(0)
        os.waitpid(child, 0)
    assert say('stop') == 'ok'
";
    zctrace.json_to("spans").show(&controlling(script)).exits(0);
    let spans = spans(&dir.read("spans"));
    assert_eq!(spans.len(), 10);
    for span in &spans {
        assert_eq!((calls(span, "write"), calls(span, "read")), (250, 100));
        // The program, the child that was there before, and those that came.
        assert_eq!(span.totals.processes, 52, "processes");
    }
}

#[test]
fn a_line_that_makes_no_sense_is_answered_and_changes_nothing() {
    let (dir, zctrace) = controlled();
    let script = "
for line in ['stop', 'go', 'start', 'start again', '']:
    print(say(line))
write(5)
";
    let finished = zctrace.json_to("spans").show(&controlling(script));
    let expected = "error: no span is running; write 'start NAME' first\n\
        error: 'go' is neither 'start NAME' nor 'stop'\nok\n\
        error: a span is running; write 'stop' first\nerror: '' is neither 'start NAME' nor 'stop'\n";
    finished.exits(0).prints_only(expected);
    // It ends with the trace.
    let spans = spans(&dir.read("spans"));
    assert_eq!(spans.len(), 1);
    assert_eq!(spans[0].exit.code, Some(0));
}

#[test]
fn a_task_that_is_not_followed_is_missing_in_every_span_from_then_on() {
    let dir = TestDir::new();
    let finished = zctrace()
        .options(&["--interval=100ms", "--max-tasks=4"])
        .json_to(dir.join("spans"))
        .show(&shell("for i in 1 2 3 4 5 6; do sleep 1 & done; wait"));
    finished.exits(0);
    let lines = dir.read("spans");
    let spans = lines.lines().map(Report::from_json);
    let exact: Vec<bool> = spans.map(|span| span.expect("a report").exact).collect();
    assert!(exact.len() > 3 && !exact[1..].contains(&true), "{exact:?}");
}

#[test]
fn descriptors_control_as_well_and_the_end_of_the_lines_ends_nothing() {
    let dir = TestDir::new();
    let script = "{ echo start one; echo stop; } | \"$@\" 3<&0 4>answers </dev/null";
    zctrace()
        .by_script(script)
        .options(&["--control=fd:3,4", "--format=ndjson", "--output=spans"])
        .dir(dir.path())
        .show(&shell(
            "until test \"$(wc -l <answers)\" = 2; do :; done; ls -l /proc/self/fd",
        ))
        .exits(0)
        .never_prints("answers");
    assert_eq!(dir.read("answers"), "ok\nok\n");
    let spans = dir.read("spans");
    let first: serde_json::Value =
        serde_json::from_str(spans.lines().next().expect("a span")).expect("JSON");
    assert_eq!(
        (&first["line"], &first["span"]),
        (&"run".into(), &"one".into())
    );
    assert!(first["since_ns"].as_u64() < first["until_ns"].as_u64());
}

/// A program that prints its id and goes on.
fn lasting() -> Program {
    shell("echo $$; exec sleep 100")
}

#[test]
fn after_its_duration_a_trace_ends_and_the_command_goes_on() {
    for zctrace in each_backend() {
        let (mut run, report) = zctrace.option("--duration=300ms").start(&lasting());
        let pid: i32 = run.hear().parse().expect("an id");
        assert_eq!(run.wait(), Some(0), "{}", run.stderr());
        let report = report.read(&run.stderr());
        assert_eq!((report.exit.code, report.exit.signal), (None, None));
        assert!(
            report.exact && report.totals.running == 1,
            "{:?}",
            report.losses
        );
        if report.backend == "ebpf" {
            let mut calls = report.processes.iter().flat_map(|one| &one.calls_at_end);
            assert!(
                calls.any(|call| call.syscall == "clock_nanosleep" && call.lasted_ns.is_some()),
                "{:?}",
                report.processes
            );
        }
        let pid = Pid::from_raw(pid).expect("positive");
        assert_eq!(state_of(pid), 'S');
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid()));
        assert!(status.expect("it lives").contains("TracerPid:\t0\n"));
        assert_eq!(bpf_programs_of(pid.as_raw_pid()).count(), 0);
        kill_process(pid, Signal::KILL).expect("it lives");
    }
}

#[test]
fn at_the_end_of_its_duration_a_command_is_killed_with_what_it_has_started() {
    for zctrace in each_backend() {
        let script = shell("sleep 100 & echo $!; sleep 100");
        let (mut run, report) = zctrace
            .options(&["--duration=500ms", "--kill"])
            .start(&script);
        let child = run.hear();
        assert_eq!(run.wait(), Some(128 + 9), "{}", run.stderr());
        let report = report.read(&run.stderr());
        assert_eq!(report.exit.signal, Some(9), "{}", run.stderr());
        // That of a process that has ended is empty until somebody waits for it.
        let line = || fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        wait_until("its child has ended", || line().is_empty());
    }
}

/// Fills a pipe that nobody reads, and writes one more byte.
const BLOCKED: &str = "
import os
end = os.pipe()[1]
os.write(end, bytes(65536))
os.write(end, b'x')
";

#[test]
fn a_call_that_never_returned_has_its_file_and_how_long_it_lasted() {
    let run = zctrace()
        .ebpf()
        .options(&["--duration=500ms", "--kill"])
        .run(&python(BLOCKED));
    let [call] = run.root().calls_at_end.as_slice() else {
        panic!("{:?}", run.root().calls_at_end);
    };
    let file = call.file.as_ref().and_then(|file| file.kind.as_deref());
    let found = (call.syscall.as_str(), file, call.threads);
    assert_eq!(found, ("write", Some("pipe"), 1));
    let lasted_ms = call.lasted_ns.map(|ns| ns / 1_000_000);
    assert!(
        lasted_ms.is_some_and(|ms| (100..5_000).contains(&ms)),
        "{call:?}"
    );
    let holders: Vec<_> = call
        .other_end
        .iter()
        .map(|one| (one.pid, one.is_traced))
        .collect();
    assert_eq!(holders, [(run.root().pid, true)], "its own other end");
}

#[test]
fn a_span_tells_how_much_of_the_time_of_its_calls_was_before_it() {
    let finished = zctrace()
        .options(&[
            "--interval=400ms",
            "--format=json",
            "--output=-",
            "-e",
            "all",
        ])
        .show(&program("sleep").arg("1.5"));
    let spans = spans(finished.exits(0).text());
    let sleeps = |span: &Report| {
        let mut rows = span.totals.syscalls.iter();
        rows.find(|call| call.name == "clock_nanosleep" && call.calls > 0)
            .and_then(|call| call.total_ns)
    };
    let mut asleep = spans.iter().filter_map(|span| Some((span, sleeps(span)?)));
    let (last, slept_ns) = asleep.next().expect("it slept");
    assert!(
        asleep.next().is_none() && spans.len() > 2,
        "{}",
        spans.len()
    );
    let part = last.span.as_ref().expect("is a span");
    let inside_ns = slept_ns - part.earlier_ns;
    assert!(
        inside_ns <= part.until_ns - part.since_ns,
        "{part:?}, {slept_ns}"
    );
    // It slept through the spans before, but for the start.
    assert!(part.since_ns - part.earlier_ns < 350_000_000, "{part:?}");
    for other in spans.iter().filter(|span| sleeps(span).is_none()) {
        assert_eq!(other.span.as_ref().map(|span| span.earlier_ns), Some(0));
    }
}

/// Waits for bytes from a socket whose other end a child has, which sleeps.
const WAITING: &str = "
import os, socket, time
near, far = socket.socketpair()
if os.fork() == 0:
    near.close()
    time.sleep(100)
far.close()
near.recv(1)
";

#[test]
fn an_open_that_waited_until_its_process_was_killed_has_its_path() {
    let run = zctrace()
        .ebpf()
        .options(&["--duration=500ms", "--kill"])
        .run(&shell("mkfifo zc-fifo; exec cat zc-fifo"));
    let cat = run.report.processes.last().expect("there is one");
    let [call] = cat.calls_at_end.as_slice() else {
        panic!("{:?}", cat.calls_at_end);
    };
    let found = (call.syscall.as_str(), call.path.as_deref());
    assert_eq!(found, ("openat", Some("zc-fifo")));
}

#[test]
fn a_call_that_waits_for_another_process_names_it() {
    let run = zctrace()
        .ebpf()
        .options(&["--duration=800ms", "--kill"])
        .run(&python(WAITING));
    let [call] = run.root().calls_at_end.as_slice() else {
        panic!("{:?}", run.root().calls_at_end);
    };
    let [holder] = call.other_end.as_slice() else {
        panic!("{call:?}");
    };
    let child = &run.report.processes[1];
    assert_eq!((holder.pid, holder.is_traced), (child.pid, true));
    assert_eq!(holder.name, child.comm);
}

#[test]
fn the_other_end_of_a_call_may_be_outside_of_the_trace() {
    // The name of its process is long.
    let program = shell("exec sh -c 'exec sh -c \"exec cat\"'");
    let zctrace = zctrace()
        .ebpf()
        .by_script("sleep 2 | \"$@\"")
        .options(&["--duration=500ms", "--kill"]);
    let shown = zctrace.launch_of(&program).on_terminal(80).finish();
    let words: Vec<&str> = shown.text().split_whitespace().collect();
    let words = words.join(" ");
    for told in [
        ") in read on pipe for ",
        " (other end: sleep (",
        ") outside of the trace)",
    ] {
        let count = words.matches(told).count();
        assert_eq!(count, 2, "{told}, in the first lines and the last: {shown}");
    }
}

#[test]
fn a_run_that_ends_before_its_duration_is_reported_as_without() {
    let finished = zctrace()
        .options(&[
            "--duration=100s",
            "--kill",
            "--interval=100s",
            "--format=json",
        ])
        .option("--output=-")
        .show(&shell("exit 3"));
    let spans = spans(finished.exits(3).text());
    assert_eq!((spans.len(), spans[0].exit.code), (1, Some(3)));
}

#[test]
fn a_reader_that_leaves_ends_the_trace_and_not_the_command() {
    let dir = TestDir::new();
    let script = "\"$@\" | head -n 1 | cut -c 1-9; echo ${PIPESTATUS[0]}";
    let finished = zctrace()
        .by_script(script)
        .options(&["--interval=20ms", "--output=-"])
        .dir(dir.path())
        .show(&shell("until test -e go; do :; done >/dev/null; : >gone"));
    finished.exits(0).prints_only("zctrace: \n0\n");
    dir.write("go", "");
    wait_until("the command has ended by itself", || {
        dir.join("gone").exists()
    });
}
