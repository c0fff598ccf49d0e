//! The programs of an eBPF object as aya loads them: each with all functions that it calls.
//!
//! Encoding: RFC 9669, section 3 ("Instruction Encoding").

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use aya_obj::{
    Object,
    generated::{BPF_PSEUDO_CALL, BPF_PSEUDO_FUNC, bpf_insn},
};

use super::stack::frame_bytes;

/// A function of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name, with its module.
    pub name: String,
    /// How much of its stack frame it uses, in bytes.
    pub stack_bytes: u32,
    /// The functions of the program that it calls or passes as callbacks, as indices, each once, in
    /// the order of its instructions.
    pub callees: Vec<usize>,
}

/// `BPF_JMP | BPF_CALL`.
pub const CALL: u8 = 0x85;
/// `BPF_LD | BPF_IMM | BPF_DW`: as wide as two instructions; the code of its second half is 0.
const LOAD_64: u8 = 0x18;

/// The functions of each program, the program itself first, in the order in which aya places them:
/// the callees of a function follow it in the order of its calls, each followed by its own callees,
/// unless they are placed already. By the names of the programs.
///
/// # Errors
///
/// If this is not an eBPF object, or one that calls something that is not in it.
pub fn programs_of(bytes: &[u8]) -> Result<Vec<Vec<Function>>> {
    let mut object = Object::parse(bytes).context("not an eBPF object")?;
    let functions = object.functions.clone();
    let sections = functions.keys().map(|(section, _)| *section).collect();
    object.relocate_calls(&sections)?;
    let mut programs = Vec::new();
    for (name, program) in &object.programs {
        let linked = &object.functions[&program.function_key()];
        let mut parts = split(&linked.instructions, |code| {
            let mut known = functions.values();
            known.find(|known| is_same(&known.instructions, code))
        })?;
        // Two programs may have the same code.
        name.clone_into(&mut parts[0].name);
        programs.push(parts);
    }
    programs.sort_by(|one, other| one[0].name.cmp(&other[0].name));
    Ok(programs)
}

/// The functions in the code of a program. `original` finds one as it was before it was placed.
fn split<'a>(
    code: &[bpf_insn],
    original: impl Fn(&[bpf_insn]) -> Option<&'a aya_obj::Function>,
) -> Result<Vec<Function>> {
    let targets: Vec<Option<usize>> = code.iter().copied().enumerate().map(target).collect();
    let starts: BTreeSet<usize> = targets.iter().copied().flatten().chain([0]).collect();
    let starts: Vec<usize> = starts.into_iter().collect();
    let mut functions = Vec::new();
    for (index, &start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(code.len());
        let own = &code[start..end];
        let known = original(own).context("a function is not in the object")?;
        let mut callees = Vec::new();
        for callee in targets[start..end].iter().flatten() {
            let callee = starts.binary_search(callee).ok().context("no start")?;
            if !callees.contains(&callee) {
                callees.push(callee);
            }
        }
        functions.push(Function {
            name: format!("{:#}", rustc_demangle::demangle(&known.name)),
            stack_bytes: frame_bytes(own),
            callees,
        });
    }
    Ok(functions)
}

/// Whether the instruction calls a function of the program or takes its address.
fn names_function(one: bpf_insn) -> bool {
    let of_function = [(CALL, BPF_PSEUDO_CALL), (LOAD_64, BPF_PSEUDO_FUNC)];
    of_function.contains(&(one.code, one.src_reg().into()))
}

/// Where that function begins. The distance is from the next instruction.
fn target((at, one): (usize, bpf_insn)) -> Option<usize> {
    let distance = isize::try_from(one.imm).ok()?;
    let target = (at + 1).checked_add_signed(distance);
    target.filter(|_| names_function(one))
}

/// Whether this is the same code but for the places of what it calls.
fn is_same(code: &[bpf_insn], placed: &[bpf_insn]) -> bool {
    let is_alike = |(one, other): (&bpf_insn, &bpf_insn)| {
        let is_equal = (one.imm, one.src_reg()) == (other.imm, other.src_reg());
        (one.code, one.dst_reg(), one.off) == (other.code, other.dst_reg(), other.off)
            && (names_function(*other) || is_equal)
    };
    code.len() == placed.len() && code.iter().zip(placed).all(is_alike)
}
