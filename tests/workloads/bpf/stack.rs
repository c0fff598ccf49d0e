//! How much stack a program and everything that it calls take, by the rule of the strictest kernel.
//!
//! The kernel allows 512 bytes over all nested calls (`MAX_BPF_STACK` in its
//! include/linux/filter.h). Linux 6.1 rounds every function's frame up to 32 bytes
//! (`check_max_stack_depth` in kernel/bpf/verifier.c, v6.1). 6.12 rounds up to 16 if programs are
//! compiled (`round_up_stack_depth`), and newer kernels may give a program a separate stack for
//! some of its frames (`check_max_stack_depth_subprog`). So a program that fits on 6.1 fits
//! everywhere.

use aya_obj::generated::bpf_insn;

use super::object::{CALL, Function};

/// The most bytes of stack that a program of ours may take. It is less than the kernel's 512, to
/// leave room for the next change.
pub const LIMIT_BYTES: u32 = 384;

/// Linux 6.1 rounds frames up to a multiple of this.
const GRANULARITY: u32 = 32;

/// A chain of functions that call each other, beginning with a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// The functions, as indices into those of the program.
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

/// The chain of calls that takes the most stack, beginning with a program, the first of these
/// functions. The verifier refuses functions that call themselves.
pub fn deepest_chain(program: &[Function]) -> Chain {
    deepest_below(program, 0)
}

fn deepest_below(program: &[Function], function: usize) -> Chain {
    let callees = program[function].callees.iter();
    let below = callees.map(|&callee| deepest_below(program, callee));
    let below = below.max_by_key(|chain| chain.bytes).unwrap_or_default();
    let bytes = rounded(program[function].stack_bytes) + below.bytes;
    Chain {
        functions: std::iter::once(function).chain(below.functions).collect(),
        bytes,
    }
}

/// `BPF_ALU64 | BPF_MOV | BPF_X`.
const MOVE: u8 = 0xbf;
/// `BPF_ALU64 | BPF_ADD | BPF_K`.
const ADD: u8 = 0x07;
/// The register that points to the end of the function's stack frame.
const FRAME: usize = 10;

/// How much of its stack frame this function uses, in bytes.
///
/// It follows the address of the frame through the registers, in the order of the instructions. The
/// compiler computes the address of something on the stack right where it is used, so this finds
/// all of them. The kernel may find less, because it leaves out dead code.
pub(super) fn frame_bytes(code: &[bpf_insn]) -> u32 {
    // For each register that points into the frame: how far from its end.
    let mut registers = [None; 16];
    let mut lowest = 0;
    for one in code {
        registers[FRAME] = Some(0_i32);
        let [target, source] = [one.dst_reg(), one.src_reg()].map(usize::from);
        // The class is in the three lowest bits: BPF_LD, BPF_LDX, BPF_ST, BPF_STX, BPF_ALU, BPF_JMP,
        // BPF_JMP32, BPF_ALU64.
        match (one.code, one.code & 7) {
            // The second half of a wide instruction.
            (0, _) => {}
            (CALL, _) => registers[..6].fill(None),
            (MOVE, _) if one.off == 0 => registers[target] = registers[source],
            (ADD, _) => {
                let sum = |offset: i32| offset.saturating_add(one.imm);
                registers[target] = registers[target].map(sum);
                lowest = registers[target].map_or(lowest, |offset| lowest.min(offset));
            }
            (_, 1) => {
                lowest = reached(registers[source], one.off).min(lowest);
                registers[target] = None;
            }
            (_, 2 | 3) => lowest = reached(registers[target], one.off).min(lowest),
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

    /// Functions with these frames and callees, the first one a program.
    fn program(functions: &[(u32, &[usize])]) -> Vec<Function> {
        let function = |&(stack_bytes, callees): &(u32, &[usize])| Function {
            stack_bytes,
            callees: callees.to_vec(),
            ..Function::default()
        };
        functions.iter().map(function).collect()
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
        let refused = program(&[
            (264, &[5, 1]),
            (0, &[2]),
            (104, &[3]),
            (80, &[4]),
            (56, &[]),
            (120, &[]),
        ]);
        // A function that is called twice counts once in a chain.
        let twice = program(&[(8, &[1, 2]), (8, &[2]), (40, &[])]);
        for (program, functions, bytes) in [
            (&refused, vec![0, 1, 2, 3, 4], 544 + 64),
            (&twice, vec![0, 1, 2], 32 + 32 + 64),
        ] {
            assert_eq!(deepest_chain(program), Chain { functions, bytes });
        }
    }

    #[test]
    fn a_frame_is_as_large_as_its_lowest_access() {
        let insn = |code, target, source, off, imm| bpf_insn {
            code,
            _bitfield_align_1: [],
            _bitfield_1: bpf_insn::new_bitfield_1(target, source),
            off,
            imm,
        };
        let point = insn(MOVE, 2, 10, 0, 0);
        let subtract_96 = insn(ADD, 2, 0, 0, -96);
        for (instructions, bytes) in [
            // *(u64 *)(r10 - 8) = r1; r2 = *(u32 *)(r10 - 20)
            (
                &[insn(0x7b, 10, 1, -8, 0), insn(0x61, 2, 10, -20, 0)][..],
                20,
            ),
            // r2 = r10; r2 += -96; *(u8 *)(r2 + 90) = r1
            (&[point, subtract_96, insn(0x73, 2, 1, 90, 0)], 96),
            // r2 = 5; r2 += -96: a number
            (&[insn(0xb7, 2, 0, 0, 5), subtract_96], 0),
            // The second half of a wide instruction changes no register.
            (&[point, insn(0, 2, 0, 0, 7), subtract_96], 96),
            (&[insn(0x95, 0, 0, 0, 0)], 0),
        ] {
            assert_eq!(frame_bytes(instructions), bytes);
        }
    }
}
