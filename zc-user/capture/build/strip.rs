//! Removes from an eBPF object what only costs time when it is loaded.
//!
//! That is the DWARF, which the linker needs to write the BTF: it is most of the object, with
//! 50,000 relocations that the loader would parse at every start. And it is the line numbers, which
//! the kernel moves wherever it changes the code. The verifier's log is all that would show them,
//! and zctrace asks for no log of each instruction.

use std::io;

use object::{
    build::elf::{Builder, SectionData},
    elf::SHT_STRTAB,
};

/// The object without the sections of debug information, without line numbers, and without what
/// refers to them. Types and functions stay.
pub fn without_debug_info(object: &[u8]) -> io::Result<Vec<u8>> {
    let mut builder = Builder::read(object).map_err(io::Error::other)?;
    for section in &mut builder.sections {
        section.delete |= section.name.starts_with(b".debug_");
        section.delete |= section.name.starts_with(b".rel.debug_");
        // What the relocations would fill in is in the section already.
        section.delete |= &*section.name == b".rel.BTF.ext";
        if &*section.name == b".BTF.ext"
            && let SectionData::Data(data) = &mut section.data
        {
            *data = without_lines(data)
                .ok_or_else(|| io::Error::other("the object's .BTF.ext has an unknown layout"))?
                .into();
        }
    }
    builder.delete_orphans();
    // LLVM has one section for the names of symbols and of sections; the writer wants two.
    if builder
        .sections
        .iter()
        .all(|section| !matches!(section.data, SectionData::SectionString))
    {
        let names = builder.sections.add();
        names.name = b".shstrtab"[..].into();
        names.sh_type = SHT_STRTAB;
        names.data = SectionData::SectionString;
    }
    let mut stripped = Vec::new();
    builder.write(&mut stripped).map_err(io::Error::other)?;
    Ok(stripped)
}

/// This content of a section .BTF.ext, without its line numbers. Its header is `struct
/// btf_ext_header` of libbpf's btf.h: after the magic number, version and flags come 32-bit
/// numbers, the length of the header and then the offset and the length of each part, counted from
/// the header's end. The lines are the second part, and after them there are at most relocations of
/// fields, which these programs do not have.
fn without_lines(section: &[u8]) -> Option<Vec<u8>> {
    const HEADER_BYTES: usize = 4;
    const LINES_OFFSET: usize = 16;
    const LINES_BYTES: usize = 20;
    const RELOCATIONS_BYTES: usize = 28;
    let number = |at: usize| {
        Some(u32::from_le_bytes(
            section.get(at..at + 4)?.try_into().ok()?,
        ))
    };
    let (header, lines) = (number(HEADER_BYTES)?, number(LINES_OFFSET)?);
    let ends_with_lines = header >= 32 && number(RELOCATIONS_BYTES)? == 0;
    if !ends_with_lines {
        return None;
    }
    let mut kept = section
        .get(..usize::try_from(header + lines).ok()?)?
        .to_vec();
    kept[LINES_BYTES..LINES_BYTES + 4].fill(0);
    // The empty part of relocations begins where the lines began.
    kept[LINES_BYTES + 4..RELOCATIONS_BYTES].copy_from_slice(&lines.to_le_bytes());
    Some(kept)
}
