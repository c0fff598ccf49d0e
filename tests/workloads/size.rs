//! Sizes as people write them.

/// Parses `4096`, `4k`, `4K`, `4KiB`, `4KB`, `1M`, `2GiB`: every unit is a power of 1024.
///
/// # Errors
///
/// What is wrong with `text`, for the person who typed it.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(format!("`{text}` is not a size; write 4096, 4KiB, 1M or 2GiB")),
    };
    let number: u64 = number.parse().map_err(|_| format!("`{text}` does not start with a number that fits"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is more than 64 bits hold"))
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn units_are_powers_of_1024() {
        for (text, bytes) in [("0", 0), ("4096", 4096), ("4k", 4096), ("4KiB", 4096), ("1M", 1 << 20), ("2GiB", 2 << 30)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "k", "-1", "4 KiB", "4X", "99999999999999999999", "99999999999999G"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
