//! Pointer arguments of global functions.
//!
//! The verifier checks a global function (`#[unsafe(no_mangle)] #[inline(never)] extern "C" fn`)
//! once, and not on every path that leads to it. That keeps the number of paths small. There is a
//! price:
//!
//! - A global function has at most five arguments, and returns a number. Where there is nothing to
//!   return, the number means nothing.
//! - The verifier knows from the signature how much memory a pointer argument points to, but takes
//!   it for possibly null.
//! - To call one costs some 10 ns on a machine with mitigations, under Linux 6.18. So what each read or
//!   write of a small buffer needs is inlined.

#![expect(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "the verifier lets no program pass anything but null or a whole value"
)]

/// What a pointer argument of a global function points to. `None` if it is null.
#[inline(always)]
pub fn as_ref<'a, T>(argument: *const T) -> Option<&'a T> {
    // SAFETY: null or a whole `T`: the verifier lets no program pass anything else to a global
    // function. Such a `T` is the entry or a row of the current task, which only that task writes,
    // or on the program's stack, or lies in a memory that the program has locked.
    unsafe { argument.as_ref() }
}

/// What a pointer argument of a global function points to, to be changed. `None` if it is null.
#[inline(always)]
pub fn as_mut<'a, T>(argument: *mut T) -> Option<&'a mut T> {
    // SAFETY: as in `as_ref`.
    unsafe { argument.as_mut() }
}
