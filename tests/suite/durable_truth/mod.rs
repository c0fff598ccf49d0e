//! What `--syncs` says of random scripts, against an independent model of what a crash may leave,
//! and against what a crash really leaves on a filesystem.
//!
//! `ZC_RANDOM_SCRIPTS` sets how many scripts are run, `ZC_RANDOM_SEED` which ones.

mod crash;
// The tests of core use the same model.
#[path = "../../../zc-user/core/src/durable/tests/crash_disk.rs"]
mod crash_disk;
#[path = "../../../zc-user/core/src/durable/tests/file_model.rs"]
mod file_model;
#[path = "../../../zc-user/core/src/durable/tests/file_model_names.rs"]
mod file_model_names;
mod random;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use zctrace::durable::{SyncMoment, SyncVerdict, Syncs};

use self::{
    crash::Mounted,
    file_model::{INITIAL, INITIAL_LINK, Lost},
    random::{RandomScript, script},
};
use crate::harness::{Program, TestDir, program, zctrace};

/// The backends that record the order of changes and syncs.
const BACKENDS: [&str; 2] = ["ebpf", "strace"];

/// How many scripts run under each backend by default.
const SCRIPTS: u64 = 150;

/// Runs a command with a descriptor that leads to the first file of [`INITIAL`].
const INHERIT: [&str; 4] = ["bash", "-c", "exec \"$@\" 7<>a", "bash"];

/// The value of an environment variable, or a default.
fn setting(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name);
    text.map_or(otherwise, |text| text.parse().expect("is a number"))
}

/// The numbers of the scripts to run.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let first = setting("ZC_RANDOM_SEED", 1);
    first..first + setting("ZC_RANDOM_SCRIPTS", count)
}

/// The program that makes the calls of a script.
fn file_script(text: &str) -> Program {
    program(env!("CARGO_BIN_EXE_file-script")).arg(text)
}

/// A directory whose syncs are instant: verdicts depend on calls, not disks.
pub fn in_memory() -> TestDir {
    TestDir::inside("/dev/shm")
}

/// Makes the files with which a script begins.
fn make_initial(directory: &Path) {
    for (path, bytes) in INITIAL {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().expect("is in a directory")).expect("room");
        let content = vec![b'i'; usize::try_from(bytes).expect("is small")];
        fs::write(path, content).expect("room");
    }
    let (target, link) = INITIAL_LINK;
    symlink(target, directory.join(link)).expect("room");
}

/// Runs a script in this directory.
fn run(backend: &str, script: &RandomScript, directory: &Path) -> Syncs {
    if let Some(call) = script.failing {
        return run_failing(call, script, directory);
    }
    let zctrace = zctrace().option("--syncs").backend(backend).dir(directory);
    let zctrace = zctrace.through(&INHERIT);
    let run = zctrace.run(&file_script(&script.text));
    let (seed, text, finished) = (script.seed, &script.text, &run.finished);
    assert_eq!(finished.code, Some(0), "seed {seed}: {text}\n{finished}");
    run.report.syncs.expect("it was asked for")
}

/// Runs a script in which a sync fails each time, under an strace that has it fail, and reads the log.
fn run_failing(call: &str, script: &RandomScript, directory: &Path) -> Syncs {
    let log = TestDir::new();
    let inject = format!("--inject={call}:error=EIO");
    let strace = program("strace").args(&["-f", "-yy", "-T", "-ttt", "-s999", &inject, "-o"]);
    let strace = strace.arg(log.join("log"));
    let run = strace.args(file_script(&script.text).words());
    let run = run.through(&INHERIT);
    let finished = run.dir(directory).finish();
    let (seed, text) = (script.seed, &script.text);
    assert_eq!(finished.code, Some(0), "seed {seed}: {text}\n{finished}");
    let report = zctrace().option("--syncs").report_on_log(&log);
    let mut syncs = report.syncs.expect("it was asked for");
    // A log does not say where the command was launched.
    let start = format!("{}/", directory.display());
    let shorten = |path: &mut String| {
        if let Some(below) = path.strip_prefix(&start) {
            *path = below.to_owned();
        }
    };
    let moments = syncs.marks.iter_mut().chain(&mut syncs.told);
    let at_moments = moments.flat_map(|moment| &mut moment.files);
    at_moments.for_each(|file| shorten(&mut file.path));
    syncs
        .files
        .iter_mut()
        .for_each(|file| shorten(&mut file.path));
    syncs
}

