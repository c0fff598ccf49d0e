//! The live view of `zctrace top`: what the processes did in the last second, and in all.
//!
//! ```text
//! Trace of a span ──▶ SpanRows ──▶ LiveModel ──▶ draw ──▶ terminal
//!                                      ▲           ▲
//!                           keys ──▶ LiveView ─────┘
//! ```
//!
//! `span_rows.rs` sums up a span by what rows stand for, `model.rs` keeps the rows from span to span,
//! `keys.rs` reads keys, `state.rs` is what they change, `columns.rs` and `draw.rs` show it. Nothing
//! here touches a terminal: the program does.

mod columns;
mod draw;
mod figures;
mod keys;
mod model;
mod span_rows;
mod state;
#[cfg(test)]
mod view_tests;

pub use draw::draw;
pub use keys::{KeyPress, is_cut, parse_keys};
pub use model::LiveModel;
pub use state::{KeyEffect, LiveView};
