//! Splits logs into lines, with bounded memory: recorded logs, and the chunks of one that is being
//! written.

use std::io::{self, BufRead, Read as _};

use super::{
    Collector,
    form::LogForm,
    refused::{LogError, error_of_beginning},
};
use crate::{
    backend::{Recorded, Until},
    syscalls::Selection,
    trace::Trace,
};

/// The longest line that is kept. Real ones are far shorter, but a file that is not a log may have
/// no line breaks at all.
const MAX_LINE: usize = 1 << 20;

/// So much of the beginning of a log shows its form.
const BEGINNING_BYTES: u64 = 64 << 10;

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
    let is_number = suffix.bytes().all(|byte| byte.is_ascii_digit());
    suffix.parse().ok().filter(|_| is_number)
}

/// Reads recorded logs: one, or all files of one `strace -ff`. Keeps the paths of calls that succeed if
/// they are `recorded`.
/// `on_unparsed` gets every line that is not understood.
pub fn read_logs<R: BufRead>(
    logs: Vec<Log<R>>,
    selection: &Selection,
    recorded: Recorded,
    on_unparsed: &mut dyn FnMut(&str),
) -> Result<Trace, LogError> {
    let mut collector = Collector::new(selection, Until::AllEnd, on_unparsed).recording(recorded);
    for log in logs {
        read_log(log, &mut collector)?;
    }
    collector.refuse_if_foreign()?;
    Ok(collector.finish())
}

/// Adds all lines of a log.
pub fn read_log(log: Log<impl BufRead>, collector: &mut Collector<'_>) -> Result<(), LogError> {
    let Log { mut reader, tid } = log;
    collector.begin_log(tid);
    let mut beginning = Vec::new();
    let mut first = (&mut reader).take(BEGINNING_BYTES);
    first.read_to_end(&mut beginning)?;
    if let Some(error) = error_of_beginning(&beginning) {
        return Err(error);
    }
    let mut lines = Lines {
        form: LogForm::from_beginning(&beginning),
        ..Lines::default()
    };
    lines.push(&beginning, collector);
    loop {
        let chunk = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            chunk => chunk?,
        };
        if chunk.is_empty() {
            lines.end(collector);
            return Ok(());
        }
        lines.push(chunk, collector);
        let length = chunk.len();
        reader.consume(length);
    }
}

/// Splits chunks into lines; keeps the beginning of a line whose rest has not come yet.
#[derive(Debug, Default)]
pub struct Lines {
    beginning: Vec<u8>,
    /// Whether the rest of the line is skipped, because it is too long.
    is_skipping: bool,
    /// In what form the lines come.
    form: LogForm,
}

impl Lines {
    /// Adds a chunk and passes all whole lines on.
    pub fn push(&mut self, chunk: &[u8], collector: &mut Collector<'_>) {
        let mut pieces = chunk.split(|&byte| byte == b'\n');
        // What follows the last line break is the beginning of the next line, or nothing.
        let next = pieces.next_back().unwrap_or_default();
        for piece in pieces {
            self.push_piece(piece, collector);
            if !self.is_skipping {
                collector.push_line(&self.form.clean(&self.beginning));
            }
            self.is_skipping = false;
            self.beginning.clear();
        }
        self.push_piece(next, collector);
    }

    fn push_piece(&mut self, piece: &[u8], collector: &mut Collector<'_>) {
        if self.is_skipping {
            return;
        }
        let room = MAX_LINE - self.beginning.len();
        self.beginning
            .extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room {
            collector.push_long_line(&self.beginning);
            self.is_skipping = true;
        }
    }

    /// The log has ended.
    pub fn end(&mut self, collector: &mut Collector<'_>) {
        if !self.beginning.is_empty() && !self.is_skipping {
            collector.push_cut_line(&self.form.clean(&self.beginning));
        }
        *self = Self::default();
    }
}
