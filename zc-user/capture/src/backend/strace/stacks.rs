//! The stacks that `strace -k` prints below calls: parses their lines, and keeps each stack once.
//!
//! The lines of a stack directly follow the line that completes its call. Those below a signal or
//! the end of a process belong to no call.

use std::{collections::HashMap, fs, os::unix::fs::MetadataExt as _, path::PathBuf};

use super::syntax::hex;
use crate::trace::{FileIdentity, StackId};

/// A line of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackLine<'a> {
    /// A function: ` > /path/to/file(function+0x1f) [0x4f2a]`, with `-kk` and line tables followed
    /// by ` source.c:12`.
    Frame {
        /// The path of the file.
        file: &'a [u8],
        /// How far it is from the nearest symbol before it. `None`: there is none.
        from_symbol: Option<u64>,
        /// Where it is in the file.
        place: u64,
    },
    /// A message: ` > unexpected_backtracing_error [0x7f00]`, ` > too many stack frames`.
    Message(&'a [u8]),
}

impl<'a> StackLine<'a> {
    /// Parses what follows ` > `.
    pub fn parse(text: &'a [u8]) -> Self {
        read_frame(text).unwrap_or(Self::Message(text))
    }
}

/// `FILE(SYMBOL+0xOFFSET) [0xPLACE]`. Both the file and the symbol may have brackets in their
/// names.
fn read_frame(text: &[u8]) -> Option<StackLine<'_>> {
    const DELETED: &[u8] = b" (deleted)(";
    let close = find_last(text, b") [0x")?;
    let (place, rest) = hex(&text[close + b") [0x".len()..])?;
    rest.starts_with(b"]").then_some(())?;
    let before = &text[..close];
    let open = find_first(before, DELETED).map(|at| at + DELETED.len() - 1);
    let open = open.or_else(|| before.iter().position(|&byte| byte == b'('))?;
    let (file, symbol) = (&before[..open], &before[open + 1..]);
    let from_symbol = match symbol {
        b"" => None,
        symbol => {
            let (offset, rest) = hex(&symbol[find_last(symbol, b"+0x")? + b"+0x".len()..])?;
            rest.is_empty().then_some(Some(offset))?
        }
    };
    (!file.is_empty()).then_some(StackLine::Frame {
        file,
        from_symbol,
        place,
    })
}

fn find_first(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len())
        .position(|window| window == wanted)
}

fn find_last(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len())
        .rposition(|window| window == wanted)
}

/// A function of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StackFrame {
    /// An index into [`Stacks::files`].
    pub file: usize,
    /// How far it is from the nearest symbol before it. `None`: there is none.
    pub from_symbol: Option<u64>,
    /// Where it is in the file.
    pub place: u64,
}

/// A stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LoggedStack {
    /// Its functions, from the one that made the call outwards.
    pub frames: Vec<StackFrame>,
    /// What strace says at the end of it.
    pub message: Option<String>,
}

/// A file with code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackFile {
    /// Its path.
    pub path: String,
    /// The file at this path when it was first mentioned. `None`: there was none.
    pub identity: Option<FileIdentity>,
    /// Whether it was the same for the traced process.
    pub is_known: bool,
}

/// The stacks of a log, each once.
#[derive(Debug, Default)]
pub struct Stacks {
    /// The lines so far of a stack whose call is known.
    open: LoggedStack,
    ids: HashMap<LoggedStack, StackId>,
    files: Vec<StackFile>,
    by_path: HashMap<Vec<u8>, usize>,
}

/// The most functions that are kept of a stack. strace prints at most 256.
const MOST_FRAMES: usize = 512;

impl Stacks {
    /// Adds a line to the stack. `tid` is the thread of a process that is traced just now.
    pub fn add(&mut self, line: StackLine<'_>, tid: Option<u32>) {
        if self.open.frames.len() >= MOST_FRAMES {
            return;
        }
        match line {
            StackLine::Frame {
                file,
                from_symbol,
                place,
            } => {
                let file = self.file(file, tid);
                self.open.frames.push(StackFrame {
                    file,
                    from_symbol,
                    place,
                });
            }
            StackLine::Message(message) => {
                self.open.message = Some(String::from_utf8_lossy(message).into_owned())
            }
        }
    }

    /// The stack is complete. `None`: there were no lines.
    pub fn close(&mut self) -> Option<StackId> {
        if self.open.frames.is_empty() {
            self.open.message = None;
            return None;
        }
        let next = StackId(u32::try_from(self.ids.len()).unwrap_or(u32::MAX));
        Some(
            *self
                .ids
                .entry(std::mem::take(&mut self.open))
                .or_insert(next),
        )
    }

    /// Whether there is any.
    pub fn are_there(&self) -> bool {
        !self.ids.is_empty()
    }

    /// The stacks by their ids, and the files of their functions.
    pub fn into_parts(self) -> (Vec<LoggedStack>, Vec<StackFile>) {
        let mut stacks: Vec<(StackId, LoggedStack)> = self
            .ids
            .into_iter()
            .map(|(stack, id)| (id, stack))
            .collect();
        stacks.sort_by_key(|(id, _)| *id);
        (
            stacks.into_iter().map(|(_, stack)| stack).collect(),
            self.files,
        )
    }

