//! The sums of one thread: a row for each call and the files involved.

use std::collections::HashMap;

use zc_ebpf::{UnwrittenRead, is_restart};

use super::names::{KnownCall, NameId};
use crate::{
    histogram::Histogram,
    syscalls::{Abi, Call, Fds, Returned, Spec},
    trace::{Ends, FileId, FirstBytes, Input, Row, Times},
};

/// A call that has ended, with what is counted of it.
#[derive(Debug, Clone, Copy)]
pub struct FinishedCall {
    /// How it ended.
    pub how: Ending,
    /// The size that it requested; `None` if its arguments do not say.
    pub requested_bytes: Option<u64>,
    /// Time from entry to exit.
    pub duration_ns: Option<u64>,
    /// Number of the line where it began.
    pub entered: u64,
    /// Number of the line where it ended.
    pub left: u64,
    /// The file that it names as the source; or the file that it is about, if it moves no bytes.
    pub from: Option<FileId>,
    /// The file that it names as the destination.
    pub to: Option<FileId>,
    /// The first bytes that it moved, as far as the log shows them.
    pub first_bytes: FirstBytes,
    /// Whether it only peeked (`MSG_PEEK`): the bytes stay where they were, so none has moved.
    pub is_peek: bool,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With a result that is not an error.
    Value(i64),
    /// With an error; `None` if its number is unknown.
    Error(Option<u32>),
    /// It did not return.
    Never,
}

/// The sums of one thread.
#[derive(Debug, Default)]
pub struct Rows {
    places: HashMap<(NameId, Abi, Ends), usize, foldhash::fast::RandomState>,
    sums: Vec<Row>,
    /// What the thread has read and not yet written.
    unwritten_read: UnwrittenRead,
    /// The first bytes of it.
    unwritten_first_bytes: FirstBytes,
    /// A call that a signal interrupted, and its row. The caller does not see the result: the call
    /// is restarted, or the caller dies.
    interrupted: Option<(usize, FinishedCall)>,
}

/// What happened to a task after a signal interrupted its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterSignal {
    /// It kept running.
    KeptRunning,
    /// It was killed, or the log ends: the call never returned.
    Ended,
}

impl Rows {
    /// Adds a call.
    pub fn add(&mut self, id: NameId, known: &KnownCall, abi: Abi, ended: FinishedCall) {
        self.settle(AfterSignal::KeptRunning);
        let is_other = writes_bytes(&known.spec) && self.writes_something_else(&ended);
        let ends = self.ends(&known.spec, &ended, is_other);
        let index = *self.places.entry((id, abi, ends)).or_insert_with(|| {
            let call = Call::new(known.name.clone(), abi);
            self.sums.push(Row {
                order: Some(ended.entered),
                ..Row::new(call, ends)
            });
            self.sums.len() - 1
        });
        if matches!(ended.how, Ending::Error(Some(errno)) if is_restart(errno)) {
            self.interrupted = Some((index, ended));
        } else {
            let paired_bytes = if is_other {
                self.replace(&ended)
            } else {
                self.pair(&known.spec, &ended)
            };
            let row = &mut self.sums[index];
            add(row, ended);
            row.paired_bytes += paired_bytes;
        }
    }

    /// The files at the ends of a call. `is_other` says that it writes other bytes than were read
    /// before.
    fn ends(&self, spec: &Spec, ended: &FinishedCall, is_other: bool) -> Ends {
        let last_read = || {
            file(self.unwritten_read.source())
                .filter(|_| !is_other)
                .map(Input::ByOrder)
        };
        let input = if writes_bytes(spec) {
            last_read()
        } else {
            ended.from.map(Input::Named)
        };
        Ends {
            input,
            output: ended.to,
        }
    }

    /// Whether the first bytes that a call wrote differ from the first that were read before.
    fn writes_something_else(&self, ended: &FinishedCall) -> bool {
        self.unwritten_read.source() != 0
            && self.unwritten_first_bytes.differs_from(&ended.first_bytes)
    }

    /// Records that other bytes were written. If they are as many as were read, they replaced
    /// those. Returns 0: none of them was read before.
    fn replace(&mut self, ended: &FinishedCall) -> u64 {
        if matches!(ended.how, Ending::Value(moved) if u64::try_from(moved) == Ok(self.unwritten_read.bytes))
        {
            self.forget_what_was_read();
        }
        0
    }

