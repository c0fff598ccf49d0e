//! Hides the programs from aya that are not loaded on this kernel. aya links every program of the
//! object with all functions that it calls, at every start, and the programs for kernels that may
//! preempt them are half of the object.

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

/// Makes the sections of an object that have none of these programs not executable, so that aya
/// ignores them. If the object cannot be parsed, it stays as it is: aya says what is wrong with it.
pub(super) fn keep_programs(object: &mut [u8], programs: &[&str]) {
    for flags in flags_of_others(object, programs).unwrap_or_default() {
        if let Some(flags) = object.get_mut(flags) {
            *flags &= !EXECUTABLE;
        }
    }
}

/// Where the object has the flags of its sections without any of these programs.
fn flags_of_others(object: &[u8], programs: &[&str]) -> Option<Vec<usize>> {
    let file = object::File::parse(object).ok()?;
    let headers = u64::from_le_bytes(*object.get(SECTION_HEADERS..)?.first_chunk()?);
    let headers = usize::try_from(headers).ok()?;
    let has_one = |section: &object::Section<'_, '_>| {
        let mut symbols = file
            .symbols()
            .filter(|symbol| symbol.section_index() == Some(section.index()));
        symbols.any(|symbol| {
            symbol.kind() == SymbolKind::Text
                && symbol.name().is_ok_and(|name| programs.contains(&name))
        })
    };
    let others = file
        .sections()
        .filter(|section| section.kind() == SectionKind::Text && section.name() != Ok(FUNCTIONS));
    let others = others.filter(|section| !has_one(section));
    let flags = |section: object::Section<'_, '_>| {
        headers + section.index().0 * SECTION_HEADER_BYTES + FLAGS
    };
    Some(others.map(flags).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::ebpf::object::OBJECT;

    /// The executable sections of an object.
    fn executable(object: &[u8]) -> Vec<String> {
        let file = object::File::parse(object).expect("an object");
        let sections = file
            .sections()
            .filter(|one| one.kind() == SectionKind::Text);
        let names = sections.map(|section| section.name().expect("it has a name").to_owned());
        names.collect()
    }

    #[test]
    fn only_the_sections_of_needed_programs_stay_executable() {
        let mut kept = OBJECT.to_vec();
        keep_programs(&mut kept, &["sys_exit", "scope"]);
        let mut sections = executable(&kept);
        sections.sort_unstable();
        assert_eq!(sections, [".text", "raw_tp", "tp_btf/sys_exit"]);
        let pairs = OBJECT.iter().zip(&kept);
        let changed = pairs.filter(|(before, after)| before != after).count();
        let hidden = executable(OBJECT).len() - sections.len();
        assert_eq!(changed, hidden, "only flags are changed");
    }

    #[test]
    fn the_programs_of_events_share_a_section() {
        let mut kept = OBJECT.to_vec();
        keep_programs(&mut kept, &["sys_exit_event"]);
        assert_eq!(executable(&kept), [".text", "tracepoint"]);
    }

    #[test]
    fn what_is_no_object_stays_as_it_is() {
        let mut data = *b"\x7fELF and so on";
        keep_programs(&mut data, &["sys_exit"]);
        assert_eq!(&data, b"\x7fELF and so on");
    }
}
