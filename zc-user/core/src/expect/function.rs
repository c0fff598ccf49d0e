//! Patterns of function names, and whether a stack has a function that one of them matches.

use std::{collections::BTreeMap, path::Path};

use crate::{
    report::{
        EITHER_COPY, is_of_c_library, library_in, named, split_implementation, without_generics,
    },
    trace::{Frame, Stack},
    transfer::may_hide_functions,
};

/// A pattern of function names: parts with `::` between them. `**` stands for any number of parts,
/// `*` and `?` match within one.
#[derive(Debug, Clone)]
pub(super) struct FunctionPattern {
    text: String,
    parts: Vec<Part>,
}

/// A part of a pattern.
#[derive(Debug, Clone)]
enum Part {
    /// `**`
    Any,
    One(glob::Pattern),
}

impl PartialEq for FunctionPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for FunctionPattern {}

/// What separates the parts of a name: modules, and the folders in the names of Go's packages.
const SEPARATORS: [&str; 2] = ["::", "/"];

impl FunctionPattern {
    /// Parses a pattern. The error has a message and an offset.
    pub(super) fn new(text: &str) -> Result<Self, (String, usize)> {
        if let Some(at) = text.find('<') {
            return Err((
                "generic arguments are ignored, so leave out what is in <>".to_owned(),
                at,
            ));
        }
        let mut parts = Vec::new();
        let mut at = 0;
        for part in split(text) {
            parts.push(Part::new(part).map_err(|(why, offset)| (why, at + offset))?);
            at += part.len();
            at += SEPARATORS
                .iter()
                .find(|sign| text[at..].starts_with(**sign))
                .map_or(0, |sign| sign.len());
        }
        Ok(Self {
            text: text.to_owned(),
            parts,
        })
    }

    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// A pattern without `::` matches the last part of a name.
    fn is_of_last_parts(&self) -> bool {
        self.parts.len() == 1
    }

    /// Whether it can match the name of a function of C, which has no modules.
    fn may_be_of_c(&self) -> bool {
        self.is_of_last_parts() || matches!(self.parts.first(), Some(Part::Any))
    }

    /// The part of a name that it is compared with.
    pub(super) fn compared<'a>(&self, name: &'a str) -> &'a str {
        if self.is_of_last_parts() {
            split(name).last().unwrap_or(name)
        } else {
            name
        }
    }

    /// Whether it matches the function of a frame, or may.
    pub(super) fn may_match(&self, frame: &Frame, crates: &Crates) -> bool {
        of_frame(self, frame, crates) != Shown::No
    }

    /// The first part, if it matches only itself.
    fn first_word(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::One(first), _, ..] if !first.as_str().contains(['*', '?', '[']) => {
                Some(first.as_str())
            }
            _ => None,
        }
    }

    /// Whether it matches everything below its first part: `my_crate::**`.
    fn is_whole_crate(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::One(_), Part::Any]) && self.first_word().is_some()
    }

    /// Whether it matches a name, as stacks have it.
    fn matches_name(&self, name: &str) -> bool {
        spellings(name).iter().any(|name| self.matches(name))
    }

    /// Whether it matches a name without generic arguments and closures.
    fn matches(&self, name: &str) -> bool {
        matches_parts(&self.parts, &split(self.compared(name)).collect::<Vec<_>>())
    }

    /// Whether it may match a name whose modules are missing.
    fn may_match_end(&self, name: &str) -> bool {
        match self.parts.last() {
            Some(Part::One(last)) if !name.is_empty() => last.matches(name),
            // `**`, or a closure: the function that it is in may have any name.
            _ => true,
        }
    }
}

impl Part {
    fn new(text: &str) -> Result<Self, (String, usize)> {
        match text {
            "" => Err(("a part of it is empty".to_owned(), 0)),
            "**" => Ok(Self::Any),
            text if text.contains(':') => Err((
                "modules have '::' between them".to_owned(),
                text.find(':').unwrap_or_default(),
            )),
            text => glob::Pattern::new(text)
                .map(Self::One)
                .map_err(|error| (error.msg.to_owned(), error.pos.min(text.len()))),
        }
    }
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split("::").flat_map(|part| part.split('/'))
}

