//! The sums of one thread: a row for each call and the files involved.

use std::collections::HashMap;

use zctrace_core::slow_calls::SlowCall;

use super::{
    line::Ending,
    names::{KnownCall, NameId},
};
use crate::{
    syscalls::{Abi, Call, Fds, Returned, Spec},
    trace::{Ends, FIRST_BYTES, FileId, GivenPath, Input, Row},
};

/// A call that has ended, with what is counted of it.
#[derive(Debug, Clone)]
pub struct EndedCall {
    /// Which call.
    pub name: NameId,
    /// Its table.
    pub abi: Abi,
    /// How it ended.
    pub how: Ending,
    /// Time from entry to exit.
    pub duration_ns: Option<u64>,
    /// Number of the line where it began.
    pub entered: u64,
    /// The path that it was given, if that is wanted and known.
    pub paths: [Option<GivenPath>; 2],
    /// The error of a socket that it told, as an errno.
    pub socket_error: Option<u32>,
    /// The size that it requested; `None` if its arguments do not say.
    pub requested_bytes: Option<u64>,
    /// The file that it names as the source; or the file that it is about, if it moves no bytes.
    pub from: Option<FileId>,
    /// The file that it names as the destination.
    pub to: Option<FileId>,
    /// The first bytes that it moved, as far as the log shows them.
    pub first_bytes: Vec<u8>,
    /// Whether its result is only a length (`MSG_PEEK`), and no bytes that moved.
    pub is_length: bool,
    /// Whether what it moved may not be in its memory (`MSG_TRUNC`).
    pub is_truncated: bool,
    /// How many of the files that it names are summed and lose their names.
    pub lost_names: u64,
    /// Whether it is a mark, so that it is in no span.
    pub is_mark: bool,
    /// The call as one of the slow ones, if it is one.
    pub slow: Option<Box<SlowCall>>,
}

impl EndedCall {
    /// The bytes that it moved, if it moves bytes and did not fail.
    fn moved_bytes(&self) -> Option<u64> {
        match self.how {
            Ending::Value(value) => u64::try_from(value).ok(),
            Ending::Error(_) | Ending::Never | Ending::UnderWay => None,
        }
    }

    /// How many bytes it moved, if its result is that and it did not fail.
    pub fn size(&self, spec: &Spec) -> Option<u64> {
        let is_size = spec.returned == Returned::Bytes && !self.is_length;
        self.moved_bytes().filter(|_| is_size)
    }
}

/// The sums of one thread.
#[derive(Debug, Default)]
pub struct ThreadRows {
    places: HashMap<(NameId, Abi, Ends), usize, foldhash::fast::RandomState>,
    /// The rows, in the order of their first calls.
    pub sums: Vec<Row>,
    /// What the thread has read last. `None`: nothing, or it may be gone from its memory.
    last_read: Option<LastRead>,
}

/// The last read of a thread that brought bytes into its memory.
#[derive(Debug)]
struct LastRead {
    /// `None`: the file is not known.
    from: Option<FileId>,
    bytes: u64,
    first_bytes: Vec<u8>,
    /// The files that it was written to since.
    written_to: Vec<FileId>,
}

impl ThreadRows {
    /// Adds a call.
    pub fn add(&mut self, known: &KnownCall, ended: EndedCall) {
        let ends = self.ends_of_call(&known.spec, &ended);
        let place = (ended.name, ended.abi, ends);
        let index = *self.places.entry(place).or_insert_with(|| {
            let call = Call::new(known.name.clone(), ended.abi);
            self.sums.push(Row {
                order: Some(ended.entered),
                ..Row::new(call, ends)
            });
            self.sums.len() - 1
        });
        let row = &mut self.sums[index];
        if row.bytes == Some(0) && !ended.is_length && !ended.is_truncated {
            let first = ended.first_bytes.iter().take(FIRST_BYTES);
            row.first_bytes = first.copied().collect();
        }
        if ends.input.is_some() && !ended.is_length {
            let moved = ended.moved_bytes().unwrap_or(0);
            row.sourced.bytes = row.sourced.bytes.saturating_add(moved);
        }
        add(row, &ended);
        self.note_memory(&known.spec, ended, ends);
    }

    /// The files at the ends of a call.
    fn ends_of_call(&self, spec: &Spec, ended: &EndedCall) -> Ends {
        let writes = matches!(spec.fds, Fds::Writes(_)) && spec.returned == Returned::Bytes;
        let input = if writes {
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
    fn read_before(&self, ended: &EndedCall) -> Option<FileId> {
        let read = self.last_read.as_ref()?;
        let is_first = ended.to.is_some_and(|to| !read.written_to.contains(&to));
        let mut shown = read.first_bytes.iter().zip(&ended.first_bytes);
        let is_same =
            ended.moved_bytes() == Some(read.bytes) && shown.all(|(read, wrote)| read == wrote);
        read.from.filter(|_| is_first && is_same)
    }

    /// Notes what a call put into memory, or wrote from there.
    fn note_memory(&mut self, spec: &Spec, ended: EndedCall, ends: Ends) {
        let Some(moved) = ended.moved_bytes().filter(|moved| *moved > 0) else {
            return;
        };
        if matches!(spec.fds, Fds::Reads(_)) {
            // Otherwise it is not known what it put into memory, and how much.
            let is_known =
                spec.returned == Returned::Bytes && !ended.is_length && !ended.is_truncated;
            self.last_read = is_known.then(|| LastRead {
                from: ended.from,
                bytes: moved,
                first_bytes: ended.first_bytes,
                written_to: Vec::new(),
            });
        } else if let (Some(read), Some(Input::Sequence(_))) = (&mut self.last_read, ends.input) {
            read.written_to.extend(ends.output);
        }
    }

    /// Forgets what was read: it may be gone from memory, because something else filled it.
    pub fn forget_what_was_read(&mut self) {
        self.last_read = None;
    }
}

fn add(row: &mut Row, ended: &EndedCall) {
    match ended.how {
        Ending::Never | Ending::UnderWay => {
            row.unfinished += 1;
            row.under_way += u64::from(ended.how == Ending::UnderWay);
            return;
        }
        Ending::Error(errno) => {
            row.errors += 1;
            if let Some(errno) = errno {
                *row.errnos.entry(errno).or_default() += 1;
            }
        }
        Ending::Value(value) => {
            if let Some(bytes) = row.bytes.filter(|_| !ended.is_length) {
                let moved = u64::try_from(value).unwrap_or(0);
                // A sum that overflows is unknown.
                row.bytes = bytes.checked_add(moved);
                row.note_size(moved);
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
    row.note_time(ended.duration_ns);
}
