//! [`SpanControl`]: somebody says by lines when spans begin and end, such as the traced program itself.

use std::{collections::BTreeSet, io, os::fd::OwnedFd, sync::Arc};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::fstat,
    time::Timespec,
};
use tokio::io::unix::AsyncFd;

use crate::{async_fd::watch_readable, trace::OpenBefore};
use zctrace_core::text::{escape, from_bytes};

/// The most bytes of a line.
const MAX_BYTES: usize = 4096;

/// Where lines come from that begin and end spans, and where the answers go.
///
/// `start NAME` begins a span, and `stop` ends it. The name may be left out. The answer to a line is
/// the line `ok`, or one that begins with `error: `. It comes when the span has begun, or when it has
/// ended and was passed on.
#[derive(Debug, Clone)]
pub struct SpanControl {
    commands: Arc<OwnedFd>,
    answers: Option<Arc<OwnedFd>>,
}

impl SpanControl {
    /// Lines from a pipe, FIFO, socket or terminal.
    pub fn new(commands: OwnedFd, answers: Option<OwnedFd>) -> Self {
        Self {
            commands: Arc::new(commands),
            answers: answers.map(Arc::new),
        }
    }

    /// The pipes and sockets that the lines go through.
    pub(super) fn files(&self) -> io::Result<BTreeSet<OpenBefore>> {
        let descriptors = [&self.commands].into_iter().chain(&self.answers);
        let file = |descriptor: &Arc<OwnedFd>| {
            let stat = fstat(descriptor)?;
            Ok(OpenBefore {
                device: stat.st_dev,
                inode: stat.st_ino,
            })
        };
        descriptors.map(file).collect()
    }
}

/// What a part of a divided trace is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TracePart {
    /// A span, which may have a name.
    Span(Option<String>),
    /// What is between spans.
    Gap,
}

/// Reads the lines of a [`SpanControl`].
pub(super) struct ControlLines {
    commands: AsyncFd<OwnedFd>,
    answers: Option<Arc<OwnedFd>>,
    /// What was read and not yet used.
    bytes: Vec<u8>,
    has_ended: bool,
    is_in_span: bool,
}

impl ControlLines {
    /// To be called in a tokio runtime.
    pub(super) fn open(control: &SpanControl) -> io::Result<Self> {
        Ok(Self {
            commands: watch_readable(control.commands.try_clone()?)?,
            answers: control.answers.clone(),
            bytes: Vec::new(),
            has_ended: false,
            is_in_span: false,
        })
    }

    /// Waits for a line that begins or ends a span; for ever after the last line. Other lines are
    /// answered. Nothing is lost if this is dropped before it is ready.
    pub(super) async fn next(&mut self) -> io::Result<TracePart> {
        loop {
            while let Some(line) = self.take_line() {
                match part_begun_by(&line, self.is_in_span) {
                    Ok(part) => {
                        self.is_in_span = part != TracePart::Gap;
                        return Ok(part);
                    }
                    Err(why) => self.answer(&format!("error: {why}\n")),
                }
            }
            if self.has_ended {
                return std::future::pending().await;
            }
            self.read().await?;
        }
    }

    /// Says that what the last line asked for has happened.
    pub(super) fn confirm(&self) {
        self.answer("ok\n");
    }

    /// Writes an answer, unless nobody has read the ones before or will read this one.
    fn answer(&self, line: &str) {
        if let Some(answers) = &self.answers
            && is_ready(answers, PollFlags::OUT)
        {
            let _ = rustix::io::write(answers, line.as_bytes());
        }
    }

    /// The next line, without its end.
    fn take_line(&mut self) -> Option<String> {
        let end = self.bytes.iter().position(|&byte| byte == b'\n');
        let length = match end {
            Some(end) => end + 1,
            None if self.has_ended || self.bytes.len() >= MAX_BYTES => self.bytes.len(),
            None => 0,
        };
        let line: Vec<u8> = self.bytes.drain(..length).collect();
        (!line.is_empty()).then(|| from_bytes(line.trim_ascii()))
    }

