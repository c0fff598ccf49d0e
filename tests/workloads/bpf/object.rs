//! The functions of an eBPF object, which of them call each other, and their instructions, as far
//! as this crate decodes them.
//!
//! Encoding: RFC 9669, section 3 ("Instruction Encoding").

use std::collections::HashMap;

use anyhow::{Context as _, Result, bail};
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionIndex,
    SectionKind, SymbolKind, read::elf::ElfFile64,
};

use super::stack;

/// An eBPF object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Object {
    /// All functions, programs included.
    pub functions: Vec<Function>,
}

/// A function of an eBPF object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name, with its module.
    pub name: String,
    /// Whether the kernel calls it: a program.
    pub is_program: bool,
    /// How much of its stack frame it uses, in bytes.
    pub stack_bytes: u32,
    /// How many instructions it has. A wide instruction counts as two, as in the kernel.
    pub instructions: usize,
    /// The functions that it calls or passes as callbacks, as indices into [`Object::functions`],
    /// each once, in the order of its instructions.
    pub callees: Vec<usize>,
    /// The number of the kernel helper in each of its helper calls.
    pub helpers: Vec<i32>,
}

/// The number of `bpf_loop` (the kernel's include/uapi/linux/bpf.h).
pub const LOOP: i32 = 181;

/// Where a function begins: the index of its section, and the offset there.
type Place = (SectionIndex, u64);

impl Object {
    /// Reads an object from the linker. An error if it is not an eBPF object, or calls something
    /// that is not in it.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let file = ElfFile64::<object::Endianness>::parse(bytes).context("not an ELF object")?;
        let symbols: Vec<_> = file
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text)
            .filter_map(|symbol| Some((symbol, symbol.section_index()?)))
            .collect();
        let places: HashMap<Place, usize> = symbols
            .iter()
            .enumerate()
            .map(|(index, (symbol, section))| ((*section, symbol.address()), index))
            .collect();
        let mut functions = Vec::with_capacity(symbols.len());
        for (symbol, section_index) in &symbols {
            let section = file.section_by_index(*section_index)?;
            let name = format!("{:#}", rustc_demangle::demangle(symbol.name()?));
            let code = section
                .data_range(symbol.address(), symbol.size())?
                .context("a function outside of its section")?;
            let code = decode(code);
            let indices = |called: Vec<Place>| {
                let index = |place| places.get(place).copied();
                let indices: Option<Vec<usize>> = called.iter().map(index).collect();
                indices.context("the function is not in the object")
            };
            let called = callees(&file, &section, symbol.address(), &code).and_then(indices);
            let callees = called.with_context(|| format!("cannot find what {name} calls"))?;
            functions.push(Function {
                name,
                is_program: section.name()? != ".text" && section.kind() == SectionKind::Text,
                stack_bytes: stack::frame_bytes(&code),
                instructions: code.len(),
                callees,
                helpers: code
                    .iter()
                    .flatten()
                    .filter_map(|one| one.helper())
                    .collect(),
            });
        }
        Ok(Self { functions })
    }

    /// The programs, by name.
    pub fn programs(&self) -> Vec<usize> {
        let all = 0..self.functions.len();
        let mut programs: Vec<_> = all
            .filter(|&index| self.functions[index].is_program)
            .collect();
        programs.sort_by_key(|&index| &self.functions[index].name);
        programs
    }

    /// All functions of a program, itself included, in the order in which aya places them: the
    /// callees of a function follow it in the order of its calls, each followed by its own callees,
    /// unless they are placed already.
    pub fn parts(&self, program: usize) -> Vec<usize> {
        let mut parts = vec![program];
        self.add_callees(program, &mut parts);
        parts
    }

    fn add_callees(&self, function: usize, parts: &mut Vec<usize>) {
        for &callee in &self.functions[function].callees {
            if !parts.contains(&callee) {
                parts.push(callee);
                self.add_callees(callee, parts);
            }
        }
    }
}

/// The instructions in this code. `None` is the second half of a wide instruction.
fn decode(code: &[u8]) -> Vec<Option<Instruction>> {
    let mut is_second_half = false;
    let (chunks, _) = code.as_chunks::<INSTRUCTION_BYTES>();
    let decoded = chunks.iter().map(|bytes| {
        let instruction = (!is_second_half).then(|| Instruction::decode(*bytes));
        is_second_half = instruction.is_some_and(Instruction::is_wide);
        instruction
    });
    decoded.collect()
}

