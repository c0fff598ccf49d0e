//! Signals at random moments: whatever they interrupt, nothing is left that should not be.

use std::{collections::BTreeSet, env, fs, thread, time::Duration};

use aya::programs::loaded_programs;
use rustix::{
    process::{Signal, kill_process_group},
    rand::{GetRandomFlags, getrandom},
};
use serde_json::Value;

use crate::harness::{BACKENDS, TestDir, bpf_programs_of, wait_until, zctrace};

/// How many signals are sent: this variable, or 24.
const KILLS: &str = "ZCTRACE_KILLS";
/// A variable in the environment of all that a run starts.
const MARK: &str = "ZCTRACE_KILLS_MARK";
/// The latest moment after the start, in µs.
const LATEST_US: usize = 500_000;

const SIGNALS: [Signal; 4] = [Signal::TERM, Signal::HUP, Signal::INT, Signal::KILL];
/// Command lines, with a `|` between their words.
const RUN: &str = "BACKEND|--syncs|--format=json|-oout|sh|-c|sleep 100; true";
const CHECK: &str = "check|BACKEND|--export|json|out|checks.toml";
const COMPARE: &str =
    "compare|BACKEND|--runs=2|--export|json|out|sleep 0.1; true|sleep 0.1; cat </dev/null";
const REPORT: &str = "report|--format=json|-oout|log";
const CHECKS: &str =
    "[[check]]\nname = 'a'\ncommand = 'sleep 100 | cat; true'\nexpect = 'write.calls == 0'\n";

fn random(below: usize) -> usize {
    let mut bytes = [0; 4];
    getrandom(&mut bytes, GetRandomFlags::empty()).expect("random bytes");
    u32::from_ne_bytes(bytes) as usize % below
}

/// The ids of all processes.
fn processes() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").expect("there").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
}

/// The processes with this mark, each as its name and the kernel function that it sleeps in.
fn marked(mark: &str) -> Vec<(String, String)> {
    let mark = format!("{MARK}={mark}\0");
    let environment = |id: &str| fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
    let has_mark = |id: &String| String::from_utf8_lossy(&environment(id)).contains(&mark);
    let read = |id: &str, name| fs::read_to_string(format!("/proc/{id}/{name}")).ok();
    let named = |id: String| Some((read(&id, "comm")?, read(&id, "wchan")?));
    processes().filter(has_mark).filter_map(named).collect()
}

/// Whether a process stays when SIGKILL ends zctrace and strace: the command, or what strace forked
/// to become the command or to try out ptrace. The latter stops or pauses until strace goes on.
fn may_stay((name, sleeps_in): &(String, String)) -> bool {
    match name.trim_end() {
        "zctrace" => false,
        "strace" => sleeps_in.contains("stop") || sleeps_in.contains("pause"),
        _ => true,
    }
}

/// The eBPF programs that are loaded and that no process has open.
fn unclaimed_programs() -> BTreeSet<u32> {
    let open: BTreeSet<u32> = processes().flat_map(bpf_programs_of).collect();
    let loaded = loaded_programs().filter_map(Result::ok);
    let ids = loaded.map(|program| program.id());
    ids.filter(|id| !open.contains(id)).collect()
}

/// Sends a signal to a run, and looks at what is left.
fn kill_a_run(signal: Signal, line: &str, backend: &str, after: Duration) {
    let (dir, tmp) = (TestDir::new(), TestDir::new());
    dir.write("checks.toml", CHECKS);
    dir.write("log", "7 read(3, \"abc\"..., 100) = 100\n".repeat(50_000));
    let mark = tmp.path().to_string_lossy();
    let zctrace = zctrace().env("TMPDIR", tmp.path()).env(MARK, &*mark);
    let words: Vec<&str> = line
        .split('|')
        .map(|word| if word == "BACKEND" { backend } else { word })
        .collect();
    let running = zctrace.dir(dir.path()).launch_with(&words).start();
    let before = unclaimed_programs();
    thread::sleep(after);
    match signal {
        // As the terminal does.
        Signal::INT => kill_process_group(running.pid(), signal).expect("it is not reaped"),
        _ => running.signal(signal),
    }
    running.wait();
    // A plain run that is killed leaves its command running, as strace does.
    let keeps_command = signal == Signal::KILL && line == RUN;
    wait_until("nothing is left running", || {
        let left = marked(&mark);
        left.iter().all(|left| keeps_command && may_stay(left))
    });
    // Those of other tests come and go.
    let mut unclaimed = &unclaimed_programs() - &before;
    wait_until("each eBPF program is gone or another tracer's", || {
        unclaimed = &unclaimed & &unclaimed_programs();
        unclaimed.is_empty()
    });
    if let Ok(text) = fs::read_to_string(dir.join("out")) {
        serde_json::from_str::<Value>(&text).expect("an output is whole");
    }
    let mut files = [dir.names(), tmp.names()].concat();
    // The next trace removes a log that strace has not opened.
    files.retain(|name| !name.to_string_lossy().starts_with("zctrace-log-"));
    files.retain(|name| name != "checks.toml" && name != "log" && name != "out");
    eprintln!("left: {files:?}");
    assert!(files.is_empty() || signal == Signal::KILL, "{files:?}");
}

#[test]
fn signals_at_random_moments_leave_nothing() {
    let kills = env::var(KILLS).map_or(24, |count| count.parse().expect("a number"));
    for _ in 0..kills {
        let signal = SIGNALS[random(4)];
        // dash loses an INT that comes when it is about to start a child.
        let kinds = if signal == Signal::INT { 3 } else { 4 };
        let line = [CHECK, COMPARE, REPORT, RUN][random(kinds)];
        let backend = BACKENDS[random(2)];
        let after = Duration::from_micros(random(LATEST_US) as u64);
        eprintln!("{signal:?} after {after:?}: {backend} {line}");
        kill_a_run(signal, line, backend, after);
    }
}
