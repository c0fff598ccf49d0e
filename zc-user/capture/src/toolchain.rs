//! Finds out from the files of programs what they were built with.
//!
//! Public for zctrace's own crates only.

use std::{
    collections::HashMap,
    fs::{self, File},
    path::Path,
};

use object::{Object as _, ObjectSection as _, ReadCache};

use crate::trace::{Language, Toolchain, Trace};

/// Fills in the toolchain of every process. Each program is read once; one that is gone, or not an
/// ELF file, stays unknown.
pub fn recognise(trace: &mut Trace) {
    let directory = trace.directory.clone().unwrap_or_default();
    let mut known: HashMap<String, Option<Toolchain>> = HashMap::new();
    for process in &mut trace.processes {
        if let Some(exe) = &process.exe {
            let found = known
                .entry(exe.clone())
                .or_insert_with(|| of_file(&Path::new(&directory).join(exe)));
            process.toolchain.clone_from(found);
        }
    }
}

/// What the program in this file was built with.
fn of_file(path: &Path) -> Option<Toolchain> {
    // Opening a FIFO would wait for its other end.
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let content = ReadCache::new(File::open(path).ok()?);
    let program = object::File::parse(&content).ok()?;
    let section = |name| program.section_by_name(name)?.data().ok();
    section(".go.buildinfo")
        .and_then(go)
        .or_else(|| section(".comment").and_then(rust))
}

/// `rustc` writes its version into this section, which `strip` keeps: `rustc version 1.95.0
/// (59807616e 2026-04-14)`.
fn rust(comment: &[u8]) -> Option<Toolchain> {
    let mut compilers = comment
        .split(|&byte| byte == 0)
        .filter_map(|text| str::from_utf8(text).ok());
    let version = compilers
        .find_map(|compiler| compiler.strip_prefix("rustc version ")?.split(' ').next())?;
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
fn go(buildinfo: &[u8]) -> Option<Toolchain> {
    const MAGIC: &[u8] = b"\xff Go buildinf:";
    const FLAGS: usize = 15;
    const INLINE: u8 = 2;
    let head = buildinfo.get(..32).filter(|head| head.starts_with(MAGIC))?;
    if head[FLAGS] & INLINE == 0 {
        return None;
    }
    // A version is shorter than 128 bytes, so its length takes one byte.
    let length = usize::from(*buildinfo.get(32)?);
    let version = str::from_utf8(buildinfo.get(33..33 + length)?)
        .ok()?
        .strip_prefix("go")?;
    Some(Toolchain {
        language: Language::Go,
        version: version.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn built(language: Language, version: &str) -> Toolchain {
        Toolchain {
            language,
            version: version.into(),
        }
    }

    #[test]
    fn the_toolchain_of_a_rust_program_is_found() {
        let found =
            of_file(&std::env::current_exe().expect("has a path")).expect("this test is one");
        assert_eq!(found.language, Language::Rust);
        let [major, minor] =
            [0, 1].map(|part| found.version.split('.').nth(part).map(str::parse::<u32>));
        assert!(
            matches!((major, minor), (Some(Ok(1)), Some(Ok(95..)))),
            "{found:?}"
        );
    }

    #[test]
    fn rustc_is_found_among_other_compilers() {
        let comment =
            b"GCC: (Debian 12.2.0-14) 12.2.0\0rustc version 1.93.1 (01f6ddf75 2026-02-11)\0";
        assert_eq!(rust(comment), Some(built(Language::Rust, "1.93.1")));
        assert_eq!(rust(b"GCC: (Debian 12.2.0-14) 12.2.0\0"), None);
        assert_eq!(
            rust(b"\xff\xfe\0rustc version 1.95.0-nightly\0"),
            Some(built(Language::Rust, "1.95.0-nightly"))
        );
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
        assert_eq!(
            go(&record(2, "go1.26.8")),
            Some(built(Language::Go, "1.26.8"))
        );
        assert_eq!(go(&record(0, "go1.17")), None);
        let whole = record(2, "go1.26.8");
        for length in 0..whole.len() {
            assert_eq!(go(&whole[..length]), None, "{length}");
        }
    }

    #[test]
    fn files_that_are_not_programs_have_no_toolchain() {
        let mut trace = sample::make(3);
        let exe = std::env::current_exe()
            .expect("has a path")
            .to_string_lossy()
            .into_owned();
        let paths = ["/dev/null", "/nowhere", "Cargo.toml"].map(|path| Some(path.to_owned()));
        for (process, path) in trace.processes.iter_mut().zip(paths) {
            process.exe = path;
        }
        trace.directory = Some(env!("CARGO_MANIFEST_DIR").into());
        recognise(&mut trace);
        assert!(
            trace
                .processes
                .iter()
                .all(|process| process.toolchain.is_none())
        );
        for process in &mut trace.processes {
            process.exe = Some(exe.clone());
        }
        recognise(&mut trace);
        assert!(
            trace
                .processes
                .iter()
                .all(|process| process.toolchain.is_some())
        );
    }
}
