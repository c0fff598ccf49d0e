//! Figures of calls by the function that made them, and the library functions that made transfers.
//! Both rest on samples of stacks: what was not sampled, or is hidden in a stack, makes a figure a
//! range.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    expect::{
        ast::Figure,
        facts::{ChosenProcesses, MeasuredFigure, largest, plural, why_inexact, why_not_listed},
        function::{Crates, FunctionPattern, FunctionShown, shown},
        known::KnownFigure,
        names::CallNames,
    },
    report::{self, Callers, EITHER_COPY, Report, Site, Syscall, Transfer, library_in},
    trace::{Loss, Stack},
    transfer::{is_telling, remedy},
};

/// What `via` is of a transfer whose calls the program made itself, or the C library for it.
const ITSELF: &str = "none";

/// The stacks of a report. The error says why it has none.
pub(super) fn stacks_of(report: &Report) -> Result<Vec<Stack>, String> {
    if let Some(stacks) = &report.stacks {
        return Ok(stacks.iter().map(report::Stack::to_trace).collect());
    }
    let mut notes = report.notes.iter();
    let note = notes.find(|note| note.starts_with("callers are unknown"));
    let default = || "callers were not sampled: --callers samples them".to_owned();
    Err(note.cloned().unwrap_or_else(default))
}

/// The stacks of some samples, and how many samples each has.
fn sampled<'a>(
    stacks: &'a [Stack],
    callers: &'a Callers,
) -> impl Iterator<Item = (&'a Stack, u64)> {
    let samples = callers.stacks.iter();
    samples.filter_map(|of| Some((stacks.get(of.stack)?, of.samples)))
}

/// What the samples of calls say about a pattern.
#[derive(Default)]
struct CallerSum {
    calls: u64,
    /// Calls that surely came from a function that the pattern matches.
    matched: u64,
    /// Calls that surely did not.
    others: u64,
    /// Calls whose callers were sampled.
    samples: u64,
    /// Why some of the samples do not tell.
    unclear: Option<String>,
    /// The samples that match, by the place that they came from.
    sites: BTreeMap<String, u64>,
}

/// Reads the number of calls that a function matching this pattern made, or had made for it.
pub(super) fn measure(
    figure: &Figure,
    pattern: &FunctionPattern,
    names: &CallNames,
    report: &Report,
) -> Result<MeasuredFigure, MeasuredFigure> {
    let chosen = ChosenProcesses::of_figure(figure, report)?;
    let open = chosen
        .open
        .or_else(|| why_inexact(report))
        .or_else(|| why_not_listed(report))
        .or_else(|| names.may_be_uncounted(report));
    let rows = chosen
        .processes
        .iter()
        .flat_map(|process| &process.syscalls);
    let rows = rows.filter(|row| names.contains(&row.name));
    let (mut sum, stacks) = (CallerSum::default(), stacks_of(report));
    let crates = Crates::from_stacks(stacks.iter().flatten());
    for row in rows {
        sum.calls += row.calls;
        if let Ok(stacks) = &stacks {
            sum.add_samples(row, pattern, stacks, &crates, report);
        }
    }
    // Without stacks, all calls may be meant. If there are none, none is.
    let most = sum.calls.saturating_sub(sum.others).max(sum.matched);
    let is_unclear = open.is_some() || most > sum.matched;
    let reason = open
        .clone()
        .or_else(|| stacks.err())
        .or_else(|| sum.why_unclear(report));
    Ok(MeasuredFigure {
        known: KnownFigure::Between(sum.matched.into(), open.is_none().then(|| most.into())),
        reason: reason.filter(|_| is_unclear),
        facts: shares_of_samples(sum.sites, sum.samples),
    })
}

