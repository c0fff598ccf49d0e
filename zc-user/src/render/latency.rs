//! The distributions of the times and sizes of calls: a row of bars for each call.

use super::{
    call_rows::moves_data,
    calls,
    page::{Options, Style, words},
    part::DocumentPart,
    table::{STAYS, ShownTable},
    text::{self, known},
};
use crate::{
    report::{Report, Syscall},
    units,
};

/// A longer name is shortened.
const MAX_NAME: usize = 16;
/// At least this many columns are between the starts of two values of the scale.
const SCALE_STEP: usize = 8;

/// The bars, the lowest first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What is shown of one call.
struct Distribution {
    name: String,
    /// The lowest value of each interval, and the calls in it.
    intervals: Vec<(u64, u64)>,
    /// Percentiles, and for sizes the greatest.
    figures: Vec<String>,
}

/// The distributions of the times of each call that moves data, if they are asked for. All have the
/// same scale.
pub(super) fn part(report: &Report, options: &Options) -> Option<DocumentPart> {
    if !options.histogram {
        return None;
    }
    let calls = report.totals.syscalls.iter();
    let calls = calls.filter(|call| call.max_ns.is_some() && moves_data(call));
    let times = |call: &Syscall| Distribution {
        name: calls::name(call),
        intervals: (call.histogram.iter())
            .map(|bucket| (bucket.from_ns, bucket.calls))
            .collect(),
        figures: [call.p50_ns, call.p90_ns, call.p99_ns]
            .map(|ns| known(ns, units::duration))
            .into(),
    };
    let times: Vec<Distribution> = calls.map(times).collect();
    let mut part = DocumentPart {
        heading: words("LATENCY of the calls that move data", Style::Heading),
        ..DocumentPart::default()
    };
    if times.iter().all(|call| call.intervals.is_empty()) {
        let remark = words("no call that moves data was timed", Style::Plain);
        part.remarks.push(remark);
        return Some(part);
    }
    fill(&mut part, &times, &units::duration, report);
    Some(part)
}

/// The distributions of the sizes of calls, if the report has them.
pub(super) fn sizes_part(report: &Report, options: &Options) -> Option<DocumentPart> {
    let calls = report.totals.syscalls.iter();
    let sizes = calls.filter_map(|call| {
        let sizes = call.sizes.as_ref()?;
        let intervals = sizes.histogram.iter();
        let figures = [
            sizes.p50_bytes,
            sizes.p90_bytes,
            sizes.p99_bytes,
            sizes.max_bytes,
        ];
        Some(Distribution {
            name: calls::name(call),
            intervals: intervals
                .map(|bucket| (bucket.from_bytes, bucket.calls))
                .collect(),
            figures: figures.map(units::bytes).into(),
        })
    });
    let sizes: Vec<Distribution> = sizes.collect();
    if !options.histogram || sizes.is_empty() {
        return None;
    }
    let mut part = DocumentPart {
        heading: words("SIZES of the calls that did not fail", Style::Heading),
        ..DocumentPart::default()
    };
    fill(&mut part, &sizes, &units::bytes, report);
    Some(part)
}

/// Adds the table of these calls, whose values are shown by `label`.
fn fill(
    part: &mut DocumentPart,
    calls: &[Distribution],
    label: &dyn Fn(u64) -> String,
    report: &Report,
) {
    let mut remark = |text: &str, style| part.remarks.push(words(text, style));
    let scale = Scale::of_calls(calls);
    let row = |call: &Distribution| {
        let name = text::shorten(&call.name, MAX_NAME).into_owned();
        let bars = [name, scale.bars(call)];
        bars.into_iter().chain(call.figures.clone()).collect()
    };
    let labels = scale.labels(label);
    let labels = format!("{labels:<width$}", width = scale.columns);
    let figures = ["p50", "p90", "p99", "max"].map(|name| (name, 1));
    let shown = calls.first().map_or(0, |call| call.figures.len());
    let columns = [("", STAYS), (labels.as_str(), STAYS)];
    let columns = columns.into_iter().chain(figures.into_iter().take(shown));
    remark(
        "each column ends at twice the value it begins with; the lowest bar is 1 call or more",
        Style::Faint,
    );
    if !report.exact {
        remark("lower bound: calls may be missing here", Style::Warning);
    }
    part.table = Some(ShownTable::new(columns, calls.iter().map(row)));
}

/// The power of two that a value lies in.
const fn octave(value: u64) -> u32 {
    match value.checked_ilog2() {
        Some(power) => power,
        None => 0,
    }
}

/// Which values the columns stand for.
#[derive(Debug)]
struct Scale {
    /// The power of two that the first column begins with.
    first: u32,
    columns: usize,
}

impl Scale {
    /// A column for each power of two.
    fn of_calls(calls: &[Distribution]) -> Self {
        let octaves = || {
            calls
                .iter()
                .flat_map(|call| &call.intervals)
                .map(|(from, _)| octave(*from))
        };
        let (first, last) = (octaves().min().unwrap_or(0), octaves().max().unwrap_or(0));
        let columns = (last - first + 1) as usize;
        Self { first, columns }
    }

    /// The values that some of the columns begin with, each above its column.
    fn labels(&self, label: &dyn Fn(u64) -> String) -> String {
        let mut labels = String::new();
        let mut width = 0;
        for column in (0..self.columns).step_by(SCALE_STEP) {
            // There is no column that begins with a greater value than a u64 holds.
            let power = self.first + u32::try_from(column).unwrap_or(u32::MAX);
            let label = label(1_u64.checked_shl(power).unwrap_or(u64::MAX));
            if column > 0 && column + text::width(&label) > self.columns {
                break;
            }
            labels.push_str(&" ".repeat(column - width));
            labels.push_str(&label);
            width = column + text::width(&label);
        }
        labels
    }

    /// The bars of a call. The highest is its most frequent column.
    fn bars(&self, call: &Distribution) -> String {
        let mut calls = vec![0_u64; self.columns];
        for (from, count) in &call.intervals {
            let column = (octave(*from) - self.first) as usize;
            calls[column] = calls[column].saturating_add(*count);
        }
        let most = calls.iter().copied().max().unwrap_or(0);
        calls
            .into_iter()
            .map(|calls| level(calls, most, BARS.len()).map_or(' ', |level| BARS[level]))
            .collect()
    }
}

/// The height of a bar, rounded up, so that a single call is seen beside a million. `None`: there
/// is nothing to see.
fn level(calls: u64, most: u64, levels: usize) -> Option<usize> {
    let levels = levels as u128;
    let height = (u128::from(calls) * levels).div_ceil(u128::from(most.max(1)));
    usize::try_from(height.min(levels)).ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_call_is_seen_beside_a_million() {
        assert_eq!(
            [0, 1, 500_000, 1_000_000].map(|calls| level(calls, 1_000_000, 8)),
            [None, Some(0), Some(3), Some(7)]
        );
        assert_eq!(
            [level(0, 0, 8), level(u64::MAX, u64::MAX, 8)],
            [None, Some(7)]
        );
    }
}
