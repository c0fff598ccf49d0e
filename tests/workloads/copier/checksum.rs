//! What a process moved, as it says and as another one reads it.

use std::fmt::{self, Display};
use std::str::FromStr;

use crc32fast::Hasher;

/// So many bytes, with this checksum if it was asked for: `5 bytes, crc32 3610a686`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) bytes: u64,
    pub(crate) crc32: Option<u32>,
}

impl Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)?;
        self.crc32.map_or(Ok(()), |crc32| write!(f, ", crc32 {crc32:08x}"))
    }
}

impl FromStr for Moved {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (bytes, rest) = text.split_once(" bytes").ok_or(())?;
        let crc32 = match rest.strip_prefix(", crc32 ") {
            Some(digits) => Some(u32::from_str_radix(digits, 16).map_err(|_| ())?),
            None if rest.is_empty() => None,
            None => return Err(()),
        };
        Ok(Self { bytes: bytes.parse().map_err(|_| ())?, crc32 })
    }
}

/// Counts what passes by, and sums it up if asked to.
pub(crate) struct Meter {
    bytes: u64,
    hasher: Option<Hasher>,
}

impl Meter {
    pub(crate) fn new(checksum: bool) -> Self {
        Self { bytes: 0, hasher: checksum.then(Hasher::new) }
    }

    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
    }

    pub(crate) fn read(self) -> Moved {
        Moved { bytes: self.bytes, crc32: self.hasher.map(Hasher::finalize) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Meter, Moved};

    #[test]
    fn what_is_said_can_be_read() {
        for moved in
            [Moved { bytes: 0, crc32: None }, Moved { bytes: 5, crc32: Some(0x3610_a686) }, Moved { bytes: 7, crc32: Some(1) }]
        {
            assert_eq!(moved.to_string().parse(), Ok(moved));
        }
        for text in ["", "5", "x bytes", "5 bytes, crc32 xyz", "5 bytes more"] {
            assert_eq!(text.parse::<Moved>(), Err(()), "{text:?}");
        }
    }

    /// The check value of the CRC's definition.
    #[test]
    fn the_checksum_is_the_usual_one() {
        let mut meter = Meter::new(true);
        meter.pass(b"1234");
        meter.pass(b"56789");
        assert_eq!(meter.read().to_string(), "9 bytes, crc32 cbf43926");
    }
}