/// Paths by verdict.
#[derive(Default)]
struct Said {
    fails: BTreeSet<String>,
    holds: BTreeSet<String>,
    unknown: BTreeSet<String>,
    /// Whether the report says why all is unknown: then no call may have shown that a file changed.
    is_open: bool,
}

impl Said {
    fn add(&mut self, path: &str, verdict: SyncVerdict) {
        let set = match verdict {
            SyncVerdict::InOrder => &mut self.holds,
            SyncVerdict::Unknown => &mut self.unknown,
            _ => &mut self.fails,
        };
        set.insert(path.to_owned());
    }

    /// Of the files that were changed, at the end.
    fn at_end(syncs: &Syncs) -> Self {
        let mut said = Self {
            is_open: !syncs.doubts.is_empty(),
            ..Self::default()
        };
        for file in syncs.files.iter().filter(|file| file.changed) {
            said.add(&file.path, file.verdict);
        }
        said
    }

    /// At a moment before.
    fn at_moment(moment: &SyncMoment, syncs: &Syncs) -> Self {
        let mut said = Self {
            is_open: !syncs.doubts.is_empty(),
            ..Self::default()
        };
        for file in &moment.files {
            said.add(&file.path, file.verdict);
        }
        said
    }

    /// Where this contradicts what a crash may lose.
    fn contradictions(&self, lost: &Lost) -> Vec<String> {
        // No call showed that a file is in a directory that was moved.
        let is_below = |path: &str| {
            let mut above = path;
            while let Some((directory, _)) = above.rsplit_once('/') {
                if self.fails.contains(directory) || self.unknown.contains(directory) {
                    return true;
                }
                above = directory;
            }
            false
        };
        let is_noticed = |path: &&String| {
            self.fails.contains(*path) || self.unknown.contains(*path) || is_below(path)
        };
        let false_fails = self.fails.difference(lost);
        let false_fails =
            false_fails.map(|path| format!("{path}: not synced, but nothing is lost"));
        let false_holds = self.holds.intersection(lost);
        let false_holds = false_holds.map(|path| format!("{path}: in order, but it may be lost"));
        let missed = lost
            .iter()
            .filter(|path| !self.is_open && !is_noticed(path) && !self.holds.contains(*path));
        let missed = missed.map(|path| format!("{path}: not listed, but it may be lost"));
        false_fails.chain(false_holds).chain(missed).collect()
    }
}

/// The false verdicts about a script.
fn contradictions(script: &RandomScript, syncs: &Syncs) -> Vec<String> {
    let mut all = Said::at_end(syncs).contradictions(&script.lost);
    let moments = |moments: &[SyncMoment], name: &str| {
        let moment = moments.iter().find(|moment| moment.name == name);
        moment.map(|moment| Said::at_moment(moment, syncs))
    };
    let told = script
        .told
        .as_ref()
        .map(|lost| ("stdout", &syncs.told, lost));
    let marks = script.marks.iter();
    let marks = marks.map(|(name, lost)| (name.as_str(), &syncs.marks, lost));
    for (name, from, lost) in marks.chain(told) {
        let found = moments(from, name).map_or_else(
            || vec!["it is not in the report".to_owned()],
            |said| said.contradictions(lost),
        );
        all.extend(found.iter().map(|text| format!("{name}: {text}")));
    }
    all
}

