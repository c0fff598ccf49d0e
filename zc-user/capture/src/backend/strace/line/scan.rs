//! Walking over arguments: what is inside strings, brackets and descriptor annotations does not count.

/// What a byte does to the walk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Plain,
    Quote,
    Open,
    Close,
    Angle,
    Comma,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Plain; 256];
    classes[b'"' as usize] = Class::Quote;
    classes[b'(' as usize] = Class::Open;
    classes[b'[' as usize] = Class::Open;
    classes[b'{' as usize] = Class::Open;
    classes[b')' as usize] = Class::Close;
    classes[b']' as usize] = Class::Close;
    classes[b'}' as usize] = Class::Close;
    classes[b'<' as usize] = Class::Angle;
    classes[b',' as usize] = Class::Comma;
    classes
};

/// Index of the first `stop` (a comma or a closing bracket) that belongs to the level that `text` begins at.
///
/// `None` if there is none, or if a bracket closes that was not opened.
pub fn find_top_level(text: &[u8], stop: u8) -> Option<usize> {
    find_stop(text, stop).filter(|&at| text[at] == stop)
}

/// Index of the first bracket that closes and was not opened in `text`.
pub fn find_closing(text: &[u8]) -> Option<usize> {
    find_stop(text, b')')
}

/// Index of the first `stop` at the level that `text` begins at, or of the first bracket that ends that level.
fn find_stop(text: &[u8], stop: u8) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    // An annotation without an end is looked for once, so that a line full of `<` takes linear time.
    let mut annotations_end = true;
    loop {
        at += text.get(at..)?.iter().position(|&byte| CLASSES[usize::from(byte)] != Class::Plain)?;
        let byte = text[at];
        match CLASSES[usize::from(byte)] {
            Class::Quote => {
                at = end_of_string(text, at)?;
                continue;
            }
            Class::Angle if annotations_end => match end_of_annotation(text, at) {
                Annotation::EndsAt(end) => {
                    at = end;
                    continue;
                }
                Annotation::NeverEnds => annotations_end = false,
                Annotation::IsNone => {}
            },
            Class::Open => depth += 1,
            Class::Close if depth == 0 => return Some(at),
            Class::Close => depth -= 1,
            Class::Comma if depth == 0 && byte == stop => return Some(at),
            Class::Plain | Class::Angle | Class::Comma => {}
        }
        at += 1;
    }
}

/// Index after the closing quote of the string that begins at `quote`.
pub fn end_of_string(text: &[u8], quote: usize) -> Option<usize> {
    let mut at = quote + 1;
    loop {
        match text.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// What a `<` begins.
enum Annotation {
    /// An annotation, which ends before this index.
    EndsAt(usize),
    /// Nothing: the `>` is missing.
    NeverEnds,
    /// An operator, like that of `1<<12`.
    IsNone,
}

/// Index after the annotation that begins at `angle`, if one does.
pub fn annotation_end(text: &[u8], angle: usize) -> Option<usize> {
    match end_of_annotation(text, angle) {
        Annotation::EndsAt(end) if text.get(angle) == Some(&b'<') => Some(end),
        _ => None,
    }
}

/// What the `<` at `angle` begins. `3</path>`, `3<TCP:[127.0.0.1:1->127.0.0.1:2]>`, `3</dev/null<char 1:3>>`, `<... resuming ...>`.
fn end_of_annotation(text: &[u8], angle: usize) -> Annotation {
    if matches!(text.get(angle + 1), Some(b'<' | b'=' | b' ')) || angle.checked_sub(1).is_some_and(|before| text[before] == b'<')
    {
        return Annotation::IsNone;
    }
    let mut depth = 0_usize;
    let mut at = angle;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' => at += 1,
            // The path of a unix socket.
            b'"' => match end_of_string(text, at) {
                Some(end) => {
                    at = end;
                    continue;
                }
                None => return Annotation::NeverEnds,
            },
            b'<' => depth += 1,
            b'>' if is_arrow(text, at) => {}
            b'>' if depth == 1 => return Annotation::EndsAt(at + 1),
            b'>' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    Annotation::NeverEnds
}

/// Whether this `>` is half of the `->` between two sockets, and not the end of a path that has a `-` at its end.
fn is_arrow(text: &[u8], at: usize) -> bool {
    text[at - 1] == b'-' && !matches!(text.get(at + 1), None | Some(b',' | b')' | b']' | b'}' | b'(' | b' ' | b'>'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> &str {
        &text[..find_top_level(text.as_bytes(), b')').expect("has an end")]
    }

    #[test]
    fn brackets_in_strings_are_text() {
        assert_eq!(arguments(r#"1, "a) = 1\") b", 3) = 3"#), r#"1, "a) = 1\") b", 3"#);
    }

    #[test]
    fn brackets_in_brackets_belong_to_them() {
        assert_eq!(arguments("{a=f(1), b=[(2)]}, 3) = (x)"), "{a=f(1), b=[(2)]}, 3");
    }

    #[test]
    fn annotations_are_skipped() {
        for text in [
            "3</tmp/a) = 1>, 5",
            "3<TCP:[127.0.0.1:1->127.0.0.1:2]>, 5",
            "3<TCPv6:[[::1]:1->[::1]:2]>, 5",
            "3</tmp/->, 5",
            "3</dev/null<char 1:3>>, 5",
            "3<UNIX-STREAM:[1->2,\"/tmp/)>\"]>, 5",
            "<... resuming interrupted read ...>",
            "1<<12, 21<<(4)",
            "a<b, 3",
        ] {
            assert_eq!(arguments(&format!("{text}) = 1")), text);
        }
    }

    #[test]
    fn what_does_not_end_has_no_end() {
        for text in ["", "1, 2", "\"abc", "\"abc\\", "(1", "1]", "3</tmp/x, (1"] {
            assert_eq!(find_top_level(text.as_bytes(), b')'), None, "{text}");
        }
    }

    #[test]
    fn a_line_full_of_angles_takes_linear_time() {
        assert_eq!(find_top_level("<a".repeat(1 << 20).as_bytes(), b')'), None);
    }
}
