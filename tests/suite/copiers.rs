//! The copiers. Which calls each case makes, and how many bytes these move, is checked by
//! `tests/zctrace.toml`.

use zc_tests::Peer;

use crate::harness::{Program, c, program, untraced};

/// The copier in Rust.
pub fn in_rust() -> Program {
    program(env!("CARGO_BIN_EXE_copier"))
}

/// The copier in C.
pub fn in_c() -> Program {
    c("copier-c")
}

/// A copy.
pub fn copy(copier: &Program, case: &str, from: &str, to: &str) -> Program {
    copier.clone().args(&[case, "--from", from, "--to", to])
}

/// The other side of a socket: `copier sink ADDRESS`, once it listens.
pub fn sink(address: &str) -> Peer {
    Peer::start(&["sink", address]).expect("it listens")
}

/// The names of the cases that a program lists.
pub fn cases(program: &Program) -> Vec<String> {
    let list = untraced(&program.clone().arg("--list")).finish();
    let first = |line: &str| Some(line.split_ascii_whitespace().next()?.to_owned());
    list.successful().lines().filter_map(first).collect()
}
