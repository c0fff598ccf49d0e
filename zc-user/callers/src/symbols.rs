//! Finds the names, lines and inlined functions of stacks.

use std::{collections::BTreeMap, fs::File, path::Path};

use blazesym::symbolize::{
    CodeInfo, Input, Sym, Symbolized, Symbolizer,
    source::{Elf, Source},
};
use zctrace_core::trace::{Frame, SampledStack, StackEnd};

use crate::{
    apart::{MAX_BYTES, MAX_SECONDS, run_apart},
    debug_files,
    file::MappedFile,
    spaces::{FileIndex, RawStack, Spaces},
};

/// Stacks with the names of their functions.
#[derive(Debug, Default)]
pub struct NamedStacks {
    /// The stacks.
    pub stacks: Vec<SampledStack>,
    /// The files whose names could not be read, within limits, although they are there.
    pub unreadable: Vec<String>,
}

impl NamedStacks {
    /// What is missing, as a note.
    pub fn note(&self) -> Option<String> {
        let (files, mib) = (self.unreadable.join(", "), MAX_BYTES >> 20);
        (!files.is_empty()).then_some(format!(
            "functions of {files} have no names: reading them failed, or needed more than {mib} MiB or {MAX_SECONDS} s"
        ))
    }
}

/// The stacks of these spaces with the names of their functions. A file that was replaced or changed
/// since is not asked for names. Files are read in processes of their own: who wrote the program may
/// have made them so that reading them fails, or never ends.
pub fn name_stacks(stacks: &[RawStack], spaces: &Spaces) -> NamedStacks {
    let mut addresses: BTreeMap<FileIndex, Vec<u64>> = BTreeMap::new();
    for frame in stacks.iter().flat_map(|stack| &stack.frames) {
        if let Some(file) = frame.file {
            addresses.entry(file).or_default().push(frame.address);
        }
    }
    let (mut names, mut unreadable) = (BTreeMap::new(), Vec::new());
    for (file, mut addresses) in addresses {
        addresses.sort_unstable();
        addresses.dedup();
        let (mapped, build_id) = spaces.file(file);
        let found = run_apart(|| names_in(mapped, build_id, &addresses)).unwrap_or_else(|| {
            unreadable.push(mapped.file.path.clone());
            nameless_frames(mapped, &addresses)
        });
        let keys = addresses.into_iter().map(|address| (file, address));
        names.extend(keys.zip(found));
    }
    let mut sampled = Vec::new();
    for stack in stacks {
        let mut frames = Vec::new();
        for frame in &stack.frames {
            let names = frame
                .file
                .and_then(|file| names.get(&(file, frame.address)));
            match names {
                Some(names) => {
                    frames.extend_from_slice(names);
                    // If the frame pointer led to the next one, the last says so.
                    if let Some(last) = frames.last_mut() {
                        last.by_frame_pointer = frame.is_by_frame_pointer;
                    }
                }
                None => frames.push(Frame {
                    address: frame.address,
                    ..Frame::default()
                }),
            }
        }
        let end = end_at_root(&mut frames, stack.end.clone());
        sampled.push(SampledStack::new(frames, &end));
    }
    NamedStacks {
        stacks: sampled,
        unreadable,
    }
}

/// The addresses of a file without names.
fn nameless_frames(file: &MappedFile, addresses: &[u64]) -> Vec<Vec<Frame>> {
    let path = &file.file.path;
    let frames = addresses
        .iter()
        .map(|&address| vec![nameless_frame(path, address)]);
    frames.collect()
}

fn nameless_frame(path: &str, address: u64) -> Frame {
    Frame {
        module: Some(path.to_owned()),
        address,
        ..Frame::default()
    }
}

/// Functions that processes begin with whose unwind tables take what lies above them for a return
/// address: in Go's programs it is the number of arguments (`runtime·rt0_go` in golang/go
/// `src/runtime/asm_amd64.s`, 1.21 to 1.26).
const ROOTS: &[&str] = &["runtime.rt0_go", "_rt0_"];
/// Functions that create a thread, which begins in them on an empty stack and never returns to
/// them, without a word of that in their unwind tables: in Go's programs
/// (`src/runtime/sys_linux_amd64.s`), and musl's (`src/thread/x86_64/clone.s`).
const THREAD_ROOTS: &[&str] = &["runtime.clone", "__clone"];
/// Functions that change to another stack and call a function there: what is above them on that
/// stack is not their caller, but may look like one (golang/go `src/runtime/asm_amd64.s` and
/// `asm_arm64.s`).
const STACK_CHANGES: &[&str] = &[
    "runtime.systemstack",
    "runtime.morestack",
    "runtime.asmcgocall",
];
/// The function that Go's scheduler goes on with when a goroutine gives up its thread. It never
/// returns to the goroutine, which is no caller of what the scheduler does then, and Go's own
/// traces end there, too (`topofstack` in golang/go `src/runtime/traceback.go`).
const SCHEDULERS: &[&str] = &["runtime.mcall"];
/// No code is mapped below this: `mmap_min_addr`.
const FIRST_ADDRESS: u64 = 4096;

