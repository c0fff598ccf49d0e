//! The library as a user's own tests use it, in this very process: cargo runs them in many threads at once.

mod closure;
mod command;
