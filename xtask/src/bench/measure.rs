//! Runs command lines in turn, and takes their times.

use std::{
    io::Read as _,
    mem::MaybeUninit,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

/// Something that is measured.
pub(super) struct BenchSubject {
    /// What it is called in the table.
    pub(super) name: &'static str,
    /// How often it is run.
    rounds: u32,
    /// Runs it once.
    run: Box<dyn Fn() -> Result<BenchSample>>,
}

impl BenchSubject {
    /// What `run` runs and measures.
    pub(super) fn new(
        name: &'static str,
        rounds: u32,
        run: impl Fn() -> Result<BenchSample> + 'static,
    ) -> Self {
        let run = Box::new(run);
        Self { name, rounds, run }
    }

    /// `command` under a tool, which is started by `prefix`.
    pub(super) fn command(
        name: &'static str,
        rounds: u32,
        prefix: Vec<String>,
        command: &[String],
    ) -> Self {
        let argv = [prefix, command.to_owned()].concat();
        Self::new(name, rounds, move || Ok(start(&argv)?.0))
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
    /// The least of the wall times, in seconds.
    pub(super) fn min_wall(&self) -> f64 {
        self.sorted(|sample| sample.wall)[0]
    }

    /// The median of the wall times, in seconds.
    pub(super) fn median_wall(&self) -> f64 {
        self.sorted(|sample| sample.wall)[self.samples.len() / 2]
    }

    /// The least of the CPU times, in seconds.
    pub(super) fn min_cpu(&self) -> f64 {
        self.sorted(|sample| sample.cpu)[0]
    }

    /// The largest resident set.
    pub(super) fn resident_kib(&self) -> i64 {
        let sets = self.samples.iter().map(|sample| sample.max_rss_kib);
        sets.max().unwrap_or_default()
    }

    fn sorted(&self, time: fn(&BenchSample) -> Duration) -> Vec<f64> {
        let times = self.samples.iter().map(time);
        let mut times: Vec<_> = times.map(|time| time.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        times
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
                row.samples.push((subject.run)()?);
            }
        }
    }
    Ok(rows)
}

/// Runs a command line once, and returns what it wrote to stderr as well.
pub(super) fn start(argv: &[String]) -> Result<(BenchSample, String)> {
    let mut command = Command::new(&argv[0]);
    // In other languages, numbers have commas.
    command.args(&argv[1..]).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", argv[0]))?;
    let mut printed = Vec::new();
    if let Some(stderr) = &mut child.stderr {
        stderr.read_to_end(&mut printed)?;
    }
    let pid = libc::pid_t::try_from(child.id())?;
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live variables of the types that wait4 writes.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
    let wall = start.elapsed();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    if waited != pid || status != 0 {
        let line = argv.join(" ");
        bail!("`{line}` failed (wait status {status}): {printed}");
    }
    // SAFETY: all zeroes is a valid rusage, and wait4 has filled it in.
    let usage = unsafe { usage.assume_init() };
    let sample = BenchSample {
        wall,
        cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
        max_rss_kib: usage.ru_maxrss,
    };
    Ok((sample, printed))
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
