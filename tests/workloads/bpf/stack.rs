//! How much stack a program and everything that it calls take, by the rule of the strictest kernel.
//!
//! The kernel allows 512 bytes over all nested calls (`MAX_BPF_STACK` in its
//! include/linux/filter.h). Linux 6.1 rounds every function's frame up to 32 bytes
//! (`check_max_stack_depth` in kernel/bpf/verifier.c, v6.1). 6.12 rounds up to 16 if programs are
//! compiled (`round_up_stack_depth`), and newer kernels may give a program a separate stack for
//! some of its frames (`check_max_stack_depth_subprog`). So a program that fits on 6.1 fits
//! everywhere.

use super::object::{ADD, CALL, FRAME, Instruction, MOVE, Object};

/// The most bytes of stack that a program of ours may take. It is less than the kernel's 512, to
/// leave room for the next change.
pub const LIMIT_BYTES: u32 = 384;

/// Linux 6.1 rounds frames up to a multiple of this.
const GRANULARITY: u32 = 32;

/// A chain of functions that call each other, beginning with a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// The functions, as indices into [`Object::functions`].
    pub functions: Vec<usize>,
    /// The sum of their frames.
    pub bytes: u32,
}

/// The size that the kernel assumes for a frame of which this many bytes are used. An unused frame
/// also has the minimum size.
pub const fn rounded(bytes: u32) -> u32 {
    if bytes == 0 {
        GRANULARITY
    } else {
        bytes.next_multiple_of(GRANULARITY)
    }
}

/// The chain of calls that takes the most stack, beginning with this function. The verifier refuses
/// functions that call themselves.
pub fn deepest_chain(object: &Object, function: usize) -> Chain {
    deepest_chain_with(object, function, &|function| {
        object.functions[function].stack_bytes
    })
}

/// The same with frames of these sizes.
pub fn deepest_chain_with(
    object: &Object,
    function: usize,
    frame: &impl Fn(usize) -> u32,
) -> Chain {
    let below = object.functions[function]
        .callees
        .iter()
        .map(|&callee| deepest_chain_with(object, callee, frame));
    let below = below.max_by_key(|chain| chain.bytes).unwrap_or_default();
    let bytes = rounded(frame(function)) + below.bytes;
    Chain {
        functions: std::iter::once(function).chain(below.functions).collect(),
        bytes,
    }
}

/// How much of its stack frame this function uses, in bytes.
///
/// It follows the address of the frame through the registers, in the order of the instructions. The
/// compiler computes the address of something on the stack right where it is used, so this finds
/// all of them. The kernel may find less, because it leaves out dead code.
pub(super) fn frame_bytes(code: &[Option<Instruction>]) -> u32 {
    // For each register that points into the frame: how far from its end.
    let mut registers = [None; 16];
    let mut lowest = 0;
    for one in code.iter().flatten() {
        registers[usize::from(FRAME)] = Some(0_i32);
        let [target, source] = [one.target, one.source].map(usize::from);
        // The classes are those that are named at [`Instruction::code`].
        match (one.code, one.code & 7) {
            (CALL, _) => registers[..6].fill(None),
            (MOVE, _) if one.offset == 0 => registers[target] = registers[source],
            (ADD, _) => {
                let sum = |offset: i32| offset.saturating_add(one.immediate);
                registers[target] = registers[target].map(sum);
                lowest = registers[target].map_or(lowest, |offset| lowest.min(offset));
            }
            (_, 1) => {
                lowest = reached(registers[source], one.offset).min(lowest);
                registers[target] = None;
            }
            (_, 2 | 3) => lowest = reached(registers[target], one.offset).min(lowest),
            (_, 5 | 6) => {}
            _ => registers[target] = None,
        }
    }
    lowest.unsigned_abs()
}

