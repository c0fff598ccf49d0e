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

/// How many of the smallest unit (calls, bytes, nanoseconds) one of this suffix is; `None`: figures
/// of this unit do not have it.
fn size_of_suffix(unit: FigureUnit, suffix: &str) -> Option<u64> {
    let known = match unit {
        FigureUnit::Count => &COUNTS[..],
        FigureUnit::Bytes => &SIZES,
        FigureUnit::Time => &TIMES,
        _ => &COUNTS[..1],
    };
    let (_, size) = known.iter().find(|(name, _)| *name == suffix)?;
    Some(*size)
}

/// Reads digits and a suffix as a number of the smallest unit. The error says what is wrong.
pub(crate) fn number(digits: &str, suffix: &str, unit: FigureUnit) -> Result<u64, String> {
    // Zero needs no unit.
    let size = size_of_suffix(unit, suffix).or((suffix.is_empty() && digits == "0").then_some(1));
    match size {
        Some(size) => product(digits, size).map_err(|why| format!("'{digits}{suffix}' {why}")),
        None => Err(is_not(&format!("{digits}{suffix}"), unit)),
    }
}

fn is_not(text: &str, unit: FigureUnit) -> String {
    format!("'{text}' is not {}, like {}", unit.name(), unit.example())
}

/// The product of digits and a unit, exactly.
fn product(digits: &str, unit: u64) -> Result<u64, &'static str> {
    const TOO_LARGE: &str = "is too large";
    let digits = digits.replace('_', "");
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let scaled: u128 = format!("{whole}{fraction}")
        .parse()
        .map_err(|_| TOO_LARGE)?;
    let scale = u32::try_from(fraction.len())
        .ok()
        .and_then(|length| 10_u128.checked_pow(length))
        .ok_or(TOO_LARGE)?;
    let product = scaled.checked_mul(u128::from(unit)).ok_or(TOO_LARGE)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_a_unit_or_says_why_not() {
        let why = |text: &str| Err(text.to_owned());
        for (read, expected) in [
            (size_bytes("64KiB"), Ok(65536)),
            (size_bytes("1.5 MB"), Ok(1_500_000)),
            (size_bytes("1_000"), Ok(1000)),
            (duration_ns("1.5min"), Ok(90_000_000_000)),
            (duration_ns("10µs"), Ok(10_000)),
            (duration_ns("10μs"), Ok(10_000)),
            (duration_ns("0"), Ok(0)),
            (
                size_bytes("1.5B"),
                why("'1.5B' is not a whole number of the smallest unit"),
            ),
            (
                size_bytes("99999999999TiB"),
                why("'99999999999TiB' is too large"),
            ),
            (duration_ns("10"), why("'10' is not a time, like 10ms")),
            (duration_ns("soon"), why("'soon' is not a time, like 10ms")),
            (size_bytes("1K"), why("'1K' is not a size, like 64KiB")),
        ] {
            assert_eq!(read, expected);
        }
    }
}
