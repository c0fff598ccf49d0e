//! Random programs that know every address they use. Reports must state the truth about them, as
//! `docs/definitions.md` defines transfers.
//!
//! `ZC_RANDOM_PROGRAMS` sets how many programs are run under each backend, `ZC_RANDOM_SEED` which
//! ones, and `ZC_RANDOM_STEPS` how long they are. A failure shows the shortest program that was
//! found for it.

mod judge;
mod process;
mod statements;

use std::{collections::BTreeMap, env, str::FromStr, time::Instant};

use zc_tests::truth::{Truth, make_sources};
use zctrace::report::Report;

use self::{
    judge::judge,
    statements::{FalseStatement, Judged},
};
use crate::harness::{Program, TestDir, program, zctrace};

/// How many programs run under each backend by default.
const PROGRAMS: u64 = 240;

/// How many programs are traced together, each as a process.
const TOGETHER: u64 = 120;

/// How many steps a program has by default. A program that hangs or is wrong about itself fails its
/// whole batch, so programs are short.
const STEPS: usize = 20;

/// The programs of one test.
#[derive(Clone)]
struct ProgramPlan {
    backend: &'static str,
    seed: u64,
    steps: usize,
    /// The steps that the backend cannot see.
    without: &'static [&'static str],
    /// Kinds of statements that must be among those that are judged.
    kinds: &'static [&'static str],
    /// How many programs are run.
    programs: u64,
    /// Whether signals interrupt the calls of the programs.
    is_interrupted: bool,
}

/// The value of an environment variable, or a default.
fn setting<T: FromStr>(name: &str, otherwise: T) -> T {
    env::var(name).map_or(otherwise, |value| {
        value
            .parse()
            .ok()
            .unwrap_or_else(|| panic!("{name}={value:?}"))
    })
}

