//! `odd-files CASE`: uses files of the working directory in ways that are easily mistaken.
//!
//! Each case writes a different number of bytes to each of its files, so that the tests can tell
//! them apart.

mod identity;
mod memory;
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
    ("passed", identity::passed),
    ("very-long", identity::very_long),
    ("sockets", identity::sockets),
    ("nameless", identity::nameless),
    ("thousands", thousands),
    ("mapping-shortened", memory::mapping_shortened),
    ("several-to-several", memory::several_to_several),
    ("stored", memory::stored),
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
