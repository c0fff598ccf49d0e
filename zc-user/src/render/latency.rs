//! The distribution of the times of calls: for `--histogram` a line of bars for each call, and what
//! the page needs for its pictures.

use super::{
    columns,
    page::{Bars, Options, Page, Style},
    section::INDENT,
    text::{self, known},
};
use crate::{
    report::{Report, Syscall},
    syscalls::{CallClass, Spec},
    units,
};

/// A longer name is shortened.
const LONGEST_NAME: usize = 16;
/// The titles of the figures beside the bars, and how wide each is.
const FIGURES: [&str; 3] = ["p50", "p90", "p99"];
const FIGURE_WIDTH: usize = 9;
/// With less room than this for the bars, the figures are left out.
const LEAST_BARS: usize = 16;
/// At least this many columns are between the starts of two times of the scale.
const SCALE_STEP: usize = 8;

/// The bars, the lowest first.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 8] = ['.', ':', '-', '=', '+', '*', '#', '@'];

/// Writes the distribution of each call that moves data. All have the same scale.
pub(super) fn write(page: &mut Page, report: &Report, options: &Options, bars: Bars) {
    let moves_data = |call: &&Syscall| Spec::named(&call.name).is_in(CallClass::Data);
    let calls: Vec<&Syscall> = timed(report).filter(moves_data).collect();
    page.line(0, Style::Heading, "LATENCY of the calls that move data");
    if calls.iter().all(|call| call.histogram.is_empty()) {
        page.say(INDENT, Style::Plain, "no call that moves data was timed");
        return;
    }
    let names = calls.iter().map(|call| text::width(&columns::name(call)));
    let name_width = names.max().unwrap_or(0).min(LONGEST_NAME);
    let room = options.width.map_or(usize::MAX, |width| {
        width.saturating_sub(INDENT + name_width + 2)
    });
    let beside = FIGURES.len() * FIGURE_WIDTH;
    let has_figures = room >= LEAST_BARS + beside;
    let scale = Scale::of_calls(&calls, if has_figures { room - beside } else { room });
    let mut write_line = |style, name: &str, bars: &str, figures: [String; FIGURES.len()]| {
        let name = text::shorten(name, name_width);
        let gap = " ".repeat(name_width - text::width(&name) + 2);
        let figures = figures.map(|figure| format!("{figure:>FIGURE_WIDTH$}"));
        let figures = if has_figures {
            figures.concat()
        } else {
            String::new()
        };
        let line = format!("{name}{gap}{bars:<width$}{figures}", width = scale.columns);
        page.line(INDENT, style, line.trim_end());
    };
    write_line(
        Style::Faint,
        "",
        &scale.labels(),
        FIGURES.map(str::to_owned),
    );
    for call in calls {
        let figures = [call.p50_ns, call.p90_ns, call.p99_ns];
        write_line(
            Style::Plain,
            &columns::name(call),
            &scale.bars(call, bars),
            figures.map(|ns| known(ns, units::duration)),
        );
    }
    let factor = 1_u64.checked_shl(scale.step).unwrap_or(u64::MAX);
    let legend = format!(
        "each column ends at {factor} times the time it begins with; the lowest bar is 1 call or more"
    );
    page.say(INDENT, Style::Faint, &legend);
    if !report.exact {
        page.say(
            INDENT,
            Style::Warning,
            "lower bound: calls may be missing here",
        );
    }
}

/// The calls that have times, in the order of the report.
pub(super) fn timed(report: &Report) -> impl Iterator<Item = &Syscall> {
    report
        .totals
        .syscalls
        .iter()
        .filter(|call| call.max_ns.is_some())
}

/// The power of two that a time lies in.
pub(super) const fn octave(ns: u64) -> u32 {
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
    /// How many powers of two a column spans.
    step: u32,
    columns: usize,
}

impl Scale {
    /// A column for each power of two, or for several if there is not enough room.
    fn of_calls(calls: &[&Syscall], room: usize) -> Self {
        let octaves = || {
            calls
                .iter()
                .flat_map(|call| &call.histogram)
                .map(|bucket| octave(bucket.from_ns))
        };
        let (first, last) = (octaves().min().unwrap_or(0), octaves().max().unwrap_or(0));
        let columns = |step: u32| ((last - first) / step + 1) as usize;
        let step = (1..=last - first)
            .find(|&step| columns(step) <= room)
            .unwrap_or(last - first + 1);
        Self {
            first,
            step,
            columns: columns(step),
        }
    }

    /// The times that some of the columns begin with, each above its column.
    fn labels(&self) -> String {
        let mut labels = String::new();
        let mut width = 0;
        for column in (0..self.columns).step_by(SCALE_STEP) {
            // There is no column that begins with a longer time than a u64 holds.
            let power = self.first + self.step * u32::try_from(column).unwrap_or(u32::MAX);
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
    fn bars(&self, call: &Syscall, bars: Bars) -> String {
        let mut calls = vec![0_u64; self.columns];
        for bucket in &call.histogram {
            let column = ((octave(bucket.from_ns) - self.first) / self.step) as usize;
            calls[column] = calls[column].saturating_add(bucket.calls);
        }
        let most = calls.iter().copied().max().unwrap_or(0);
        let levels = match bars {
            Bars::Blocks => BLOCKS,
            Bars::Ascii => ASCII,
        };
        calls
            .into_iter()
            .map(|calls| level(calls, most, levels.len()).map_or(' ', |level| levels[level]))
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