fn matches_parts(pattern: &[Part], name: &[&str]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([Part::Any, rest @ ..], _) => {
            (0..=name.len()).any(|skipped| matches_parts(rest, &name[skipped..]))
        }
        ([Part::One(first), rest @ ..], [part, others @ ..]) => {
            first.matches(part) && matches_parts(rest, others)
        }
        _ => false,
    }
}

/// The names that a function is matched by: without generic arguments, closures and what compilers
/// append. A method of a trait has two: `<app::Source as std::io::Read>::read` is
/// `app::Source::read` and `std::io::Read::read`. A function of a library that copies also has the
/// name that programs call it by.
pub(super) fn spellings(name: &str) -> Vec<String> {
    let mut all: Vec<String> = paths(name)
        .iter()
        .map(|name| without_closures(name))
        .collect();
    let frame = Frame {
        function: Some(name.to_owned()),
        ..Frame::default()
    };
    all.extend(
        library_in(&[frame])
            .filter(|library| *library != EITHER_COPY)
            .map(str::to_owned),
    );
    all
}

/// The name without generic arguments: of a method by its type, and by its trait if it has one.
fn paths(name: &str) -> Vec<String> {
    let Some((implementer, rest)) = name.strip_prefix('<').and_then(split_implementation) else {
        // C++ has the types of arguments in the name, Go a receiver in brackets.
        let end = if name.ends_with(')') || name.ends_with(") const") {
            name.find('(')
        } else {
            None
        };
        return vec![without_generics(
            &name[..end.filter(|end| *end > 0).unwrap_or(name.len())],
        )];
    };
    let (own, of_trait) = implementer
        .split_once(" as ")
        .map_or((implementer, None), |(own, of_trait)| (own, Some(of_trait)));
    let own = own
        .trim_start_matches(['&', '*'])
        .trim_start_matches("mut ")
        .trim_start_matches("dyn ");
    let named = |path: &str| format!("{}{}", without_generics(path), without_generics(rest));
    std::iter::once(own).chain(of_trait).map(named).collect()
}

/// The name of the function that a closure is in, without marks of compilers such as `.part.0`.
fn without_closures(name: &str) -> String {
    let parts = name
        .split("::")
        .filter(|part| !part.starts_with('{'))
        .map(|part| {
            let part = part.split('{').next().unwrap_or_default();
            MARKS
                .iter()
                .filter_map(|mark| part.find(mark))
                .min()
                .map_or(part, |end| &part[..end])
        });
    let parts: Vec<&str> = parts.filter(|part| !is_hash(part)).collect();
    parts.join("::")
}

/// What C compilers append to the name of a part or a copy of a function.
const MARKS: [&str; 5] = [".part.", ".constprop.", ".isra.", ".cold", ".llvm."];

/// Whether a part of a name is the hash at the end of Rust's older names.
fn is_hash(part: &str) -> bool {
    part.len() == 17
        && part.starts_with('h')
        && part[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Which crate a source file belongs to, by the names of functions there that have their modules.
#[derive(Debug)]
pub(super) struct Crates(BTreeMap<String, Option<String>>);

impl Crates {
    /// As these stacks show it.
    pub(super) fn from_stacks<'a>(stacks: impl Iterator<Item = &'a Stack>) -> Self {
        let named = |frame: &'a Frame| {
            let (file, name) = (frame.file.as_ref()?, frame.function.as_deref()?);
            // An implementation without a trait is in the crate of its type.
            let path = match name.strip_prefix('<').map(split_implementation) {
                Some(implementation) => implementation
                    .map(|(own, _)| own)
                    .filter(|own| !own.contains(" as "))?,
                None => name,
            };
            let (first, _) = path
                .split_once("::")
                .filter(|(first, _)| !first.contains(['<', '{', '(', ' ', '&', '*']))?;
            (!frame.is_inlined).then(|| (file.clone(), first.to_owned()))
        };
        let mut crates: BTreeMap<String, Option<String>> = BTreeMap::new();
        for (file, name) in stacks.flat_map(|stack| &stack.frames).filter_map(named) {
            let known = crates.entry(file).or_insert_with(|| Some(name.clone()));
            // Two crates may have a file of the same relative path.
            *known = known.take().filter(|known| *known == name);
        }
        Self(crates)
    }

    fn find(&self, file: Option<&str>) -> Option<String> {
        let file = file?;
        packaged(file).or_else(|| self.0.get(file).cloned().flatten())
    }
}

