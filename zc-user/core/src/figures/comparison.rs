//! The one comparison of two reports: which figures differ, and whether by more than they may. It
//! covers every call that both counted, with a row or without.

use serde::Serialize;

use super::{
    list::is_exit,
    reading::ReportFigures,
    tolerance::{Allowed, Tolerances},
};
use crate::report::Report;

/// A figure that is not the same in both reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its name.
    pub metric: String,
    /// Its value in the first report, the baseline. `None`: unknown; or, for an exit status or
    /// signal that is [beyond](DifferenceState::Beyond), absent.
    pub baseline: Option<u64>,
    /// Its value now; `None` likewise.
    pub now: Option<u64>,
    /// How far it may be off.
    pub tolerance: String,
    /// Whether that is tolerated.
    pub state: DifferenceState,
}

/// Whether a difference is tolerated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceState {
    /// Within its tolerance.
    Tolerated,
    /// Beyond it.
    Beyond,
    /// One of the two values is unknown or a lower bound.
    Unknown,
}

/// The figures that differ, except those that are ignored.
pub fn differences(baseline: &Report, now: &Report, tolerances: &Tolerances) -> Vec<Difference> {
    compared([baseline, now], tolerances).1
}

/// The number of figures that are compared, and those that differ.
pub(super) fn compared(reports: [&Report; 2], tolerances: &Tolerances) -> (usize, Vec<Difference>) {
    let figures = reports.map(ReportFigures::from_report);
    let are_exact = reports.iter().all(|report| report.exact);
    let know_end = |report: &&Report| report.exit.code.or(report.exit.signal).is_some();
    let know_ends = reports.iter().all(know_end);
    let (mut count, mut found) = (0, Vec::new());
    for name in ReportFigures::names(&figures) {
        let allowed = tolerances.allowed_for(name);
        count += usize::from(allowed != Allowed::Anything);
        let [before, after] = figures.each_ref().map(|figures| figures.value(name));
        let is_exit = is_exit(name);
        let is_sure = are_exact || is_exit;
        let lacks_row = || {
            figures
                .iter()
                .any(|one| one.sums_without_row(name).is_some())
        };
        let state = match (before, after) {
            _ if allowed == Allowed::Anything => continue,
            (before, after) if before == after && (is_sure || before.is_none()) => continue,
            // One of the reports has only the sums of this call, or nothing of calls without rows.
            (None, _) | (_, None) if lacks_row() => continue,
            (Some(before), Some(after)) if is_sure && allowed.covers(before, after) => {
                DifferenceState::Tolerated
            }
            (Some(_), Some(_)) if are_exact => DifferenceState::Beyond,
            // Both reports say how the command ended: a figure that is missing is absent, not
            // unknown.
            _ if is_exit && know_ends => DifferenceState::Beyond,
            _ => DifferenceState::Unknown,
        };
        found.push(Difference {
            metric: name.to_owned(),
            baseline: before,
            now: after,
            tolerance: allowed.describe(),
            state,
        });
    }
    (count, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        compare::sample::report, figures::reading::repeatability,
        figures::tolerance::tests::tolerances, report::sample::row, syscalls::known_names,
    };

    /// A report with these words: `read:3:10`, a call with its number and its bytes; `bound`, it is
    /// a lower bound; `wall:1`; `exit:3`, `signal:11`, and `unended`, nobody knows how it ended.
    fn made_up(words: &str) -> Report {
        let (mut rows, mut ended) = (Vec::new(), Vec::new());
        for word in words.split(' ') {
            let (name, numbers) = word.split_once(':').unwrap_or((word, ""));
            let known = known_names().find(|known| *known == name);
            match (known, numbers.split_once(':')) {
                (Some(name), Some((calls, bytes))) => {
                    let [calls, bytes] = [calls, bytes].map(|one| one.parse().expect("a number"));
                    rows.push(row(name).called(calls).bytes(bytes));
                }
                _ => ended.push((name, numbers.parse::<i32>().ok())),
            }
        }
        let mut report = report(rows);
        for (name, number) in ended {
            match name {
                "bound" => report.exact = false,
                "wall" => report.wall_ns = number.map(|ns| ns.unsigned_abs().into()),
                "exit" => report.exit.code = number,
                "signal" => (report.exit.code, report.exit.signal) = (None, number),
                _ => report.exit.code = None,
            }
        }
        report
    }

    #[test]
    fn counts_are_compared_exactly_and_the_last_tolerance_that_fits_counts() {
        for (before, after, texts, expected) in [
            ("read:1:1 wall:9", "read:1:1 wall:5", "", ""),
            (
                "read:100:9 write:1:1 wall:9",
                "read:105:9 splice:1:1 wall:1",
                "",
                "read.calls 100 105 Beyond, splice.bytes 0 1 Beyond, splice.calls 0 1 Beyond, \
                 write.bytes 1 0 Beyond, write.calls 1 0 Beyond",
            ),
            (
                "read:100:9 write:1:1 wall:9",
                "read:105:9 splice:1:1 wall:1",
                "*.calls=10% splice.calls=ignore *.bytes=1B time.wall=1%",
                "read.calls 100 105 Tolerated, splice.bytes 0 1 Tolerated, time.wall 9 1 Beyond, \
                 write.bytes 1 0 Tolerated, write.calls 1 0 Beyond",
            ),
            // The calls `time` and `exit` are counted like others.
            (
                "time:5:3 exit:1:0",
                "time:7:3",
                "",
                "exit.calls 1 0 Beyond, time.calls 5 7 Beyond",
            ),
            (
                "time:5:3 exit:1:0",
                "time:7:3",
                "time.calls=2",
                "exit.calls 1 0 Beyond, time.calls 5 7 Tolerated",
            ),
            // Another exit status or signal is a difference, also beside lower bounds.
            (
                "read:1:1",
                "read:1:1 signal:11",
                "",
                "exit.code 0 - Beyond, exit.signal - 11 Beyond",
            ),
            ("read:1:1", "read:1:1 unended", "", "exit.code 0 - Unknown"),
            // A lower bound tells nothing, also where it is the same.
            (
                "exit:1:0 bound",
                "exit:1:0 bound exit:3",
                "*.errors=ignore *.count=ignore *.threads=ignore",
                "exit.bytes 0 0 Unknown, exit.calls 1 1 Unknown, exit.code 0 3 Beyond",
            ),
        ] {
            let texts: Vec<&str> = texts.split_terminator(' ').collect();
            let all = differences(&made_up(before), &made_up(after), &tolerances(&texts));
            let number = |number: Option<u64>| number.map_or("-".to_owned(), |n| n.to_string());
            let line = |one: &Difference| {
                let [before, now] = [one.baseline, one.now].map(number);
                format!("{} {before} {now} {:?}", one.metric, one.state)
            };
            let found: Vec<String> = all.iter().map(line).collect();
            assert_eq!(found.join(", "), expected, "{before} | {after} | {texts:?}");
        }
    }

    #[test]
    fn a_figure_that_varies_has_its_range_unless_it_is_a_lower_bound() {
        let of = |texts: [&str; 2]| {
            let reports = texts.map(made_up);
            repeatability(&reports.each_ref())
        };
        let found = of(["read:3:10 write:1:5", "read:3:20"]);
        assert_eq!(found.same["read.calls"], 3);
        let varying = found.varying.iter();
        let varying = varying.map(|figure| (figure.name.as_str(), figure.min, figure.max));
        assert_eq!(
            varying.collect::<Vec<_>>(),
            [
                ("read.bytes", 10, 20),
                ("write.bytes", 0, 5),
                ("write.calls", 0, 1)
            ]
        );
        let found = of(["read:3:10", "read:3:10 bound"]);
        assert!(!found.exact && found.varying.is_empty());
        assert_eq!(found.same.keys().collect::<Vec<_>>(), ["exit.code"]);
    }
}
