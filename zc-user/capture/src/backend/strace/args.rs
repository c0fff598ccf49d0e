//! The syntax of a call's arguments: how they are split, and how strace prints structures, arrays
//! and descriptors.

use super::syntax::{annotation_end, find_top_level, unsigned};

/// The arguments at the top level of `text`, without the spaces around them. It is what stands
/// between the brackets of a call, an array or a structure.
pub fn split_args(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let Some(comma) = find_top_level(text, b',') else {
            return Some(text.trim_ascii()).filter(|last| !last.is_empty());
        };
        rest = Some(&text[comma + 1..]);
        Some(text[..comma].trim_ascii())
    })
}

/// The arguments of a call, split once.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a>([Option<&'a [u8]>; 6]);

impl<'a> Args<'a> {
    /// Splits `args`, which is what stands between the brackets of a call.
    pub fn new(args: &'a [u8]) -> Self {
        let mut arguments = split_args(args);
        Self(std::array::from_fn(|_| arguments.next()))
    }

    /// The argument at this index.
    pub fn nth(&self, index: u8) -> Option<&'a [u8]> {
        self.0.get(usize::from(index)).copied().flatten()
    }

    /// The value of a field of an argument that is a structure; `name` has its `=`.
    pub fn field(&self, index: u8, name: &[u8]) -> Option<&'a [u8]> {
        field(inside(self.nth(index)?, b'{', b'}')?, name)
    }

    /// An argument that is a descriptor with a name.
    pub fn descriptor(&self, index: u8) -> Option<NamedDescriptor<'a>> {
        NamedDescriptor::whole(self.nth(index)?)
    }
}

/// Parses an argument that is a number. With `-X verbose` a comment may follow: `0x3 /*
/// PROT_READ|PROT_WRITE */`.
pub fn number(argument: &[u8]) -> Option<u64> {
    let (number, rest) = unsigned(argument)?;
    (rest.is_empty() || rest.starts_with(b" /*")).then_some(number)
}

/// The elements of an array.
pub fn elements(array: &[u8]) -> impl Iterator<Item = &[u8]> {
    inside(array, b'[', b']').into_iter().flat_map(split_args)
}

/// What stands between the brackets of an array or a structure.
pub fn inside(argument: &[u8], open: u8, close: u8) -> Option<&[u8]> {
    let (&first, rest) = argument.split_first()?;
    let (&last, inner) = rest.split_last()?;
    (first == open && last == close).then_some(inner)
}

/// The value of a field of a structure; `name` has its `=`.
pub fn field<'a>(structure: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    split_args(structure).find_map(|field| field.strip_prefix(name))
}

/// What strace prints after the name of a deleted file (before 5.19: ` (deleted)` within the
/// brackets).
pub const DELETED: &[u8] = b">(deleted)";

/// A descriptor as strace prints it under `-y`: a number, and in angle brackets the name of its
/// file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedDescriptor<'a> {
    /// The number.
    pub number: u32,
    /// All of it: `3</tmp/x>(deleted)`.
    pub text: &'a [u8],
    /// The name, escaped, with the mark of a deleted file: `/tmp/x>(deleted)`.
    pub name: &'a [u8],
}

impl<'a> NamedDescriptor<'a> {
    /// Parses an argument. `None` if it is not a descriptor (`-1`, `AT_FDCWD</tmp>`) or has no
    /// name.
    pub fn whole(argument: &'a [u8]) -> Option<Self> {
        let (number, rest) = unsigned(argument)?;
        let name = rest.strip_prefix(b"<")?;
        // The argument ends with its bracket, so there is no need to search for the end of the
        // name.
        let name = name
            .strip_suffix(b">")
            .or_else(|| name.ends_with(DELETED).then_some(name));
        match name {
            Some(name) => Some(Self {
                number: u32::try_from(number).ok()?,
                text: argument,
                name,
            }),
            None => Self::leading(argument),
        }
    }

    /// Parses the descriptor at the beginning of a text.
    pub fn leading(text: &'a [u8]) -> Option<Self> {
        let (number, rest) = unsigned(text)?;
        let angle = text.len() - rest.len();
        let end = annotation_end(text, angle)?;
        let is_deleted = text[end - 1..].starts_with(DELETED);
        let (text, name) = if is_deleted {
            let end = end - 1 + DELETED.len();
            (&text[..end], &text[angle + 1..end])
        } else {
            (&text[..end], &text[angle + 1..end - 1])
        };
        Some(Self {
            number: u32::try_from(number).ok()?,
            text,
            name,
        })
    }
}
