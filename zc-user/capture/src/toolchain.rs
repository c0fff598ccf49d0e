//! Finds out from the files of programs what they were built with.
//!
//! Public for zctrace's own crates only.

use std::{
    collections::HashMap,
    fs::{self, File},
    path::Path,
};

use object::{
    Endianness, FileKind, ReadCache,
    elf::{FileHeader32, FileHeader64},
    read::{
        StringTable,
        elf::{FileHeader, SectionHeader as _, SectionTable},
    },
};

use crate::trace::{Language, Toolchain, Trace};

/// Fills in the toolchain of every process. Each program is read once; one that is gone, or not an
/// ELF file, stays unknown.
pub fn note_toolchains(trace: &mut Trace) {
    let directory = trace.directory.clone().unwrap_or_default();
    let mut known: HashMap<String, Option<Toolchain>> = HashMap::new();
    for process in &mut trace.processes {
        if let Some(exe) = &process.exe {
            let found = known
                .entry(exe.clone())
                .or_insert_with(|| toolchain_of_file(&Path::new(&directory).join(exe)));
            process.toolchain.clone_from(found);
        }
    }
}

/// What the program in this file was built with.
fn toolchain_of_file(path: &Path) -> Option<Toolchain> {
    // Opening a FIFO would wait for its other end.
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let content = ReadCache::new(File::open(path).ok()?);
    match FileKind::parse(&content).ok()? {
        FileKind::Elf64 => toolchain_of_elf::<FileHeader64<Endianness>>(&content),
        FileKind::Elf32 => toolchain_of_elf::<FileHeader32<Endianness>>(&content),
        _ => None,
    }
}

/// Reads only the sections that say it: the symbols of a program may be large.
fn toolchain_of_elf<Elf>(content: &ReadCache<File>) -> Option<Toolchain>
where
    Elf: FileHeader<Endian = Endianness>,
{
    let header = Elf::parse(content).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.section_headers(endian, content).ok()?;
    // All names at once: each would be a read by itself.
    let names = headers.get(header.shstrndx(endian, content).ok()? as usize)?;
    let names = names.data(endian, content).ok()?;
    let names = StringTable::new(names, 0, names.len() as u64);
    let sections = SectionTable::<Elf, _>::new(headers, names);
    let section = |name: &[u8]| {
        let (_, section) = sections.section_by_name(endian, name)?;
        section.data(endian, content).ok()
    };
    section(b".go.buildinfo")
        .and_then(go_toolchain)
        .or_else(|| section(b".comment").and_then(rust_toolchain))
}

/// `rustc` writes its version into this section, which `strip` keeps: `rustc version 1.95.0
/// (59807616e 2026-04-14)`.
fn rust_toolchain(comment: &[u8]) -> Option<Toolchain> {
    let version = comment.split(|&byte| byte == 0).find_map(|text| {
        let compiler = str::from_utf8(text).ok()?;
        compiler.strip_prefix("rustc version ")?.split(' ').next()
    })?;
    Some(Toolchain {
        language: Language::Rust,
        version: version.to_owned(),
    })
}

/// Go writes its version into every program: after a header of 32 bytes come its length and the
/// text.
///
/// Source: golang/go src/debug/buildinfo/buildinfo.go; programs of Go before 1.18 have a pointer
/// instead and stay unknown.
fn go_toolchain(buildinfo: &[u8]) -> Option<Toolchain> {
    const MAGIC: &[u8] = b"\xff Go buildinf:";
    const FLAGS: usize = 15;
    const INLINE: u8 = 2;
    let head = buildinfo.get(..32).filter(|head| head.starts_with(MAGIC))?;
    if head[FLAGS] & INLINE == 0 {
        return None;
    }
    // A version is shorter than 128 bytes, so its length takes one byte.
    let length = usize::from(*buildinfo.get(32)?);
    let version = str::from_utf8(buildinfo.get(33..33 + length)?).ok()?;
    let version = version.strip_prefix("go")?;
    Some(Toolchain {
        language: Language::Go,
        version: version.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn rustc_is_found_among_other_compilers() {
        let gcc = "GCC: (Debian 12.2.0-14) 12.2.0\0".to_owned();
        let both = gcc.clone() + "rustc version 1.93.1 (01f6ddf75 2026-02-11)\0";
        let odd = b"\xff\xfe\0rustc version 1.95.0-nightly\0";
        for (comment, version) in [
            (gcc.as_bytes(), None),
            (both.as_bytes(), Some("1.93.1")),
            (odd, Some("1.95.0-nightly")),
        ] {
            let found = rust_toolchain(comment);
            assert!(found.iter().all(|found| found.language == Language::Rust));
            assert_eq!(found.map(|found| found.version).as_deref(), version);
        }
    }

    #[test]
    fn the_build_info_of_go_is_parsed() {
        let record = |flags: u8, text: &str| {
            let mut record = b"\xff Go buildinf:\x08".to_vec();
            record.push(flags);
            record.resize(32, 0);
            record.push(u8::try_from(text.len()).expect("is short"));
            record.extend(text.as_bytes());
            record
        };
        let whole = record(2, "go1.26.8");
        let found = go_toolchain(&whole).expect("it is whole");
        assert_eq!((found.language, &*found.version), (Language::Go, "1.26.8"));
        assert_eq!(go_toolchain(&record(0, "go1.17")), None);
        for length in 0..whole.len() {
            assert_eq!(go_toolchain(&whole[..length]), None, "{length}");
        }
    }

    #[test]
    fn only_files_that_are_programs_have_a_toolchain() {
        let exe = std::env::current_exe().expect("has a path");
        let mut trace = sample::make(4);
        trace.directory = Some(env!("CARGO_MANIFEST_DIR").into());
        let programs = [
            "/dev/null",
            "/nowhere",
            "Cargo.toml",
            &exe.to_string_lossy(),
        ];
        for (process, program) in trace.processes.iter_mut().zip(programs) {
            process.exe = Some(program.into());
        }
        note_toolchains(&mut trace);
        let found: Vec<_> = trace
            .processes
            .iter()
            .map(|process| &process.toolchain)
            .collect();
        assert_eq!(found[..3], [&None; 3]);
        let found = found[3].as_ref().expect("this test is a program");
        assert_eq!(found.language, Language::Rust);
        assert!(found.version.starts_with("1."), "{found:?}");
    }
}
