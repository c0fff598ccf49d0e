//! The columns of the view: their titles, their cells, and the order by each.

use std::cmp::Ordering;

use super::{
    figures::LiveSums,
    model::{LiveModel, LiveRow},
    span_rows::{Grouping, LiveKey},
};
use crate::{
    report::Api,
    units::{self, UNKNOWN},
};

/// A column of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveColumn {
    /// What the row stands for.
    Name,
    /// Calls that returned, per second.
    CallRate,
    /// Calls that failed, per second.
    ErrorRate,
    /// Bytes moved, per second.
    ByteRate,
    /// Time in calls, per second.
    TimeRate,
    /// The 99th percentile of the times in the last span.
    P99,
    /// All calls so far.
    Calls,
    /// All bytes so far.
    Bytes,
    /// All failed calls so far.
    Errors,
    /// All time in calls so far.
    Time,
    /// The interface that moves the most bytes.
    Interface,
}

impl LiveColumn {
    /// All, those first that are shown where there is little room.
    pub const ALL: [Self; 11] = [
        Self::Name,
        Self::CallRate,
        Self::ErrorRate,
        Self::ByteRate,
        Self::TimeRate,
        Self::P99,
        Self::Calls,
        Self::Bytes,
        Self::Errors,
        Self::Time,
        Self::Interface,
    ];

    /// Its title, and its width in columns of the terminal. The name takes at least its width, and
    /// what is left.
    pub const fn title_and_width(self) -> (&'static str, u16) {
        match self {
            Self::Name => ("name", 16),
            Self::CallRate => ("calls/s", 7),
            Self::ErrorRate => ("err/s", 6),
            Self::ByteRate => ("bytes/s", 10),
            Self::TimeRate => ("time/s", 7),
            Self::P99 => ("p99", 7),
            Self::Calls => ("calls", 9),
            Self::Bytes => ("bytes", 10),
            Self::Errors => ("errors", 7),
            Self::Time => ("time", 7),
            Self::Interface => ("moved by", 15),
        }
    }

    /// Those that a grouping has.
    pub fn for_grouping(grouping: Grouping) -> impl Iterator<Item = Self> {
        let is_known = move |column: &Self| *column != Self::P99 || grouping.has_percentiles();
        Self::ALL.into_iter().filter(is_known)
    }

    /// Those for which there is room in so many columns, with one between them. The room of those
    /// that a grouping lacks is left to the names, which are longer then.
    pub fn fitting(grouping: Grouping, width: u16) -> Vec<Self> {
        let mut room = width + 1;
        let mut fits = |column: &Self| {
            let needed = column.title_and_width().1 + 1;
            room = room.saturating_sub(needed);
            room > 0 || *column == Self::Name
        };
        let shown = Self::ALL.iter().take_while(|column| fits(column)).count();
        Self::for_grouping(grouping)
            .filter(|column| Self::ALL[..shown].contains(column))
            .collect()
    }

    /// The cell of these sums. The name and the interface are not in them.
    pub fn cell(self, model: &LiveModel, sums: &LiveSums) -> String {
        let figure = self.figure(sums);
        let rate = figure.and_then(|figure| model.per_second(figure));
        let count = |figure| count(figure, self.title_and_width().1.into());
        match self {
            Self::Name | Self::Interface => String::new(),
            Self::CallRate | Self::ErrorRate => known(rate, count),
            Self::ByteRate => known(rate, units::bytes),
            Self::TimeRate => known(rate, units::duration),
            Self::Calls | Self::Errors => known(figure, count),
            Self::Bytes => known(figure, units::bytes),
            Self::P99 | Self::Time => known(figure, units::duration),
        }
    }

    /// The order of two rows: figures from high to low with the unknown ones last, names from A to
    /// Z.
    pub fn compare(self, a: (&LiveKey, &LiveRow), b: (&LiveKey, &LiveRow)) -> Ordering {
        let by_name = a.0.cmp(b.0);
        let interface = |row: &LiveRow| {
            let name = row.main_interface().map(Api::name);
            (name.is_none(), name)
        };
        match self {
            Self::Name => by_name,
            Self::Interface => interface(a.1).cmp(&interface(b.1)).then(by_name),
            _ => {
                let [a, b] = [a.1, b.1].map(|row| self.figure(&row.sums));
                b.cmp(&a).then(by_name)
            }
        }
    }

    /// The figure that rows are sorted by.
    const fn figure(self, sums: &LiveSums) -> Option<u64> {
        match self {
            Self::Name | Self::Interface => None,
            Self::CallRate => sums.last.calls,
            Self::ErrorRate => sums.last.errors,
            Self::ByteRate => sums.last.bytes,
            Self::TimeRate => sums.last.total_ns,
            Self::P99 => sums.p99_ns,
            Self::Calls => sums.total.calls,
            Self::Bytes => sums.total.bytes,
            Self::Errors => sums.total.errors,
            Self::Time => sums.total.total_ns,
        }
    }
}

/// A figure in words.
pub fn known(figure: Option<u64>, show: impl FnOnce(u64) -> String) -> String {
    figure.map_or_else(|| UNKNOWN.to_owned(), show)
}

/// A count in so many columns: in thousands, millions, ... if its digits need more, rounded down.
fn count(figure: u64, width: usize) -> String {
    let units = [
        (1, ""),
        (1_000, "k"),
        (1_000_000, "M"),
        (1_000_000_000, "G"),
    ];
    let shown = units.map(|(unit, name)| format!("{}{name}", figure / unit));
    let fitting = shown.iter().find(|text| text.len() <= width);
    fitting.unwrap_or(&shown[shown.len() - 1]).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_is_too_wide_is_shown_in_a_larger_unit_and_never_cut() {
        for (figure, shown) in [
            (0, "0"),
            (9_999_999, "9999999"),
            (12_345_678, "12345k"),
            (12_345_678_901, "12345M"),
            (u64::MAX, "18446744073G"),
        ] {
            assert_eq!(count(figure, 7), shown);
        }
    }

    #[test]
    fn columns_that_have_no_room_are_left_out_from_the_right() {
        let titles = |grouping, width| {
            let columns = LiveColumn::fitting(grouping, width);
            let titles = columns.iter().map(|column| column.title_and_width().0);
            titles.collect::<Vec<_>>().join(" ")
        };
        let narrow = "name calls/s err/s bytes/s time/s p99 calls bytes";
        assert_eq!(titles(Grouping::Process, 80), narrow);
        let wide = format!("{narrow} errors time moved by");
        assert_eq!(titles(Grouping::Process, 200), wide);
        assert_eq!(titles(Grouping::File, 80), narrow.replace(" p99", ""));
        assert_eq!(titles(Grouping::File, 200), wide.replace(" p99", ""));
        assert_eq!(titles(Grouping::File, 3), "name");
    }
}
