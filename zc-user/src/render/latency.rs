//! The distribution of the times of calls: a row of bars for each call.

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
/// At least this many columns are between the starts of two times of the scale.
const SCALE_STEP: usize = 8;

/// The bars, the lowest first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The distribution of each call that moves data, if it is asked for. All have the same scale.
pub(super) fn part(report: &Report, options: &Options) -> Option<DocumentPart> {
    if !options.histogram {
        return None;
    }
    let calls = report.totals.syscalls.iter();
    let calls: Vec<&Syscall> = calls
        .filter(|call| call.max_ns.is_some() && moves_data(call))
        .collect();
    let mut part = DocumentPart {
        heading: words("LATENCY of the calls that move data", Style::Heading),
        ..DocumentPart::default()
    };
    let mut remark = |text: &str, style| part.remarks.push(words(text, style));
    if calls.iter().all(|call| call.histogram.is_empty()) {
        remark("no call that moves data was timed", Style::Plain);
        return Some(part);
    }
    let scale = Scale::of_calls(&calls);
    let row = |call: &&Syscall| {
        let name = text::shorten(&calls::name(call), MAX_NAME).into_owned();
        let times = [call.p50_ns, call.p90_ns, call.p99_ns];
        let times = times.map(|ns| known(ns, units::duration));
        [name, scale.bars(call)].into_iter().chain(times).collect()
    };
    let labels = format!("{:<width$}", scale.labels(), width = scale.columns);
    let columns = [
        ("", STAYS),
        (&labels, STAYS),
        ("p50", 1),
        ("p90", 1),
        ("p99", 1),
    ];
    remark(
        "each column ends at twice the time it begins with; the lowest bar is 1 call or more",
        Style::Faint,
    );
    if !report.exact {
        remark("lower bound: calls may be missing here", Style::Warning);
    }
    part.table = Some(ShownTable::new(columns, calls.iter().map(row)));
    Some(part)
}

/// The power of two that a time lies in.
const fn octave(ns: u64) -> u32 {
    match ns.checked_ilog2() {
        Some(power) => power,
        None => 0,
    }
}

/// Which times the columns stand for.
#[derive(Debug)]
struct Scale {
    /// The power of two that the first column begins with.
    first: u32,
    columns: usize,
}

impl Scale {
    /// A column for each power of two.
    fn of_calls(calls: &[&Syscall]) -> Self {
        let octaves = || {
            calls
                .iter()
                .flat_map(|call| &call.histogram)
                .map(|bucket| octave(bucket.from_ns))
        };
        let (first, last) = (octaves().min().unwrap_or(0), octaves().max().unwrap_or(0));
        let columns = (last - first + 1) as usize;
        Self { first, columns }
    }

    /// The times that some of the columns begin with, each above its column.
    fn labels(&self) -> String {
        let mut labels = String::new();
        let mut width = 0;
        for column in (0..self.columns).step_by(SCALE_STEP) {
            // There is no column that begins with a longer time than a u64 holds.
            let power = self.first + u32::try_from(column).unwrap_or(u32::MAX);
            let label = units::duration(1_u64.checked_shl(power).unwrap_or(u64::MAX));
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
    fn bars(&self, call: &Syscall) -> String {
        let mut calls = vec![0_u64; self.columns];
        for bucket in &call.histogram {
            let column = (octave(bucket.from_ns) - self.first) as usize;
            calls[column] = calls[column].saturating_add(bucket.calls);
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
