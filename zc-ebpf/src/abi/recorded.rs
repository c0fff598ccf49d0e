//! What the programs record of each call. User space chooses before it loads them, so that the verifier removes the code of all else.

/// Rows: what was called how often, with which result and how many bytes.
pub const ROWS: u32 = 1 << 0;
/// When calls were made, and how long they took.
pub const TIMES: u32 = 1 << 1;
/// How these times are distributed.
pub const HISTOGRAMS: u32 = 1 << 2;
/// The calls that have no rows.
pub const OTHER_CALLS: u32 = 1 << 3;
/// Which files calls are about.
pub const FILES: u32 = 1 << 4;
/// Which bytes of a write came from which read.
pub const PAIRING: u32 = 1 << 5;
/// All of it.
pub const ALL: u32 = ROWS | TIMES | HISTOGRAMS | OTHER_CALLS | FILES | PAIRING;
