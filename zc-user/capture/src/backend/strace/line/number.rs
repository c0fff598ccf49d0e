//! Numbers as strace prints them.

/// Nanoseconds of a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// The decimal number that `text` begins with, and what comes after it. `None` without a digit, or if it is too large.
pub fn decimal(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    if digits == 0 {
        return None;
    }
    let mut number = 0_u64;
    for byte in &text[..digits] {
        number = number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
    }
    Some((number, &text[digits..]))
}

/// The number that `text` begins with: decimal, or hexadecimal after `0x`.
pub fn unsigned(text: &[u8]) -> Option<(u64, &[u8])> {
    let Some(hexadecimal) = text.strip_prefix(b"0x") else { return decimal(text) };
    let digits = hexadecimal.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(hexadecimal.len());
    if digits == 0 || digits > 16 {
        return None;
    }
    let number = hexadecimal[..digits].iter().fold(0_u64, |sum, &byte| sum << 4 | u64::from(hexadecimal_value(byte)));
    Some((number, &hexadecimal[digits..]))
}

/// A thread id that `text` begins with.
pub fn tid(text: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = decimal(text)?;
    Some((u32::try_from(number).ok()?, rest))
}

/// Seconds with a fraction of up to nine digits, like `0.000012`, in ns; and what comes after them.
pub fn seconds(text: &[u8]) -> Option<(u64, &[u8])> {
    let (seconds, rest) = decimal(text)?;
    let seconds_ns = seconds.checked_mul(SECOND_NS)?;
    let Some(fraction) = rest.strip_prefix(b".") else { return Some((seconds_ns, rest)) };
    let (fraction_ns, rest) = fraction_ns(fraction)?;
    Some((seconds_ns.checked_add(fraction_ns)?, rest))
}

/// The digits after a point, in ns; and what comes after them.
pub fn fraction_ns(text: &[u8]) -> Option<(u64, &[u8])> {
    let (mut fraction, rest) = decimal(text)?;
    let digits = text.len() - rest.len();
    for _ in digits..9 {
        fraction *= 10;
    }
    (digits <= 9).then_some((fraction, rest))
}

/// The value of a hexadecimal digit; 0 of another byte.
pub fn hexadecimal_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        b'A'..=b'F' => digit - b'A' + 10,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_what_follows() {
        assert_eq!(unsigned(b"131072, 0"), Some((131_072, b", 0".as_slice())));
        assert_eq!(unsigned(b"0xfF)"), Some((255, b")".as_slice())));
        assert_eq!(unsigned(b"18446744073709551615"), Some((u64::MAX, b"".as_slice())));
        assert_eq!(unsigned(b"0xffffffffffffffff"), Some((u64::MAX, b"".as_slice())));
        for text in ["", "x", "0x", "18446744073709551616", "0x10000000000000000", "-1"] {
            assert_eq!(unsigned(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn seconds_become_nanoseconds() {
        assert_eq!(seconds(b"0.000012>"), Some((12_000, b">".as_slice())));
        assert_eq!(seconds(b"2"), Some((2 * SECOND_NS, b"".as_slice())));
        assert_eq!(seconds(b"1.5"), Some((1_500_000_000, b"".as_slice())));
        assert_eq!(seconds(b"1.000000001"), Some((1_000_000_001, b"".as_slice())));
        for text in ["", ".5", "1.", "1.0000000001", "99999999999999.0"] {
            assert_eq!(seconds(text.as_bytes()), None, "{text}");
        }
    }
}
