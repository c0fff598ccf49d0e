//! What strace shows of the bytes that a call moved: the first ones.

use super::{
    args::{Split, elements, field, inside},
    text::unescape_up_to,
};
use crate::{
    syscall::{Requested, Spec},
    trace::Head,
};

/// The first bytes of what a call moved; none, if the log does not show them.
pub(super) fn head(args: &Split<'_>, spec: &Spec, moved: u64) -> Head {
    let mut bytes = Vec::new();
    match spec.requested {
        // `read(3, "..."..., 4096)`: the bytes stand before their number.
        Requested::Size(size) => bytes = size.checked_sub(1).and_then(|buffer| text(args.nth(buffer)?)).unwrap_or_default(),
        Requested::Iovec { base, .. } => add_elements(&mut bytes, args.elements(base)),
        Requested::Message(index) => {
            add_elements(&mut bytes, args.field(index, b"msg_iov=").into_iter().flat_map(elements));
        }
        Requested::Nowhere => {}
    }
    bytes.truncate(usize::try_from(moved).unwrap_or(usize::MAX));
    Head::of(&bytes)
}

/// The bytes of the elements of a vector, as far as they are shown without a gap.
fn add_elements<'a>(bytes: &mut Vec<u8>, elements: impl Iterator<Item = &'a [u8]>) {
    for element in elements {
        let Some(structure) = inside(element, b'{', b'}') else { return };
        let Some(base) = field(structure, b"iov_base=") else { return };
        bytes.extend(text(base).unwrap_or_default());
        if !base.ends_with(b"\"") || bytes.len() >= Head::MOST_BYTES {
            return;
        }
    }
}

/// The bytes that `"abc"`, or `"abc"...` of a longer text, stands for.
fn text(argument: &[u8]) -> Option<Vec<u8>> {
    let quoted = argument.strip_suffix(b"...").unwrap_or(argument);
    Some(unescape_up_to(quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?, Head::MOST_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, args: &str, moved: u64) -> Head {
        head(&Split::new(args.as_bytes()), &Spec::of(name), moved)
    }

    #[test]
    fn the_first_bytes_stand_before_their_number_or_in_a_vector() {
        assert_eq!(of("read", r#"3</in>, "a\n\0\377"..., 4096"#, 4096), Head::of(b"a\n\0\xff"));
        assert_eq!(of("pwrite64", r#"3, "abc", 3, 10"#, 3), Head::of(b"abc"));
        assert_eq!(of("sendto", r#"3, "abc", 3, 0, NULL, 0"#, 3), Head::of(b"abc"));
        let vector = r#"3, [{iov_base="ab", iov_len=2}, {iov_base="cd"..., iov_len=20}, {iov_base="x", iov_len=1}], 3"#;
        assert_eq!(of("writev", vector, 23), Head::of(b"abcd"));
        let message = r#"3, {msg_name=NULL, msg_namelen=0, msg_iov=[{iov_base="abc", iov_len=3}], msg_iovlen=1, msg_flags=0}, 0"#;
        assert_eq!(of("recvmsg", message, 3), Head::of(b"abc"));
    }

    #[test]
    fn what_was_not_moved_or_is_not_shown_is_not_there() {
        assert_eq!(of("write", r#"3, "abcdef", 6"#, 2), Head::of(b"ab"));
        for args in [r#"3, ""..., 4096"#, "3, 0x7ffc0, 4096", "3, NULL, 0", "3"] {
            assert_eq!(of("read", args, 4096), Head::default(), "{args}");
        }
        assert_eq!(of("recvmmsg", "3, [{}], 1, 0, NULL", 1), Head::default());
    }
}
