//! Unwinds one frame by an unwind table: finds the caller's registers by those of the function that
//! it called.
//!
//! The format is in the DWARF 5 standard, section 6.4; how it is used in `.eh_frame`, in the Linux
//! Standard Base, "Exception Frames".

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use gimli::{
    BaseAddresses, CfaRule, DebugFrame, EhFrame, EhFrameHdr, Encoding, EndianSlice, Evaluation,
    EvaluationResult, Expression, LittleEndian, Location, ParsedEhFrameHdr, Register, RegisterRule,
    UnwindContext, UnwindExpression, UnwindSection, Value,
};

use crate::{
    elf::{Module, Section},
    sampled::{SampledRegisters, StackCopy, numbers, without_signature},
};

const ADDRESS_BYTES: u8 = 8;
/// The most operations of an expression in a table. Those of compilers have less than twenty.
const MAX_STEPS: u32 = 1000;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// What comes after a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnwindStep {
    /// Its caller.
    Caller {
        /// Whether the instruction pointer is the instruction itself, and not the one after a call:
        /// a signal came there.
        is_exact: bool,
    },
    /// Nothing: the thread began with this function.
    Root,
}

/// Why a frame cannot be unwound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// There is no table for this function.
    NoTable,
    /// The table cannot be parsed, or asks for what is not known.
    BadTable,
    /// The stack was not copied at this address.
    Unreadable(u64),
}

/// Unwinds the functions of a file.
#[derive(Debug)]
pub struct Unwinder {
    module: Arc<Module>,
    bases: BaseAddresses,
    /// Of `eh_frame`, if it has no index of its own.
    index: Index,
    /// Of `debug_frame`.
    debug_index: Index,
    /// What the tables say of addresses so far. Programs make their calls in few places.
    known: RefCell<KnownRules>,
}

/// What tables say of the addresses of a file.
#[derive(Debug, Default)]
struct KnownRules {
    by_address: HashMap<u64, Result<Rules, Failure>>,
    context: Box<UnwindContext<usize>>,
}

/// What a table says of an address: where the caller's registers are.
#[derive(Debug)]
struct Rules {
    table: TableKind,
    encoding: Encoding,
    is_signal_trampoline: bool,
    return_address: Register,
    cfa: CfaRule<usize>,
    registers: Box<[(Register, RegisterRule<usize>)]>,
}

/// The two tables that a file may have.
#[derive(Debug, Clone, Copy)]
enum TableKind {
    /// `.eh_frame`
    Exceptions,
    /// `.debug_frame`
    DebugInfo,
}

/// Where a table has which function.
#[derive(Debug, Default)]
struct Index(Vec<TablePlace>);

/// The first address of a function, its end, and its offset in the table.
type TablePlace = (u64, u64, usize);

impl Unwinder {
    /// For this file.
    pub fn new(module: Arc<Module>) -> Self {
        let address =
            |section: &Option<Section>| section.as_ref().map_or(0, |section| section.address);
        let bases = BaseAddresses::default()
            .set_eh_frame(address(&module.eh_frame))
            .set_eh_frame_hdr(address(&module.eh_frame_hdr))
            .set_text(module.text)
            .set_got(module.got);
        let index = match (&module.eh_frame, &module.eh_frame_hdr) {
            (Some(table), None) => Index::of_section(&eh_frame(&table.bytes), &bases),
            _ => Index::default(),
        };
        let debug_index = module
            .debug_frame
            .as_ref()
            .map(|table| Index::of_section(&debug_frame(&table.bytes), &bases));
        Self {
            module,
            bases,
            index,
            debug_index: debug_index.unwrap_or_default(),
            known: RefCell::default(),
        }
    }

    /// The file.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Goes on from the function at this address of the file to its caller. `bias` is what has to
    /// be added to addresses of the file.
    pub fn step(
        &self,
        address: u64,
        bias: u64,
        registers: &mut SampledRegisters,
        stack: &StackCopy<'_>,
    ) -> Result<UnwindStep, Failure> {
        let KnownRules {
            by_address,
            context,
        } = &mut *self.known.borrow_mut();
        let rules = by_address
            .entry(address)
            .or_insert_with(|| self.rules_at(address, context));
        let rules = rules.as_ref().map_err(|&failure| failure)?;
        let frame = FrameRegisters {
            table: self.table_bytes(rules.table)?,
            rules,
            bias,
            registers: *registers,
            stack,
        };
        let (next, caller) = frame.unwind_caller()?;
        let Some(next) = next else {
            return Ok(UnwindStep::Root);
        };
        // A frame that leaves everything as it was would be repeated for ever.
        if next == registers.instruction_pointer
            && caller.stack_pointer() == registers.stack_pointer()
        {
            return Err(Failure::BadTable);
        }
        *registers = SampledRegisters {
            instruction_pointer: next,
            ..caller
        };
        Ok(UnwindStep::Caller {
            is_exact: rules.is_signal_trampoline,
        })
    }

