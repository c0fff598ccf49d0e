//! Finds the names, lines and inlined functions of stacks.

use std::{collections::BTreeMap, path::Path};

use blazesym::symbolize::{
    CodeInfo, Input, Sym, Symbolized, Symbolizer,
    source::{Elf, Source},
};
use zctrace_core::trace::{Frame, Stack, StackEnd};

use crate::spaces::{CodeFile, FileIndex, RawFrame, RawStack};

/// The stacks with the names of their functions. `files` is the list that frames have indices into. A file that was replaced since is not
/// asked for names.
pub fn name<'a>(stacks: &[RawStack], files: impl Iterator<Item = &'a CodeFile>) -> Vec<Stack> {
    let files: Vec<&CodeFile> = files.collect();
    let mut addresses: BTreeMap<FileIndex, Vec<u64>> = BTreeMap::new();
    for frame in stacks.iter().flat_map(|stack| &stack.frames) {
        if let Some(file) = frame.file {
            addresses.entry(file).or_default().push(frame.address);
        }
    }
    let symbolizer = Symbolizer::builder().enable_auto_reload(false).build();
    let mut names = BTreeMap::new();
    for (file, mut addresses) in addresses {
        addresses.sort_unstable();
        addresses.dedup();
        let found = names_in(&symbolizer, files[file], &addresses);
        names.extend(addresses.into_iter().zip(found).map(|(address, frames)| ((file, address), frames)));
    }
    let frames = |frame: &RawFrame| match frame.file.and_then(|file| names.get(&(file, frame.address))) {
        Some(frames) => marked(frames.clone(), frame.is_by_frame_pointer),
        None => vec![Frame { address: frame.address, ..Frame::default() }],
    };
    let with_names = |stack: &RawStack| Stack { frames: stack.frames.iter().flat_map(frames).collect(), end: stack.end.clone() };
    stacks.iter().map(with_names).map(at_root).collect()
}

/// The frames of an address. If the frame pointer led to the next one, the last says so.
fn marked(mut frames: Vec<Frame>, is_by_frame_pointer: bool) -> Vec<Frame> {
    if let Some(last) = frames.last_mut() {
        last.is_by_frame_pointer = is_by_frame_pointer;
    }
    frames
}

/// Functions that processes begin with whose unwind tables take what lies above them for a return address: in Go's programs it is the
/// number of arguments (`runtime·rt0_go` in golang/go `src/runtime/asm_amd64.s`, 1.21 to 1.26).
const ROOTS: &[&str] = &["runtime.rt0_go", "_rt0_"];
/// No code is mapped below this: `mmap_min_addr`.
const FIRST_ADDRESS: u64 = 4096;

/// The stack, which is complete if only what is above its root was taken for one more function.
fn at_root(mut stack: Stack) -> Stack {
    let is_root = |frame: &Frame| frame.function.as_deref().is_some_and(|name| ROOTS.iter().any(|root| name.starts_with(root)));
    if let [.., root, last] = stack.frames.as_slice()
        && stack.end == StackEnd::NoFile
        && last.address < FIRST_ADDRESS
        && is_root(root)
    {
        stack.frames.pop();
        stack.end = StackEnd::Root;
    }
    stack
}