/// The crate of a source file in cargo's registry:
/// `.cargo/registry/src/index/serde_json-1.0.1/src/lib.rs`.
fn packaged(file: &str) -> Option<String> {
    let (_, rest) = file.split_once("/.cargo/registry/src/")?;
    let folder = rest.split('/').nth(1)?;
    // A version may have hyphens, too: `1.0.0-rc.1`.
    let is_version =
        |(at, _): &(usize, &str)| folder[at + 1..].starts_with(|c: char| c.is_ascii_digit());
    let (end, _) = folder.rmatch_indices('-').find(is_version)?;
    let name = &folder[..end];
    Some(name.replace('-', "_"))
}

/// Whether a stack has a function that a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shown {
    Yes,
    No,
    /// It does not show every function, or not with all of its name. A clause says what would
    /// settle it.
    Unclear(String),
}

/// Whether the stack has a function that the pattern matches. `remedy` says what would show every
/// function.
pub(super) fn shown(
    pattern: &FunctionPattern,
    stack: &Stack,
    crates: &Crates,
    remedy: impl Fn() -> String,
) -> Shown {
    let mut unclear = None;
    for frame in &stack.frames {
        match of_frame(pattern, frame, crates) {
            Shown::Yes => return Shown::Yes,
            Shown::No => {}
            Shown::Unclear(why) => unclear = unclear.or(Some(why)),
        }
    }
    match unclear {
        Some(why) => Shown::Unclear(why),
        None if shows_all(pattern, stack) => Shown::No,
        None => Shown::Unclear(remedy()),
    }
}

fn of_frame(pattern: &FunctionPattern, frame: &Frame, crates: &Crates) -> Shown {
    let Some(name) = frame.function.as_deref() else {
        return Shown::No;
    };
    if pattern.matches_name(name) {
        return Shown::Yes;
    }
    let is_either = library_in(std::slice::from_ref(frame)) == Some(EITHER_COPY);
    if is_either && named(EITHER_COPY).any(|library| pattern.matches(library)) {
        return Shown::Unclear(format!(
            "stacks show what {EITHER_COPY} works with, but not which of them"
        ));
    }
    let is_of_rust = frame
        .file
        .as_deref()
        .is_some_and(|file| Path::new(file).extension() == Some("rs".as_ref()));
    let is_closure = name.starts_with('{');
    let lacks_modules =
        frame.is_inlined && is_of_rust && (is_closure || !without_generics(name).contains("::"));
    if !lacks_modules || (pattern.is_of_last_parts() && !is_closure) {
        return Shown::No;
    }
    match (crates.find(frame.file.as_deref()), pattern.first_word()) {
        (Some(own), Some(wanted)) if own != wanted => Shown::No,
        (Some(_), Some(_)) if pattern.is_whole_crate() => Shown::Yes,
        _ if pattern.may_match_end(&without_closures(&without_generics(name))) => {
            Shown::Unclear("inlined functions have names without their modules: debug = 1 in the profile would tell".to_owned())
        }
        _ => Shown::No,
    }
}

