//! The sums of one thread: a row for each call and the files involved.

use std::collections::HashMap;

use zc_ebpf::is_restart;

use super::{
    first_bytes::FirstBytes,
    names::{KnownCall, NameId},
};
use crate::{
    histogram::Histogram,
    syscalls::{Abi, Call, Fds, Returned, Spec},
    trace::{Ends, FileId, Fills, Input, Row, Times},
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
    /// What the thread has read last. `None`: nothing, or it may be gone from its memory.
    last_read: Option<LastRead>,
    /// A call that a signal interrupted, and its row. The caller does not see the result: the call
    /// is restarted, or the caller dies.
    interrupted: Option<(usize, FinishedCall)>,
}

/// The last read of a thread that brought bytes into its memory.
#[derive(Debug)]
struct LastRead {
    /// `None`: the file is not known.
    from: Option<FileId>,
    bytes: u64,
    first_bytes: FirstBytes,
    duration_ns: Option<u64>,
    /// The files that it was written to since.
    written_to: Vec<FileId>,
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
        let ends = self.ends(&known.spec, &ended);
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
            let row = &mut self.sums[index];
            if let Some(Input::Sequence(_)) = ends.input {
                row.fills += Fills {
                    calls: 1,
                    total_ns: self.last_read.as_ref().and_then(|read| read.duration_ns),
                    are_unknown: false,
                };
            }
            if ends.input.is_some() && !ended.is_peek {
                let moved = moved_bytes(&ended).unwrap_or(0);
                row.input_bytes = row.input_bytes.saturating_add(moved);
            }
            add(row, ended);
            self.note_memory(&known.spec, &ended, ends);
        }
    }

    /// The files at the ends of a call.
    fn ends(&self, spec: &Spec, ended: &FinishedCall) -> Ends {
        let input = if writes_bytes(spec) {
            self.read_before(ended).map(Input::Sequence)
        } else {
            ended.from.map(Input::Named)
        };
        Ends {
            input,
            output: ended.to,
        }
    }

    /// The file that the thread read last, if this call wrote exactly as many bytes to another
    /// place, and the bytes that are shown are the same.
    fn read_before(&self, ended: &FinishedCall) -> Option<FileId> {
        let read = self.last_read.as_ref()?;
        let is_first = ended.to.is_some_and(|to| !read.written_to.contains(&to));
        let is_same = moved_bytes(ended) == Some(read.bytes)
            && !read.first_bytes.differs_from(&ended.first_bytes);
        read.from.filter(|_| is_first && is_same)
    }

    /// Notes what a call put into memory, or wrote from there.
    fn note_memory(&mut self, spec: &Spec, ended: &FinishedCall, ends: Ends) {
        let Some(moved) = moved_bytes(ended).filter(|moved| *moved > 0) else {
            return;
        };
        if matches!(spec.fds, Fds::Reads(_)) {
            // Otherwise it is not known what it put into memory, and how much.
            let is_known = spec.returned == Returned::Bytes && !ended.is_peek;
            self.last_read = is_known.then(|| LastRead {
                from: ended.from,
                bytes: moved,
                first_bytes: ended.first_bytes,
                duration_ns: ended.duration_ns,
                written_to: Vec::new(),
            });
        } else if let (Some(read), Some(Input::Sequence(_))) = (&mut self.last_read, ends.input) {
            read.written_to.extend(ends.output);
        }
    }

    /// Forgets what was read: it may be gone from memory, because another program runs or something
    /// else filled it.
    pub fn forget_what_was_read(&mut self) {
        self.last_read = None;
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

/// The bytes that a call moved, if it moves bytes and did not fail.
fn moved_bytes(ended: &FinishedCall) -> Option<u64> {
    match ended.how {
        Ending::Value(value) => u64::try_from(value).ok(),
        Ending::Error(_) | Ending::Never => None,
    }
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
