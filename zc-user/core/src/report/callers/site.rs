//! Finds the place in the program itself that a call came from, and the library function in
//! between.

use std::cmp::Reverse;

use super::Site;
use crate::{
    syscalls::{CallClass, Spec},
    text::file_name,
    trace::{Frame, SampleSum, SampledStack},
};

/// The functions that copy and that reasons speak of, each by the name that programs call it by,
/// with what the names of functions in it begin with, without generic arguments. The outer ones come
/// first: `std::fs::copy` works with the same functions as `std::io::copy`.
///
/// Sources: rust-lang/rust `library/std/src/{io/copy.rs, fs.rs, sys/fs/unix.rs,
/// sys/io/kernel_copy/linux.rs}`, 1.70 to 1.95; tokio-rs/tokio `tokio/src/io/util/{copy.rs,
/// copy_buf.rs, copy_bidirectional.rs}`, 1.0 to 1.48; golang/go `src/io/io.go`, 1.21 to 1.26.
const COPYING: &[(&str, &[&str])] = &[
    (
        "std::fs::copy",
        &[
            "std::fs::copy",
            "std::sys::fs::copy",
            "std::sys::fs::unix::copy",
            "std::sys::pal::unix::fs::copy",
        ],
    ),
    ("std::io::copy", &["std::io::copy"]),
    (
        "tokio::io::copy",
        &["tokio::io::util::copy", "<tokio::io::util::copy"],
    ),
    (
        "io.Copy",
        &["io.Copy", "io.copyBuffer", "io.CopyN", "io.CopyBuffer"],
    ),
];

/// What both of Rust's functions work with. It is not generic, so it has a name even without debug
/// information.
const KERNEL_COPY: &[&str] = &[
    "std::sys::io::kernel_copy",
    "std::sys_common::kernel_copy",
    "std::sys::pal::unix::kernel_copy",
    "std::sys::unix::kernel_copy",
];

/// The name for what is known to be one of these two.
pub const EITHER_COPY: &str = "std::io::copy or std::fs::copy";

/// The functions that a name stands for: itself, or those of [`EITHER_COPY`].
pub(crate) fn functions_named(library: &str) -> impl Iterator<Item = &str> + Clone {
    library.split(" or ")
}

/// Whether stacks show this function, if line tables are there.
pub(crate) fn is_recognised(library: &str) -> bool {
    COPYING.iter().any(|(copying, _)| *copying == library)
}

/// Files of the C library and the loader.
const C_LIBRARIES: &[&str] = &[
    "libc.so",
    "libc-",
    "libc.musl",
    "libpthread",
    "ld-linux",
    "ld-musl",
    "ld-2",
    "ld.so",
    "libgcc_s",
];
/// Packages of Go's standard library that stand between a program and the kernel.
const GO_PACKAGES: &[&str] = &[
    "runtime", "syscall", "internal", "os", "io", "net", "bufio", "golang",
];

impl Site {
    /// The place of samples with this stack. `None`: the stack is empty, or it ends before the
    /// program.
    pub(crate) fn of_stack(stack: &SampledStack, sum: SampleSum) -> Option<Self> {
        let frames = &stack.frames;
        let mut all = frames.iter().enumerate();
        let (between, at) = match all.position(|(index, frame)| !is_library(frame, index)) {
            Some(place) => (&frames[..place], &frames[place]),
            // If the stack ends early, in a library, the program's own part is unknown.
            None if stack.complete => (&frames[..0], frames.last()?),
            None => return None,
        };
        let via = match (library_in(between), between) {
            (Some(library), _) => Some(library.to_owned()),
            (None, [_, .., last]) => last.function.as_deref().map(short_name),
            (None, _) => None,
        };
        let at = at.clone();
        Some(Self { at, via, sum })
    }