/// Where the functions begin that this code calls or takes the address of. The code is at `start`
/// of its section.
fn callees<'data>(
    file: &ElfFile64<'data, object::Endianness>,
    section: &object::read::elf::ElfSection64<'data, '_, object::Endianness>,
    start: u64,
    code: &[Option<Instruction>],
) -> Result<Vec<Place>> {
    let end = start + (code.len() * INSTRUCTION_BYTES) as u64;
    let mut relocated = HashMap::new();
    for (offset, relocation) in section
        .relocations()
        .filter(|(offset, _)| (start..end).contains(offset))
    {
        let RelocationTarget::Symbol(symbol) = relocation.target() else {
            bail!("a relocation without a symbol")
        };
        relocated.insert(offset, file.symbol_by_index(symbol)?);
    }
    let mut places = Vec::new();
    for (index, instruction) in code.iter().enumerate() {
        let offset = start + (index * INSTRUCTION_BYTES) as u64;
        let symbol = relocated.get(&offset);
        // The symbol of a section means its beginning, and the instruction has the distance from
        // there.
        let target = |addend: i64| -> Result<Place> {
            let symbol = symbol.context("an address without a relocation")?;
            let is_section = symbol.kind() == SymbolKind::Section;
            let address = symbol
                .address()
                .checked_add_signed(if is_section { addend } else { 0 });
            let section = symbol
                .section_index()
                .context("a symbol without a section")?;
            Ok((section, address.context("beyond the section")?))
        };
        let is_text = |symbol: &object::read::elf::ElfSymbol64<'data, '_, object::Endianness>| {
            let section = symbol
                .section_index()
                .and_then(|index| file.section_by_index(index).ok());
            section.is_some_and(|section| section.kind() == SectionKind::Text)
        };
        let Some(instruction) = instruction else {
            continue;
        };
        let place = if instruction.calls_function() {
            let distance = bytes_of(instruction.immediate);
            match symbol {
                Some(_) => target(distance)?,
                None => {
                    let address = offset.checked_add_signed(distance);
                    (section.index(), address.context("beyond the section")?)
                }
            }
        } else if instruction.is_wide() && symbol.is_some_and(is_text) {
            // The address of a function that a helper calls back.
            target(instruction.immediate.into())?
        } else {
            continue;
        };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    Ok(places)
}

/// How far a relative call jumps, in bytes. The distance is in instructions, from the one after the
/// call.
const fn bytes_of(distance: i32) -> i64 {
    (distance as i64 + 1) * INSTRUCTION_BYTES.cast_signed() as i64
}

/// Bytes of an instruction.
pub const INSTRUCTION_BYTES: usize = 8;

/// `BPF_JMP | BPF_CALL`.
pub const CALL: u8 = 0x85;
/// `BPF_LD | BPF_IMM | BPF_DW`: as wide as two instructions.
const LOAD_64: u8 = 0x18;
/// `BPF_ALU64 | BPF_MOV | BPF_X`.
pub const MOVE: u8 = 0xbf;
/// `BPF_ALU64 | BPF_ADD | BPF_K`.
pub const ADD: u8 = 0x07;
/// `BPF_PSEUDO_CALL` of the kernel's include/uapi/linux/bpf.h: the source register of a call of one
/// of our own functions.
const PSEUDO_CALL: u8 = 1;
/// The register that points to the end of the function's stack frame.
pub const FRAME: u8 = 10;

/// One instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// The lowest three bits are its class: `BPF_LD`, `BPF_LDX`, `BPF_ST`, `BPF_STX`, `BPF_ALU`,
    /// `BPF_JMP`, `BPF_JMP32`, `BPF_ALU64`.
    pub code: u8,
    /// The register that it writes, or through which it writes memory.
    pub target: u8,
    /// The register that it reads, or through which it reads memory.
    pub source: u8,
    /// How far from there the memory is.
    pub offset: i16,
    /// A constant; of a wide instruction, its lower half.
    pub immediate: i32,
}

impl Instruction {
    /// Decodes an instruction of the little-endian encoding.
    pub fn decode(bytes: [u8; INSTRUCTION_BYTES]) -> Self {
        let [code, registers, low, high, immediate @ ..] = bytes;
        Self {
            code,
            target: registers & 0xf,
            source: registers >> 4,
            offset: i16::from_le_bytes([low, high]),
            immediate: i32::from_le_bytes(immediate),
        }
    }

    /// Whether the next eight bytes belong to this instruction.
    pub const fn is_wide(self) -> bool {
        self.code == LOAD_64
    }

    /// The number of the helper of the kernel, if it calls one.
    pub fn helper(self) -> Option<i32> {
        (self.code == CALL && self.source != PSEUDO_CALL).then_some(self.immediate)
    }

    /// Whether it calls another function: so many instructions after the next one, unless a
    /// relocation says otherwise.
    fn calls_function(self) -> bool {
        self.code == CALL && self.source == PSEUDO_CALL
    }
}
