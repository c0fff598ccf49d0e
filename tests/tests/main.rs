//! zctrace as a whole, against programs whose calls are known and against counters that are not its own.
//!
//! Every file is a topic and reads as its specification. `cargo xtask test` runs all of it, as root.

mod about;
mod bad_input;
mod both_backends;
mod check;
mod compare;
mod copiers;
mod counters;
mod counts;
mod dd;
mod files;
mod following;
mod formats;
mod harness;
// `int $0x80` is an instruction of x86.
#[cfg(target_arch = "x86_64")]
mod int80;
mod launcher;
mod library;
mod losses;
mod output;
mod programs;
mod random_programs;
mod saved;
mod std_io_copy;
mod storms;
mod strace_backend;
mod verifier;
