//! `odd-files CASE`: uses files of the working directory in ways that are easily mistaken.
//!
//! Each case writes a different number of bytes to each of its files, so that the tests can tell
//! them apart.

mod edited;
mod evidence;
mod identity;
mod long_loops;
mod mappings;
mod rings;

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    process::ExitCode,
};

use anyhow::{Context as _, Result};

/// A case by its name.
type Case = (&'static str, fn() -> Result<()>);

/// Every case.
const CASES: &[Case] = &[
    ("reopened", identity::reopened),
    ("replaced", identity::replaced),
    ("replaced-by-thread", identity::replaced_by_thread),
    ("passed", identity::passed),
    ("same-inode-number", identity::same_inode_number),
    ("two-names", identity::two_names),
    ("renamed", identity::renamed),
    ("deleted", identity::deleted),
    ("not-utf8", identity::not_utf8),
    ("very-long", identity::very_long),
    ("sockets", identity::sockets),
    ("nameless", identity::nameless),
    ("thousands", thousands),
    ("in-turn", evidence::in_turn),
    ("vectors", evidence::vectors),
    ("several-to-several", evidence::several_to_several),
    ("replaced-bytes", evidence::replaced),
    (
        "changed-by-another-buffer",
        evidence::changed_by_another_buffer,
    ),
    (
        "copied-by-another-buffer",
        evidence::copied_by_another_buffer,
    ),
    ("passed-on", evidence::passed_on),
    ("stdio-after-a-header", evidence::stdio_after_a_header),
    (
        "filled-by-another-thread",
        evidence::filled_by_another_thread,
    ),
    ("refilled-by-messages", evidence::refilled_by_messages),
    ("refilled-with-random", evidence::refilled_with_random),
    ("refilled-by-a-ring", evidence::refilled_by_a_ring),
    ("drained-pipe", evidence::drained_pipe),
    ("stack-buffers", evidence::stack_buffers),
    ("overlapping-buffers", evidence::overlapping_buffers),
    ("peeked", evidence::peeked),
    ("peeked-and-written", evidence::peeked_and_written),
    ("one-bit-changed", evidence::one_bit_changed),
    (
        "written-again-from-a-copy",
        evidence::written_again_from_a_copy,
    ),
    (
        "written-twice-in-one-call",
        evidence::written_twice_in_one_call,
    ),
    ("a-part-replaced", evidence::a_part_replaced),
    ("used-for-messages", evidence::used_for_messages),
    ("lent-after-a-read", evidence::lent_after_a_read),
    ("buffers-side-by-side", evidence::buffers_side_by_side),
    ("summary-begins-alike", edited::summary_begins_alike),
    ("records-changed", edited::records_changed),
    (
        "filled-in-parts-and-changed",
        edited::filled_in_parts_and_changed,
    ),
    ("header-read-over", edited::header_read_over),
    (
        "half-dropped-half-doubled",
        edited::half_dropped_half_doubled,
    ),
    (
        "lent-to-a-socket-and-changed",
        edited::lent_to_a_socket_and_changed,
    ),
    ("mapped-by-a-child", mappings::by_a_child),
    ("mapping-changed", mappings::changed),
    ("mapping-read-into", mappings::read_into),
    ("mapping-shortened", mappings::shortened),
    ("long-loop-disturbed", long_loops::disturbed),
    ("long-loop-refilled", long_loops::refilled),
    ("long-loop-replaced", long_loops::replaced),
    ("ring-replaced", rings::replaced),
    ("ring-splice", rings::splice),
    ("ring-fixed", rings::fixed),
    ("ring-workers", rings::by_workers),
    ("ring-polled", rings::polled),
    ("ring-of-a-thread", rings::of_a_thread),
    ("ring-silent", rings::silent),
    ("ring-multishot", rings::multishot),
    ("ring-unknown-opcode", rings::unknown_opcode),
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("odd-files: {err:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
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
