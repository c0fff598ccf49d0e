//! What the workloads share: programs whose system calls are known, for zctrace to be tested against.
//!
//! - `copier` (Rust) and `copier-c` (C) move bytes from one end to another by a chosen kernel interface; `--list` shows the cases.
//! - `workload` has named cases that make exactly known calls and print what a tracer has to find; `--list` shows them.
//! - `odd-files` has named cases that use files in ways that are easily taken for something else.
//! - `random-io` makes random calls that move bytes, and writes down where every byte came from; [`truth`] is what it writes.
//! - `int80` (C, x86-64 only) makes 32-bit calls from 64-bit code.
//!
//! A workload that states what it did prints one line of JSON (one `write`): `{"case": ..., "calls": {NAME: Figure}, ...}`,
//! where a [`Figure`] has the names and the meaning of zctrace's own report. The line's own `write` is not in it, nor are the
//! calls with which the language's runtime starts and ends; where those would blur a figure, the deliberate calls are made on a
//! thread of their own, named in `"thread"`, whose row in a per-thread report shows nothing else.

mod bare_thread;
mod blocked;
pub mod bpf;
pub mod chance;
mod errors;
mod size;
mod tally;
pub mod truth;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use bare_thread::with_bare_thread;
pub use blocked::wait_until_in_call;
pub use errors::{errno_name, named};
pub use size::parse_size;
pub use tally::{Figure, Figures, Tally};

/// Where the C program `name` (`copier-c`, `int80`) was built: beside the Rust programs.
pub fn c_program(name: &str) -> PathBuf {
    Path::new(env!("ZC_C_DIR")).join(name)
}

/// Names how many times slower than usual this machine is: an emulated one has it.
const PATIENCE_VARIABLE: &str = "ZC_TEST_PATIENCE";

/// How many times slower than usual this machine is.
///
/// # Panics
///
/// If `ZC_TEST_PATIENCE` is no number.
pub fn patience() -> u32 {
    std::env::var(PATIENCE_VARIABLE).map_or(1, |factor| factor.parse().expect("a number of times"))
}

/// Prints one line to stdout with exactly one `write`.
pub fn print_line(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(format!("{line}\n").as_bytes())?;
    stdout.flush()
}

/// Prints what a case did as one line of JSON: its name, its deliberate calls, and what else there is to know.
pub fn print_expectation(case: &str, calls: &Figures, facts: serde_json::Value) -> anyhow::Result<()> {
    let mut line = serde_json::json!({ "case": case, "calls": calls });
    if let (serde_json::Value::Object(line), serde_json::Value::Object(facts)) = (&mut line, facts) {
        line.extend(facts);
    }
    Ok(print_line(&line.to_string())?)
}