/// Where an access ends up, from the end of the frame; 0 if it is not in the frame.
fn reached(base: Option<i32>, offset: i16) -> i32 {
    base.map_or(0, |base| base.saturating_add(offset.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::Function;

    /// Functions with these frames and callees, the first one a program.
    fn object(functions: &[(u32, &[usize])]) -> Object {
        let function = |&(stack_bytes, callees): &(u32, &[usize])| Function {
            stack_bytes,
            callees: callees.to_vec(),
            ..Function::default()
        };
        Object {
            functions: functions.iter().map(function).collect(),
        }
    }

    #[test]
    fn frames_are_rounded_up_as_linux_6_1_does() {
        for (used, reckoned) in [(0, 32), (1, 32), (32, 32), (33, 64), (104, 128), (264, 288)] {
            assert_eq!(rounded(used), reckoned, "{used} bytes");
        }
    }

    #[test]
    fn the_deepest_chain_is_the_one_that_linux_6_1_refused() {
        // "combined stack size of 4 calls is 544. Too large": sys_enter, mapped_file,
        // look_up_mapping, look_closer. It stopped there, before the last function of the chain.
        let refused = object(&[
            (264, &[5, 1]),
            (0, &[2]),
            (104, &[3]),
            (80, &[4]),
            (56, &[]),
            (120, &[]),
        ]);
        // A function that is called twice counts once in a chain.
        let twice = object(&[(8, &[1, 2]), (8, &[2]), (40, &[])]);
        for (object, function, functions, bytes) in [
            (&refused, 0, vec![0, 1, 2, 3, 4], 544 + 64),
            (&refused, 1, vec![1, 2, 3, 4], 544 + 64 - 288),
            (&refused, 5, vec![5], 128),
            (&twice, 0, vec![0, 1, 2], 32 + 32 + 64),
        ] {
            let chain = deepest_chain(object, function);
            assert_eq!(chain, Chain { functions, bytes });
        }
    }

    #[test]
    fn a_frame_is_as_large_as_its_lowest_access() {
        const TO_FRAME: [u8; 8] = [0x7b, 0x1a, 0xf8, 0xff, 0, 0, 0, 0];
        const FROM_FRAME: [u8; 8] = [0x61, 0xa2, 0xec, 0xff, 0, 0, 0, 0];
        const POINT: [u8; 8] = [0xbf, 0xa2, 0, 0, 0, 0, 0, 0];
        const SUBTRACT_96: [u8; 8] = [0x07, 0x02, 0, 0, 0xa0, 0xff, 0xff, 0xff];
        const THROUGH_POINTER: [u8; 8] = [0x73, 0x12, 90, 0, 0, 0, 0, 0];
        const FIVE: [u8; 8] = [0xb7, 0x02, 0, 0, 5, 0, 0, 0];
        for (instructions, bytes) in [
            // *(u64 *)(r10 - 8) = r1; r2 = *(u32 *)(r10 - 20)
            (&[TO_FRAME, FROM_FRAME][..], 20),
            // r2 = r10; r2 += -96; *(u8 *)(r2 + 90) = r1
            (&[POINT, SUBTRACT_96, THROUGH_POINTER], 96),
            // r2 = 5; r2 += -96: a number
            (&[FIVE, SUBTRACT_96], 0),
            (&[[0x95, 0, 0, 0, 0, 0, 0, 0]], 0),
        ] {
            let decoded = instructions
                .iter()
                .map(|bytes| Some(Instruction::decode(*bytes)));
            assert_eq!(frame_bytes(&decoded.collect::<Vec<_>>()), bytes);
        }
    }

    #[test]
    fn the_second_half_of_a_wide_instruction_is_not_an_instruction() {
        let halves = [[0x18, 0x01, 0, 0, 1, 0, 0, 0], [0x85, 0, 0, 0, 9, 0, 0, 0]];
        let [wide, alone] = halves.map(Instruction::decode);
        assert!(wide.is_wide() && alone.helper() == Some(9));
    }
}
