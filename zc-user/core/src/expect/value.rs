//! Numbers with units.

use std::fmt::{self, Display, Formatter};

use super::{field::Dimension, lexer::Problem};
use crate::signal;

/// A number in the smallest unit of its dimension: calls, bytes, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) amount: u64,
    pub(super) dimension: Dimension,
}

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.dimension == Dimension::Signal {
            let name = i32::try_from(self.amount)
                .map(signal::name)
                .unwrap_or_default();
            return if name.starts_with("SIG") {
                f.write_str(&name)
            } else {
                write!(f, "{}", self.amount)
            };
        }
        let (amount, unit) = in_units(self.amount, self.dimension);
        write!(f, "{amount}{unit}")
    }
}

/// A unit: its name, its dimension, and how many of the smallest unit it is.
type Unit = (&'static str, Dimension, u64);

/// All units. Within a dimension the largest comes first, since numbers are printed in the first
/// one that fits.
const UNITS: [Unit; 21] = [
    ("TiB", Dimension::Bytes, 1 << 40),
    ("GiB", Dimension::Bytes, 1 << 30),
    ("MiB", Dimension::Bytes, 1 << 20),
    ("KiB", Dimension::Bytes, 1 << 10),
    ("TB", Dimension::Bytes, 1_000_000_000_000),
    ("GB", Dimension::Bytes, 1_000_000_000),
    ("MB", Dimension::Bytes, 1_000_000),
    ("KB", Dimension::Bytes, 1000),
    ("kB", Dimension::Bytes, 1000),
    ("B", Dimension::Bytes, 1),
    ("h", Dimension::Time, 3_600_000_000_000),
    ("min", Dimension::Time, 60_000_000_000),
    ("s", Dimension::Time, 1_000_000_000),
    ("ms", Dimension::Time, 1_000_000),
    ("us", Dimension::Time, 1000),
    ("µs", Dimension::Time, 1000),
    ("μs", Dimension::Time, 1000),
    ("ns", Dimension::Time, 1),
    ("M", Dimension::Count, 1_000_000),
    ("k", Dimension::Count, 1000),
    ("", Dimension::Count, 1),
];

/// Reads digits and a unit as a number of this dimension. `at` and `unit_at` are their offsets.
pub(super) fn number(
    digits: &str,
    at: usize,
    unit: Option<(&str, usize)>,
    dimension: Dimension,
) -> Result<Number, Problem> {
    let (unit, unit_at) = unit.unwrap_or(("", at));
    let Some(&(_, measures, size)) = UNITS.iter().find(|(name, ..)| *name == unit) else {
        return Err(Problem::at(unit_at, unknown_unit(unit, dimension)));
    };
    let amount =
        amount(digits, size).map_err(|why| Problem::at(at, format!("'{digits}{unit}' {why}")))?;
    let fits = measures == dimension
        || match dimension {
            // Bytes need no unit.
            Dimension::Bytes | Dimension::Status | Dimension::Signal => unit.is_empty(),
            // Zero needs no unit.
            _ => amount == 0 && unit.is_empty(),
        };
    if fits {
        return Ok(Number { amount, dimension });
    }
    let (is, needs, example) = (measures.name(), dimension.name(), dimension.example());
    Err(Problem::at(
        at,
        format!("'{digits}{unit}' is {is}, but {needs} is needed here, like {example}"),
    ))
}

fn unknown_unit(unit: &str, dimension: Dimension) -> String {
    let of = |wanted: Dimension| {
        let names = UNITS.iter().filter(|(name, measures, _)| {
            *measures == wanted && name.is_ascii() && !name.is_empty()
        });
        names.map(|(name, ..)| *name).collect::<Vec<_>>().join(", ")
    };
    match dimension {
        Dimension::Bytes | Dimension::Time | Dimension::Count => {
            format!(
                "unknown unit '{unit}'; units of {} are {}",
                dimension.name().trim_start_matches("a "),
                of(dimension)
            )
        }
        Dimension::Status | Dimension::Signal | Dimension::Api | Dimension::Function => {
            format!("'{unit}': {} has no unit", dimension.name())
        }
    }
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

/// The amount in the largest unit that divides it, and that unit.
pub(super) fn in_units(amount: u64, dimension: Dimension) -> (u64, &'static str) {
    let units = UNITS
        .iter()
        .filter(|(_, measures, _)| *measures == dimension && dimension != Dimension::Count);
    let fitting = units
        .map(|&(name, _, size)| (size, name))
        .find(|(size, _)| amount >= *size && amount.is_multiple_of(*size));
    fitting.map_or(
        (
            amount,
            if dimension == Dimension::Time {
                "ns"
            } else {
                ""
            },
        ),
        |(size, name)| (amount / size, name),
    )
}

/// A time like `10s` or `1.5min`, in nanoseconds.
pub(crate) fn duration_ns(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_')))
        .unwrap_or(text.len());
    written(text, split, Dimension::Time)
}

/// A size like `64KiB` or `1000`, in bytes.
pub(crate) fn size_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_')))
        .unwrap_or(text.len());
    written(text, split, Dimension::Bytes)
}

fn written(text: &str, split: usize, dimension: Dimension) -> Result<u64, String> {
    let (digits, unit) = text.split_at(split);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!(
            "'{text}' is not {}, like {}",
            dimension.name(),
            dimension.example()
        ));
    }
    let unit = unit.trim();
    number(
        digits,
        0,
        (!unit.is_empty()).then_some((unit, 0)),
        dimension,
    )
    .map(|number| number.amount)
    .map_err(|problem| problem.message)
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
        assert_eq!(
            size_bytes("1.5B"),
            Err("'1.5B' is not a whole number of the smallest unit".into())
        );
        assert_eq!(
            size_bytes("99999999999TiB"),
            Err("'99999999999TiB' is too large".into())
        );
        assert_eq!(
            duration_ns("10"),
            Err("'10' is a count, but a time is needed here, like 10ms".into())
        );
        assert_eq!(
            duration_ns("soon"),
            Err("'soon' is not a time, like 10ms".into())
        );
        assert_eq!(
            size_bytes("1K"),
            Err(
                "unknown unit 'K'; units of size are TiB, GiB, MiB, KiB, TB, GB, MB, KB, kB, B"
                    .into()
            )
        );
    }

    #[test]
    fn a_number_is_shown_in_the_largest_unit_that_divides_it() {
        assert_eq!(in_units(65536, Dimension::Bytes), (64, "KiB"));
        assert_eq!(in_units(1_500_000, Dimension::Bytes), (1500, "KB"));
        assert_eq!(in_units(0, Dimension::Bytes), (0, ""));
        assert_eq!(in_units(90_000_000_000, Dimension::Time), (90, "s"));
        assert_eq!(in_units(5000, Dimension::Count), (5000, ""));
    }
}