    fn table_bytes(&self, table: TableKind) -> Result<&[u8], Failure> {
        let section = match table {
            TableKind::Exceptions => &self.module.eh_frame,
            TableKind::DebugInfo => &self.module.debug_frame,
        };
        let section = section.as_ref().ok_or(Failure::NoTable)?;
        Ok(&section.bytes)
    }

    /// What the tables say of this address.
    fn rules_at(&self, address: u64, context: &mut UnwindContext<usize>) -> Result<Rules, Failure> {
        let place = self
            .index
            .find_function(address)
            .or_else(|| self.look_up(address));
        let kind = TableKind::Exceptions;
        let rules = self
            .table_bytes(kind)
            .and_then(|bytes| self.rules_in(kind, &eh_frame(bytes), place, address, context));
        if rules.as_ref().err() != Some(&Failure::NoTable) {
            return rules;
        }
        let (kind, place) = (
            TableKind::DebugInfo,
            self.debug_index.find_function(address),
        );
        let table = debug_frame(self.table_bytes(kind)?);
        self.rules_in(kind, &table, place, address, context)
    }

    /// Where the table has the function at this address, by the file's index.
    fn look_up(&self, address: u64) -> Option<usize> {
        let section = self.module.eh_frame_hdr.as_ref()?;
        let header: ParsedEhFrameHdr<Slice<'_>> = EhFrameHdr::new(&section.bytes, LittleEndian)
            .parse(&self.bases, ADDRESS_BYTES)
            .ok()?;
        let table = header.table()?;
        let pointer = table.lookup(address, &self.bases).ok()?;
        Some(table.pointer_to_offset(pointer).ok()?.0)
    }

    /// What a table says of this address, whose function it has at `place`.
    fn rules_in<'t, Table: UnwindSection<Slice<'t>>>(
        &self,
        table: TableKind,
        section: &Table,
        place: Option<usize>,
        address: u64,
        context: &mut UnwindContext<usize>,
    ) -> Result<Rules, Failure> {
        let place = place.ok_or(Failure::NoTable)?.into();
        let fde = section
            .fde_from_offset(&self.bases, place, Table::cie_from_offset)
            .map_err(|_| Failure::BadTable)?;
        if !fde.contains(address) {
            // The index has the last function before this address.
            return Err(Failure::NoTable);
        }
        let row = fde
            .unwind_info_for_address(section, &self.bases, context, address)
            .map_err(|_| Failure::BadTable)?;
        Ok(Rules {
            table,
            encoding: fde.cie().encoding(),
            is_signal_trampoline: fde.is_signal_trampoline(),
            return_address: fde.cie().return_address_register(),
            cfa: row.cfa().clone(),
            registers: row.registers().cloned().collect(),
        })
    }
}

fn eh_frame(bytes: &[u8]) -> EhFrame<Slice<'_>> {
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_address_size(ADDRESS_BYTES);
    section
}

fn debug_frame(bytes: &[u8]) -> DebugFrame<Slice<'_>> {
    let mut section = DebugFrame::new(bytes, LittleEndian);
    section.set_address_size(ADDRESS_BYTES);
    section
}

impl Index {
    /// The index of a table. What cannot be parsed is left out.
    fn of_section<'t, Table: UnwindSection<Slice<'t>>>(
        section: &Table,
        bases: &BaseAddresses,
    ) -> Self {
        let mut found = Vec::new();
        let mut entries = section.entries(bases);
        while let Ok(Some(entry)) = entries.next() {
            let gimli::CieOrFde::Fde(partial) = entry else {
                continue;
            };
            if let Ok(fde) = partial.parse(Table::cie_from_offset) {
                found.push((fde.initial_address(), fde.end_address(), fde.offset()));
            }
        }
        found.sort_unstable();
        Self(found)
    }

    /// Where the table has the function at this address.
    fn find_function(&self, address: u64) -> Option<usize> {
        let place = self
            .0
            .partition_point(|(start, ..)| *start <= address)
            .checked_sub(1)?;
        let (_, end, offset) = self.0[place];
        (address < end).then_some(offset)
    }
}

/// A function that is unwound.
struct FrameRegisters<'f> {
    /// The bytes of the table that has the rules.
    table: &'f [u8],
    rules: &'f Rules,
    bias: u64,
    registers: SampledRegisters,
    stack: &'f StackCopy<'f>,
}

