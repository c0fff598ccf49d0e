//! `odd-files CASE`: uses files of the working directory in ways that are easily taken for something else.
//!
//! Each case writes a number of bytes to each of its files that no other file has; the tests know which.

mod descriptors;
mod evidence;
mod kinds;
mod many;
mod memory;
mod names;
mod rings;

use std::process::ExitCode;

use anyhow::{Context, Result};

/// A case by its name.
type Case = (&'static str, fn() -> Result<()>);

/// Every case.
const CASES: &[Case] = &[
    ("reopened", descriptors::reopened),
    ("replaced", descriptors::replaced),
    ("replaced-by-thread", descriptors::replaced_by_thread),
    ("passed", descriptors::passed),
    ("same-inode-number", names::same_inode_number),
    ("two-names", names::two_names),
    ("renamed", names::renamed),
    ("deleted", names::deleted),
    ("not-utf8", names::not_utf8),
    ("very-long", names::very_long),
    ("sockets", kinds::sockets),
    ("nameless", kinds::nameless),
    ("thousands", many::thousands),
    ("in-turn", memory::in_turn),
    ("vectors", memory::vectors),
    ("replaced-bytes", memory::replaced),
    ("passed-on", memory::passed_on),
    ("stdio-after-a-header", evidence::stdio_after_a_header),
    ("filled-by-another-thread", evidence::filled_by_another_thread),
    ("refilled-by-messages", evidence::refilled_by_messages),
    ("refilled-with-random", evidence::refilled_with_random),
    ("refilled-by-a-ring", evidence::refilled_by_a_ring),
    ("drained-pipe", evidence::drained_pipe),
    ("stack-buffers", evidence::stack_buffers),
    ("peeked", evidence::peeked),
    ("one-bit-changed", evidence::one_bit_changed),
    ("written-again-from-a-copy", evidence::written_again_from_a_copy),
    ("written-twice-in-one-call", evidence::written_twice_in_one_call),
    ("a-part-replaced", evidence::a_part_replaced),
    ("used-for-messages", evidence::used_for_messages),
    ("lent-after-a-read", evidence::lent_after_a_read),
    ("buffers-side-by-side", evidence::buffers_side_by_side),
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
    let (_, run) = CASES.iter().find(|(case, _)| *case == name).with_context(|| format!("there is no case {name:?}"))?;
    run().context(name)
}
