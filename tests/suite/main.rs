//! Integration tests: zctrace is compared with programs whose calls are known, and with counters of
//! the kernel and of strace.
//!
//! Each file is one topic and reads like a specification. `cargo xtask test` runs all of them as
//! root.

mod attach;
mod both_backends;
mod callers;
mod copiers;
mod counters;
mod counts;
mod descriptors;
mod durable_contracts;
mod durable_truth;
mod exec;
mod failed_paths;
mod files;
mod following;
mod formats;
mod harness;
mod hostile;
mod library;
mod losses;
mod marked_spans;
mod merging;
mod profiles;
mod programs;
mod public_reports;
mod random_kills;
mod random_programs;
mod readme;
mod reference;
mod runs;
mod sessions;
mod signals;
mod sizes;
mod slow_calls;
mod spans;
mod start;
mod status_line;
mod storms;
mod syncs;
mod top;
mod touches;
mod trends;
mod verifier;
