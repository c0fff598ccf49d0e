//! Splits logs into lines, with bounded memory: recorded logs, and the chunks of one that is being
//! written.

use std::io::{self, BufRead, Read};

use super::Collector;
use crate::{backend::Until, syscalls::Selection, trace::Trace};

/// The longest line that is kept. Real ones are far shorter, but a file that is not a log may have
/// no line breaks at all.
const MAX_LINE: usize = 1 << 20;

/// One log, or one of the files of `strace -ff`.
#[derive(Debug)]
pub struct Log<R> {
    /// The source of the log.
    pub reader: R,
    /// The thread whose calls it has; `None` if the lines have thread ids, or if there is only one
    /// thread. See [`tid_of_file`].
    pub tid: Option<u32>,
}

/// The thread id at the end of the name of a file of `strace -ff -o log`: `log.1234`.
pub fn tid_of_file(name: &str) -> Option<u32> {
    let (_, suffix) = name.rsplit_once('.')?;
    suffix
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| suffix.parse().ok())
        .flatten()
}

/// Reads recorded logs: one, or all files of one `strace -ff`. `on_unparsed` gets every line that
/// is not understood.
pub fn read_logs<R: BufRead>(
    logs: Vec<Log<R>>,
    selection: &Selection,
    on_unparsed: &mut dyn FnMut(&str),
) -> io::Result<Trace> {
    let mut collector = Collector::new(selection, Until::AllEnd, on_unparsed);
    for log in logs {
        read_log(log, &mut collector)?;
    }
    Ok(collector.finish())
}

/// Adds all lines of a log.
pub fn read_log(log: Log<impl BufRead>, collector: &mut Collector<'_>) -> io::Result<()> {
    let Log { mut reader, tid } = log;
    collector.begin_log(tid);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = MAX_LINE as u64;
        if reader.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        match line.strip_suffix(b"\n") {
            Some(line) => collector.push_line(line),
            None if line.len() < MAX_LINE => collector.push_cut_line(&line),
            None => {
                skip_line(&mut reader)?;
                collector.push_long_line(&line);
            }
        }
    }
}

/// Skips the rest of a line.
fn skip_line(reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = reader.fill_buf()?;
        let (length, is_end) = match buffer.iter().position(|&byte| byte == b'\n') {
            Some(line_break) => (line_break + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        reader.consume(length);
        if is_end {
            return Ok(());
        }
    }
}

/// Splits chunks into lines; keeps the beginning of a line whose rest has not come yet.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Adds a chunk and passes all whole lines on.
    pub fn push(&mut self, chunk: &[u8], collector: &mut Collector<'_>) {
        let mut pieces = chunk.split(|&byte| byte == b'\n');
        // What follows the last line break is the beginning of the next line, or nothing.
        let beginning = pieces.next_back().unwrap_or_default();
        for piece in pieces {
            if self.rest.is_empty() {
                collector.push_line(piece);
            } else {
                self.rest.extend_from_slice(piece);
                collector.push_line(&self.rest);
                self.rest.clear();
            }
        }
        self.rest.extend_from_slice(beginning);
    }

    /// The log has ended.
    pub fn end(&mut self, collector: &mut Collector<'_>) {
        if !self.rest.is_empty() {
            collector.push_cut_line(&self.rest);
            self.rest.clear();
        }
    }
}
