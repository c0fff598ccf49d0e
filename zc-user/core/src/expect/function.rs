//! Patterns of function names, and whether a stack has a function that one of them matches.

use std::path::Path;

use super::pattern::Glob;
use crate::{
    report::{
        EITHER_COPY, functions_named, how_to_settle, is_of_c_library, library_in, mark_in,
        may_hide_functions, split_implementation, without_generics, without_pointers,
    },
    text::file_name,
    trace::{Frame, SampledStack},
};

/// A pattern of function names: parts with `::` between them. `**` stands for any number of parts,
/// `*` and `?` match within one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FunctionPattern {
    text: String,
    /// With `/` between the parts, as between the folders in the names of Go's packages.
    glob: Glob,
}

/// A name with `/` between its parts.
fn as_path(name: &str) -> String {
    name.replace("::", "/")
}

impl FunctionPattern {
    /// Parses a pattern. The error has a message and an offset.
    pub(super) fn new(text: &str) -> Result<Self, (String, usize)> {
        let path = as_path(text);
        let found = if let Some(at) = path.find('<') {
            let why = "generic arguments are ignored, so leave out what is in <>";
            Err((why.to_owned(), at))
        } else if let Some(at) = path.find(':') {
            Err(("modules have '::' between them".to_owned(), at))
        } else if let Some(at) = format!("/{path}/").find("//") {
            Err(("a part of it is empty".to_owned(), at))
        } else {
            Glob::new(&path)
        };
        let text = text.to_owned();
        match found {
            Ok(glob) => Ok(Self { text, glob }),
            Err((why, at)) => {
                let colons = path[..at].matches('/').count();
                Err((why, (at + colons).min(text.len())))
            }
        }
    }

    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it can match the name of a function of C, which has no modules.
    fn may_be_of_c(&self) -> bool {
        self.glob.is_of_names() || self.text.starts_with("**")
    }

    /// The part of a name that it is compared with.
    pub(super) fn compared_part<'a>(&self, name: &'a str) -> &'a str {
        if self.glob.is_of_names() {
            file_name(name.rsplit("::").next().unwrap_or(name))
        } else {
            name
        }
    }

    /// Whether it matches the function of a frame, or may.
    pub(super) fn may_match(&self, frame: &Frame) -> bool {
        shown_by_frame(self, frame) != FunctionShown::No
    }

    /// Whether it matches a name, as stacks have it.
    fn matches_name(&self, name: &str) -> bool {
        name_spellings(name)
            .iter()
            .any(|name| self.matches_plain_name(name))
    }

    /// Whether it matches a name without generic arguments and closures.
    fn matches_plain_name(&self, name: &str) -> bool {
        self.glob.matches(&as_path(name))
    }

    /// Whether it may match a name whose modules are missing; the empty name is that of a closure,
    /// and the function that it is in may have any name.
    fn may_match_end(&self, name: &str) -> bool {
        name.is_empty() || self.glob.may_end_as(name)
    }
}

/// The names that a function is matched by: without generic arguments, closures and what compilers
/// append. A method of a trait has two: `<app::Source as std::io::Read>::read` is
/// `app::Source::read` and `std::io::Read::read`. A function of a library that copies also has the
/// name that programs call it by.
pub(super) fn name_spellings(name: &str) -> Vec<String> {
    let paths = paths_of_name(name);
    let mut all: Vec<String> = paths.iter().map(|name| without_closures(name)).collect();
    let frame = Frame {
        function: Some(name.to_owned()),
        ..Frame::default()
    };
    match library_in(&[frame]) {
        None | Some(EITHER_COPY) => {}
        Some(library) => all.push(library.to_owned()),
    }
    all
}

/// The name without generic arguments: of a method by its type, and by its trait if it has one.
fn paths_of_name(name: &str) -> Vec<String> {
    let Some((implementer, rest)) = name.strip_prefix('<').and_then(split_implementation) else {
        // C++ has the types of arguments in the name, Go a receiver in brackets.
        let has_arguments = name.ends_with(')') || name.ends_with(") const");
        let path = match name.find('(') {
            Some(end) if has_arguments && end > 0 => &name[..end],
            _ => name,
        };
        return vec![without_generics(path)];
    };
    let named = |path: &str| format!("{}{}", without_generics(path), without_generics(rest));
    match implementer.split_once(" as ") {
        Some((own, of_trait)) => vec![named(without_pointers(own)), named(of_trait)],
        None => vec![named(without_pointers(implementer))],
    }
}

