//! Runs command lines in turn, and takes their times.

use std::{
    mem::MaybeUninit,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

/// A command line that is measured.
pub(super) struct BenchSubject {
    /// What it is called in the table.
    pub(super) name: &'static str,
    /// How often it is run.
    rounds: u32,
    /// The tool and the command under it.
    argv: Vec<String>,
}

impl BenchSubject {
    /// `command` under a tool that takes it after `prefix`.
    pub(super) fn new(
        name: &'static str,
        rounds: u32,
        mut prefix: Vec<String>,
        command: &[String],
    ) -> Self {
        prefix.extend_from_slice(command);
        let argv = prefix;
        Self { name, rounds, argv }
    }
}

/// One run.
#[derive(Clone, Copy)]
pub(super) struct BenchSample {
    /// Wall time, from before its start until after its end.
    pub(super) wall: Duration,
    /// CPU time of it and of all processes that it waited for. Where other work disturbs the wall
    /// times, this still compares.
    pub(super) cpu: Duration,
    /// The largest resident set of it or of a process that it waited for, in KiB.
    pub(super) max_rss_kib: i64,
}

/// All runs of a subject.
pub(super) struct BenchSamples {
    /// The subject's name.
    pub(super) name: &'static str,
    /// One for each round.
    pub(super) samples: Vec<BenchSample>,
}

impl BenchSamples {
    /// The median of the wall times.
    pub(super) fn wall(&self) -> Duration {
        self.median(|sample| sample.wall)
    }

    /// The median of the CPU times.
    pub(super) fn cpu(&self) -> Duration {
        self.median(|sample| sample.cpu)
    }

    /// The least of the wall times.
    pub(super) fn least_wall(&self) -> Duration {
        let times = self.samples.iter().map(|sample| sample.wall);
        times.min().unwrap_or_default()
    }

    /// The largest resident set.
    pub(super) fn resident_kib(&self) -> i64 {
        let sets = self.samples.iter().map(|sample| sample.max_rss_kib);
        sets.max().unwrap_or_default()
    }

    fn median(&self, time: fn(&BenchSample) -> Duration) -> Duration {
        let mut times: Vec<_> = self.samples.iter().map(time).collect();
        times.sort();
        times.get(times.len() / 2).copied().unwrap_or_default()
    }
}

/// Runs every subject in every round, so that a slow moment of the machine affects all of them.
pub(super) fn interleaved(subjects: &[BenchSubject]) -> Result<Vec<BenchSamples>> {
    let new = |subject: &BenchSubject| BenchSamples {
        name: subject.name,
        samples: Vec::new(),
    };
    let mut rows: Vec<BenchSamples> = subjects.iter().map(new).collect();
    let rounds = subjects.iter().map(|subject| subject.rounds).max();
    for round in 0..rounds.unwrap_or(0) {
        for (subject, row) in subjects.iter().zip(&mut rows) {
            if round < subject.rounds {
                row.samples.push(start(&subject.argv)?);
            }
        }
    }
    Ok(rows)
}

/// A command line without input, and with its output dropped.
pub(super) fn quiet(argv: &[String]) -> Command {
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs a command line once; its output is dropped.
pub(super) fn start(argv: &[String]) -> Result<BenchSample> {
    let mut command = quiet(argv);
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
    Ok(BenchSample {
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

/// The words of a command line.
pub(super) fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace().map(str::to_owned).collect()
}
