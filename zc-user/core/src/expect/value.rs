//! Numbers with units.

use super::{field::Unit, lexer::Problem};

/// What can stand behind a number: its name, what it measures, and how many of the smallest unit it
/// is.
type Suffix = (&'static str, Unit, u64);

const SUFFIXES: [Suffix; 21] = [
    ("TiB", Unit::Bytes, 1 << 40),
    ("GiB", Unit::Bytes, 1 << 30),
    ("MiB", Unit::Bytes, 1 << 20),
    ("KiB", Unit::Bytes, 1 << 10),
    ("TB", Unit::Bytes, 1_000_000_000_000),
    ("GB", Unit::Bytes, 1_000_000_000),
    ("MB", Unit::Bytes, 1_000_000),
    ("KB", Unit::Bytes, 1000),
    ("kB", Unit::Bytes, 1000),
    ("B", Unit::Bytes, 1),
    ("h", Unit::Time, 3_600_000_000_000),
    ("min", Unit::Time, 60_000_000_000),
    ("s", Unit::Time, 1_000_000_000),
    ("ms", Unit::Time, 1_000_000),
    ("us", Unit::Time, 1000),
    ("µs", Unit::Time, 1000),
    ("μs", Unit::Time, 1000),
    ("ns", Unit::Time, 1),
    ("M", Unit::Count, 1_000_000),
    ("k", Unit::Count, 1000),
    ("", Unit::Count, 1),
];

/// Reads digits and a suffix as a number of the smallest unit: calls, bytes, nanoseconds. `at` and
/// the suffix's number are their offsets.
pub(super) fn number(
    digits: &str,
    at: usize,
    (suffix, suffix_at): (&str, usize),
    unit: Unit,
) -> Result<u64, Problem> {
    let Some(&(_, measures, size)) = SUFFIXES.iter().find(|(name, ..)| *name == suffix) else {
        return Err(Problem::at(suffix_at, unknown_suffix(suffix, unit)));
    };
    let amount =
        amount(digits, size).map_err(|why| Problem::at(at, format!("'{digits}{suffix}' {why}")))?;
    let fits = measures == unit
        || match unit {
            // Bytes need no unit.
            Unit::Bytes | Unit::Status | Unit::Signal => suffix.is_empty(),
            // Zero needs no unit.
            _ => amount == 0 && suffix.is_empty(),
        };
    if fits {
        return Ok(amount);
    }
    let (is, needs, example) = (measures.name(), unit.name(), unit.example());
    Err(Problem::at(
        at,
        format!("'{digits}{suffix}' is {is}, but {needs} is needed here, like {example}"),
    ))
}

fn unknown_suffix(suffix: &str, unit: Unit) -> String {
    let names: Vec<&str> = SUFFIXES
        .iter()
        .filter(|(name, measures, _)| *measures == unit && name.is_ascii() && !name.is_empty())
        .map(|(name, ..)| *name)
        .collect();
    if names.is_empty() {
        return format!("'{suffix}': {} has no unit", unit.name());
    }
    let kind = unit.name().trim_start_matches("a ");
    format!(
        "unknown unit '{suffix}'; units of {kind} are {}",
        names.join(", ")
    )
}

/// The product of digits and a unit, exactly.
fn amount(digits: &str, unit: u64) -> Result<u64, &'static str> {
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
    written(text.trim(), Unit::Time)
}

/// A size like `64KiB` or `1000`, in bytes.
pub(crate) fn size_bytes(text: &str) -> Result<u64, String> {
    written(text.trim(), Unit::Bytes)
}

fn written(text: &str, unit: Unit) -> Result<u64, String> {
    let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '_');
    let (digits, suffix) = text.split_at(text.find(|c| !is_of_number(c)).unwrap_or(text.len()));
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        let (what, example) = (unit.name(), unit.example());
        return Err(format!("'{text}' is not {what}, like {example}"));
    }
    number(digits, 0, (suffix.trim(), 0), unit).map_err(|problem| problem.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_can_be_binary_or_decimal() {
        assert_eq!(size_bytes("64KiB"), Ok(65536));
        assert_eq!(size_bytes("1.5 MB"), Ok(1_500_000));
        assert_eq!(size_bytes("1_000"), Ok(1000));
        assert_eq!(duration_ns("1.5min"), Ok(90_000_000_000));
        assert_eq!(duration_ns("10µs"), Ok(10_000));
    }

    #[test]
    fn a_number_that_cannot_be_read_says_why() {
        for (read, why) in [
            (
                size_bytes("1.5B"),
                "'1.5B' is not a whole number of the smallest unit",
            ),
            (
                size_bytes("99999999999TiB"),
                "'99999999999TiB' is too large",
            ),
            (
                duration_ns("10"),
                "'10' is a count, but a time is needed here, like 10ms",
            ),
            (duration_ns("soon"), "'soon' is not a time, like 10ms"),
            (
                size_bytes("1K"),
                "unknown unit 'K'; units of size are TiB, GiB, MiB, KiB, TB, GB, MB, KB, kB, B",
            ),
        ] {
            assert_eq!(read, Err(why.to_owned()));
        }
    }
}
