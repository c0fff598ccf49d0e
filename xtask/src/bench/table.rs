//! The tables, in Markdown.

use std::{fmt::Write as _, time::Duration};

use super::measure::Sample;

/// One tool in the worst case: its name, the median of its wall times, how many there were.
type Row = (&'static str, Duration, usize);

/// Added time over the first row, and its ratio to that of the second row (the floor) and of perf, if it is there.
pub(super) fn worst_case(rows: &[Row]) -> String {
    let untraced = rows[0].1.as_secs_f64();
    let added = |row: &Row| row.1.as_secs_f64() - untraced;
    let floor = added(&rows[1]);
    let perf = rows.iter().find(|row| row.0.starts_with("perf")).map(added);
    let mut table =
        String::from("| | rounds | median, s | added, s | added / floor's | added / perf's |\n|---|--:|--:|--:|--:|--:|\n");
    for (index, row) in rows.iter().enumerate() {
        let (added, to_floor, to_perf) = match index {
            0 => (String::new(), String::new(), String::new()),
            _ => (
                format!("{:+.3}", added(row)),
                format!("{:.2}", added(row) / floor),
                perf.map(|perf| format!("1/{:.1}", perf / added(row))).unwrap_or_default(),
            ),
        };
        let (name, median, rounds) = row;
        let _ = writeln!(table, "| {name} | {rounds} | {:.3} | {added} | {to_floor} | {to_perf} |", median.as_secs_f64());
    }
    table
}

/// Calls against memory.
pub(super) fn growth(rows: &[(u32, Sample)]) -> String {
    let mut table = String::from("| calls | largest resident set, KiB |\n|--:|--:|\n");
    for (calls, sample) in rows {
        let _ = writeln!(table, "| {calls} | {} |", sample.max_rss_kib);
    }
    table
}

/// A time in milliseconds.
pub(super) fn milliseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_time_is_over_the_first_row_and_ratios_are_of_added_times() {
        let rows = [("untraced", 400, 7), ("floor", 600, 7), ("zctrace", 900, 7), ("perf trace -s", 10_400, 1)];
        let table = worst_case(&rows.map(|(name, ms, rounds)| (name, Duration::from_millis(ms), rounds)));
        let line = table.lines().find(|line| line.contains("zctrace")).unwrap();
        assert_eq!(line, "| zctrace | 7 | 0.900 | +0.500 | 2.50 | 1/20.0 |");
    }
}
