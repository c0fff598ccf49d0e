//! Removes the DWARF from an eBPF object. The linker needs it to write the BTF; at run time nobody reads it, and it is most of the
//! object, with 50,000 relocations that the loader would parse at every start.

use std::io;

use object::{
    build::elf::{Builder, SectionData},
    elf::SHT_STRTAB,
};

/// The object without the sections of debug information and without what refers to them. BTF stays.
pub fn without_debug_info(object: &[u8]) -> io::Result<Vec<u8>> {
    let mut builder = Builder::read(object).map_err(io::Error::other)?;
    for section in &mut builder.sections {
        // The strings stay: one of them says which compiler made the object.
        let is_debug_info = section.name.starts_with(b".debug_") && &*section.name != b".debug_str";
        section.delete |= is_debug_info || section.name.starts_with(b".rel.debug_");
    }
    builder.delete_orphans();
    // LLVM has one section for the names of symbols and of sections; the writer wants two.
    if builder.sections.iter().all(|section| !matches!(section.data, SectionData::SectionString)) {
        let names = builder.sections.add();
        names.name = b".shstrtab"[..].into();
        names.sh_type = SHT_STRTAB;
        names.data = SectionData::SectionString;
    }
    let mut stripped = Vec::new();
    builder.write(&mut stripped).map_err(io::Error::other)?;
    Ok(stripped)
}
