//! Made-up measurements for tests.

use std::{collections::BTreeMap, time::Duration};

use super::{Comparison, Plan, Runs, Series, Shell, Subject, Timing};
use crate::{
    options::{Choice, Limits},
    report::{
        Options, Report,
        sample::{files::Scene, of_threads, row},
    },
    syscalls::Selection,
    trace::{Exit, Loss, Row},
};

/// A report of one process with these rows.
pub fn report(rows: Vec<Row>) -> Report {
    Report::from_trace(&of_threads(vec![rows]), &Options::default())
}

fn timing_of_run(ms: u64) -> Timing {
    Timing {
        wall: Duration::from_millis(ms),
        user: Duration::from_micros(ms * 100),
        system: Duration::from_micros(ms * 500),
        voluntary_switches: ms,
        involuntary_switches: 3,
        minor_faults: 100 + ms,
        major_faults: 0,
        peak_memory_bytes: Some(1_800_000 + ms * 1024),
        exit: Exit::Code(0),
    }
}

/// A command whose runs took this many milliseconds each. It copied 1 MiB in pieces of 4 KiB.
pub fn timed_series(runs_ms: &[u64]) -> Series {
    let calls = "read in 257 1M /4096, write in>out 256 1M /4096";
    series_of_calls(runs_ms, calls, row("mmap").called(20).requested(9 << 20))
}

/// A command that copied 1 MiB by `sendfile`.
pub fn by_sendfile(runs_ms: &[u64]) -> Series {
    let calls = "sendfile in->out 2 1M";
    series_of_calls(runs_ms, calls, row("mmap").called(20))
}

fn series_of_calls(runs_ms: &[u64], calls: &str, last: Row) -> Series {
    let mut scene = Scene::new();
    let process = scene.run(&format!("copier: {calls}"));
    process.threads[0].rows.push(last);
    Series {
        timings: runs_ms.iter().map(|&ms| timing_of_run(ms)).collect(),
        trace: scene.trace,
    }
}

/// Makes the counts of a series lower bounds, and its memory unknown.
pub fn with_losses(mut series: Series) -> Series {
    series.trace.losses = BTreeMap::from([(Loss::UncountedCalls, 12)]);
    for timing in &mut series.timings {
        timing.peak_memory_bytes = None;
    }
    series
}

/// A plan for commands named `a`, `b`, ...
pub fn plan(commands: usize) -> Plan {
    let subject = |name: char| Subject {
        name: name.to_string(),
        line: format!("{name} --from in"),
        words: vec![name.to_string().into()],
        setup: None,
        prepare: None,
        cleanup: None,
    };
    Plan {
        subjects: ('a'..).take(commands).map(subject).collect(),
        runs: Runs::exactly(1),
        warmup: 0,
        ignores_failures: false,
        shell: Shell::default(),
        identity: None,
        backend: Choice::default(),
        selection: Selection::default(),
        limits: Limits::default(),
    }
}

/// A comparison of commands named `a`, `b`, ...
pub fn comparison(series: &[Series]) -> Comparison {
    Comparison::new(&plan(series.len()), series)
}
