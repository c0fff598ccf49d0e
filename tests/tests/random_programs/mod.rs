//! Random programs that know every address they use. Reports must state the truth about them, as
//! `docs/definitions.md` defines transfers.
//!
//! `ZC_RANDOM_PROGRAMS` sets how many programs are run under each backend, `ZC_RANDOM_SEED` which
//! ones, `ZC_RANDOM_STEPS` how long they are, and `ZC_RANDOM_WITHOUT` (names with commas) which
//! calls they leave out. `ZC_RANDOM_ALL=1` also uses the calls that a backend cannot see. A failure
//! shows the shortest program that was found for it.

mod judge;

use std::{
    collections::{BTreeMap, HashMap},
    env,
    str::FromStr,
    time::Instant,
};

use zc_tests::truth::{Truth, make_sources};
use zctrace::report::Report;

use self::judge::{FalseStatement, Judged, judge};
use crate::harness::{Program, TestDir, Zctrace, program, zctrace};

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
    without: Vec<String>,
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
    /// `without` names the steps that the backend cannot see.
    fn new(backend: &'static str, without: &[&str]) -> Self {
        let more = setting("ZC_RANDOM_WITHOUT", String::new());
        let without = if setting("ZC_RANDOM_ALL", 0) == 1 {
            &[]
        } else {
            without
        };
        let without = without
            .iter()
            .copied()
            .chain(more.split(','))
            .filter(|name| !name.is_empty())
            .map(str::to_owned);
        let (seed, steps) = (
            setting("ZC_RANDOM_SEED", 1),
            setting("ZC_RANDOM_STEPS", STEPS),
        );
        Self {
            backend,
            seed,
            steps,
            without: without.collect(),
        }
    }

    fn zctrace(&self) -> Zctrace {
        zctrace().backend(self.backend).option("--all")
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
        let run = self
            .zctrace()
            .dir(directory.path())
            .run_with_any_backend(&self.program(words));
        run.finished.successful();
        let truth = |number| {
            Truth::read(directory.path(), number).expect("each program writes its truth down")
        };
        (run.report, numbers.map(truth).collect())
    }

    /// Traces these programs and judges the report.
    fn judged(&self, first: u64, count: u64) -> Judged {
        let numbers = [self.seed, first, count, self.steps as u64].map(|number| number.to_string());
        let words = [["batch".to_owned()].as_slice(), &numbers].concat();
        let (report, truths) = self.trace(&words, first..first + count);
        judge(&report, &truths)
    }

    /// Runs all programs. A false statement fails the test.
    fn run(&self) {
        let (programs, start) = (setting("ZC_RANDOM_PROGRAMS", PROGRAMS), Instant::now());
        let (mut all, mut first) = (Judged::default(), 0);
        while first < programs {
            let count = TOGETHER.min(programs - first);
            all.add(self.judged(first, count));
            first += count;
        }
        let Self {
            backend,
            seed,
            steps,
            without,
            ..
        } = self;
        println!(
            "{backend}: seed {seed}, {programs} programs of {steps} steps without {without:?}, in {:?}",
            start.elapsed()
        );
        println!("{all}");
        assert!(
            all.has("sendfile") || programs < PROGRAMS,
            "nothing was stated"
        );
        self.explain(&all.failures);
    }

    /// Fails with the smallest program of each class of failures, if there are any.
    fn explain(&self, failures: &[FalseStatement]) {
        let mut classes: BTreeMap<&str, Vec<&FalseStatement>> = BTreeMap::new();
        for failure in failures {
            classes.entry(&failure.class).or_default().push(failure);
        }
        let mut text = String::new();
        for (class, failures) in &classes {
            let (count, seed) = (failures.len(), failures[0].of.0);
            text.extend([format!(
                "\n{class}: {count} false statements, the smallest program with seed {seed}:\n"
            )]);
            text += &smallest(self, failures);
        }
        assert!(
            classes.is_empty(),
            "false statements, with seed {}:{text}",
            self.seed
        );
    }
}

