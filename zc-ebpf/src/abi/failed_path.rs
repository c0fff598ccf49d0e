//! Key of the map of calls by path: those that failed, and if it is asked for, those that succeeded.

/// Most bytes of a path that are kept, with the NUL at its end.
pub const PATH_BYTES: usize = 240;
/// In [`FailedPath::length`]: the path could not be read, or the caller passed none.
pub const UNKNOWN_PATH: u32 = u32::MAX;

/// A call that returned, with its errno and the path that it was given. The map has how often that happened.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FailedPath {
    /// The call, by its slot in [`globals::SPECS`](crate::globals::SPECS).
    pub slot: u32,
    /// The errno, as a positive number; 0: the call succeeded.
    pub errno: u32,
    /// Length of the path without its NUL, or [`UNKNOWN_PATH`]. If it is the longest that there is room for, the path may be longer.
    pub length: u32,
    /// 1: the path is relative, and starts in a directory that the call named by a descriptor.
    pub below_descriptor: u32,
    /// The path, and zeroes after it.
    pub path: [u8; PATH_BYTES],
}