/// The name of the function that a closure is in, without marks of compilers such as `.part.0`.
fn without_closures(name: &str) -> String {
    let mut parts = Vec::new();
    for part in name.split("::").filter(|part| !part.starts_with('{')) {
        let part = part.split('{').next().unwrap_or_default();
        let part = mark_in(part).map_or(part, |end| &part[..end]);
        if !is_hash(part) {
            parts.push(part);
        }
    }
    parts.join("::")
}

/// Whether a part of a name is the hash at the end of Rust's older names.
fn is_hash(part: &str) -> bool {
    part.len() == 17
        && part.starts_with('h')
        && part[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a stack has a function that a pattern matches. The greatest decides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FunctionShown {
    No,
    /// It does not show every function, or not with all of its name. A clause says what would
    /// settle it.
    Unclear(String),
    Yes,
}

/// Whether the stack has a function that the pattern matches.
pub(super) fn function_shown(pattern: &FunctionPattern, stack: &SampledStack) -> FunctionShown {
    let frames = stack.frames.iter();
    let by_frame = frames.map(|frame| shown_by_frame(pattern, frame));
    let shown = by_frame.max().unwrap_or(FunctionShown::No);
    if shown == FunctionShown::No && !shows_all(pattern, stack) {
        return FunctionShown::Unclear(how_to_settle(std::iter::once(stack)));
    }
    shown
}

fn shown_by_frame(pattern: &FunctionPattern, frame: &Frame) -> FunctionShown {
    let Some(name) = frame.function.as_deref() else {
        return FunctionShown::No;
    };
    if pattern.matches_name(name) {
        return FunctionShown::Yes;
    }
    let is_either = library_in(std::slice::from_ref(frame)) == Some(EITHER_COPY);
    if is_either && functions_named(EITHER_COPY).any(|library| pattern.matches_plain_name(library))
    {
        return FunctionShown::Unclear(format!(
            "stacks show helpers of {EITHER_COPY}, but not which of the two called them"
        ));
    }
    let file = frame.file.as_deref().unwrap_or_default();
    let is_of_rust = Path::new(file).extension() == Some("rs".as_ref());
    let short = without_generics(name);
    let is_closure = name.starts_with('{');
    let lacks_modules = frame.inlined && is_of_rust && (is_closure || !short.contains("::"));
    let may_match = (is_closure || !pattern.glob.is_of_names())
        && pattern.may_match_end(&without_closures(&short));
    if lacks_modules && may_match {
        return FunctionShown::Unclear(
            "inlined functions have names without their modules; debug = 1 in the profile adds them"
                .to_owned(),
        );
    }
    FunctionShown::No
}

/// Whether no function that the pattern may match is hidden in the stack.
fn shows_all(pattern: &FunctionPattern, stack: &SampledStack) -> bool {
    let mut functions = stack.frames.iter().flat_map(|frame| &frame.function);
    let is_of_rust = functions.any(|name| name.starts_with("std::rt::lang_start"));
    let hides = |frame: &Frame| {
        let may_be_in_c = frame.file.is_none() && pattern.may_be_of_c() && is_of_c_library(frame);
        // Rust's `main` only calls the program's. That of a program in C may have functions inside.
        let is_opaque_main =
            frame.file.is_none() && frame.function.as_deref() == Some("main") && !is_of_rust;
        may_hide_functions(frame) || may_be_in_c || is_opaque_main
    };
    stack.complete && !stack.frames.iter().any(hides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        golden::{GoldenCase, check_golden},
        report::sample,
    };

    fn parse_pattern(text: &str) -> FunctionPattern {
        FunctionPattern::new(text).expect("a pattern")
    }

    #[test]
    fn a_pattern_matches_the_last_part_or_the_whole_name_without_generic_arguments() {
        check_golden(
            "expect/language_tests/functions.txt",
            GoldenCase::Line,
            |case| {
                if let Some((text, stack)) = case.split_once(" in ") {
                    match function_shown(&parse_pattern(text), &sample::stack(stack)) {
                        FunctionShown::Yes => "yes".to_owned(),
                        FunctionShown::No => "no".to_owned(),
                        FunctionShown::Unclear(why) => why,
                    }
                } else if let Some((text, name)) = case.split_once(" ? ") {
                    let is_match = parse_pattern(text).matches_name(name);
                    if is_match { "yes" } else { "no" }.to_owned()
                } else {
                    name_spellings(case).join("\n")
                }
            },
        );
    }
}
