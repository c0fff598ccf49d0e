//! Random programs that know where every byte came from, and what reports state of them: the truth, or a lower bound of it that is said
//! to be one.
//!
//! `ZC_RANDOM_PROGRAMS` sets how many programs are run under each backend, `ZC_RANDOM_SEED` which ones, `ZC_RANDOM_STEPS` how long they
//! are, and `ZC_RANDOM_WITHOUT` (names with commas) what they do not do. `ZC_RANDOM_KNOWN=1` fails on known faults, too, and
//! `ZC_RANDOM_ALL=1` lets programs do what is known not to be seen. A failure names the shortest program that was found for it.

mod judge;
mod shrink;

use std::{collections::BTreeMap, env, str::FromStr, time::Instant};

use zc_tests::truth::{Truth, make_sources};
use zctrace::report::Report;

use self::judge::{Failure, Judged, judge};
use crate::harness::{Program, Zctrace, program, zctrace};

/// Programs under each backend, if nothing else is asked for.
const PROGRAMS: u64 = 240;

/// Programs that are traced together, each as a process.
const TOGETHER: u64 = 40;

/// Programs that are traced one by one between those, and do nothing but copy: only their reports may be exact as a whole.
const ALONE: u64 = 5;

/// The theme of such programs.
const COPYING: usize = 7;

/// A program that hangs or is wrong about itself fails its whole batch, so that these are short enough to look at.
const STEPS: usize = 20;

/// Stores to a part of what was read: those between two sampled words are noticed by nobody.
const UNSEEN: &str = "partial-stores";

/// What is to be mended in both backends. Each class is as narrow as [`judge`] tells them apart.
const KNOWN: [&str; 8] = [
    // What the program put in place of a file's bytes counts as these, changed, if it did so wherever they were sampled.
    "inferred-too-high: memory by memory (overlaid bytes)",
    // As many bytes were left of a source as of a destination, and they were others.
    "inferred-too-high: memory by totals",
    "inferred-too-high: memory by totals (overlaid bytes)",
    "inferred-too-high: mapping by totals",
    "inferred-too-high: vmsplice by totals",
    "inferred-too-high: a way of 2 hops by totals",
    // The same of a thread that read and wrote in turn.
    "inferred-too-high: memory by order",
    "inferred-too-high: memory by order (overlaid bytes)",
];

/// The programs of one test.
#[derive(Clone)]
struct Plan {
    backend: &'static str,
    seed: u64,
    steps: usize,
    without: Vec<String>,
    /// Classes of false statements that are to be mended: they are counted, and do not fail the test.
    known: Vec<&'static str>,
}

/// What an environment variable says.
fn asked<T: FromStr>(name: &str, otherwise: T) -> T {
    env::var(name).map_or(otherwise, |value| value.parse().ok().unwrap_or_else(|| panic!("{name}={value:?}")))
}

impl Plan {
    /// `without` is what the backend cannot see. `ZC_RANDOM_ALL=1` has all of it.
    fn new(backend: &'static str, without: &[&str]) -> Self {
        let more = asked("ZC_RANDOM_WITHOUT", String::new());
        let without = if asked("ZC_RANDOM_ALL", 0) == 1 { &[] } else { without };
        let without = without.iter().copied().chain(more.split(',')).filter(|name| !name.is_empty()).map(str::to_owned);
        let (seed, steps) = (asked("ZC_RANDOM_SEED", 1), asked("ZC_RANDOM_STEPS", STEPS));
        let known = if asked("ZC_RANDOM_KNOWN", 0) == 1 { Vec::new() } else { KNOWN.to_vec() };
        Self { backend, seed, steps, without: without.collect(), known }
    }

    fn zctrace(&self) -> Zctrace {
        zctrace().option(format!("--backend={}", self.backend))
    }

    /// The words that start programs of this plan.
    fn program(&self, words: &[String]) -> Program {
        let without = self.without.iter().map(|name| format!("--without={name}"));
        words.iter().cloned().chain(without).fold(program(env!("CARGO_BIN_EXE_random-io")), Program::arg)
    }

    /// Traces a program, or several in turn.
    fn trace(&self, words: &[String], numbers: impl Iterator<Item = u64>) -> (Report, Vec<Truth>) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        make_sources(directory.path()).expect("room for files");
        let run = self.zctrace().dir(directory.path()).run_with_any_backend(&self.program(words));
        run.finished.successful();
        let truth = |number| Truth::read(directory.path(), number).expect("each program writes its truth down");
        (run.report, numbers.map(truth).collect())
    }

    /// Traces these programs and judges what is stated of them.
    fn judged(&self, first: u64, count: u64) -> Judged {
        let numbers = [self.seed, first, count].map(|number| number.to_string());
        let mut words = [vec!["batch".to_owned()], numbers.to_vec(), vec![self.steps.to_string()]].concat();
        if count == 1 {
            words.push(format!("--theme={COPYING}"));
        }
        let (report, truths) = self.trace(&words, first..first + count);
        judge(&report, &truths)
    }

    /// Runs all programs; what is false fails the test.
    fn run(&self) {
        let (programs, start) = (asked("ZC_RANDOM_PROGRAMS", PROGRAMS), Instant::now());
        let (mut all, mut first) = (Judged::default(), 0);
        while first < programs {
            let count = if first % (TOGETHER + ALONE) == 0 { TOGETHER } else { 1 }.min(programs - first);
            all.add(self.judged(first, count));
            first += count;
        }
        let Self { backend, seed, steps, without, .. } = self;
        println!("{backend}: seed {seed}, {programs} programs of {steps} steps without {without:?}, in {:?}", start.elapsed());
        println!("{all}");
        assert!(all.exact > 0 || programs < PROGRAMS, "nothing was stated exactly");
        self.explain(&all.failures);
    }

    /// Fails with the smallest program of each class of failures, if there are any.
    fn explain(&self, failures: &[Failure]) {
        let mut classes: BTreeMap<&str, Vec<&Failure>> = BTreeMap::new();
        for failure in failures {
            classes.entry(&failure.class).or_default().push(failure);
        }
        for (class, failures) in &classes {
            println!("{} of {class}", failures.len());
        }
        classes.retain(|class, _| !self.known.contains(class));
        let mut text = String::new();
        for (class, failures) in &classes {
            let (count, seed) = (failures.len(), failures[0].of.0);
            text.extend([format!("\n{class}: {count} false statements, the smallest program of {seed}:\n")]);
            text += &shrink::smallest(self, failures);
        }
        assert!(classes.is_empty(), "false statements that are not known, of seed {}:{text}", self.seed);
    }
}

#[test]
fn what_is_stated_under_ebpf_is_true() {
    Plan::new("ebpf", &[UNSEEN]).run();
}

#[test]
fn what_is_stated_under_strace_is_true() {
    // It sees no operations of rings, takes `vmsplice` out of a pipe for one into it, and shows no addresses: that the kernel filled a
    // part of a buffer, with random bytes say, does not show.
    Plan::new("strace", &[UNSEEN, "partial-fills", "rings", "vmsplice_out"]).run();
}
