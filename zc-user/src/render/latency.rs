//! The distribution of the times of calls: for `--histogram` a line of bars for each call, and what
//! the page needs for its pictures.

use super::{
    columns,
    page::{Bars, Options, Page, Style, words},
    section::INDENT,
    text,
};
use crate::{
    report::{Report, Syscall},
    syscalls::{CallClass, Spec},
    units::{self, UNKNOWN},
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
    let has_buckets = calls.iter().any(|call| !call.histogram.is_empty());
    if !has_buckets {
        let why = missing(report).unwrap_or("no call that moves data was timed");
        page.flow(INDENT, &words(why, Style::Plain));
        return;
    }
    let name_width = calls
        .iter()
        .map(|call| text::width(&columns::name(call)))
        .max()
        .unwrap_or(0)
        .min(LONGEST_NAME);
    let room = options.width.map_or(usize::MAX, |width| {
        width.saturating_sub(INDENT + name_width + 2)
    });
    let beside = FIGURES.len() * FIGURE_WIDTH;
    let (room, has_figures) = if room >= LEAST_BARS + beside {
        (room - beside, true)
    } else {
        (room, false)
    };
    let scale = Scale::of(&calls, room);
    let indent = " ".repeat(name_width + 2);
    let titles = if has_figures {
        FIGURES
            .map(|title| format!("{title:>FIGURE_WIDTH$}"))
            .concat()
    } else {
        String::new()
    };
    let labels = scale.labels();
    page.line(
        INDENT,
        Style::Faint,
        format!("{indent}{labels:<width$}{titles}", width = scale.columns).trim_end(),
    );
    for call in calls {
        let name = columns::name(call);
        let name = text::shorten(&name, name_width);
        let gap = " ".repeat(name_width - text::width(&name) + 2);
        let known = |ns: Option<u64>| ns.map_or_else(|| UNKNOWN.to_owned(), units::duration);
        let figure = |ns| format!("{:>FIGURE_WIDTH$}", known(ns));
        let figures = if has_figures {
            [call.p50_ns, call.p90_ns, call.p99_ns].map(figure).concat()
        } else {
            String::new()
        };
        page.line(
            INDENT,
            Style::Plain,
            format!("{name}{gap}{}{figures}", scale.bars(call, bars)).trim_end(),
        );
    }
    let factor = 1_u64.checked_shl(scale.step).unwrap_or(u64::MAX);
    let legend = format!(
        "each column ends at {factor} times the time it begins with; the lowest bar is 1 call or more"
    );
    page.flow(INDENT, &words(&legend, Style::Faint));
    if !report.exact {
        page.flow(
            INDENT,
            &words("lower bound: calls may be missing here", Style::Warning),
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

/// Why the report has no distribution, if it has none.
pub(super) fn missing(report: &Report) -> Option<&'static str> {
    if timed(report).next().is_none() {
        Some("no call was timed")
    } else if timed(report).all(|call| call.histogram.is_empty()) {
        Some("the distribution is not in this report: an older zctrace saved it")
    } else {
        None
    }
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
    fn of(calls: &[&Syscall], room: usize) -> Self {
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
