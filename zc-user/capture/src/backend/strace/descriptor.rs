//! Descriptors as strace prints them under `-y`: a number, and in angle brackets the name of what is behind it.

use super::line::{number::unsigned, scan::annotation_end};

/// What strace prints after the name of a file that is in no directory any more (before 5.19: ` (deleted)` within the brackets).
pub const DELETED: &[u8] = b">(deleted)";

/// A descriptor with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor<'a> {
    /// The number.
    pub number: u32,
    /// All of it: `3</tmp/x>(deleted)`.
    pub text: &'a [u8],
    /// The name, escaped, with the mark of a deleted file: `/tmp/x>(deleted)`.
    pub name: &'a [u8],
}

impl<'a> Descriptor<'a> {
    /// The descriptor that an argument is. `None`: it is none (`-1`, `AT_FDCWD</tmp>`), or has no name.
    pub fn whole(argument: &'a [u8]) -> Option<Self> {
        let (number, rest) = unsigned(argument)?;
        let name = rest.strip_prefix(b"<")?;
        // Arguments end where their brackets do, so that nobody needs to look for the end of this one.
        let name = name.strip_suffix(b">").or_else(|| name.ends_with(DELETED).then_some(name));
        match name {
            Some(name) => Some(Self { number: u32::try_from(number).ok()?, text: argument, name }),
            None => Self::leading(argument),
        }
    }

    /// The descriptor that a text begins with.
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
        Some(Self { number: u32::try_from(number).ok()?, text, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(descriptor: Option<Descriptor<'_>>) -> Option<(u32, &str, &str)> {
        let text = |bytes| std::str::from_utf8(bytes).expect("is a piece of a str");
        descriptor.map(|descriptor| (descriptor.number, text(descriptor.text), text(descriptor.name)))
    }

    #[test]
    fn a_descriptor_has_a_number_and_a_name() {
        for (argument, number, name) in [
            ("3</tmp/a>", 3, "/tmp/a"),
            ("3</tmp/a>(deleted)", 3, "/tmp/a>(deleted)"),
            ("3</tmp/a->", 3, "/tmp/a-"),
            ("0</dev/pts/1<char 136:1>>", 0, "/dev/pts/1<char 136:1>"),
            ("12<TCP:[127.0.0.1:1->127.0.0.1:2]>", 12, "TCP:[127.0.0.1:1->127.0.0.1:2]"),
            ("5<UNIX-STREAM:[1->2,\"/tmp/)>\"]>", 5, "UNIX-STREAM:[1->2,\"/tmp/)>\"]"),
        ] {
            let found = Some((number, argument, name));
            assert_eq!(parts(Descriptor::whole(argument.as_bytes())), found);
            assert_eq!(parts(Descriptor::leading(argument.as_bytes())), found);
            assert_eq!(parts(Descriptor::leading(format!("{argument} <0.000012>").as_bytes())), found);
            assert_eq!(parts(Descriptor::whole(format!("{argument} [user_u:role_r]").as_bytes())), found);
        }
    }

    #[test]
    fn what_has_no_number_or_no_name_is_none() {
        for argument in
            ["", "3", "-1", "-1</x>", "AT_FDCWD</tmp>", "3 /* x */", "3<", "3</tmp", "99999999999</x>", "NULL", "{3</x>}"]
        {
            assert_eq!(Descriptor::whole(argument.as_bytes()), None, "{argument}");
        }
    }
}
