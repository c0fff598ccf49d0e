//! `odd-files CASE`: uses files of the working directory in ways that are easily mistaken.
//!
//! Each case writes a different number of bytes to each of its files, so that the tests can tell
//! them apart.

mod identity;
mod rings;

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
};

use anyhow::{Context as _, Result};

/// A case by its name.
type OddCase = (&'static str, fn() -> Result<()>);

/// Every case.
const CASES: &[OddCase] = &[
    ("replaced-by-thread", identity::replaced_by_thread),
    ("thousands", thousands),
    ("several-to-several", several_to_several),
    ("ring-replaced", rings::replaced),
    ("ring-fixed", rings::fixed),
    ("ring-polled", rings::polled),
    ("ring-of-a-thread", rings::of_a_thread),
    ("ring-silent", rings::silent),
    ("ring-multishot", rings::multishot),
    ("ring-unknown-opcode", rings::unknown_opcode),
];

fn main() -> Result<()> {
    let name = std::env::args().nth(1).context("name a case")?;
    let (_, run) = CASES
        .iter()
        .find(|(case, _)| *case == name)
        .with_context(|| format!("there is no case {name:?}"))?;
    run().context(name)
}

/// Copies `in` to as many files as the second argument says (`copies/0`, `copies/1`, ...), with one
/// read and one write each. The first copy has one byte, the second two, and so on up to 1000; then
/// it starts again with one.
fn thousands() -> Result<()> {
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

/// Reads eight files into one buffer, and writes the buffer to each of ten other files.
fn several_to_several() -> Result<()> {
    let mut buffer = [0; 8000];
    for (number, piece) in buffer.chunks_exact_mut(1000).enumerate() {
        let name = format!("from{number}");
        fs::copy("in", &name)?;
        File::open(name)?.read_exact(piece)?;
    }
    (0..10).try_for_each(|number| Ok(File::create(format!("to{number}"))?.write_all(&buffer)?))
}