    /// Records what a call moved. Returns how many of the bytes that it wrote were read before from
    /// a known file.
    fn pair(&mut self, spec: &Spec, ended: &FinishedCall) -> u64 {
        let Ending::Value(moved) = ended.how else {
            return 0;
        };
        let moved = u64::try_from(moved).unwrap_or(0);
        // What it puts into memory, and how much, is unknown: what was read before may be
        // overwritten.
        let fills_memory = matches!(spec.fds, Fds::Reads(_))
            && (spec.returned != Returned::Bytes || ended.is_peek);
        if fills_memory && moved > 0 {
            self.forget_what_was_read();
            return 0;
        }
        if writes_bytes(spec) {
            let is_known = self.unwritten_read.source() != 0;
            self.unwritten_first_bytes = self.unwritten_first_bytes.after(moved);
            return self.unwritten_read.write(moved, number(ended.to)) * u64::from(is_known);
        }
        if matches!(spec.fds, Fds::Reads(_)) && spec.returned == Returned::Bytes && moved > 0 {
            self.unwritten_read.read(number(ended.from), moved);
            if self.unwritten_read.bytes == moved {
                self.unwritten_first_bytes = ended.first_bytes;
            }
        }
        0
    }

    /// Forgets what was read: it may be gone from memory, because another program runs or something
    /// else filled it.
    pub fn forget_what_was_read(&mut self) {
        (self.unwritten_read, self.unwritten_first_bytes) =
            (UnwrittenRead::default(), FirstBytes::default());
    }

    /// Counts the call that a signal interrupted, if there is one, now that its outcome is known.
    pub fn settle(&mut self, after: AfterSignal) {
        let Some((index, ended)) = self.interrupted.take() else {
            return;
        };
        let how = if after == AfterSignal::KeptRunning {
            ended.how
        } else {
            Ending::Never
        };
        add(&mut self.sums[index], FinishedCall { how, ..ended });
    }

    /// The rows so far.
    pub fn so_far(&self) -> &[Row] {
        &self.sums
    }

    /// The rows, in the order of their first calls.
    pub fn into_rows(self) -> Vec<Row> {
        self.sums
    }
}

/// Whether a call names the destination of bytes, and not their source.
fn writes_bytes(spec: &Spec) -> bool {
    matches!(spec.fds, Fds::Writes(_)) && spec.returned == Returned::Bytes
}

/// The number of a file in [`UnwrittenRead`]; 0 if there is none.
fn number(file: Option<FileId>) -> u32 {
    file.map_or(0, |file| file.0.saturating_add(1))
}

fn file(number: u32) -> Option<FileId> {
    number.checked_sub(1).map(FileId)
}

fn add(row: &mut Row, ended: FinishedCall) {
    match ended.how {
        Ending::Never => {
            row.unfinished += 1;
            return;
        }
        Ending::Error(errno) => {
            row.errors += 1;
            if let Some(errno) = errno {
                *row.errnos.entry(errno).or_default() += 1;
            }
        }
        Ending::Value(value) => {
            if let Some(bytes) = row.bytes.filter(|_| !ended.is_peek) {
                let moved = u64::try_from(value).unwrap_or(0);
                // A sum that overflows is unknown.
                row.bytes = bytes.checked_add(moved);
                if moved > 0 && row.moved_order.is_none() {
                    (row.moved_order, row.first_bytes) = (Some(ended.left), ended.first_bytes);
                }
                row.zero_calls += u64::from(moved == 0);
                row.short_calls += u64::from(
                    moved > 0
                        && ended
                            .requested_bytes
                            .is_some_and(|requested| moved < requested),
                );
            }
        }
    }
    row.calls += 1;
    row.last_order = row.last_order.max(Some(ended.left));
    row.requested_bytes = row
        .requested_bytes
        .zip(ended.requested_bytes)
        .and_then(|(sum, bytes)| sum.checked_add(bytes));
    if let Some(ns) = ended.duration_ns {
        let times = row.times.get_or_insert_with(|| Times {
            total_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            histogram: Histogram::default(),
        });
        times.total_ns = times.total_ns.saturating_add(ns);
        times.min_ns = times.min_ns.min(ns);
        times.max_ns = times.max_ns.max(ns);
        times.histogram.record(ns);
    }
}
