//! The command runs as it would without zctrace.

mod exit_status;
mod inherited;
mod signals;
mod streams;
mod terminal;
