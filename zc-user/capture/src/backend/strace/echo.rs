//! [`Echo`]: what the program writes to the terminal stands inside the line of its `write`.
//!
//! In a log on stderr a line may read `write(1, "a) = 5\n", 7a) = 5`, and its result is on the next
//! line. strace shows the beginning of the text before the size, and the size says how long the
//! text is. So it is known exactly where the text ends, whatever is in it.

use super::{
    decode::quoted,
    line::Prefix,
    syntax::{decimal, find_top_level, split_while},
};

/// How many bytes of a line and what is written within it are kept.
const MAX_BYTES: usize = 64 << 10;

/// A line within which the text of a `write` stands, as far as it was read.
#[derive(Debug)]
pub struct Echo {
    /// The line up to its size.
    head: Vec<u8>,
    /// How many bytes of the text are still to come.
    left: usize,
    /// All lines so far.
    lines: Vec<Vec<u8>>,
    bytes: usize,
}

/// What another line makes of it.
#[derive(Debug)]
pub enum EchoStep {
    /// The text goes on after this line.
    GoesOn(Echo),
    /// The line without the text.
    Line(Vec<u8>),
    /// The text ends elsewhere than its size says: these are lines like others.
    Failed(Vec<Vec<u8>>),
}

impl Echo {
    /// Begins with a line. `None` if no text begins within it.
    pub fn begin(line: &[u8]) -> Option<Self> {
        let args = Prefix::read(line).1.strip_prefix(b"write(")?;
        let (end, left) = echo_of_write(args)?;
        let before = line.len() - args.len();
        Some(Self {
            head: line[..before + end].to_vec(),
            left,
            lines: Vec::new(),
            bytes: 0,
        })
    }

    /// Takes a line: the one that it began with first.
    pub fn step(mut self, line: &[u8]) -> EchoStep {
        let text = if self.lines.is_empty() {
            &line[self.head.len()..]
        } else {
            line
        };
        self.lines.push(line.to_vec());
        self.bytes += line.len();
        if let Some(tail) = text.get(self.left..) {
            let is_rest = tail.starts_with(b")") || tail.starts_with(b" <unfinished ...>");
            return if is_rest {
                EchoStep::Line([&self.head, tail].concat())
            } else {
                EchoStep::Failed(self.lines)
            };
        }
        // The line break is part of the text.
        self.left -= text.len() + 1;
        if self.bytes > MAX_BYTES {
            return EchoStep::Failed(self.lines);
        }
        EchoStep::GoesOn(self)
    }

    /// All lines so far.
    pub fn into_lines(self) -> Vec<Vec<u8>> {
        self.lines
    }
}

/// Where the size of a `write` ends, and that size, if the text follows. The text may begin with
/// digits, so the size may be any number of those that stand there.
fn echo_of_write(args: &[u8]) -> Option<(usize, usize)> {
    let text = &args[find_top_level(args, b',')? + 1..].trim_ascii_start();
    let (shown, after) = quoted(text)?;
    let (is_whole, after) = after
        .strip_prefix(b"...")
        .map_or((true, after), |after| (false, after));
    let after = after.strip_prefix(b", ")?;
    let digits = split_while(after, |byte| byte.is_ascii_digit()).0.len();
    let (length, at) = (1..=digits).find_map(|length| {
        let size = usize::try_from(decimal(&after[..length])?.0).ok()?;
        let is_size = if is_whole {
            size == shown.len()
        } else {
            size > shown.len()
        };
        (is_size && begins_with(&after[length..], &shown)).then_some((length, size))
    })?;
    Some((args.len() - after.len() + length, at))
}

/// Whether the rest of a line is the beginning of a text, of which the first bytes are shown.
fn begins_with(rest: &[u8], shown: &[u8]) -> bool {
    let common = rest.len().min(shown.len());
    let goes_on = shown.get(common).is_none_or(|&byte| byte == b'\n');
    !shown.is_empty() && rest[..common] == shown[..common] && goes_on
}