/// How a stack ends: it is complete if only what is above its root was taken for one more function,
/// which is removed.
fn end_at_root(frames: &mut Vec<Frame>, end: StackEnd) -> StackEnd {
    let scheduler = callers_up_to(SCHEDULERS, frames);
    let change = callers_up_to(STACK_CHANGES, frames);
    let (kept, end) = match (scheduler, change, callers_up_to(THREAD_ROOTS, frames)) {
        (Some(count), None, _) => (count, StackEnd::Root),
        (Some(count), Some(change), _) if count <= change => (count, StackEnd::Root),
        (_, Some(count), _) => (count, StackEnd::OtherStack),
        (None, None, Some(count)) if frames.len() <= count + 1 && end != StackEnd::TooDeep => {
            (count, StackEnd::Root)
        }
        _ if end == StackEnd::NoFile && ends_above_root(frames) => {
            (frames.len() - 1, StackEnd::Root)
        }
        _ => return end,
    };
    frames.truncate(kept);
    end
}

/// Whether the last frame is what lies above the function that the process began with.
fn ends_above_root(frames: &[Frame]) -> bool {
    let [.., root, last] = frames else {
        return false;
    };
    let name = root.function.as_deref().unwrap_or_default();
    last.address < FIRST_ADDRESS && ROOTS.iter().any(|root| name.starts_with(root))
}

/// How many frames there are up to the first of these functions that has called another one. One
/// that makes the system call itself has not.
fn callers_up_to(functions: &[&str], frames: &[Frame]) -> Option<usize> {
    // Symbols of functions in assembler have the name of their calling convention.
    let is_one = |frame: &Frame| {
        let name = frame.function.as_deref().unwrap_or_default();
        functions.contains(&name.trim_end_matches(".abi0"))
    };
    let mut callers = frames.iter().skip(1);
    callers.position(is_one).map(|place| place + 2)
}

/// For each address of a file the function there, after the functions that were inlined into it.
fn names_in(file: &MappedFile, build_id: Option<&[u8]>, addresses: &[u64]) -> Vec<Vec<Frame>> {
    let path = &file.file.path;
    // Each file has a symbolizer of its own: it remembers files by their paths, and those of open
    // files are used again.
    let symbolizer = Symbolizer::builder().enable_auto_reload(false).build();
    let find = |file: &File, debug_syms| {
        let source = Source::Elf(Elf {
            debug_syms,
            ..Elf::new(debug_files::path_of(file)?)
        });
        symbolizer
            .symbolize(&source, Input::VirtOffset(addresses))
            .ok()
    };
    let opened = file.open(build_id).ok();
    let symbols = opened.as_ref().and_then(|file| find(file, false));
    let directories: Vec<&Path> = debug_files::DIRECTORIES.iter().map(Path::new).collect();
    let debug_file = opened
        .as_ref()
        .and_then(|file| debug_files::find_debug_file(file, Path::new(path), &directories));
    let debug = debug_file.as_ref().and_then(|file| find(file, true));
    let Some(found) = debug.as_ref().or(symbols.as_ref()) else {
        return nameless_frames(file, addresses);
    };
    // Line tables without other debug information have names without their path, as `run` for
    // `copier::run`. Symbols have the whole path.
    let symbol = |place: usize| symbols.as_ref()?.get(place)?.as_sym();
    let frames = |(place, (address, found)): (usize, (&u64, &Symbolized<'_>))| {
        let nameless = nameless_frame(path, *address);
        match (found.as_sym(), symbol(place)) {
            (Some(found), symbol) => frames_of(found, symbol, &nameless),
            (None, Some(symbol)) => frames_of(symbol, None, &nameless),
            (None, None) => vec![nameless],
        }
    };
    let found = addresses.iter().zip(found);
    found.enumerate().map(frames).collect()
}

/// The frames of an address: the functions that were inlined there, the innermost first, then the
/// function itself. `symbol` is that function by the file's table of symbols.
fn frames_of(found: &Sym<'_>, symbol: Option<&Sym<'_>>, nameless: &Frame) -> Vec<Frame> {
    let frame = |name: &str, code: Option<&CodeInfo<'_>>, is_inlined| {
        let file = code.map(|code| path_of(&code.to_path()));
        Frame {
            function: Some(with_path(name, file.as_deref())),
            file,
            line: code.and_then(|code| code.line),
            inlined: is_inlined,
            ..nameless.clone()
        }
    };
    let own_name = match symbol {
        Some(symbol) if is_longer(&symbol.name, &found.name) => &symbol.name,
        _ => &found.name,
    };
    let mut frames = Vec::new();
    for inlined in found.inlined.iter().rev() {
        frames.push(frame(&inlined.name, inlined.code_info.as_ref(), true));
    }
    frames.push(frame(own_name, found.code_info.as_deref(), false));
    frames
}