    /// The places, each once with the samples of all, the most frequent first.
    pub(crate) fn sum_by_place(all: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut sites: Vec<Self> = Vec::new();
        for site in all {
            match sites.iter_mut().find(|other| other.is_same(&site)) {
                Some(other) => other.sum += site.sum,
                None => sites.push(site),
            }
        }
        sites.sort_by_key(|site| Reverse((site.calls, site.samples)));
        sites
    }

    /// Whether both are the same place.
    fn is_same(&self, other: &Self) -> bool {
        let (one, two) = (&self.at, &other.at);
        (&one.function, &one.file, one.line, &one.module)
            == (&two.function, &two.file, two.line, &two.module)
            && (one.function.is_some() || one.address == two.address)
            && self.via == other.via
    }
}

/// The function that copies and that these frames are in: the outermost one. `None`: they show
/// none.
pub(crate) fn library_in(frames: &[Frame]) -> Option<&'static str> {
    let frames = frames.iter().rev();
    let names: Vec<&str> = frames
        .filter_map(|frame| frame.function.as_deref())
        .collect();
    for name in &names {
        for (library, functions) in COPYING {
            if is_one_of(name, functions) {
                return Some(library);
            }
        }
    }
    let is_either = names.iter().any(|name| is_one_of(name, KERNEL_COPY));
    is_either.then_some(EITHER_COPY)
}

/// Whether this is the name of one of these functions.
fn is_one_of(name: &str, functions: &[&str]) -> bool {
    functions.iter().any(|function| is_function(name, function))
}

/// Whether this is the name of the function, of one within it, or of one in the module of that
/// name.
fn is_function(name: &str, function: &str) -> bool {
    name.strip_prefix(function)
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
}

/// Whether a frame belongs to the C library or the loader.
pub(crate) fn is_of_c_library(frame: &Frame) -> bool {
    let module = frame.module.as_deref().map_or("", file_name);
    begins_with_any(module, C_LIBRARIES)
}

/// Whether the stack shows every function, also those that were inlined into others: it is
/// complete, and there are line tables.
pub(crate) fn is_telling(stack: &SampledStack) -> bool {
    stack.complete && !stack.frames.iter().any(may_hide_functions)
}

/// Whether functions may have been inlined into this one without anyone knowing. The C library has
/// none of those that rules are about, and neither have the functions of Rust's library that are
/// compiled before any program is: those without type parameters.
pub(crate) fn may_hide_functions(frame: &Frame) -> bool {
    let is_known = match frame.function.as_deref() {
        Some("main" | "_start") => true,
        Some(name) => !name.contains('<') && begins_with_any(name, &["std::", "core::"]),
        None => false,
    };
    frame.file.is_none() && !is_of_c_library(frame) && !is_known
}

/// What would settle it.
pub(crate) fn how_to_settle<'a>(
    mut stacks: impl Iterator<Item = &'a SampledStack> + Clone,
) -> String {
    let mut all = stacks.clone();
    let cut = all.find_map(|stack| stack.incomplete_because.as_deref());
    if stacks.any(|stack| stack.frames.iter().any(may_hide_functions)) {
        return "line tables would show it: set debug = \"line-tables-only\" in the profile, and do not strip"
            .to_owned();
    }
    match cut {
        Some(cut) => format!("a sampled stack is incomplete: {cut}"),
        None => "the sampled stacks are incomplete".to_owned(),
    }
}

/// Whether a frame belongs to a library that programs use to reach the kernel. `index` is its place
/// in the stack.
fn is_library(frame: &Frame, index: usize) -> bool {
    let name = frame.function.as_deref();
    is_of_c_library(frame)
        || frame.file.as_deref().is_some_and(is_library_source)
        || name.is_some_and(|name| is_library_name(name) || (index == 0 && is_wrapper(name)))
}

fn is_library_source(file: &str) -> bool {
    (file.starts_with("/rustc/") && file.contains("/library/"))
        || file.contains("/.cargo/registry/")
        // The musl that rustup brings, which is linked into programs: musl-cross-make built it.
        || file.contains("/src_musl/")
}