/// Whether no function that the pattern may match is hidden in the stack.
fn shows_all(pattern: &FunctionPattern, stack: &Stack) -> bool {
    let starts = |frame: &Frame, name: &str| {
        frame
            .function
            .as_deref()
            .is_some_and(|function| function.starts_with(name))
    };
    let is_of_rust = stack
        .frames
        .iter()
        .any(|frame| starts(frame, "std::rt::lang_start"));
    let hides = |frame: &Frame| {
        let is_named = |name: &str| frame.function.as_deref() == Some(name);
        let may_be_in_c = frame.file.is_none() && pattern.may_be_of_c() && is_of_c_library(frame);
        // Rust's `main` only calls the program's. That of a program in C may have functions inside.
        let is_opaque_main = frame.file.is_none() && is_named("main") && !is_of_rust;
        may_hide_functions(frame) || may_be_in_c || is_opaque_main
    };
    stack.end.why().is_none() && !stack.frames.iter().any(hides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::StackEnd;

    fn pattern(text: &str) -> FunctionPattern {
        FunctionPattern::new(text).expect("a pattern")
    }

    #[test]
    fn a_pattern_without_modules_matches_the_last_part() {
        assert!(
            pattern("run").matches_name("copier::std_copy::run")
                && pattern("run").matches_name("run")
        );
        assert!(
            pattern("r*").matches_name("copier::run::<u8>")
                && !pattern("copier").matches_name("copier::run")
        );
    }

    #[test]
    fn a_pattern_with_modules_matches_the_whole_name() {
        for name in [
            "my_crate::run",
            "my_crate::io::run",
            "my_crate::run::{{closure}}",
            "<my_crate::Source as std::io::Read>::read",
        ] {
            assert!(pattern("my_crate::**").matches_name(name), "{name}");
        }
        for name in [
            "my_crate2::run",
            "std::io::copy::copy<my_crate::Source, u8>",
            "run",
            "other::my_crate::run",
        ] {
            assert!(!pattern("my_crate::**").matches_name(name), "{name}");
        }
        assert!(
            pattern("**::copy").matches_name("std::io::copy::copy")
                && pattern("a::*::c").matches_name("a::b::c")
        );
        assert!(
            !pattern("a::*::c").matches_name("a::b::b::c")
                && pattern("a::**::c").matches_name("a::c")
        );
        assert!(pattern("github.com/x/**").matches_name("github.com/x/y.(*T).Read"));
    }

    #[test]
    fn generic_arguments_closures_and_marks_of_compilers_are_no_part_of_a_name() {
        let same = |name: &str| spellings(name).remove(0);
        assert_eq!(same("app::run::<u8, app::T<u8>>"), "app::run");
        assert_eq!(same("app::run<u8>::{closure#0}::{closure#1}"), "app::run");
        assert_eq!(same("app::run{{vtable.shim}}"), "app::run");
        assert_eq!(same("app::run::h0123456789abcdef"), "app::run");
        assert_eq!(same("copy_all.part.0.constprop.1"), "copy_all");
        assert_eq!(same("<app::T<u8>>::run"), "app::T::run");
        assert_eq!(
            same("<&mut app::T as core::fmt::Write>::write_str"),
            "app::T::write_str"
        );
        assert_eq!(
            spellings("<app::T as std::io::Read<u8>>::read"),
            ["app::T::read", "std::io::Read::read"]
        );
        assert_eq!(
            spellings("std::io::copy::stack_buffer_copy<A, B>"),
            ["std::io::copy::stack_buffer_copy", "std::io::copy"]
        );
    }

    #[test]
    fn a_mistake_in_a_pattern_has_its_place() {
        let wrong = |text: &str| FunctionPattern::new(text).expect_err(text);
        assert_eq!(wrong("a::::b").1, 3);
        assert_eq!(
            wrong("std:io"),
            ("modules have '::' between them".to_owned(), 3)
        );
        assert_eq!(wrong("app::run<u8>").1, 8);
        assert_eq!(wrong("a::b***").1, 6);
    }

    fn frame(name: &str, file: Option<&str>, is_inlined: bool) -> Frame {
        Frame {
            function: Some(name.into()),
            file: file.map(str::to_owned),
            is_inlined,
            module: Some("/bin/x".into()),
            ..Frame::default()
        }
    }

    fn judged(text: &str, frames: Vec<Frame>, end: StackEnd) -> Shown {
        let stack = Stack { frames, end };
        let crates = Crates::from_stacks(std::iter::once(&stack));
        shown(&pattern(text), &stack, &crates, || "remedy".to_owned())
    }

    fn nameless() -> String {
        "inlined functions have names without their modules: debug = 1 in the profile would tell"
            .to_owned()
    }

    #[test]
    fn a_function_is_only_absent_if_the_stack_shows_every_function() {
        let own = || {
            vec![
                frame("app::run", Some("src/run.rs"), false),
                frame("std::rt::lang_start_internal", None, false),
            ]
        };
        let with_main = || [own(), vec![frame("main", None, false)]].concat();
        assert_eq!(judged("other::**", with_main(), StackEnd::Root), Shown::No);
        assert_eq!(
            judged("app::**", with_main(), StackEnd::TooDeep),
            Shown::Yes
        );
        assert_eq!(
            judged("other::**", with_main(), StackEnd::TooDeep),
            Shown::Unclear("remedy".into())
        );
        let without_lines = vec![frame("app::run", None, false)];
        assert_eq!(
            judged("other::**", without_lines, StackEnd::Root),
            Shown::Unclear("remedy".into())
        );
        let c_without_lines = vec![frame("main", None, false)];
        assert_eq!(
            judged("copy_all", c_without_lines, StackEnd::Root),
            Shown::Unclear("remedy".into())
        );
    }

    #[test]
    fn an_inlined_function_without_its_modules_belongs_to_the_crate_of_its_file() {
        let stack = |file| {
            vec![
                frame("mid", Some(file), true),
                frame("app::run", Some("src/run.rs"), false),
            ]
        };
        assert_eq!(
            judged("app::**", stack("src/run.rs"), StackEnd::Root),
            Shown::Yes
        );
        assert_eq!(
            judged("other::**", stack("src/run.rs"), StackEnd::Root),
            Shown::No
        );
        assert_eq!(
            judged("app::run::mid", stack("src/run.rs"), StackEnd::Root),
            Shown::Unclear(nameless())
        );
        assert_eq!(
            judged("other::**", stack("src/mid.rs"), StackEnd::Root),
            Shown::Unclear(nameless())
        );
        assert_eq!(
            judged("other::last", stack("src/mid.rs"), StackEnd::Root),
            Shown::No
        );
        let method = vec![
            frame("mid", Some("src/job.rs"), true),
            frame("<app::Job<u8>>::run", Some("src/job.rs"), false),
        ];
        assert_eq!(judged("other::**", method, StackEnd::Root), Shown::No);
        let of_trait = frame("<app::Job as other::Trait>::run", Some("src/job.rs"), false);
        let of_trait = vec![frame("mid", Some("src/job.rs"), true), of_trait];
        assert_eq!(
            judged("third::**", of_trait, StackEnd::Root),
            Shown::Unclear(nameless())
        );
        let packaged =
            "/root/.cargo/registry/src/index.crates.io-1/serde-json-1.0.0-rc.1/src/lib.rs";
        assert_eq!(
            judged("other::**", stack(packaged), StackEnd::Root),
            Shown::No
        );
        assert_eq!(
            judged("serde_json::**", stack(packaged), StackEnd::Root),
            Shown::Yes
        );
    }

    #[test]
    fn what_both_of_rusts_copies_work_with_may_be_either() {
        let kernel_copy = || {
            vec![frame(
                "std::sys::io::kernel_copy::linux::sendfile_splice",
                None,
                false,
            )]
        };
        let judged_copy = judged("std::io::copy", kernel_copy(), StackEnd::Root);
        assert!(
            matches!(judged_copy, Shown::Unclear(why) if why.contains("but not which of them"))
        );
        assert_eq!(
            judged("std::io::kernel", kernel_copy(), StackEnd::Root),
            Shown::No
        );
    }
}
