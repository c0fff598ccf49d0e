//! More files than anybody looks at.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};

use anyhow::{Context as _, Result};

/// Copies `in` to as many files as the second argument says (`copies/0`, `copies/1`, ...), with one read and one write each. The first
/// copy is of one byte, the second of two, and so on up to 1000 and again.
pub(crate) fn thousands() -> Result<()> {
    let count: usize = std::env::args().nth(2).context("how many?")?.parse()?;
    fs::create_dir("copies")?;
    let mut buffer = [0; 1000];
    for number in 0..count {
        let bytes = &mut buffer[..=number % 1000];
        File::open("in")?.read_exact(bytes)?;
        File::create(format!("copies/{number}"))?.write_all(bytes)?;
    }
    Ok(())
}