impl ProgramPlan {
    fn new(
        backend: &'static str,
        without: &'static [&'static str],
        kinds: &'static [&'static str],
    ) -> Self {
        Self {
            backend,
            seed: setting("ZC_RANDOM_SEED", 1),
            steps: setting("ZC_RANDOM_STEPS", STEPS),
            without,
            kinds,
            programs: setting("ZC_RANDOM_PROGRAMS", PROGRAMS),
            is_interrupted: false,
        }
    }

    /// The first programs of this plan, whose calls signals interrupt.
    fn interrupted(self) -> Self {
        Self {
            kinds: &[],
            programs: self.programs / 2,
            is_interrupted: true,
            ..self
        }
    }

    /// The words that start programs of this plan.
    fn program(&self, words: &[String]) -> Program {
        let without = self.without.iter().map(|name| format!("--without={name}"));
        words
            .iter()
            .cloned()
            .chain(without)
            .fold(program(env!("CARGO_BIN_EXE_random-io")), Program::arg)
    }

    /// Traces a program, or several in turn.
    fn trace(&self, words: &[String], numbers: impl Iterator<Item = u64>) -> (Report, Vec<Truth>) {
        let directory = TestDir::new();
        make_sources(directory.path()).expect("room for files");
        let zctrace = zctrace().backend(self.backend).option("--all");
        let run = zctrace.dir(directory.path()).run(&self.program(words));
        run.finished.successful();
        let truth = |number| {
            Truth::read(directory.path(), number).expect("each program writes its truth down")
        };
        (run.report, numbers.map(truth).collect())
    }

    /// Traces these programs and judges the report.
    fn judged(&self, first: u64, count: u64) -> Judged {
        let numbers = [self.seed, first, count, self.steps as u64].map(|number| number.to_string());
        let interrupt = self.is_interrupted.then(|| "--interrupt".to_owned());
        let words = [
            ["batch".to_owned()].as_slice(),
            &numbers,
            interrupt.as_slice(),
        ]
        .concat();
        let (report, truths) = self.trace(&words, first..first + count);
        judge(&report, &truths)
    }

    /// Runs all programs. A false statement fails the test.
    fn run(&self) {
        let (programs, start) = (self.programs, Instant::now());
        let (mut all, mut first) = (Judged::default(), 0);
        while first < programs {
            let count = TOGETHER.min(programs - first);
            all.add(self.judged(first, count));
            first += count;
        }
        let (backend, seed, steps) = (self.backend, self.seed, self.steps);
        let took = start.elapsed();
        println!("{backend}: seed {seed}, {programs} programs of {steps} steps, in {took:?}");
        println!("{all}");
        let mut unstated = self.kinds.iter().filter(|kind| !all.has(kind));
        let unstated = unstated.next().filter(|_| programs >= PROGRAMS);
        assert_eq!(unstated, None, "no statement of this kind");
        self.explain(&all.failures);
    }

    /// Fails with the smallest program of each class of failures, if there are any.
    fn explain(&self, failures: &[FalseStatement]) {
        let mut classes: BTreeMap<&str, Vec<&FalseStatement>> = BTreeMap::new();
        for failure in failures {
            classes.entry(&failure.class).or_default().push(failure);
        }
        let explained = classes.iter().map(|(class, failures)| {
            let FalseStatement { seed, text, .. } = failures[0];
            // Some fail only sometimes, or only together with others.
            let mut failing = failures.iter().take(4);
            let smallest = failing.find_map(|failure| self.smallest(failure));
            let smallest = smallest.unwrap_or_else(|| "no program fails when it runs alone".into());
            let count = failures.len();
            format!("{class}: {count} false statements, one with seed {seed}: {text}\n  {smallest}")
        });
        let text = explained.collect::<Vec<_>>().join("\n");
        assert!(
            classes.is_empty(),
            "false statements, with seed {}:\n{text}",
            self.seed
        );
    }

    /// The words that start the program of this failure alone, without these steps.
    fn words_alone(&self, seed: u64, skipped: &[usize]) -> Vec<String> {
        let words = ["one", &seed.to_string(), "0", &self.steps.to_string()].map(str::to_owned);
        let skips = skipped.iter().map(|step| format!("--skip={step}"));
        words.into_iter().chain(skips).collect()
    }

    /// The same false statement about that program, and how often it made each kind of call.
    /// `None` if all is true.
    fn fails_alone(&self, failure: &FalseStatement, skipped: &[usize]) -> Option<[String; 2]> {
        let words = self.words_alone(failure.seed, skipped);
        let (report, truths) = self.trace(&words, std::iter::once(0));
        let mut failures = judge(&report, &truths).failures.into_iter();
        let same = failures.find(|other| other.class == failure.class)?;
        Some([same.text, format!("{:?}", truths[0].kinds)])
    }

    /// How to run the program of this failure without the steps that it fails without.
    fn smallest(&self, failure: &FalseStatement) -> Option<String> {
        let mut skipped = Vec::new();
        let mut smallest = self.fails_alone(failure, &skipped)?;
        for step in (0..self.steps).rev() {
            skipped.push(step);
            match self.fails_alone(failure, &skipped) {
                Some(smaller) => smallest = smaller,
                None => drop(skipped.pop()),
            }
        }
        let words = self.words_alone(failure.seed, &skipped).join(" ");
        let ([text, done], backend) = (smallest, self.backend);
        Some(format!(
            "zctrace --backend={backend} random-io {words}\n    {done}\n  {text}"
        ))
    }
}

#[test]
fn statements_under_ebpf_are_true() {
    ebpf_plan().run();
}

#[test]
fn statements_under_ebpf_are_true_when_signals_interrupt() {
    ebpf_plan().interrupted().run();
}

fn ebpf_plan() -> ProgramPlan {
    // It forgets the whole memory of its process.
    let limits = &["process_vm_readv"];
    let kinds = &["buffer", "mapping", "sendfile", "splice"];
    ProgramPlan::new("ebpf", limits, kinds)
}

#[test]
fn statements_under_strace_are_true() {
    // strace sees no operations of rings, and takes a `vmsplice` out of a pipe for one into it.
    let kinds = &["sequence", "totals", "sendfile", "splice"];
    ProgramPlan::new("strace", &["rings", "vmsplice_out"], kinds).run();
}
