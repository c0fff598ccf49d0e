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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FunctionPattern {
    text: String,
    /// With `/` between the parts.
    pattern: glob::Pattern,
}

/// The parts of a name: modules, and the folders in the names of Go's packages.
fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split("::").flat_map(|part| part.split('/'))
}

impl FunctionPattern {
    /// Parses a pattern. The error has a message and an offset.
    pub(super) fn new(text: &str) -> Result<Self, (String, usize)> {
        if let Some(at) = text.find('<') {
            let why = "generic arguments are ignored, so leave out what is in <>";
            return Err((why.to_owned(), at));
        }
        let mut at = 0;
        for part in split(text) {
            if part.is_empty() {
                return Err(("a part of it is empty".to_owned(), at));
            }
            if let Some(colon) = part.find(':') {
                return Err(("modules have '::' between them".to_owned(), at + colon));
            }
            glob::Pattern::new(part)
                .map_err(|error| (error.msg.to_owned(), at + error.pos.min(part.len())))?;
            at += part.len();
            at += if text[at..].starts_with('/') { 1 } else { 2 };
        }
        let pattern = glob::Pattern::new(&text.replace("::", "/"));
        Ok(Self {
            pattern: pattern.map_err(|error| (error.msg.to_owned(), 0))?,
            text: text.to_owned(),
        })
    }

    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// A pattern without `::` matches the last part of a name.
    fn is_of_last_parts(&self) -> bool {
        split(&self.text).count() == 1
    }

    /// Whether it can match the name of a function of C, which has no modules.
    fn may_be_of_c(&self) -> bool {
        self.is_of_last_parts() || self.text.starts_with("**")
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
        shown_by_frame(self, frame, crates) != FunctionShown::No
    }

    /// The first part, if there are others and it matches only itself.
    fn first_word(&self) -> Option<&str> {
        let first = split(&self.text).next()?;
        (!self.is_of_last_parts() && !first.contains(['*', '?', '['])).then_some(first)
    }

    /// Whether it matches everything below its first part: `my_crate::**`.
    fn is_whole_crate(&self) -> bool {
        self.first_word().is_some() && split(&self.text).skip(1).eq(["**"])
    }

    /// Whether it matches a name, as stacks have it.
    fn matches_name(&self, name: &str) -> bool {
        spellings(name).iter().any(|name| self.matches(name))
    }

    /// Whether it matches a name without generic arguments and closures.
    fn matches(&self, name: &str) -> bool {
        let options = glob::MatchOptions {
            require_literal_separator: true,
            ..glob::MatchOptions::new()
        };
        let name = self.compared(name).replace("::", "/");
        self.pattern.matches_with(&name, options)
    }

