//! Formats figures in readable units. JSON has the exact ones.

/// Shown for an unknown figure.
pub const UNKNOWN: &str = "-";

/// The sum of figures. `None`: one is unknown, or it does not fit.
pub fn sum_all(figures: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    let mut figures = figures.into_iter();
    figures.try_fold(0_u64, |sum, figure| sum.checked_add(figure?))
}

/// The mean of figures with this sum, rounded to the nearest. `None` if there are no figures.
pub fn mean(sum: u64, count: u64) -> Option<u64> {
    let down = sum.checked_div(count)?;
    let is_up = sum % count >= count.div_ceil(2);
    Some(down + u64::from(is_up))
}

/// Bytes in the largest unit that gives at least 1, with one decimal: `512 B`, `8.0 KiB`, `1.0
/// GiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let tenths = |index: usize| {
        let unit = 1_u128 << (10 * (index + 1));
        (u128::from(bytes) * 10 + unit / 2) / unit
    };
    // 1024.0 after rounding belongs to the next unit.
    let index = (0..UNITS.len() - 1).find(|&index| tenths(index) < 10240);
    let index = index.unwrap_or(UNITS.len() - 1);
    let (tenths, unit) = (tenths(index), UNITS[index]);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
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
    for (unit, name) in UNITS {
        let number = three_digits(ns, unit);
        // 1000 after rounding belongs to the next unit. Seconds have none.
        if name == "s" || (ns < unit * 1000 && number != "1000") {
            return format!("{number} {name}");
        }
    }
    unreachable!("the last unit is the second")
}

/// The quotient with as many decimals as three digits leave, at most as many as the unit has.
fn three_digits(value: u64, unit: u64) -> String {
    let fitting = [2, 1]
        .into_iter()
        .find(|&decimals| rounded(value, unit, decimals) < 1000);
    let decimals = fitting.filter(|_| unit > 1).unwrap_or(0);
    let (scale, shown) = (10_u128.pow(decimals), rounded(value, unit, decimals));
    let (whole, fraction, width) = (shown / scale, shown % scale, decimals as usize);
    match decimals {
        0 => whole.to_string(),
        _ => format!("{whole}.{fraction:0width$}"),
    }
}

/// The quotient in units of the last decimal, rounded to the nearest.
fn rounded(value: u64, unit: u64, decimals: u32) -> u128 {
    let (value, unit) = (u128::from(value) * 10_u128.pow(decimals), u128::from(unit));
    (value + unit / 2) / unit
}

/// A share of the whole: `12.3 %`; [`UNKNOWN`] if the whole is 0.
pub fn percent(part: u64, whole: u64) -> String {
    let unit = if whole == 0 { "" } else { " %" };
    share(part, whole) + unit
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
    fn a_mean_is_rounded_to_the_nearest() {
        for (sum, count, rounded) in [(13_894, 13_895, 1), (7, 2, 4), (6, 4, 2), (5, 4, 1)] {
            assert_eq!(mean(sum, count), Some(rounded), "{sum} / {count}");
        }
        assert_eq!((mean(0, 0), mean(0, 3)), (None, Some(0)));
        assert_eq!(mean(u64::MAX, 1), Some(u64::MAX));
    }

    #[test]
    fn bytes_have_the_largest_unit_that_gives_at_least_1() {
        for (number, shown, short) in [
            (0, "0 B", "0 B"),
            (1023, "1023 B", "1023 B"),
            (1024, "1.0 KiB", "1 KiB"),
            (8091, "7.9 KiB", "7.9 KiB"),
            (8192, "8.0 KiB", "8 KiB"),
            (8193, "8.0 KiB", "8.0 KiB"),
            (1_048_524, "1023.9 KiB", "1023.9 KiB"),
            (1_048_575, "1.0 MiB", "1.0 MiB"),
            (1 << 30, "1.0 GiB", "1 GiB"),
            (u64::MAX, "16.0 EiB", "16.0 EiB"),
        ] {
            assert_eq!((&*bytes(number), &*short_bytes(number)), (shown, short));
        }
    }

    #[test]
    fn times_have_three_significant_digits_and_a_unit() {
        for (ns, text) in [
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
        ] {
            assert_eq!(duration(ns), text, "{ns}");
        }
    }

    #[test]
    fn a_share_of_nothing_is_unknown() {
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(u64::MAX, u64::MAX), "100.0 %");
        assert_eq!([percent(0, 0), share(0, 0)], [UNKNOWN, UNKNOWN]);
    }
}
