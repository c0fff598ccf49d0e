//! Hides from the compiler what it could conclude about numbers. It then makes fewer branches, and
//! the verifier has fewer paths to follow.

/// Returns the number, but hides from the compiler where it came from. Otherwise the compiler may
/// compare its origin a second time. The verifier of 6.1 follows both comparisons even where they
/// contradict each other, and rejects the impossible path.
#[inline(always)]
pub fn opaque(number: u64) -> u64 {
    let mut value = number;
    #[cfg(target_arch = "bpf")]
    // SAFETY: adding 0 changes nothing. There has to be an instruction: without one, two line
    // numbers would belong to one place, and the kernel refuses that.
    unsafe {
        core::arch::asm!("{value} += 0", value = inout(reg) value, options(pure, nomem, nostack));
    }
    #[cfg(not(target_arch = "bpf"))]
    {
        // On the host there is no verifier.
        let _ = &mut value;
    }
    value
}

/// 1 unless the number is 0, without a branch.
#[inline(always)]
pub fn is_not_zero(number: u64) -> u64 {
    sign_bit(number | number.wrapping_neg())
}

/// 1 if `number` is smaller than `than`, without a branch. Both must be below 2^63.
#[inline(always)]
pub fn is_less(number: u64, than: u64) -> u64 {
    sign_bit(number.wrapping_sub(than))
}

/// `number` if `bit` is 1, `otherwise` if it is 0, without a branch.
#[inline(always)]
pub fn if_set(bit: u64, number: u64, otherwise: u64) -> u64 {
    otherwise ^ ((number ^ otherwise) & bit.wrapping_neg())
}

/// The smaller one of two numbers below 2^63.
#[inline(always)]
pub fn smaller(one: u64, other: u64) -> u64 {
    if_set(is_less(one, other), one, other)
}

/// The larger one of two numbers below 2^63.
#[inline(always)]
pub fn larger(one: u64, other: u64) -> u64 {
    if_set(is_less(one, other), other, one)
}

/// The highest bit of a number. The compiler does not see that it is one bit, and so makes no
/// branch of what is done with it.
#[inline(always)]
pub(crate) fn sign_bit(number: u64) -> u64 {
    let mut sign = number;
    #[cfg(target_arch = "bpf")]
    // SAFETY: a shift.
    unsafe {
        core::arch::asm!("{sign} >>= 63", sign = inout(reg) sign, options(pure, nomem, nostack));
    }
    #[cfg(not(target_arch = "bpf"))]
    {
        sign >>= 63;
    }
    sign
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest number that the functions here can tell from others.
    const MAX: u64 = (1 << 63) - 1;

    #[test]
    fn numbers_are_compared_without_branches() {
        for one in [0, 1, 2, 4096, MAX - 1, MAX] {
            assert_eq!(is_not_zero(one), u64::from(one != 0));
            for other in [0, 1, 2, 4096, MAX - 1, MAX] {
                assert_eq!(is_less(one, other), u64::from(one < other), "{one} {other}");
                assert_eq!(smaller(one, other), one.min(other));
                assert_eq!(larger(one, other), one.max(other));
                assert_eq!((if_set(1, one, other), if_set(0, one, other)), (one, other));
            }
        }
    }
}
