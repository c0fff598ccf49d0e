//! Formats figures in readable units. JSON has the exact ones.

/// Shown for an unknown figure.
pub const UNKNOWN: &str = "-";

/// Bytes in the largest unit that gives at least 1, with one decimal: `512 B`, `8.0 KiB`, `1.0
/// GiB`.
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
        let half = if rounding == Rounding::Nearest {
            unit / 2
        } else {
            0
        };
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
    if count.is_multiple_of(unit) {
        shown.replace(".0 ", " ")
    } else {
        shown
    }
}

/// A time with three significant digits, in the largest unit that gives at least 1: `641 ns`, `4.20
/// µs`, `12.3 ms`, `1.02 s`. Seconds have no larger unit: `4711 s`.
pub fn duration(ns: u64) -> String {
    const UNITS: [(u64, &str); 4] = [
        (1, "ns"),
        (1_000, "µs"),
        (1_000_000, "ms"),
        (1_000_000_000, "s"),
    ];
    if ns == 0 {
        return "0 s".to_owned();
    }
    let last = UNITS.len() - 1;
    UNITS
        .iter()
        .enumerate()
        .find_map(|(index, &(unit, name))| {
            let number = three_digits(ns, unit);
            // 1000 after rounding belongs to the next unit.
            (index == last || ns < unit * 1000 && number != "1000")
                .then(|| format!("{number} {name}"))
        })
        .unwrap_or_default()
}

/// The quotient with as many decimals as three digits leave, at most as many as the unit has.
fn three_digits(value: u64, unit: u64) -> String {
    let decimals = [2, 1, 0]
        .into_iter()
        .find(|&decimals| rounded(value, unit, decimals) < 1000)
        .unwrap_or(0);
    let decimals = if unit == 1 { 0 } else { decimals };
    let (scale, shown) = (10_u128.pow(decimals), rounded(value, unit, decimals));
    match decimals {
        0 => shown.to_string(),
        _ => format!(
            "{}.{:0width$}",
            shown / scale,
            shown % scale,
            width = decimals as usize
        ),
    }
}

/// The quotient in units of the last decimal, rounded to the nearest.
fn rounded(value: u64, unit: u64, decimals: u32) -> u128 {
    let (value, unit) = (u128::from(value) * 10_u128.pow(decimals), u128::from(unit));
    (value + unit / 2) / unit
}

/// A share of the whole: `12.3 %`; [`UNKNOWN`] if the whole is 0.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        UNKNOWN.to_owned()
    } else {
        format!("{} %", share(part, whole))
    }
}

/// A share in percent without the unit, as in a column whose title has it.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return UNKNOWN.to_owned();
    }
    let (part, whole) = (u128::from(part), u128::from(whole));
    let tenths = (part * 1000 + whole / 2) / whole;
    format!("{}.{}", tenths / 10, tenths % 10)
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
        let expected = [
            (1023, "1023 B"),
            (8191, "7.9 KiB"),
            (8192, "8.0 KiB"),
            (1_048_575, "1023.9 KiB"),
            (2_999_754, "2.8 MiB"),
        ];
        for (number, text) in expected {
            assert_eq!(least_bytes(number), text, "{number}");
        }
    }

    #[test]
    fn whole_units_need_no_decimal_in_a_sentence() {
        let expected = [
            (8192, "8 KiB"),
            (8193, "8.0 KiB"),
            (8091, "7.9 KiB"),
            (1 << 30, "1 GiB"),
            (23, "23 B"),
            (0, "0 B"),
        ];
        for (number, text) in expected {
            assert_eq!(short_bytes(number), text, "{number}");
        }
    }

    #[test]
    fn times_have_three_significant_digits_and_a_unit() {
        let expected = [
            (0, "0 s"),
            (1, "1 ns"),
            (641, "641 ns"),
            (999, "999 ns"),
            (1000, "1.00 µs"),
            (4_204, "4.20 µs"),
            (9_994, "9.99 µs"),
            (9_995, "10.0 µs"),
            (99_960, "100 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (12_345_678, "12.3 ms"),
            (1_021_164_113, "1.02 s"),
            (999_499_999_999, "999 s"),
            (4_711_000_000_000, "4711 s"),
            (u64::MAX, "18446744074 s"),
        ];
        for (ns, text) in expected {
            assert_eq!(duration(ns), text, "{ns}");
        }
    }

    #[test]
    fn a_share_of_nothing_is_unknown() {
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(u64::MAX, u64::MAX), "100.0 %");
        assert_eq!(percent(0, 0), UNKNOWN);
        assert_eq!(
            (share(1, 3), share(0, 0)),
            ("33.3".to_owned(), UNKNOWN.to_owned())
        );
    }
}