/// Figures of all scripts.
#[derive(Default)]
struct VerdictTally {
    holds: AtomicU64,
    fails: AtomicU64,
    unknown: AtomicU64,
    moments: AtomicU64,
    /// Scripts with a sync that fails, and with requests to a ring.
    failing: AtomicU64,
    ringed: AtomicU64,
    /// Why verdicts are unknown.
    reasons: Mutex<BTreeMap<String, u64>>,
}

impl VerdictTally {
    fn add(&self, script: &RandomScript, syncs: &Syncs) {
        let said = &Said::at_end(syncs);
        let mut reasons = self.reasons.lock().expect("no panic");
        let files = syncs.files.iter().filter(|file| file.changed);
        for file in files.filter(|file| file.verdict == SyncVerdict::Unknown) {
            *reasons
                .entry(file.why.clone().unwrap_or_default())
                .or_default() += 1;
        }
        let add = |figure: &AtomicU64, count: usize| {
            figure.fetch_add(count as u64, Ordering::Relaxed);
        };
        add(&self.holds, said.holds.len());
        add(&self.fails, said.fails.len());
        add(&self.unknown, said.unknown.len());
        let has = |word: &str| usize::from(script.text.contains(word));
        let fails =
            script.failing.is_some() && has("!fsync") + has("!fdatasync") + has("!syncdir") > 0;
        add(&self.failing, usize::from(fails));
        add(&self.ringed, has("ring-"));
        add(
            &self.moments,
            script.marks.len() + usize::from(script.told.is_some()),
        );
    }

    fn figures(&self) -> [u64; 6] {
        let Self {
            holds,
            fails,
            unknown,
            moments,
            failing,
            ringed,
            reasons: _,
        } = self;
        [holds, fails, unknown, moments, failing, ringed]
            .map(|figure| figure.load(Ordering::Relaxed))
    }
}

/// Runs something for each number, on all processors.
fn for_each(numbers: std::ops::Range<u64>, run: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(numbers.start);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                break;
            }
            run(number);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
}

/// Runs the scripts under a backend. The false verdicts.
fn run_all(backend: &str, cloning: Option<&Mounted>) -> Vec<String> {
    let (tally, wrong) = (VerdictTally::default(), Mutex::new(Vec::new()));
    for_each(seeds(SCRIPTS), |seed| {
        let cloning = cloning.filter(|_| seed % 8 == 0);
        let script = script(seed, cloning.is_some());
        let directory = cloning.map_or_else(in_memory, Mounted::directory);
        make_initial(directory.path());
        let syncs = run(backend, &script, directory.path());
        tally.add(&script, &syncs);
        let found = contradictions(&script, &syncs);
        if !found.is_empty() {
            let text = format!(
                "{backend}, seed {seed}: {}\n  {}",
                script.text,
                found.join("\n  ")
            );
            wrong.lock().expect("no panic").push(text);
        }
    });
    let [holds, fails, unknown, moments, failing, ringed] = tally.figures();
    println!(
        "{backend}: {holds} hold, {fails} fail, {unknown} unknown; {moments} moments; scripts: {failing} with failing syncs, {ringed} with rings"
    );
    for (reason, count) in tally.reasons.into_inner().expect("no panic") {
        println!("  {count} unknown: {reason}");
    }
    let all = holds + fails + unknown;
    let mut wrong = wrong.into_inner().expect("no panic");
    if all >= 100 && (holds * 5 <= all || fails * 5 <= all) {
        wrong.push(format!("{backend}: {holds} of {all} hold, {fails} fail"));
    }
    wrong
}

#[test]
fn no_verdict_on_a_random_script_disagrees_with_what_a_crash_may_leave() {
    let cloning = Mounted::new("btrfs");
    let wrong = BACKENDS.map(|backend| run_all(backend, cloning.as_ref()));
    let wrong = wrong.concat();
    assert!(
        wrong.is_empty(),
        "{} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