    fn file(&mut self, path: &[u8], tid: Option<u32>) -> usize {
        if let Some(&index) = self.by_path.get(path) {
            return index;
        }
        self.files.push(StackFile::look_at(
            String::from_utf8_lossy(path).into_owned(),
            tid,
        ));
        self.by_path.insert(path.to_owned(), self.files.len() - 1);
        self.files.len() - 1
    }
}

impl StackFile {
    fn look_at(path: String, tid: Option<u32>) -> Self {
        let identity = |path: PathBuf| {
            let metadata = fs::metadata(path).ok()?;
            Some(FileIdentity {
                device: metadata.dev(),
                inode: metadata.ino(),
                generation: None,
            })
        };
        let own = path
            .starts_with('/')
            .then(|| identity(PathBuf::from(&path)))
            .flatten();
        let of_process =
            tid.and_then(|tid| identity(PathBuf::from(format!("/proc/{tid}/root{path}"))));
        let is_known = own.is_some() && own == of_process;
        Self {
            path,
            identity: own,
            is_known,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(line: &str) -> (&str, Option<u64>, u64) {
        match StackLine::parse(line.as_bytes()) {
            StackLine::Frame {
                file,
                from_symbol,
                place,
            } => (
                std::str::from_utf8(file).expect("plain"),
                from_symbol,
                place,
            ),
            StackLine::Message(_) => panic!("no frame: {line}"),
        }
    }

    #[test]
    fn a_function_has_a_file_a_symbol_and_a_place() {
        assert_eq!(
            frame("/usr/lib/libc.so.6(__write+0x10) [0xf8350]"),
            ("/usr/lib/libc.so.6", Some(0x10), 0xf_8350)
        );
        assert_eq!(
            frame("/bin/x(a::b(int, char (*)[3])+0x1f) [0x10]"),
            ("/bin/x", Some(0x1f), 0x10)
        );
        assert_eq!(
            frame("/bin/x(<A as B>::{{closure}}+0x0) [0x10]"),
            ("/bin/x", Some(0), 0x10)
        );
        assert_eq!(frame("/bin/x() [0x40063d]"), ("/bin/x", None, 0x40_063d));
        assert_eq!(
            frame("/bin/x (deleted)(main+0x2) [0x10]"),
            ("/bin/x (deleted)", Some(2), 0x10)
        );
        assert_eq!(
            frame("[vdso](clock_gettime+0x2) [0x10]"),
            ("[vdso]", Some(2), 0x10)
        );
    }

    #[test]
    fn the_source_line_after_a_function_is_left_out() {
        assert_eq!(
            frame("/bin/x(main+0x1f) [0x10] /src/x.c:12"),
            ("/bin/x", Some(0x1f), 0x10)
        );
    }

    #[test]
    fn what_is_no_function_is_a_message() {
        for line in [
            "unexpected_backtracing_error [0x7f00]",
            "too many stack frames",
            "no matching address range",
            "x(y",
            "BUG IN f",
            "",
        ] {
            assert_eq!(
                StackLine::parse(line.as_bytes()),
                StackLine::Message(line.as_bytes()),
                "{line}"
            );
        }
        for line in [
            "(a+0x1) [0x10]",
            "/x(a) [0x10]",
            "/x(a+0xg) [0x10]",
            "/x(a+0x1) [0x10",
            "/x(a+0x11111111111111111) [0x1]",
        ] {
            assert!(
                matches!(StackLine::parse(line.as_bytes()), StackLine::Message(_)),
                "{line}"
            );
        }
    }

    #[test]
    fn each_stack_is_kept_once() {
        let mut stacks = Stacks::default();
        let mut stack = |lines: &[&str]| {
            for line in lines {
                stacks.add(StackLine::parse(line.as_bytes()), None);
            }
            stacks.close()
        };
        let one = ["/x(a+0x1) [0x10]", "/x(b+0x1) [0x20]"];
        assert_eq!(
            [stack(&one), stack(&one[1..]), stack(&one)],
            [0, 1, 0].map(|id| Some(StackId(id)))
        );
        assert_eq!(stack(&[]), None);
        assert_eq!(
            stack(&["unexpected_backtracing_error [0x7f00]"]),
            None,
            "no function is known"
        );
        let (stacks, files) = stacks.into_parts();
        assert_eq!(
            (stacks.len(), files.len(), stacks[0].frames.len()),
            (2, 1, 2)
        );
    }

    #[test]
    fn a_file_is_known_if_it_is_the_one_of_the_traced_process() {
        let own = std::env::current_exe()
            .expect("this test")
            .to_string_lossy()
            .into_owned();
        assert!(StackFile::look_at(own.clone(), Some(std::process::id())).is_known);
        let of_a_log = StackFile::look_at(own, None);
        assert!(!of_a_log.is_known && of_a_log.identity.is_some());
        assert_eq!(
            StackFile::look_at("/no/such/file".to_owned(), Some(std::process::id())).identity,
            None
        );
    }
}