/// For each address of a file the function there, after the functions that were inlined into it.
fn names_in(symbolizer: &Symbolizer, file: &CodeFile, addresses: &[u64]) -> Vec<Vec<Frame>> {
    let nameless = |&address: &u64| Frame { module: Some(file.path.clone()), address, ..Frame::default() };
    let find = |debug_syms| {
        let source = Source::Elf(Elf { debug_syms, ..Elf::new(&file.path) });
        symbolizer.symbolize(&source, Input::VirtOffset(addresses)).ok()
    };
    // Line tables without other debug information have names without their path, as `run` for `copier::run`. Symbols have the whole path.
    let symbols = file.is_there().then(|| find(false)).flatten();
    let debug = symbols.as_ref().and_then(|_| find(true));
    let Some(found) = debug.as_ref().or(symbols.as_ref()) else {
        return addresses.iter().map(|address| vec![nameless(address)]).collect();
    };
    let symbols = symbols.iter().flatten().map(Some).chain(std::iter::repeat(None));
    let frames = |((address, found), symbol): ((&u64, &Symbolized<'_>), Option<&Symbolized<'_>>)| match found {
        Symbolized::Sym(found) => frames_of(found, symbol.and_then(Symbolized::as_sym), &nameless(address)),
        Symbolized::Unknown(_) => vec![nameless(address)],
    };
    addresses.iter().zip(found).zip(symbols).map(frames).collect()
}

/// The frames of an address: the functions that were inlined there, the innermost first, then the function itself. `symbol` is that
/// function by the file's table of symbols.
fn frames_of(found: &Sym<'_>, symbol: Option<&Sym<'_>>, nameless: &Frame) -> Vec<Frame> {
    let frame = |name: &str, code: Option<&CodeInfo<'_>>, is_inlined| {
        let file = code.map(|code| path_of(&code.to_path()));
        Frame {
            function: Some(with_path(name, file.as_deref())),
            file,
            line: code.and_then(|code| code.line),
            is_inlined,
            ..nameless.clone()
        }
    };
    let own_name = symbol.filter(|symbol| is_longer(&symbol.name, &found.name)).map_or(&found.name, |symbol| &symbol.name);
    let inlined = found.inlined.iter().rev().map(|inlined| frame(&inlined.name, inlined.code_info.as_ref(), true));
    inlined.chain([frame(own_name, found.code_info.as_deref(), false)]).collect()
}

fn path_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Whether the first name is the second one with its path: `copier::run` for `run`.
fn is_longer(whole: &str, name: &str) -> bool {
    let base = |name: &str| name.split('<').next().unwrap_or_default().to_owned();
    !has_path(name) && whole.contains("::") && (whole.contains(&format!("::{}", base(name))) || name.starts_with('{'))
}

/// The name of a function of Rust's library with its path, if it has none: its modules are named after its files. So
/// `copy<File, File>` in `/rustc/.../library/std/src/io/copy.rs` is `std::io::copy::copy<File, File>`.
fn with_path(name: &str, file: Option<&str>) -> String {
    let modules = file.filter(|_| !has_path(name)).and_then(modules_of);
    modules.map_or_else(|| name.to_owned(), |modules| format!("{modules}::{name}"))
}

/// Whether there is a path before the generic arguments.
fn has_path(name: &str) -> bool {
    name.starts_with('<') || name.split('<').next().is_some_and(|base| base.contains("::"))
}

fn modules_of(file: &str) -> Option<String> {
    let (_, within) = file.strip_prefix("/rustc/")?.split_once("/library/")?;
    let (library, file) = within.split_once("/src/")?;
    let modules = file.strip_suffix(".rs")?;
    let modules = modules.strip_suffix("/mod").unwrap_or(modules);
    Some(if modules == "lib" { library.to_owned() } else { format!("{library}::{}", modules.replace('/', "::")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_rusts_library_have_the_path_of_their_file() {
        let named = |name, file| with_path(name, Some(file));
        let copy = "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/std/src/io/copy.rs";
        assert_eq!(named("copy<std::fs::File, std::fs::File>", copy), "std::io::copy::copy<std::fs::File, std::fs::File>");
        assert_eq!(named("write_all<T>", "/rustc/x/library/std/src/io/mod.rs"), "std::io::write_all<T>");
        assert_eq!(named("drop", "/rustc/x/library/core/src/lib.rs"), "core::drop");
        assert_eq!(named("std::io::copy::copy::<T>", copy), "std::io::copy::copy::<T>");
        assert_eq!(named("<T as std::io::Read>::read", copy), "<T as std::io::Read>::read");
        assert_eq!(named("run", "/home/me/copier/src/run.rs"), "run", "a module may have another name than its file");
    }

    #[test]
    fn a_symbol_with_its_path_is_preferred() {
        assert!(is_longer("copier::library_copies::io_copy", "io_copy"));
        assert!(is_longer("copier::run::<u8>", "run<u8>"));
        assert!(is_longer("app::Job::relay", "relay<app::Source>"));
        assert!(!is_longer("main", "main") && !is_longer("other::function", "run"));
    }
}