fn begins_with_any(text: &str, beginnings: &[&str]) -> bool {
    beginnings
        .iter()
        .any(|beginning| text.starts_with(beginning))
}

fn is_library_name(name: &str) -> bool {
    let path = without_pointers(name.trim_start_matches(['<', '&', '*']));
    if begins_with_any(path, &["std::", "core::", "alloc::", "tokio::"]) {
        return true;
    }
    let is_of_go = !path.contains("::") && mark_in(path).is_none();
    match path.split_once(['.', '/']) {
        Some((package, _)) => is_of_go && GO_PACKAGES.contains(&package),
        None => false,
    }
}

/// What C compilers append to the name of a part or a copy of a function: `read.part.0`.
const MARKS: [&str; 5] = [".part.", ".constprop.", ".isra.", ".cold", ".llvm."];

/// Where in a name the marks of a C compiler begin. `None`: it has none.
pub(crate) fn mark_in(name: &str) -> Option<usize> {
    MARKS.iter().filter_map(|mark| name.find(mark)).min()
}

/// The name of a type without what says that it is behind a pointer.
pub(crate) fn without_pointers(name: &str) -> &str {
    name.trim_start_matches(['&', '*'])
        .trim_start_matches("mut ")
        .trim_start_matches("dyn ")
}

/// Whether a function of a statically linked program does nothing but make the call that it is
/// named after: `__libc_read`.
fn is_wrapper(name: &str) -> bool {
    let name = name.trim_start_matches('_');
    let name = ["GI___libc_", "GI___", "libc_"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name);
    Spec::named(name).is_in(CallClass::Data)
}

/// A name as people write it: without generic arguments, and `File::read` instead of
/// `<std::fs::File as std::io::Read>::read`.
fn short_name(name: &str) -> String {
    let name = name
        .trim_start_matches("__GI_")
        .trim_start_matches("_IO_new_")
        .trim_start_matches("_IO_");
    if let Some((implementer, rest)) = name.strip_prefix('<').and_then(split_implementation) {
        let implementer = implementer.split(" as ").next().unwrap_or(implementer);
        let implementer = implementer.trim_start_matches(['&', '*']);
        let implementer = without_generics(implementer.trim_start_matches("mut "));
        return implementer + &without_generics(rest);
    }
    without_generics(name)
}

/// Splits `T as Trait>::method` at the bracket that closes the implementation.
pub(crate) fn split_implementation(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1;
    for (place, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            // The arrow of a function's type.
            '>' if !text[..place].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..place], &text[place + 1..]));
        }
    }
    None
}

/// A name without what is in angle brackets.
pub(crate) fn without_generics(name: &str) -> String {
    let (mut short, mut depth) = (String::new(), 0_u32);
    let mut before = ' ';
    for letter in name.chars() {
        match letter {
            '<' => depth += 1,
            '>' if before != '-' => depth = depth.saturating_sub(1),
            _ if depth == 0 => short.push(letter),
            _ => {}
        }
        before = letter;
    }
    short.trim_end_matches("::").replace("::::", "::")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        golden::{GoldenCase, check_golden},
        report::sample::stack,
    };

    /// A golden file with a case on each line.
    #[track_caller]
    fn check_sites(file: &str, read: impl Fn(&str) -> String) {
        let path = format!("report/callers/tests/{file}");
        check_golden(path, GoldenCase::Line, read);
    }

    #[test]
    fn the_site_is_the_first_function_of_the_program_itself() {
        check_sites("sites.txt", |text| {
            let stack = stack(text);
            let site = Site::of_stack(&stack, SampleSum::of_every_call(1));
            let site = site.expect("there are frames");
            let via = site.via.map(|via| format!(" via {via}"));
            let library = library_in(&stack.frames).map(|name| format!(", in {name}"));
            let [via, library] = [via, library].map(Option::unwrap_or_default);
            site.at.function.unwrap_or_default() + &via + &library
        });
    }

    #[test]
    fn names_are_short() {
        check_sites("short_names.txt", short_name);
    }
}
