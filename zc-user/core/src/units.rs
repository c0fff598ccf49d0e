//! Formats figures in readable units. JSON has the exact ones.

/// Shown for an unknown figure.
pub const UNKNOWN: &str = "-";

/// Whether a figure is left out of JSON, where serde wants a reference.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes it like that"
)]
pub(crate) const fn is_zero(figure: &u64) -> bool {
    *figure == 0
}

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
        .find(|&decimals| divide_rounded(value, unit, decimals) < 1000);
    let decimals = fitting.filter(|_| unit > 1).unwrap_or(0);
    let (scale, shown) = (10_u128.pow(decimals), divide_rounded(value, unit, decimals));
    let (whole, fraction, width) = (shown / scale, shown % scale, decimals as usize);
    match decimals {
        0 => whole.to_string(),
        _ => format!("{whole}.{fraction:0width$}"),
    }
}

/// The quotient in units of the last decimal, rounded to the nearest.
fn divide_rounded(value: u64, unit: u64, decimals: u32) -> u128 {
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