impl CallerSum {
    fn add_samples(
        &mut self,
        row: &Syscall,
        pattern: &FunctionPattern,
        stacks: &[Stack],
        crates: &Crates,
        report: &Report,
    ) {
        let Some(callers) = &row.callers else { return };
        self.samples += callers.samples.min(row.calls);
        for (stack, samples) in sampled(stacks, callers) {
            match shown(pattern, stack, crates, || remedy(std::iter::once(stack))) {
                FunctionShown::Yes => {
                    self.matched += samples;
                    let site = format!("{}, {}", row.name, caller(stack, report));
                    *self.sites.entry(site).or_default() += samples;
                }
                FunctionShown::No => self.others += samples,
                FunctionShown::Unclear(why) => drop(self.unclear.get_or_insert(why)),
            }
        }
    }

    /// Why the number is a range.
    fn why_unclear(&self, report: &Report) -> Option<String> {
        let unsampled = self.calls.saturating_sub(self.samples);
        let remedy = if report.losses.contains_key(Loss::UnsampledCallers.name()) {
            "more calls came than could be sampled; count fewer with --syscalls"
        } else {
            "--callers=all samples each"
        };
        let all = plural(self.calls, "call");
        let missing = (unsampled > 0)
            .then(|| format!("{unsampled} of {all} were not sampled for their callers; {remedy}"));
        let reasons = missing.into_iter().chain(self.unclear.clone());
        reasons.reduce(|one, other| format!("{one}; {other}"))
    }
}

/// `caller: main: 3 of 4 samples`, for each place.
fn shares_of_samples(sites: BTreeMap<String, u64>, all: u64) -> Vec<String> {
    let all = plural(all, "sample");
    let line = |(site, count): (String, u64)| (count, format!("{site}: {count} of {all}"));
    largest(sites.into_iter().map(line).collect())
}

/// `caller: copier::run (src/run.rs:41) via std::io::copy`.
fn caller(stack: &Stack, report: &Report) -> String {
    let Some(site) = Site::of_stack(stack, 1) else {
        return "caller unknown".to_owned();
    };
    let via = site
        .via
        .map(|via| format!(" via {via}"))
        .unwrap_or_default();
    let place = site.at.place(report.directory.as_deref());
    format!("caller: {place}{via}")
}

/// The library functions that made these transfers, by their samples, and why that is not all.
pub(super) fn via(
    transfers: &[&Transfer],
    is_open: bool,
    report: &Report,
) -> (KnownFigure, Option<String>) {
    let (mut libraries, mut unclear) = (BTreeSet::new(), None);
    let stacks = stacks_of(report).unwrap_or_else(|why| {
        unclear = Some(why);
        Vec::new()
    });
    for transfer in transfers {
        let Some(callers) = &transfer.callers else {
            let why = if transfer.pids.len() > 1 {
                "callers are known of the steps within each process; process= chooses them"
            } else {
                "none of its calls was sampled for its callers"
            };
            unclear.get_or_insert_with(|| why.to_owned());
            continue;
        };
        for (stack, _) in sampled(&stacks, callers) {
            match library_of(stack) {
                Ok(library) => drop(libraries.insert(library)),
                Err(why) => drop(unclear.get_or_insert(why)),
            }
        }
    }
    let known = KnownFigure::Words {
        words: libraries.into_iter().collect(),
        are_all: !is_open && unclear.is_none(),
    };
    (known, unclear)
}

/// The library function that made the call of this stack. The error says what would tell.
fn library_of(stack: &Stack) -> Result<String, String> {
    match library_in(&stack.frames) {
        Some(EITHER_COPY) => Err(format!(
            "stacks show what {EITHER_COPY} works with, but not which of them: line tables would tell"
        )),
        Some(library) => Ok(library.to_owned()),
        None if !is_telling(stack) => Err(remedy(std::iter::once(stack))),
        None => Ok(Site::of_stack(stack, 1)
            .and_then(|site| site.via)
            .unwrap_or_else(|| ITSELF.to_owned())),
    }
}

