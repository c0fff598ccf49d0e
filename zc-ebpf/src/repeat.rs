//! Loops of which the verifier checks one round instead of all.

/// Calls `round` up to `rounds` times, with the number of the round, until it returns 1.
#[inline(always)]
pub fn repeat<State>(rounds: u32, round: extern "C" fn(u64, &mut State) -> i64, state: &mut State) {
    #[cfg(target_arch = "bpf")]
    // SAFETY: `round` has the signature that the helper calls, and the helper passes on `state`,
    // which outlives the call.
    unsafe {
        aya_ebpf::helpers::generated::bpf_loop(
            rounds,
            round as *mut core::ffi::c_void,
            core::ptr::from_mut(state).cast(),
            0,
        );
    }
    #[cfg(not(target_arch = "bpf"))]
    for number in 0..rounds {
        if round(number.into(), state) != 0 {
            break;
        }
    }
}
