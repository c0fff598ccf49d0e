//! Formats figures in readable units. JSON has the exact ones.

/// Shown for an unknown figure.
pub const UNKNOWN: &str = "-";

/// Bytes in the largest unit that gives at least 1, with one decimal: `512 B`, `8.0 KiB`, `1.0 GiB`.
pub fn bytes(bytes: u64) -> String {
    with_unit(bytes, Rounding::Nearest)
}

/// The same, rounded down, for lower bounds.
pub fn least_bytes(bytes: u64) -> String {
    with_unit(bytes, Rounding::Down)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rounding {
    Nearest,
    Down,
}

fn with_unit(bytes: u64, rounding: Rounding) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut unit = 1024_u128;
    for name in UNITS {
        let half = if rounding == Rounding::Nearest { unit / 2 } else { 0 };
        let tenths = (u128::from(bytes) * 10 + half) / unit;
        // 1024.0 after rounding belongs to the next unit.
        if tenths < 10240 || name == "EiB" {
            return format!("{}.{} {name}", tenths / 10, tenths % 10);
        }
        unit *= 1024;
    }
    unreachable!("the loop returns at its last unit")
}

/// The same for sentences, without the decimal if that is exactly 0: `8 KiB`, `7.9 KiB`.
pub fn short_bytes(count: u64) -> String {
    let unit = 1_u64 << (count.max(1).ilog2() / 10 * 10);
    let shown = bytes(count);
    if count.is_multiple_of(unit) { shown.replace(".0 ", " ") } else { shown }
}

/// How many decimals milliseconds have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decimals {
    /// Three: to the microsecond.
    Micro,
    /// Six: to the nanosecond.
    Nano,
}

impl Decimals {
    /// The fewest decimals that show no time other than 0 as 0.
    pub fn for_times(mut times: impl Iterator<Item = u64>) -> Self {
        if times.any(|ns| (1..1000).contains(&ns)) { Self::Nano } else { Self::Micro }
    }
}

/// Nanoseconds in milliseconds: `12.345`, or `0.000271` to the nanosecond.
pub fn milliseconds(ns: u64, decimals: Decimals) -> String {
    match decimals {
        Decimals::Micro => thousandths(rounded(ns, 1000)),
        Decimals::Nano => format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000),
    }
}

/// Nanoseconds in seconds, to the millisecond: `12.345 s`.
pub fn seconds(ns: u64) -> String {
    format!("{} s", thousandths(rounded(ns, 1_000_000)))
}

/// A share of the whole: `12.3 %`; [`UNKNOWN`] if the whole is 0.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return UNKNOWN.to_owned();
    }
    let (part, whole) = (u128::from(part), u128::from(whole));
    let tenths = (part * 1000 + whole / 2) / whole;
    format!("{}.{} %", tenths / 10, tenths % 10)
}

fn rounded(value: u64, unit: u64) -> u64 {
    value / unit + u64::from(value % unit >= unit / 2)
}

fn thousandths(value: u64) -> String {
    format!("{}.{:03}", value / 1000, value % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_largest_unit_that_gives_at_least_1() {
        let expected = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (8191, "8.0 KiB"),
            (1_048_524, "1023.9 KiB"),
            (1_048_575, "1.0 MiB"),
            (1 << 30, "1.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (number, text) in expected {
            assert_eq!(bytes(number), text, "{number}");
        }
    }

    #[test]
    fn a_lower_bound_is_never_rounded_up() {
        let expected =
            [(1023, "1023 B"), (8191, "7.9 KiB"), (8192, "8.0 KiB"), (1_048_575, "1023.9 KiB"), (2_999_754, "2.8 MiB")];
        for (number, text) in expected {
            assert_eq!(least_bytes(number), text, "{number}");
        }
    }

    #[test]
    fn whole_units_need_no_decimal_in_a_sentence() {
        let expected = [(8192, "8 KiB"), (8193, "8.0 KiB"), (8091, "7.9 KiB"), (1 << 30, "1 GiB"), (23, "23 B"), (0, "0 B")];
        for (number, text) in expected {
            assert_eq!(short_bytes(number), text, "{number}");
        }
    }

    #[test]
    fn milliseconds_round_to_their_decimals() {
        assert_eq!(milliseconds(16_974_624_499, Decimals::Micro), "16974.624");
        assert_eq!(milliseconds(1_999_500, Decimals::Micro), "2.000");
        assert_eq!(milliseconds(271, Decimals::Nano), "0.000271");
        assert_eq!(milliseconds(u64::MAX, Decimals::Micro), "18446744073709.552");
    }

    #[test]
    fn decimals_are_as_many_as_the_shortest_time_needs() {
        assert_eq!(Decimals::for_times([0, 1000, 1_000_000].into_iter()), Decimals::Micro);
        assert_eq!(Decimals::for_times([5000, 999].into_iter()), Decimals::Nano);
    }

    #[test]
    fn seconds_are_to_the_millisecond() {
        assert_eq!(seconds(1_234_567_890), "1.235 s");
        assert_eq!(seconds(0), "0.000 s");
    }

    #[test]
    fn a_share_of_nothing_is_unknown() {
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(u64::MAX, u64::MAX), "100.0 %");
        assert_eq!(percent(0, 0), UNKNOWN);
    }
}
