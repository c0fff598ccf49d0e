//! Runs command lines in turn, and takes their times.

use std::{
    mem::MaybeUninit,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

/// A command line that is measured.
pub(super) struct Subject {
    /// What it is called in the table.
    pub(super) name: &'static str,
    /// How often it is run.
    rounds: u32,
    /// The tool and the command under it.
    argv: Vec<String>,
}

impl Subject {
    /// `command` under a tool that takes it after `prefix`.
    pub(super) fn new(
        name: &'static str,
        rounds: u32,
        prefix: Vec<String>,
        command: &[String],
    ) -> Self {
        // bpftrace takes the command as one word, all others as many.
        let command = if prefix.last().is_some_and(|word| word == "-c") {
            vec![command.join(" ")]
        } else {
            command.to_vec()
        };
        Self {
            name,
            rounds,
            argv: [prefix, command].concat(),
        }
    }
}

/// One run.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    /// Wall time, from before its start until after its end.
    pub(super) wall: Duration,
    /// CPU time of it and of all processes that it waited for. Where other work disturbs the wall
    /// times, this still compares.
    pub(super) cpu: Duration,
    /// The largest resident set of it or of a process that it waited for, in KiB.
    pub(super) max_rss_kib: i64,
}

/// Runs every subject in every round, so that a slow moment of the machine affects all of them.
/// Samples are in the subjects' order.
pub(super) fn interleaved(subjects: &[Subject]) -> Result<Vec<Vec<Sample>>> {
    let mut samples = vec![Vec::new(); subjects.len()];
    let rounds = subjects
        .iter()
        .map(|subject| subject.rounds)
        .max()
        .unwrap_or(0);
    for round in 0..rounds {
        for (subject, samples) in subjects.iter().zip(&mut samples) {
            if round < subject.rounds {
                samples.push(start(&subject.argv)?);
            }
        }
    }
    Ok(samples)
}

/// Runs a command line once; its output is dropped.
pub(super) fn start(argv: &[String]) -> Result<Sample> {
    let mut command = Command::new(&argv[0]);
    command
        .args(&argv[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let start = Instant::now();
    let child = command
        .spawn()
        .with_context(|| format!("cannot start {}", argv[0]))?;
    let pid = libc::pid_t::try_from(child.id())?;
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live variables of the types that wait4 writes.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
    let wall = start.elapsed();
    if waited != pid || status != 0 {
        bail!(
            "`{}` failed (wait status {status}): try it by hand to see why",
            argv.join(" ")
        );
    }
    // SAFETY: all zeroes is a valid rusage, and wait4 has filled it in.
    let usage = unsafe { usage.assume_init() };
    let cpu = duration(usage.ru_utime) + duration(usage.ru_stime);
    Ok(Sample {
        wall,
        cpu,
        max_rss_kib: usage.ru_maxrss,
    })
}

/// A time of the kernel's, which is not negative.
fn duration(time: libc::timeval) -> Duration {
    let whole = |number: i64| u64::try_from(number).unwrap_or(0);
    Duration::from_secs(whole(time.tv_sec)) + Duration::from_micros(whole(time.tv_usec))
}

/// The median of one of the times.
pub(super) fn median(samples: &[Sample], of: impl Fn(&Sample) -> Duration) -> Duration {
    let mut times: Vec<_> = samples.iter().map(of).collect();
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Owned words of a command line.
pub(super) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// A time in milliseconds.
pub(super) fn milliseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}
