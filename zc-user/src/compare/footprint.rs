//! zctrace's own memory. Every command starts as a fork of this process, and a peak that is smaller than such a fork cannot be told.

/// Has all threads allocate from one heap, so that what is free of it can be given back. To be called before there are threads.
pub(super) fn keep_small() {
    // SAFETY: sets a number within malloc.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// Gives memory that is free back to the kernel: backends need much, for a moment.
pub(super) fn give_back() {
    // SAFETY: it concerns nothing that is in use.
    unsafe { libc::malloc_trim(0) };
}
