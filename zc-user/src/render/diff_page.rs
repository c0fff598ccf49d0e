//! `zctrace diff` for a person: the figures that changed, by which interfaces bytes move now, and
//! what fails now.

mod comment;

use std::cmp::Reverse;

use super::{
    page::{INDENT, Options, Page, Style},
    table::{STAYS, ShownTable},
    text::{self, known, plural},
};
use crate::{
    check::{Difference, DifferenceState, is_time},
    diff::{CallTimes, DescriptorFlags, Diff, DiffOutcome, Side, WayDifference, WaySums},
    units::{self, UNKNOWN},
};

/// How many figures are named that vary with the arrival of bytes.
const MAX_VARYING: usize = 5;

/// How many files are named whose descriptors have other flags.
const MAX_FLAGS: usize = 3;

/// GitHub's Markdown, for a comment on a pull request.
pub(super) fn markdown(diff: &Diff) -> String {
    comment::render(diff)
}

/// The page. Its last line is the answer, as that of `check`.
pub(super) fn render(diff: &Diff, options: &Options) -> String {
    let mut page = Page::new(options);
    for (title, side) in ["before", "now"].into_iter().zip(&diff.sides) {
        let command = text::command_line(&side.command);
        page.say(0, Style::Heading, &format!("{title}: {command}"));
        page.say(INDENT, Style::Faint, &about(side));
    }
    if !diff.figures.is_empty() {
        page.gap();
    }
    write_changes(&mut page, diff, ["before", "now"]);
    if !diff.call_times.is_empty() || !diff.descriptor_flags.is_empty() {
        page.gap();
        write_times(&mut page, diff);
        write_flags(&mut page, diff);
    }
    page.gap();
    let (answer, style) = answer(diff);
    page.say(0, style, &answer);
    page.finish()
}

/// `wall 14.4 ms, CPU 5.48 ms (not compared), backend ebpf, exact`.
fn about(side: &Side) -> String {
    let [wall, cpu] = [side.wall_ns, side.cpu_ns].map(|ns| known(ns, units::duration));
    let exact = side.bound();
    let backend = text::escape(&side.backend);
    format!("wall {wall}, CPU {cpu} (not compared), backend {backend}, {exact}")
}

/// The figures and the interfaces that changed, under these titles.
pub(super) fn write_changes(page: &mut Page, diff: &Diff, titles: [&str; 2]) {
    let changed: Vec<&Difference> = diff.figures.iter().filter(|one| is_judged(one)).collect();
    if !changed.is_empty() {
        let table = table_of_figures(changed, titles, false);
        page.table(INDENT, &table.lines(None));
    }
    if let Some(line) = varying_line(diff) {
        page.say(INDENT, Style::Faint, &line);
    }
    if !diff.transfers.is_empty() {
        page.gap();
        for way in &diff.transfers {
            write_way(page, way);
        }
    }
}

/// Whether a figure that differs may be a change.
fn is_judged(figure: &Difference) -> bool {
    figure.state != DifferenceState::Tolerated
}

/// The numbers of calls and errors that differ because bytes arrived otherwise, those with the
/// largest numbers first: `depends on when bytes arrive: poll.calls 38 -> 40, 2 more`.
fn varying_line(diff: &Diff) -> Option<String> {
    let mut varying: Vec<&Difference> = diff.figures.iter().collect();
    varying.retain(|figure| !is_judged(figure));
    varying.sort_by_key(|figure| Reverse(figure.baseline.max(figure.now)));
    let (shown, hidden) = varying.split_at(MAX_VARYING.min(varying.len()));
    let in_words = |figure: &&Difference| {
        let [before, now] =
            [figure.baseline, figure.now].map(|count| known(count, |n| n.to_string()));
        format!("{} {before} -> {now}", text::escape(&figure.metric))
    };
    let mut words: Vec<String> = shown.iter().map(in_words).collect();
    words.extend((!hidden.is_empty()).then(|| format!("{} more", hidden.len())));
    (!words.is_empty()).then(|| format!("depends on when bytes arrive: {}", words.join(", ")))
}

/// The calls that explain a difference in time.
pub(super) fn write_times(page: &mut Page, diff: &Diff) {
    for (index, call) in diff.call_times.iter().enumerate() {
        let title = if index == 0 { "time:" } else { "     " };
        page.say(
            INDENT,
            Style::Plain,
            &format!("{title} {}", time_of_call(call)),
        );
    }
}