    /// Whether it may match a name whose modules are missing.
    fn may_match_end(&self, name: &str) -> bool {
        match split(&self.text).last() {
            Some(last) if last != "**" && !name.is_empty() => {
                glob::Pattern::new(last).is_ok_and(|last| last.matches(name))
            }
            // A closure: the function that it is in may have any name.
            _ => true,
        }
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
            (!frame.inlined).then(|| (file.clone(), first.to_owned()))
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
pub(super) enum FunctionShown {
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
) -> FunctionShown {
    let mut unclear = None;
    for frame in &stack.frames {
        match shown_by_frame(pattern, frame, crates) {
            FunctionShown::Yes => return FunctionShown::Yes,
            FunctionShown::No => {}
            FunctionShown::Unclear(why) => unclear = unclear.or(Some(why)),
        }
    }
    match unclear {
        Some(why) => FunctionShown::Unclear(why),
        None if shows_all(pattern, stack) => FunctionShown::No,
        None => FunctionShown::Unclear(remedy()),
    }
}

fn shown_by_frame(pattern: &FunctionPattern, frame: &Frame, crates: &Crates) -> FunctionShown {
    let Some(name) = frame.function.as_deref() else {
        return FunctionShown::No;
    };
    if pattern.matches_name(name) {
        return FunctionShown::Yes;
    }
    let is_either = library_in(std::slice::from_ref(frame)) == Some(EITHER_COPY);
    if is_either && named(EITHER_COPY).any(|library| pattern.matches(library)) {
        return FunctionShown::Unclear(format!(
            "stacks show what {EITHER_COPY} works with, but not which of them"
        ));
    }
    let is_of_rust = frame
        .file
        .as_deref()
        .is_some_and(|file| Path::new(file).extension() == Some("rs".as_ref()));
    let is_closure = name.starts_with('{');
    let lacks_modules =
        frame.inlined && is_of_rust && (is_closure || !without_generics(name).contains("::"));
    if !lacks_modules || (pattern.is_of_last_parts() && !is_closure) {
        return FunctionShown::No;
    }
    match (crates.find(frame.file.as_deref()), pattern.first_word()) {
        (Some(own), Some(wanted)) if own != wanted => FunctionShown::No,
        (Some(_), Some(_)) if pattern.is_whole_crate() => FunctionShown::Yes,
        _ if pattern.may_match_end(&without_closures(&without_generics(name))) => {
            FunctionShown::Unclear("inlined functions have names without their modules: debug = 1 in the profile would tell".to_owned())
        }
        _ => FunctionShown::No,
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
    fn a_pattern_matches_the_last_part_or_the_whole_name() {
        for (text, name, expected) in [
            ("run", "copier::std_copy::run", true),
            ("run", "run", true),
            ("r*", "copier::run::<u8>", true),
            ("copier", "copier::run", false),
            ("my_crate::**", "my_crate::run", true),
            ("my_crate::**", "my_crate::io::run", true),
            ("my_crate::**", "my_crate::run::{{closure}}", true),
            (
                "my_crate::**",
                "<my_crate::Source as std::io::Read>::read",
                true,
            ),
            ("my_crate::**", "my_crate2::run", false),
            (
                "my_crate::**",
                "std::io::copy::copy<my_crate::Source, u8>",
                false,
            ),
            ("my_crate::**", "run", false),
            ("my_crate::**", "other::my_crate::run", false),
            ("**::copy", "std::io::copy::copy", true),
            ("a::*::c", "a::b::c", true),
            ("a::*::c", "a::b::b::c", false),
            ("a::**::c", "a::c", true),
            ("github.com/x/**", "github.com/x/y.(*T).Read", true),
        ] {
            assert_eq!(pattern(text).matches_name(name), expected, "{text} {name}");
        }
    }

    #[test]
    fn generic_arguments_closures_and_marks_of_compilers_are_no_part_of_a_name() {
        for (name, expected) in [
            ("app::run::<u8, app::T<u8>>", &["app::run"][..]),
            ("app::run<u8>::{closure#0}::{closure#1}", &["app::run"]),
            ("app::run{{vtable.shim}}", &["app::run"]),
            ("app::run::h0123456789abcdef", &["app::run"]),
            ("copy_all.part.0.constprop.1", &["copy_all"]),
            ("<app::T<u8>>::run", &["app::T::run"]),
            (
                "<&mut app::T as core::fmt::Write>::write_str",
                &["app::T::write_str", "core::fmt::Write::write_str"],
            ),
            (
                "<app::T as std::io::Read<u8>>::read",
                &["app::T::read", "std::io::Read::read"],
            ),
            (
                "std::io::copy::stack_buffer_copy<A, B>",
                &["std::io::copy::stack_buffer_copy", "std::io::copy"],
            ),
        ] {
            assert_eq!(spellings(name), expected);
        }
    }

    #[test]
    fn a_mistake_in_a_pattern_has_its_place() {
        for (text, at) in [
            ("a::::b", 3),
            ("std:io", 3),
            ("app::run<u8>", 8),
            ("a::b***", 6),
        ] {
            assert_eq!(FunctionPattern::new(text).expect_err(text).1, at);
        }
    }

    fn frame(name: &str, file: &str, is_inlined: bool) -> Frame {
        Frame {
            function: Some(name.into()),
            file: Some(file.to_owned()).filter(|file| !file.is_empty()),
            inlined: is_inlined,
            module: Some("/bin/x".into()),
            ..Frame::default()
        }
    }

    fn judged(text: &str, frames: &[Frame], end: StackEnd) -> FunctionShown {
        let frames = frames.to_vec();
        let stack = Stack { frames, end };
        let crates = Crates::from_stacks(std::iter::once(&stack));
        shown(&pattern(text), &stack, &crates, || "remedy".to_owned())
    }

    #[test]
    fn a_function_is_only_absent_if_the_stack_shows_every_function() {
        let run = frame("app::run", "src/run.rs", false);
        let start = frame("std::rt::lang_start_internal", "", false);
        let main = frame("main", "", false);
        let whole = [run, start, main.clone()];
        let without_lines = [frame("app::run", "", false)];
        let remedy = || FunctionShown::Unclear("remedy".into());
        for (text, frames, end, expected) in [
            ("other::**", &whole[..], StackEnd::Root, FunctionShown::No),
            ("app::**", &whole, StackEnd::TooDeep, FunctionShown::Yes),
            ("other::**", &whole, StackEnd::TooDeep, remedy()),
            ("other::**", &without_lines, StackEnd::Root, remedy()),
            ("copy_all", &[main], StackEnd::Root, remedy()),
        ] {
            assert_eq!(judged(text, frames, end), expected, "{text}");
        }
    }

    #[test]
    fn an_inlined_function_without_its_modules_belongs_to_the_crate_of_its_file() {
        const PACKAGED: &str =
            "/root/.cargo/registry/src/index.crates.io-1/serde-json-1.0.0-rc.1/src/lib.rs";
        let run = || frame("app::run", "src/run.rs", false);
        let method = || frame("<app::Job<u8>>::run", "src/job.rs", false);
        let of_trait = || frame("<app::Job as other::Trait>::run", "src/job.rs", false);
        let nameless = || {
            let why = "inlined functions have names without their modules: debug = 1 in the profile would tell";
            FunctionShown::Unclear(why.to_owned())
        };
        for (text, file, caller, expected) in [
            ("app::**", "src/run.rs", run(), FunctionShown::Yes),
            ("other::**", "src/run.rs", run(), FunctionShown::No),
            ("app::run::mid", "src/run.rs", run(), nameless()),
            ("other::**", "src/mid.rs", run(), nameless()),
            ("other::last", "src/mid.rs", run(), FunctionShown::No),
            ("other::**", "src/job.rs", method(), FunctionShown::No),
            ("third::**", "src/job.rs", of_trait(), nameless()),
            ("other::**", PACKAGED, run(), FunctionShown::No),
            ("serde_json::**", PACKAGED, run(), FunctionShown::Yes),
        ] {
            let frames = [frame("mid", file, true), caller];
            assert_eq!(
                judged(text, &frames, StackEnd::Root),
                expected,
                "{text} {file}"
            );
        }
    }

    #[test]
    fn what_both_of_rusts_copies_work_with_may_be_either() {
        let kernel_copy = [frame(
            "std::sys::io::kernel_copy::linux::sendfile_splice",
            "",
            false,
        )];
        let judged_copy = judged("std::io::copy", &kernel_copy, StackEnd::Root);
        assert!(
            matches!(judged_copy, FunctionShown::Unclear(why) if why.contains("but not which of them"))
        );
        let other = judged("std::io::kernel", &kernel_copy, StackEnd::Root);
        assert_eq!(other, FunctionShown::No);
    }
}