impl<'f> FrameRegisters<'f> {
    /// Where the caller goes on, and its other registers. `None` instead of the address: there is
    /// no caller.
    fn unwind_caller(&self) -> Result<(Option<u64>, SampledRegisters), Failure> {
        let Rules {
            return_address,
            cfa,
            registers,
            ..
        } = self.rules;
        let cfa = match cfa {
            CfaRule::RegisterAndOffset { register, offset } => self
                .registers
                .register(*register)
                .ok_or(Failure::BadTable)?
                .wrapping_add_signed(*offset),
            CfaRule::Expression(expression) => self.evaluate_expression(expression, None)?,
        };
        let mut caller = self.registers;
        caller.by_number[usize::from(numbers::STACK_POINTER)] = Some(cfa);
        let mut next = self.unsaved_return_address(*return_address);
        for (register, rule) in registers {
            let value = self.register_value(*register, rule, cfa)?;
            if register == return_address {
                next = value;
            }
            if let Some(place) = caller.by_number.get_mut(usize::from(register.0)) {
                *place = value;
            }
        }
        Ok((
            next.map(without_signature).filter(|&next| next != 0),
            caller,
        ))
    }

    /// The return address if no rule says where it is: on arm64 it is still in its register. On
    /// `x86_64` the tables of functions that no other one called leave it out.
    fn unsaved_return_address(&self, register: Register) -> Option<u64> {
        if cfg!(target_arch = "aarch64") {
            self.registers.register(register)
        } else {
            None
        }
    }

    /// The caller's value of a register. `None`: it has none.
    fn register_value(
        &self,
        register: Register,
        rule: &RegisterRule<usize>,
        cfa: u64,
    ) -> Result<Option<u64>, Failure> {
        Ok(match rule {
            RegisterRule::Undefined => None,
            RegisterRule::SameValue => self.registers.register(register),
            RegisterRule::Offset(offset) => Some(self.read(cfa.wrapping_add_signed(*offset))?),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
            RegisterRule::Register(other) => self.registers.register(*other),
            RegisterRule::Expression(at) => {
                Some(self.read(self.evaluate_expression(at, Some(cfa))?)?)
            }
            RegisterRule::ValExpression(value) => Some(self.evaluate_expression(value, Some(cfa))?),
            RegisterRule::Constant(value) => Some(*value),
            RegisterRule::Architectural => return Err(Failure::BadTable),
        })
    }

    fn read(&self, address: u64) -> Result<u64, Failure> {
        self.stack.read(address).ok_or(Failure::Unreadable(address))
    }

    /// The value of an expression. The address of a frame, if it is given, is what the expression
    /// begins with.
    fn evaluate_expression(
        &self,
        expression: &UnwindExpression<usize>,
        first: Option<u64>,
    ) -> Result<u64, Failure> {
        let bytes = self.table.get(expression.offset..);
        let bytes = bytes.and_then(|bytes| bytes.get(..expression.length));
        let bytes = EndianSlice::new(bytes.ok_or(Failure::BadTable)?, LittleEndian);
        let expression = Expression(bytes);
        let mut evaluation = expression.evaluation(self.rules.encoding);
        // The table is the traced program's: its expressions could go on for ever.
        evaluation.set_max_iterations(MAX_STEPS);
        if let Some(first) = first {
            evaluation.set_initial_value(first);
        }
        self.complete_evaluation(&mut evaluation)
            .and_then(|result| result.ok_or(Failure::BadTable))
    }

    fn complete_evaluation(
        &self,
        evaluation: &mut Evaluation<Slice<'f>>,
    ) -> Result<Option<u64>, Failure> {
        let bad = |_| Failure::BadTable;
        let mut state = evaluation.evaluate().map_err(bad)?;
        loop {
            state = match state {
                EvaluationResult::Complete => {
                    let last = evaluation.as_result().last().map(|piece| piece.location);
                    return Ok(match last {
                        Some(Location::Address { address }) => Some(address),
                        _ => None,
                    });
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    // The table of the loader's stubs asks for the instruction pointer.
                    let own = (register.0 == 16 && cfg!(target_arch = "x86_64"))
                        .then_some(self.registers.instruction_pointer);
                    let value = own
                        .or(self.registers.register(register))
                        .ok_or(Failure::BadTable)?;
                    evaluation
                        .resume_with_register(Value::Generic(value))
                        .map_err(bad)?
                }
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let kept = u64::MAX.checked_shr(64 - 8 * u32::from(size)).unwrap_or(0);
                    evaluation
                        .resume_with_memory(Value::Generic(self.read(address)? & kept))
                        .map_err(bad)?
                }
                EvaluationResult::RequiresRelocatedAddress(address) => evaluation
                    .resume_with_relocated_address(address.wrapping_add(self.bias))
                    .map_err(bad)?,
                _ => return Err(Failure::BadTable),
            };
        }
    }
}