/// The files whose descriptors have other flags.
pub(super) fn write_flags(page: &mut Page, diff: &Diff) {
    for line in flag_lines(diff) {
        page.say(INDENT, Style::Plain, &line);
    }
}

/// `open flags of out: none against O_DIRECT`. Of several files, the first.
fn flag_lines(diff: &Diff) -> Vec<String> {
    let (shown, hidden) = diff
        .descriptor_flags
        .split_at(MAX_FLAGS.min(diff.descriptor_flags.len()));
    let in_words = |DescriptorFlags { path, open_flags }: &DescriptorFlags| {
        let [before, after] = open_flags.each_ref().map(|flags| match flags.as_slice() {
            [] => "none".to_owned(),
            flags => text::escape(&flags.join(", ")),
        });
        format!(
            "open flags of {}: {before} against {after}",
            text::escape(path)
        )
    };
    let mut lines: Vec<String> = shown.iter().map(in_words).collect();
    if !hidden.is_empty() {
        let files = plural(hidden.len() as u64, "file", "files");
        lines.push(format!("{files} more with other open flags"));
    }
    lines
}

/// `write 21.8 ms against 140 µs (100 calls in both)`.
fn time_of_call(call: &CallTimes) -> String {
    let [before, after] = call.total_ns.map(units::duration);
    let calls = match call.calls {
        [before, after] if before == after => {
            format!("{} in both", plural(before, "call", "calls"))
        }
        [before, after] => format!("{} against {after}", plural(before, "call", "calls")),
    };
    let name = text::escape(&call.syscall);
    format!("{name} {before} against {after} ({calls})")
}

/// The table of these figures, with their tolerance if it is asked for.
pub(super) fn table_of_figures<'a>(
    figures: impl IntoIterator<Item = &'a Difference>,
    [before, now]: [&str; 2],
    with_tolerance: bool,
) -> ShownTable {
    let mut columns = vec!["figure", before, now, "change"];
    columns.extend(with_tolerance.then_some("tolerance"));
    let row = |figure: &Difference| {
        let mut cells = cells(figure).to_vec();
        cells.extend(with_tolerance.then(|| figure.tolerance.clone()));
        cells
    };
    let columns = columns.into_iter().map(|title| (title, STAYS));
    ShownTable::new(columns, figures.into_iter().map(row))
}

/// The name of a figure, what it was and is, and the change. An exit status or a signal that is
/// absent is known to be absent.
fn cells(figure: &Difference) -> [String; 4] {
    let metric = &figure.metric;
    let show = |figure: u64| match metric.rsplit('.').next() {
        Some("bytes") => units::bytes(figure),
        _ if is_time(metric) => units::duration(figure),
        _ => figure.to_string(),
    };
    let is_known = figure.state == DifferenceState::Beyond;
    let without = if is_known { "none" } else { UNKNOWN };
    let shown = |figure: Option<u64>| figure.map_or_else(|| without.to_owned(), show);
    let change = match (figure.baseline, figure.now) {
        _ if !is_known => "unknown".to_owned(),
        (Some(before), Some(now)) if now >= before => format!("+{}", show(now - before)),
        (Some(before), Some(now)) => format!("-{}", show(before - now)),
        _ => String::new(),
    };
    let name = text::escape(metric);
    [name, shown(figure.baseline), shown(figure.now), change]
}

/// `- sendfile, regular -> tcp: 1 transfer, 1.0 MiB`, and what is there now. A `?` says that it is
/// not known whether they differ.
fn write_way(page: &mut Page, way: &WayDifference) {
    let what = way_in_words(way);
    for (sign, style, sums) in [
        ("-", Style::Bad, way.sums[0]),
        ("+", Style::Good, way.sums[1]),
    ] {
        let Some(sums) = sums else { continue };
        let (mark, style) = if way.state == DifferenceState::Beyond {
            ("", style)
        } else {
            ("?", Style::Warning)
        };
        let line = format!("{sign}{mark} {what}: {}", amount(sums));
        page.say(INDENT, style, &line);
    }
}

/// `sendfile, regular -> tcp`.
fn way_in_words(way: &WayDifference) -> String {
    let [from, to] = [&way.from, &way.to].map(|kind| {
        let kind = kind.as_deref();
        kind.map_or_else(|| "unknown file".to_owned(), text::escape)
    });
    format!("{}, {from} -> {to}", way.api.in_words())
}

