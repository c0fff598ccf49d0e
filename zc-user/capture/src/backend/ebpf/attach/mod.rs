//! Attaching: where each program goes on this kernel, and which tasks it follows.
//!
//! A launched command is the next child of the tracer, so [`hooks`] are all it needs. Tasks that
//! already run are found by a [`walk`] over all of them, which looks for the [`targets`]. A closure
//! has no task of its own: its thread enters the [`scope`] and leaves it again, and begins when the
//! other threads sleep ([`idle_threads`]).

pub mod hooks;
pub mod idle_threads;
pub mod scope;
pub mod targets;
pub mod walk;
