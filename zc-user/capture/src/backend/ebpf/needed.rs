//! Hides the programs from aya that are not loaded on this kernel. aya links every program of the object with all functions that it calls, at
//! every start, and the programs for kernels that may preempt them are half of the object.

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolKind};

/// `e_shoff` of the ELF header: where the headers of the sections are.
const SECTION_HEADERS: usize = 40;
/// The size of `Elf64_Shdr`, and `sh_flags` within it (elf(5)).
const SECTION_HEADER_BYTES: usize = 64;
const FLAGS: usize = 8;
/// `SHF_EXECINSTR` of elf(5), in the lowest byte of the flags.
const EXECUTABLE: u8 = 4;
/// The section of the functions that programs call.
const FUNCTIONS: &str = ".text";

/// A copy of the object in which sections without any of these programs are not executable, so that aya ignores them. `None` if the object
/// cannot be parsed.
pub(super) fn with_programs(object: &[u8], programs: &[&str]) -> Option<Vec<u8>> {
    let file = object::File::parse(object).ok()?;
    let is_needed = |section: &object::Section<'_, '_>| {
        let mut symbols = file.symbols().filter(|symbol| symbol.section_index() == Some(section.index()));
        symbols.any(|symbol| symbol.kind() == SymbolKind::Text && symbol.name().is_ok_and(|name| programs.contains(&name)))
    };
    let headers = usize::try_from(u64::from_le_bytes(*object.get(SECTION_HEADERS..)?.first_chunk()?)).ok()?;
    let mut kept = object.to_vec();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text && section.name() != Ok(FUNCTIONS)) {
        if !is_needed(&section) {
            *kept.get_mut(headers + section.index().0 * SECTION_HEADER_BYTES + FLAGS)? &= !EXECUTABLE;
        }
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::ebpf::object::OBJECT;

    /// The executable sections of an object.
    fn executable(object: &[u8]) -> Vec<String> {
        let file = object::File::parse(object).expect("an object");
        let sections = file.sections().filter(|section| section.kind() == SectionKind::Text);
        sections.map(|section| section.name().expect("it has a name").to_owned()).collect()
    }

    #[test]
    fn only_the_sections_of_needed_programs_stay_executable() {
        let kept = with_programs(OBJECT, &["sys_exit", "scope"]).expect("our own object");
        let mut sections = executable(&kept);
        sections.sort_unstable();
        assert_eq!(sections, [".text", "raw_tp", "tp_btf/sys_exit"]);
        assert_eq!(kept.len(), OBJECT.len());
        let events = with_programs(OBJECT, &["sys_exit_event"]).expect("our own object");
        assert_eq!(executable(&events).len(), 2, "one section has the programs of all events");
        assert_eq!(with_programs(b"\x7fELF", &["sys_exit"]), None);
    }
}
