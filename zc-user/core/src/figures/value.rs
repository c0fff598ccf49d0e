//! Numbers with units.

use super::list::FigureUnit;

/// What stands behind numbers of bytes, and how many they are.
const SIZES: [(&str, u64); 11] = [
    ("", 1),
    ("B", 1),
    ("kB", 1000),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// What stands behind times, and how many nanoseconds it is. The sign for micro has two forms.
const TIMES: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1000),
    ("µs", 1000),
    ("μs", 1000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// What stands behind counts.
const COUNTS: [(&str, u64); 3] = [("", 1), ("k", 1000), ("M", 1_000_000)];

/// Reads digits and a suffix as a number of the smallest unit: calls, bytes, nanoseconds. The error
/// says what is wrong.
pub(crate) fn number(digits: &str, suffix: &str, unit: FigureUnit) -> Result<u64, String> {
    let suffixes = match unit {
        FigureUnit::Count => &COUNTS[..],
        FigureUnit::Bytes => &SIZES,
        FigureUnit::Time => &TIMES,
        _ => &COUNTS[..1],
    };
    let known = suffixes.iter().find(|(name, _)| *name == suffix);
    let size = match known {
        Some((_, size)) => *size,
        // Zero needs no unit.
        None if suffix.is_empty() && digits == "0" => 1,
        None => return Err(is_not(&format!("{digits}{suffix}"), unit)),
    };
    exact_product(digits, size).map_err(|why| format!("'{digits}{suffix}' {why}"))
}

fn is_not(text: &str, unit: FigureUnit) -> String {
    format!("'{text}' is not {}, like {}", unit.name(), unit.example())
}

/// The product of digits and a unit, exactly.
fn exact_product(digits: &str, unit: u64) -> Result<u64, &'static str> {
    const TOO_LARGE: &str = "is too large";
    let digits = digits.replace('_', "");
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let scaled: Option<u128> = format!("{whole}{fraction}").parse().ok();
    let product = scaled.and_then(|scaled| scaled.checked_mul(u128::from(unit)));
    let decimals = u32::try_from(fraction.len()).ok();
    let scale = decimals.and_then(|decimals| 10_u128.checked_pow(decimals));
    let (product, scale) = product.zip(scale).ok_or(TOO_LARGE)?;
    if product % scale != 0 {
        return Err("is not a whole number of the smallest unit");
    }
    u64::try_from(product / scale).map_err(|_| TOO_LARGE)
}

/// A time like `10s` or `1.5min`, in nanoseconds.
pub(crate) fn duration_ns(text: &str) -> Result<u64, String> {
    number_of_text(text.trim(), FigureUnit::Time)
}

/// A size like `64KiB` or `1000`, in bytes.
pub(crate) fn size_bytes(text: &str) -> Result<u64, String> {
    number_of_text(text.trim(), FigureUnit::Bytes)
}

fn number_of_text(text: &str, unit: FigureUnit) -> Result<u64, String> {
    let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '_');
    let (digits, suffix) = text.split_at(text.find(|c| !is_of_number(c)).unwrap_or(text.len()));
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(is_not(text, unit));
    }
    number(digits, suffix.trim(), unit)
}