fn amount(sums: WaySums) -> String {
    let bytes = sums.bytes.map_or_else(
        || "number of bytes unknown".to_owned(),
        |bytes| {
            let observed = sums.observed_bytes.unwrap_or(0);
            sums.certainty.bytes_text(bytes, observed)
        },
    );
    format!(
        "{}, {bytes}",
        plural(sums.transfers, "transfer", "transfers")
    )
}

/// The answer in one sentence.
pub(super) fn answer(diff: &Diff) -> (String, Style) {
    let states = diff.figures.iter().map(|figure| figure.state);
    let states: Vec<DifferenceState> = states
        .chain(diff.transfers.iter().map(|way| way.state))
        .collect();
    let count = |state: DifferenceState| states.iter().filter(|other| **other == state).count();
    let changed = plural(count(DifferenceState::Beyond) as u64, "change", "changes");
    let unknown = match count(DifferenceState::Unknown) {
        0 => String::new(),
        unknown => format!(
            "{unknown} cannot be compared, because they are lower bounds, inferred or unknown"
        ),
    };
    match diff.outcome {
        DiffOutcome::Same => (
            format!(
                "{}: {}",
                if diff.descriptor_flags.is_empty() {
                    "nothing changed"
                } else {
                    "only open flags changed"
                },
                same_figures(diff)
            ),
            Style::Good,
        ),
        DiffOutcome::Changed if unknown.is_empty() => (changed, Style::Bad),
        DiffOutcome::Changed => (format!("{changed}; {unknown}"), Style::Bad),
        DiffOutcome::Inconclusive => (format!("no change is known: {unknown}"), Style::Warning),
    }
}

/// `40 figures are the same, 5 depend on when bytes arrive`.
fn same_figures(diff: &Diff) -> String {
    let varying = diff.figures.iter().filter(|one| !is_judged(one)).count();
    let same = plural((diff.compared - varying) as u64, "figure", "figures");
    match varying {
        0 => format!("{same} are the same"),
        1 => format!("{same} are the same, 1 depends on when bytes arrive"),
        _ => format!("{same} are the same, {varying} depend on when bytes arrive"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        render::report_tests::{assert_beginnings, at_width},
        report::{
            Report,
            sample::files::{Scene, scene},
        },
        syscalls::Selection,
    };

    /// The report as if its destination had been opened otherwise.
    fn with_flags(mut report: Report) -> Report {
        let destination = report.processes[0].destinations[0].file.as_mut();
        let flags = vec!["O_DIRECT".to_owned()];
        report.transfers[0].to.open_flags.clone_from(&flags);
        destination.expect("is known").open_flags = flags;
        report
    }

    fn report(call: &str, bytes: u64) -> Report {
        let mut scene = scene(&format!("cp: {call} in->out 1 {bytes} +1"));
        scene.trace.counted = Some(Selection::default());
        scene.report()
    }

    #[test]
    fn a_change_is_named_and_the_last_line_is_the_answer() {
        let one = || report("sendfile", 1 << 20);
        let mut bound = one();
        bound.exact = false;
        let pages = [
            ("changed", one(), report("copy_file_range", 3 << 20)),
            ("the same", one(), one()),
            // A lower bound is not called a change.
            ("a lower bound", bound, one()),
            ("other flags", one(), with_flags(one())),
        ];
        let pages = pages
            .map(|(title, before, now)| (title, render(&Diff::new(&before, &now), &at_width(80))));
        assert_beginnings("diffs", &pages);
    }

    #[test]
    fn a_comment_has_one_row_for_a_call_and_one_word_if_nothing_changed() {
        let of = |text: &str| Scene::read(text).report();
        let before = "cp: copy_file_range in->out 2 1048576 +1, read - 3 1000\n@ counted %data\n\
                      @ sums fsync 1 0 0\n@ given openat ENOENT /a";
        let now = "cp: read in 9 1048576 +1, write in>out 8 1048576 +1\n@ counted %data\n@ exit 1\n\
                   @ sums fsync 300 0 0\n@ given openat ENOENT /a\n@ given openat EACCES /b_*";
        let mut bound = of(before);
        bound.exact = false;
        let comments = [
            ("changed", of(before), of(now)),
            ("the same", of(now), of(now)),
            ("a lower bound", bound, of(now)),
            ("other flags", of(now), with_flags(of(now))),
        ];
        let comments = comments.map(|(title, before, now)| {
            format!("{title}:\n{}", markdown(&Diff::new(&before, &now)))
        });
        insta::assert_snapshot!("comments", comments.join("\n"));
    }
}
