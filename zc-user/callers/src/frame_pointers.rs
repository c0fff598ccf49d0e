//! Unwinds one frame by its frame pointer.

use gimli::Register;

use crate::{
    cfi::{Failure, UnwindStep},
    sampled::{SampledRegisters, StackCopy, numbers, without_signature},
};

/// Goes on from a function to its caller in code that has frame pointers. The function that makes
/// the call is one of a few instructions in assembler, without a frame of its own (`Syscall6` in
/// golang/go `src/internal/runtime/syscall/asm_linux_amd64.s`, and others in
/// `src/runtime/sys_linux_amd64.s`), so its return address is where the stack pointer points, or on
/// arm64 in its register.
pub fn by_frame_pointer(
    registers: &mut SampledRegisters,
    stack: &StackCopy<'_>,
    is_first: bool,
) -> Result<UnwindStep, Failure> {
    const WORD: u64 = 8;
    let read = |address: u64| stack.read(address).ok_or(Failure::Unreadable(address));
    let known = |number: u16| {
        registers
            .register(Register(number))
            .ok_or(Failure::BadTable)
    };
    let (sp, fp) = (
        known(numbers::STACK_POINTER)?,
        known(numbers::FRAME_POINTER)?,
    );
    let (next, sp, fp) = match is_first {
        true if cfg!(target_arch = "aarch64") => (known(numbers::LINK)?, sp, fp),
        true => (read(sp)?, sp + WORD, fp),
        // The function that a goroutine or a thread begins with has none.
        false if fp == 0 => return Ok(UnwindStep::Root),
        false if fp < sp => return Err(Failure::BadTable),
        false => (
            read(fp.wrapping_add(WORD))?,
            fp.wrapping_add(2 * WORD),
            read(fp)?,
        ),
    };
    registers.instruction_pointer = without_signature(next);
    registers.by_number[usize::from(numbers::STACK_POINTER)] = Some(sp);
    registers.by_number[usize::from(numbers::FRAME_POINTER)] = Some(fp);
    Ok(UnwindStep::Caller { is_exact: false })
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    const NEXT: Result<UnwindStep, Failure> = Ok(UnwindStep::Caller { is_exact: false });

    fn stack(bytes: &[u8]) -> StackCopy<'_> {
        StackCopy {
            start: 0x1000,
            bytes,
            piece_bytes: 64,
            filled: 0b11,
        }
    }

    #[test]
    fn frame_pointers_lead_to_the_function_without_one() {
        let mut words = [0_u64; 16];
        // The return address of the function that made the call, then two frames.
        words[0] = 0x40_0010;
        (words[4], words[5]) = (0x1040, 0x40_0020);
        (words[8], words[9]) = (0, 0x40_0030);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let stack = stack(&bytes);
        let mut registers = SampledRegisters::from_sample(&[0x40_0000, 0x1000, 0x1020]);
        for (is_first, next) in [(true, 0x40_0010), (false, 0x40_0020), (false, 0x40_0030)] {
            assert_eq!(by_frame_pointer(&mut registers, &stack, is_first), NEXT);
            assert_eq!(registers.instruction_pointer(), next);
        }
        let last = by_frame_pointer(&mut registers, &stack, false);
        assert_eq!(last, Ok(UnwindStep::Root));
    }

    #[test]
    fn a_frame_pointer_that_points_down_or_out_of_the_stack_is_not_followed() {
        for (frame_pointer, failure) in [
            (0x1010, Failure::BadTable),
            (0x5000, Failure::Unreadable(0x5008)),
        ] {
            let mut registers = SampledRegisters::from_sample(&[0x40_0000, 0x1020, frame_pointer]);
            let found = by_frame_pointer(&mut registers, &stack(&[0; 64]), false);
            assert_eq!(found, Err(failure));
        }
    }
}
