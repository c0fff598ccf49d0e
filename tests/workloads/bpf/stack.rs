//! How much stack a program takes with all that it calls, by the rule of the strictest kernel.
//!
//! The kernel allows 512 bytes over all nested calls (`MAX_BPF_STACK` in its include/linux/filter.h). Linux 6.1 rounds every function's frame
//! up to 32 bytes (`check_max_stack_depth` in kernel/bpf/verifier.c, v6.1); from 6.9 on, to 16 where programs are compiled
//! (`round_up_stack_depth`); from 6.13 on, a program may have a stack of its own for some of its frames (`check_max_stack_depth_subprog`).
//! So what fits on 6.1 fits everywhere.

use super::{
    instruction::{Does, FRAME, Instruction},
    object::Object,
};

/// Most bytes of stack that a program of ours may take: the kernel's 512, less room for the next change.
pub const LIMIT_BYTES: u32 = 448;

/// To how many bytes Linux 6.1 rounds up a frame.
const GRANULARITY: u32 = 32;

/// Functions that call each other, from the program on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// The functions, as indices into [`Object::functions`].
    pub functions: Vec<usize>,
    /// What their frames take together.
    pub bytes: u32,
}

/// What the kernel reckons for a frame of which this many bytes are used; one that is not used has its least size, too.
pub const fn rounded(bytes: u32) -> u32 {
    if bytes == 0 { GRANULARITY } else { bytes.next_multiple_of(GRANULARITY) }
}

/// The chain of calls that takes the most stack, beginning with this function. The verifier refuses functions that call themselves.
pub fn deepest_chain(object: &Object, function: usize) -> Chain {
    let below = object.functions[function].callees.iter().map(|&callee| deepest_chain(object, callee));
    let below = below.max_by_key(|chain| chain.bytes).unwrap_or_default();
    let bytes = rounded(object.functions[function].stack_bytes) + below.bytes;
    Chain { functions: std::iter::once(function).chain(below.functions).collect(), bytes }
}

/// How far down its stack frame this function reaches, in bytes.
///
/// It follows the frame's address through the registers in the order of the instructions. The compiler makes an address of something on the
/// stack right where it is used, so that finds all of them. The kernel may reckon with less: it leaves out what is never run.
pub(super) fn frame_bytes(code: &[Option<Instruction>]) -> u32 {
    // How far below the end of the frame each register points, if it does.
    let mut registers = [None; 16];
    let mut lowest = 0;
    for instruction in code.iter().flatten() {
        registers[usize::from(FRAME)] = Some(0_i32);
        match instruction.does() {
            Does::Copies { target, source } => registers[usize::from(target)] = registers[usize::from(source)],
            Does::Adds { target, constant } => {
                let register = &mut registers[usize::from(target)];
                *register = register.map(|offset| offset.saturating_add(constant));
                lowest = register.map_or(lowest, |offset| lowest.min(offset));
            }
            Does::Loads { target, base, offset } => {
                lowest = reached(registers[usize::from(base)], offset).min(lowest);
                registers[usize::from(target)] = None;
            }
            Does::Stores { base, offset } => lowest = reached(registers[usize::from(base)], offset).min(lowest),
            Does::CallsHelper(_) | Does::CallsFunction(_) => registers[..6].fill(None),
            Does::LoadsConstant { target, .. } | Does::Sets(target) => registers[usize::from(target)] = None,
            Does::Jumps => {}
        }
    }
    lowest.unsigned_abs()
}

/// Where an access ends up, from the end of the frame; 0 if it is not in the frame.
fn reached(base: Option<i32>, offset: i16) -> i32 {
    base.map_or(0, |base| base.saturating_add(offset.into()))
}