    /// Waits for more bytes, and reads them. The descriptor may block: it belongs to others, too.
    async fn read(&mut self) -> io::Result<()> {
        let mut ready = self.commands.readable_mut().await?;
        let commands = ready.get_inner();
        if !is_ready(commands, PollFlags::IN) {
            ready.clear_ready();
            return Ok(());
        }
        let mut bytes = [0; MAX_BYTES];
        let count = rustix::io::read(commands, &mut bytes)?;
        self.bytes.extend(&bytes[..count]);
        self.has_ended = count == 0;
        Ok(())
    }
}

/// Whether reading or writing would not wait.
fn is_ready(descriptor: &OwnedFd, event: PollFlags) -> bool {
    let mut polled = [PollFd::new(descriptor, event)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}

/// What begins with this line.
fn part_begun_by(line: &str, is_in_span: bool) -> Result<TracePart, String> {
    let (word, name) = line.split_once(' ').unwrap_or((line, ""));
    let name = Some(name.trim()).filter(|name| !name.is_empty());
    match (word, name, is_in_span) {
        ("start", _, false) => Ok(TracePart::Span(name.map(str::to_owned))),
        ("start", _, true) => Err("a span is running; write 'stop' first".to_owned()),
        ("stop", None, true) => Ok(TracePart::Gap),
        ("stop", None, false) => Err("no span is running; write 'start NAME' first".to_owned()),
        _ => Err(format!(
            "'{}' is neither 'start NAME' nor 'stop'",
            shortened_line(line)
        )),
    }
}

/// The beginning of a line, for a message.
fn shortened_line(line: &str) -> String {
    const MAX_CHARS: usize = 60;
    match line.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => escape(&line[..end]) + "…",
        None => escape(line),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// What comes of these lines, and the answers to the others.
    fn parts(lines: &str) -> (Vec<TracePart>, String) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        let (commands, writer) = io::pipe().expect("makes a pipe");
        let (reader, answers) = io::pipe().expect("makes a pipe");
        io::Write::write_all(&mut File::from(OwnedFd::from(writer)), lines.as_bytes())
            .expect("has room");
        let control = SpanControl::new(commands.into(), Some(answers.into()));
        let found = runtime.expect("starts").block_on(async {
            let mut reader = ControlLines::open(&control).expect("is a pipe");
            let mut found = Vec::new();
            while !reader.has_ended || !reader.bytes.is_empty() {
                tokio::select! {
                    biased;
                    part = reader.next() => found.push(part.expect("reads")),
                    () = tokio::task::yield_now() => {}
                }
            }
            found
        });
        drop(control);
        let mut answers = String::new();
        io::Read::read_to_string(&mut File::from(OwnedFd::from(reader)), &mut answers)
            .expect("is text");
        (found, answers)
    }

    #[test]
    fn lines_begin_and_end_spans_and_others_are_answered() {
        let span = |name: &str| TracePart::Span(Some(name.to_owned()));
        let lines = "start a b\nstop\r\nstart\nstart c\nstop\nstop\ngo\x1b\nstop it\nstart end";
        let (found, answers) = parts(lines);
        let nameless = TracePart::Span(None);
        let expected = [
            span("a b"),
            TracePart::Gap,
            nameless,
            TracePart::Gap,
            span("end"),
        ];
        assert_eq!(found, expected);
        let expected = [
            "error: a span is running; write 'stop' first",
            "error: no span is running; write 'start NAME' first",
            r"error: 'go\u{1b}' is neither 'start NAME' nor 'stop'",
            "error: 'stop it' is neither 'start NAME' nor 'stop'",
        ];
        assert_eq!(answers.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_line_without_an_end_is_cut() {
        let (found, answers) = parts(&"x".repeat(2 * MAX_BYTES + 1));
        assert_eq!((found.len(), answers.lines().count()), (0, 3));
        let cut = format!(
            "error: '{}…' is neither 'start NAME' nor 'stop'\n",
            "x".repeat(60)
        );
        assert!(answers.starts_with(&cut), "{answers}");
    }
}