fn path_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Whether the first name is the second one with its path: `copier::run` for `run`.
fn is_longer(whole: &str, name: &str) -> bool {
    !has_path(name)
        && whole.contains("::")
        && (whole.contains(&format!("::{}", base_name(name))) || name.starts_with('{'))
}

/// A name up to its generic arguments.
fn base_name(name: &str) -> &str {
    name.split('<').next().unwrap_or_default()
}

/// The name of a function of Rust's library with its path, if it has none: its modules are named
/// after its files. So `copy<File, File>` in `/rustc/.../library/std/src/io/copy.rs` is
/// `std::io::copy::copy<File, File>`.
fn with_path(name: &str, file: Option<&str>) -> String {
    match file.and_then(modules_of) {
        Some(modules) if !has_path(name) => format!("{modules}::{name}"),
        _ => name.to_owned(),
    }
}

/// Whether there is a path before the generic arguments.
fn has_path(name: &str) -> bool {
    name.starts_with('<') || base_name(name).contains("::")
}

fn modules_of(file: &str) -> Option<String> {
    let (_, within) = file.strip_prefix("/rustc/")?.split_once("/library/")?;
    let (library, file) = within.split_once("/src/")?;
    let modules = file.strip_suffix(".rs")?;
    let modules = modules.strip_suffix("/mod").unwrap_or(modules);
    Some(if modules == "lib" {
        library.to_owned()
    } else {
        format!("{library}::{}", modules.replace('/', "::"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_rusts_library_have_the_path_of_their_file() {
        let copy = "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/std/src/io/copy.rs";
        let of_std = "/rustc/x/library/std/src/io/mod.rs";
        for (name, file, expected) in [
            (
                "copy<std::fs::File, std::fs::File>",
                copy,
                "std::io::copy::copy<std::fs::File, std::fs::File>",
            ),
            ("write_all<T>", of_std, "std::io::write_all<T>"),
            ("drop", "/rustc/x/library/core/src/lib.rs", "core::drop"),
            ("std::io::copy::<T>", copy, "std::io::copy::<T>"),
            (
                "<T as std::io::Read>::read",
                copy,
                "<T as std::io::Read>::read",
            ),
            // A module may have another name than its file.
            ("run", "/home/me/copier/src/run.rs", "run"),
        ] {
            assert_eq!(with_path(name, Some(file)), expected);
        }
    }

    #[test]
    fn a_stack_ends_where_what_is_above_is_no_caller() {
        let bad = || StackEnd::BadUnwindTable("/bin/program".into());
        for (names, end, expected, frames) in [
            // The functions that a thread begins in, unless they make the call themselves.
            ("write start __clone", bad(), StackEnd::Root, 3),
            (
                "runtime.usleep runtime.mstart runtime.clone 0xc000012345",
                StackEnd::NoFile,
                StackEnd::Root,
                3,
            ),
            ("__clone pthread_create", bad(), bad(), 2),
            // Changes to another stack.
            (
                "runtime.futex runtime.schedule runtime.morestack.abi0 runtime.newproc runtime.rt0_go",
                StackEnd::Root,
                StackEnd::OtherStack,
                3,
            ),
            // No goroutine called the scheduler.
            (
                "runtime.futex runtime.schedule runtime.park_m runtime.mcall 0xc000012345",
                StackEnd::NoFile,
                StackEnd::Root,
                4,
            ),
            // The nearer of two counts.
            (
                "runtime.futex runtime.systemstack runtime.park_m runtime.mcall",
                StackEnd::NoFile,
                StackEnd::OtherStack,
                2,
            ),
        ] {
            let frame = |name: &str| Frame {
                function: Some(name.into()),
                ..Frame::default()
            };
            let mut found: Vec<_> = names.split(' ').map(frame).collect();
            let end = end_at_root(&mut found, end);
            assert_eq!((end, found.len()), (expected, frames), "{names}");
        }
    }

    #[test]
    fn a_symbol_with_its_path_is_preferred() {
        for (whole, name, expected) in [
            ("copier::library_copies::io_copy", "io_copy", true),
            ("copier::run::<u8>", "run<u8>", true),
            ("app::Job::relay", "relay<app::Source>", true),
            ("main", "main", false),
            ("other::function", "run", false),
        ] {
            assert_eq!(is_longer(whole, name), expected, "{whole}");
        }
    }
}