/// Who made transfers, as lines.
pub(super) fn facts_of_via(transfers: &[&Transfer], report: &Report) -> Vec<String> {
    let callers = transfers
        .iter()
        .filter_map(|transfer| transfer.callers.as_ref());
    let (Ok(stacks), Some(callers)) = (stacks_of(report), Callers::sum(callers)) else {
        return Vec::new();
    };
    let mut sites: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, samples) in sampled(&stacks, &callers) {
        *sites.entry(caller(stack, report)).or_default() += samples;
    }
    shares_of_samples(sites, callers.samples)
}

#[cfg(test)]
mod tests {
    use crate::{
        expect::{Expectation, tests::assert_verdicts},
        options::SampledCalls,
        report::{
            Options, Report,
            sample::files::{Scene, read, written_held},
        },
        trace::{FileKind::*, Frame, Stack, StackEnd, StackId, Trace},
    };

    fn frame(function: &str, file: &str) -> Frame {
        Frame {
            function: Some(function.into()),
            file: Some(file.into()),
            module: Some("/bin/app".into()),
            ..Frame::default()
        }
    }

    /// The stack of a call that `app::load` made, of one that `std::io::copy` made for `app::save`,
    /// and of one whose end is unknown.
    fn stacks() -> Vec<Stack> {
        let read = || {
            frame(
                "<std::fs::File as std::io::Read>::read",
                "/rustc/1/library/std/src/fs.rs",
            )
        };
        let copy = || {
            frame(
                "std::io::copy::stack_buffer_copy<A, B>",
                "/rustc/1/library/std/src/io/copy.rs",
            )
        };
        let main = || frame("app::main", "src/main.rs");
        let stack = |frames, end| Stack { frames, end };
        vec![
            stack(
                vec![read(), frame("app::load", "src/load.rs"), main()],
                StackEnd::Root,
            ),
            stack(
                vec![read(), copy(), frame("app::save", "src/save.rs"), main()],
                StackEnd::Root,
            ),
            stack(vec![read()], StackEnd::TooDeep),
        ]
    }

    /// A program that reads 8 times and writes 8 times. `samples` of the reads and of the writes
    /// have these stacks.
    fn trace(samples: &[(u32, u64)]) -> Trace {
        let mut scene = Scene::new();
        let (from, to) = (scene.file(Regular, "in"), scene.file(UnixStream, "out"));
        let mut rows = vec![
            read("read", from, 8, 1 << 16).at(1),
            written_held("write", from, to, 8, 1 << 16, 1 << 16).at(2),
        ];
        for row in &mut rows {
            row.callers.extend(
                samples
                    .iter()
                    .map(|&(stack, count)| (StackId(stack), count)),
            );
        }
        scene.process("app", rows);
        scene.trace.stacks = Some(stacks());
        scene.trace
    }

    #[track_caller]
    fn assert_of(trace: &Trace, table: &str) {
        assert_verdicts(&Report::from_trace(trace, &Options::default()), table);
    }

    #[test]
    fn calls_are_known_by_caller_if_each_was_sampled_and_the_stacks_show_every_function() {
        assert_of(
            &trace(&[(0, 6), (1, 2)]),
            r#"
                holds         read[caller="app::**"].calls == 8
                holds         read[caller="app::load"].calls == 6
                holds         read[caller="std::io::copy"].calls == 2
                holds         read[caller="std::io::Read::read"].calls == 8
                holds         read[caller="other::**"].calls == 0
                fails         read[caller="app::load"].calls == 0
                holds         syscalls[caller="save", process="app"].calls == 4
                fails         %data[caller="load"].calls in 1..5
                holds         splice[caller="load"].calls == 0
                holds         not read[caller="app::load"].calls == 0
            "#,
        );
    }

