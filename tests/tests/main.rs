//! Integration tests: zctrace against programs whose calls are known, and against counters that are not its own.
//!
//! Each file is one topic and reads like its specification. `cargo xtask test` runs all of it, as root.

mod beside_strace;
mod both_backends;
mod check;
mod compare;
mod copiers;
mod counters;
mod counts;
mod files;
mod following;
mod formats;
mod harness;
mod help;
mod launcher;
mod library;
mod losses;
mod output;
mod privileges;
mod programs;
mod random_programs;
mod runs;
mod saved_reports;
mod signals;
mod storms;
mod strace_backend;
mod unsupported_kernels;
mod usage_errors;
mod verifier;