#[test]
fn statements_under_ebpf_are_true() {
    // It forgets the whole memory of its process.
    let limits = ["process_vm_readv"];
    ProgramPlan::new("ebpf", &limits).run();
}

#[test]
fn statements_under_strace_are_true() {
    // strace sees no operations of rings, and takes a `vmsplice` out of a pipe for one into it.
    ProgramPlan::new("strace", &["rings", "vmsplice_out"]).run();
}

/// How many programs are tried for each class of failure. Some fail only sometimes, or only
/// together with others.
const CANDIDATES: usize = 4;

/// How many calls of a program are shown.
const MOST_WORDS: usize = 40;

/// How many turns of a loop are shown.
const TURNS: usize = 3;

/// The lines, with `...` in place of more turns of a loop: calls of one step on the same memory.
fn folded(words: &[String]) -> Vec<String> {
    let call = |line: &String| line.split(" at ").next().unwrap_or_default().to_owned();
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut lines: Vec<String> = Vec::new();
    for line in words {
        let times = seen.entry(call(line)).or_default();
        *times += 1;
        if *times <= TURNS {
            lines.push(line.clone());
        } else if lines.last().is_some_and(|last| last != "...") {
            lines.push("...".to_owned());
        }
    }
    lines.truncate(MOST_WORDS);
    lines
}

/// How many steps a program has, and which of them are left out.
type Shape = (usize, Vec<usize>);

/// The smallest program found, in words.
fn smallest(plan: &ProgramPlan, failures: &[&FalseStatement]) -> String {
    for failure in failures.iter().take(CANDIDATES) {
        let fails = |shape: &Shape| alone(plan, failure, shape).is_some();
        if !fails(&(plan.steps, Vec::new())) {
            continue;
        }
        let mut steps = (1..plan.steps)
            .find(|&steps| fails(&(steps, Vec::new())))
            .unwrap_or(plan.steps);
        let mut skipped = Vec::new();
        for step in (0..steps).rev() {
            skipped.push(step);
            if !fails(&(steps, skipped.clone())) {
                skipped.pop();
            }
        }
        while skipped.contains(&(steps - 1)) {
            steps -= 1;
            skipped.retain(|step| *step != steps);
        }
        let shape = (steps, skipped);
        if let Some((texts, truth)) = alone(plan, failure, &shape) {
            let (words, calls) = (words(failure.of, &shape).join(" "), truth.words.len());
            let shown = folded(&truth.words).join("\n    ");
            return format!(
                "  zctrace --backend={} random-io {words}\n    {shown}\n  of {calls} calls and stores\n  {}\n",
                plan.backend,
                texts.join("\n  ")
            );
        }
    }
    format!(
        "  no program fails when it runs alone: seed {}: {}\n",
        failures[0].of.0, failures[0].text
    )
}

fn words((seed, theme): (u64, usize), (steps, skipped): &Shape) -> Vec<String> {
    let words = [
        "one".to_owned(),
        seed.to_string(),
        "0".to_owned(),
        steps.to_string(),
        format!("--theme={theme}"),
        "--words".to_owned(),
    ];
    let skips = skipped.iter().map(|step| format!("--skip={step}"));
    words.into_iter().chain(skips).collect()
}

/// The false statements of this class about a program that runs alone, and its truth. `None` if
/// there are none.
fn alone(
    plan: &ProgramPlan,
    failure: &FalseStatement,
    shape: &Shape,
) -> Option<(Vec<String>, Truth)> {
    let (report, mut truths) = plan.trace(&words(failure.of, shape), std::iter::once(0));
    let failures = judge(&report, &truths)
        .failures
        .into_iter()
        .filter(|other| other.class == failure.class);
    let texts: Vec<String> = failures.map(|failure| failure.text).collect();
    (!texts.is_empty()).then(|| (texts, truths.remove(0)))
}