    #[test]
    fn what_was_not_sampled_or_is_hidden_in_a_stack_makes_a_range() {
        assert_of(
            &trace(&[(0, 3), (1, 1)]),
            r#"
                inconclusive  read[caller="other::**"].calls == 0  (4 of 8 calls were not sampled for their callers; --callers=all
                holds         read[caller="other::**"].calls <= 4
                fails         read[caller="app::load"].calls == 0  (read, caller: app::load (src/load.rs): 3 of 4 samples
                holds         read[caller="app::load"].calls >= 3
                inconclusive  read[caller="app::load"].calls >= 4
                fails         read[caller="app::load"].calls >= 8
                holds         splice[caller="load"].calls == 0
                fails         read[caller="save"].calls == 0       (app::save (src/save.rs) via std::io::copy: 1 of 4 samples
            "#,
        );
        assert_of(
            &trace(&[(0, 6), (2, 2)]),
            r#"
                inconclusive  read[caller="other::**"].calls == 0  (deeper than the part that was copied
                holds         read[caller="other::**"].calls <= 2
                holds         read[caller="app::load"].calls >= 6
            "#,
        );
        let mut without_lines = trace(&[(0, 8)]);
        let stacks = without_lines.stacks.iter_mut().flatten();
        for frame in stacks.flat_map(|stack| &mut stack.frames) {
            frame.file = None;
        }
        assert_of(
            &without_lines,
            r#"inconclusive  read[caller="other::**"].calls == 0  (debug = "line-tables-only""#,
        );
        let mut none = trace(&[]);
        none.stacks = None;
        none.notes = vec!["callers are unknown: the backend does not sample them".to_owned()];
        assert_of(
            &none,
            r#"
                inconclusive  read[caller="app::**"].calls == 0                   (callers are unknown: the backend
                inconclusive  transfer("in" -> unix).via == "std::io::copy"  (callers are unknown: the backend
                holds         splice[caller="app::**"].calls == 0
            "#,
        );
    }

    #[test]
    fn via_is_known_if_all_samples_agree() {
        let assert_via = |samples: &[(u32, u64)], table: &str| {
            let table = table.replace(" .via", r#" transfer("in" -> unix).via"#);
            assert_of(&trace(samples), &table);
        };
        assert_via(
            &[(1, 4)],
            r#"
                holds         .via == "std::io::copy"
                fails         .via != "std::io::copy"
                fails         .via == "std::fs::copy"
                fails         transfer(pipe -> *).via == "std::io::copy"
            "#,
        );
        assert_via(
            &[(0, 2)],
            r#"
                holds         .via == none
                holds         .via != "std::io::copy"
            "#,
        );
        assert_via(
            &[(1, 2), (2, 2)],
            r#"
                inconclusive  .via == "std::io::copy"
                fails         .via != "std::io::copy"
            "#,
        );
        assert_via(&[(2, 2)], r#"inconclusive  .via != "std::io::copy""#);
        assert_via(&[], r#"inconclusive  .via != "std::io::copy""#);
        assert_via(
            &[(0, 1), (1, 3)],
            r#"
                fails         .via == "std::io::copy"  (caller: app::save (src/save.rs) via std::io::copy: 6 of 8 samples
                fails         .via == "std::io::copy"  (is none, std::io::copy
            "#,
        );
    }

    #[test]
    fn a_check_samples_what_its_expectations_need() {
        for (text, needed) in [
            ("read.calls == 0", None),
            (
                r#"transfer(* -> *).via == "std::io::copy" and read.calls == 0"#,
                Some(SampledCalls::Some),
            ),
            (
                r#"not read[caller="x"].calls == 0 or transfer(* -> *).via != "x""#,
                Some(SampledCalls::All),
            ),
        ] {
            let expectation: Expectation = text.parse().expect(text);
            assert_eq!(expectation.needs_callers(), needed, "{text}");
        }
    }

    #[test]
    fn a_pattern_that_matches_no_function_is_said_with_the_nearest() {
        assert_of(
            &trace(&[(0, 8)]),
            r#"
                holds  read[caller="app::lod"].calls == 0  ("app::lod" matches no function of a sampled stack; the nearest is "app::load"
                holds  read[caller="x::**"].calls == 0     ("x::**" matches no function of a sampled stack
            "#,
        );
    }
}
