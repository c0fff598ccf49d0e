//! How much stack a program and everything that it calls take, by the rule of the strictest kernel.
//! No kernel is needed: it is computed from the object.
//!
//! The kernel allows 512 bytes over all nested calls (`MAX_BPF_STACK` in its
//! include/linux/filter.h). Linux 6.1 rounds every function's frame up to 32 bytes
//! (`check_max_stack_depth` in kernel/bpf/verifier.c, v6.1). 6.12 rounds up to 16 if programs are
//! compiled (`round_up_stack_depth`), and newer kernels may give a program a separate stack for
//! some of its frames (`check_max_stack_depth_subprog`). So a program that fits on 6.1 fits
//! everywhere.
//!
//! Encoding: RFC 9669, section 3 ("Instruction Encoding").

use std::collections::{BTreeMap, BTreeSet};

use aya_obj::{
    Object,
    generated::{BPF_PSEUDO_CALL, BPF_PSEUDO_FUNC, bpf_insn},
};

/// The most bytes of stack that a program of ours may take. It is less than the kernel's 512, to
/// leave room for the next change.
pub(super) const LIMIT_BYTES: u32 = 384;

/// Linux 6.1 rounds frames up to a multiple of this.
const GRANULARITY: u32 = 32;

/// `BPF_JMP | BPF_CALL`.
const CALL: u8 = 0x85;
/// `BPF_LD | BPF_IMM | BPF_DW`: as wide as two instructions; the code of its second half is 0.
const LOAD_64: u8 = 0x18;
/// `BPF_ALU64 | BPF_MOV | BPF_X`.
const MOVE: u8 = 0xbf;
/// `BPF_ALU64 | BPF_ADD | BPF_K`.
const ADD: u8 = 0x07;
/// The register that points to the end of the function's stack frame.
const FRAME: usize = 10;

/// How much stack each program of an eBPF object takes, by name.
pub(super) fn of_programs(object: &[u8]) -> BTreeMap<String, u32> {
    let mut object = Object::parse(object).expect("an eBPF object");
    let sections = object.functions.keys().map(|(section, _)| *section);
    let linked = object.relocate_calls(&sections.collect());
    linked.expect("all that it calls is in it");
    let programs = object.programs.iter();
    let of_program = |(name, program): (&String, &aya_obj::Program)| {
        let code = &object.functions[&program.function_key()].instructions;
        (name.clone(), of_program(code))
    };
    programs.map(of_program).collect()
}

/// How much stack a program takes, with all functions that it calls or passes as callbacks: they
/// are behind it.
fn of_program(code: &[bpf_insn]) -> u32 {
    deepest(code, &callees(code, 0, code.len()), 0)
}

/// The same from the function that begins at this instruction. The verifier refuses functions that
/// call themselves.
fn deepest(code: &[bpf_insn], starts: &BTreeSet<usize>, start: usize) -> u32 {
    let next = starts.range(start + 1..).next();
    let end = next.copied().unwrap_or(code.len());
    let below = callees(code, start, end).into_iter();
    let below = below.map(|callee| deepest(code, starts, callee)).max();
    rounded(frame_bytes(&code[start..end])) + below.unwrap_or(0)
}

/// Where the functions begin that these instructions call or take the address of. The distance is
/// from the next instruction.
fn callees(code: &[bpf_insn], start: usize, end: usize) -> BTreeSet<usize> {
    let of_function = [(CALL, BPF_PSEUDO_CALL), (LOAD_64, BPF_PSEUDO_FUNC)];
    let target = |at: usize| {
        let one = &code[at];
        let distance = isize::try_from(one.imm).ok()?;
        let target = (at + 1).checked_add_signed(distance);
        target.filter(|_| of_function.contains(&(one.code, one.src_reg().into())))
    };
    (start..end).filter_map(target).collect()
}

/// The size that the kernel assumes for a frame of which this many bytes are used. An unused frame
/// also has the minimum size.
fn rounded(bytes: u32) -> u32 {
    bytes.max(1).next_multiple_of(GRANULARITY)
}

/// How much of its stack frame this function uses, in bytes.
///
/// It follows the address of the frame through the registers, in the order of the instructions. The
/// compiler computes the address of something on the stack right where it is used, so this finds
/// all of them. The kernel may find less, because it leaves out dead code.
fn frame_bytes(code: &[bpf_insn]) -> u32 {
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

fn insn(code: u8, target: u8, source: u8, off: i16, imm: i32) -> bpf_insn {
    bpf_insn {
        code,
        _bitfield_align_1: [],
        _bitfield_1: bpf_insn::new_bitfield_1(target, source),
        off,
        imm,
    }
}

/// A program of functions that use so many bytes each, and call these two others.
fn program(functions: &[(i16, [usize; 2])]) -> Vec<bpf_insn> {
    let function = |(index, &(used, callees)): (usize, &(i16, [usize; 2]))| {
        let call = |place: usize| {
            let distance = 4 * callees[place].cast_signed() - (4 * index + place + 2).cast_signed();
            let is_call = callees[place] > 0;
            let distance = i32::try_from(distance).expect("short");
            insn(CALL, 0, u8::from(is_call), 0, distance)
        };
        [
            insn(0x7b, 10, 1, -used, 0),
            call(0),
            call(1),
            insn(0x95, 0, 0, 0, 0),
        ]
    };
    functions.iter().enumerate().flat_map(function).collect()
}

#[test]
fn the_deepest_chain_is_the_one_that_linux_6_1_refused() {
    // "combined stack size of 4 calls is 544. Too large": sys_enter, mapped_file, look_up_mapping,
    // look_closer. It stopped there, before the last function of the chain.
    let refused = [
        (264, [5, 1]),
        (0, [2, 0]),
        (104, [3, 0]),
        (80, [4, 0]),
        (56, [0, 0]),
        (120, [0, 0]),
    ];
    assert_eq!(of_program(&program(&refused)), 544 + 64);
    // A function that is called twice counts once in a chain.
    let twice = [(8, [1, 2]), (8, [2, 2]), (40, [0, 0])];
    assert_eq!(of_program(&program(&twice)), 32 + 32 + 64);
}

#[test]
fn a_frame_is_as_large_as_its_lowest_access() {
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
    ] {
        assert_eq!(frame_bytes(instructions), bytes);
    }
}
