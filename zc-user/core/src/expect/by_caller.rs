//! Figures of calls by the function that made them, and the library functions that made transfers.
//! Both rest on samples of stacks: what was not sampled, or is hidden in a stack, makes a figure a
//! range.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    expect::{
        ast::FigureExpr,
        facts::{ChosenProcesses, MeasuredFigure, largest_lines, why_inexact, why_not_listed},
        function::{FunctionPattern, FunctionShown, function_shown},
        known::KnownFigure,
        names::CallSet,
    },
    report::{
        Callers, EITHER_COPY, Report, Site, Stack, Syscall, Transfer, how_to_settle, is_telling,
        library_in,
    },
    text::plural,
    trace::{Loss, SampleSum},
};

/// What `via` is of a transfer whose calls the program made itself, or the C library for it.
const ITSELF: &str = "none";

/// The stacks of a report. The error says why it has none.
pub(super) fn stacks_of(report: &Report) -> Result<&[Stack], String> {
    if let Some(stacks) = &report.stacks {
        return Ok(stacks);
    }
    let mut notes = report.notes.iter();
    match notes.find(|note| note.starts_with("callers are unknown")) {
        Some(note) => Err(note.clone()),
        None => Err("callers were not sampled: --callers samples them".to_owned()),
    }
}

/// The stacks of some samples, and how many samples each has.
fn sampled_stacks<'a>(
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
pub(super) fn measure_callers(
    figure: &FigureExpr,
    pattern: &FunctionPattern,
    names: &CallSet,
    report: &Report,
) -> MeasuredFigure {
    let chosen = ChosenProcesses::of_figure(figure, report);
    let open = chosen
        .open
        .or(why_inexact(report))
        .or(why_not_listed(report))
        .or(names.may_be_uncounted(report));
    let processes = chosen.processes.iter();
    let rows = processes.flat_map(|process| &process.syscalls);
    let (mut sum, stacks) = (CallerSum::default(), stacks_of(report));
    for row in names.rows_among(rows) {
        sum.calls += row.calls;
        if let Ok(stacks) = &stacks {
            sum.add_samples(row, pattern, stacks, report);
        }
    }
    // Without stacks, all calls may be meant. If there are none, none is.
    let most = sum.calls.saturating_sub(sum.others).max(sum.matched);
    let is_unclear = open.is_some() || most > sum.matched;
    let reason = open.clone().or(stacks.err()).or(sum.why_unclear(report));
    MeasuredFigure {
        known: KnownFigure::Between(sum.matched.into(), open.is_none().then_some(most.into())),
        reason: reason.filter(|_| is_unclear),
        facts: shares_of_samples(sum.sites, sum.samples),
    }
}

impl CallerSum {
    fn add_samples(
        &mut self,
        row: &Syscall,
        pattern: &FunctionPattern,
        stacks: &[Stack],
        report: &Report,
    ) {
        let Some(callers) = &row.callers else { return };
        self.samples += callers.samples.min(row.calls);
        for (stack, samples) in sampled_stacks(stacks, callers) {
            match function_shown(pattern, stack) {
                FunctionShown::Yes => {
                    self.matched += samples;
                    let site = format!(
                        "{}, {}",
                        row.name,
                        stack.caller_line(report.directory.as_deref())
                    );
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
        let all = plural(self.calls, "call", "calls");
        let missing = (unsampled > 0).then_some(format!(
            "{unsampled} of {all} were not sampled for their callers; {remedy}"
        ));
        let reasons = missing.into_iter().chain(self.unclear.clone());
        reasons.reduce(|one, other| format!("{one}; {other}"))
    }
}

/// `caller: main: 3 of 4 samples`, for each place.
fn shares_of_samples(sites: BTreeMap<String, u64>, all: u64) -> Vec<String> {
    let all = plural(all, "sample", "samples");
    let mut lines = Vec::new();
    for (site, count) in sites {
        lines.push((count, format!("{site}: {count} of {all}")));
    }
    largest_lines(lines)
}

/// The library functions that made these transfers, by their samples, and why that is not all.
pub(super) fn libraries_of(
    transfers: &[&Transfer],
    is_open: bool,
    report: &Report,
) -> (KnownFigure, Option<String>) {
    let mut libraries = BTreeSet::new();
    let (stacks, mut unclear): (&[Stack], _) = match stacks_of(report) {
        Ok(stacks) => (stacks, None),
        Err(why) => (&[], Some(why)),
    };
    for transfer in transfers {
        let Some(callers) = &transfer.callers else {
            let why = if transfer.pids.len() > 1 {
                "callers are known only for the steps within a process; choose one with process="
            } else {
                "none of its calls was sampled for its callers"
            };
            unclear.get_or_insert_with(|| why.to_owned());
            continue;
        };
        for (stack, _) in sampled_stacks(stacks, callers) {
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
            "stacks show helpers of {EITHER_COPY}, but not which of the two called them; line tables would show it"
        )),
        Some(library) => Ok(library.to_owned()),
        None if !is_telling(stack) => Err(how_to_settle(std::iter::once(stack))),
        None => {
            let site = Site::of_stack(stack, SampleSum::of_every_call(1));
            let via = site.and_then(|site| site.via);
            Ok(via.unwrap_or(ITSELF.to_owned()))
        }
    }
}

/// Who made transfers, as lines.
pub(super) fn facts_of_via(transfers: &[&Transfer], report: &Report) -> Vec<String> {
    let transfers = transfers.iter();
    let callers = transfers.filter_map(|transfer| transfer.callers.as_ref());
    let (Ok(stacks), Some(callers)) = (stacks_of(report), Callers::sum_callers(callers)) else {
        return Vec::new();
    };
    let mut sites: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, samples) in sampled_stacks(stacks, &callers) {
        *sites
            .entry(stack.caller_line(report.directory.as_deref()))
            .or_default() += samples;
    }
    shares_of_samples(sites, callers.samples)
}
