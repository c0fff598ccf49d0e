//! The sums of one thread: a row for each call.

use super::names::{Known, NameId};
use crate::{
    histogram::Histogram,
    syscall::{Abi, Call},
    trace::{Ends, Row, Times},
};

/// A call that ended, as far as it is counted.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// How.
    pub how: How,
    /// The size it asked for; `None` if its arguments do not tell.
    pub requested_bytes: Option<u64>,
    /// Time from entry to exit.
    pub duration_ns: Option<u64>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// With a result that is no error.
    Value(i64),
    /// With an error; `None`: its number is unknown.
    Error(Option<u32>),
    /// It did not return.
    Never,
}

/// The sums of one thread.
#[derive(Debug, Default)]
pub struct Rows {
    // Apart from the rows, which are large, so that finding one stays within a cache line or two.
    keys: Vec<(NameId, Abi)>,
    sums: Vec<Row>,
    /// A call that a signal ended, and its row. Its caller has not seen the result: it will call again, or die.
    interrupted: Option<(usize, Ended)>,
}

/// What became of a task after a signal had ended its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Afterwards {
    /// It went on.
    WentOn,
    /// It was killed, or the log ends: the call never returned.
    Nothing,
}

/// The results by which the kernel says to itself that a signal ended a call: `ERESTARTSYS` to `ERESTART_RESTARTBLOCK`
/// of its include/linux/errno.h.
const RESTARTS: std::ops::RangeInclusive<u32> = 512..=516;

impl Rows {
    /// Adds a call.
    pub fn add(&mut self, id: NameId, known: &Known, abi: Abi, ended: Ended) {
        self.settle(Afterwards::WentOn);
        let index = self.keys.iter().position(|key| *key == (id, abi)).unwrap_or_else(|| {
            self.keys.push((id, abi));
            self.sums.push(Row::new(Call { name: known.name.clone(), abi }, Ends::default()));
            self.sums.len() - 1
        });
        if matches!(ended.how, How::Error(Some(errno)) if RESTARTS.contains(&errno)) {
            self.interrupted = Some((index, ended));
        } else {
            add(&mut self.sums[index], ended);
        }
    }

    /// Counts the call that a signal ended, if there is one, now that it is known what became of it.
    pub fn settle(&mut self, afterwards: Afterwards) {
        let Some((index, ended)) = self.interrupted.take() else { return };
        let how = if afterwards == Afterwards::WentOn { ended.how } else { How::Never };
        add(&mut self.sums[index], Ended { how, ..ended });
    }

    /// The rows, in the order of their first calls.
    pub fn into_rows(self) -> Vec<Row> {
        self.sums
    }
}

fn add(row: &mut Row, ended: Ended) {
    match ended.how {
        How::Never => {
            row.unfinished += 1;
            return;
        }
        How::Error(errno) => {
            row.errors += 1;
            if let Some(errno) = errno {
                *row.errnos.entry(errno).or_default() += 1;
            }
        }
        How::Value(value) => {
            if let Some(bytes) = &mut row.bytes {
                *bytes = bytes.saturating_add(u64::try_from(value).unwrap_or(0));
            }
        }
    }
    row.calls += 1;
    row.requested_bytes = row.requested_bytes.zip(ended.requested_bytes).and_then(|(sum, bytes)| sum.checked_add(bytes));
    if let Some(ns) = ended.duration_ns {
        let times =
            row.times.get_or_insert_with(|| Times { total_ns: 0, min_ns: u64::MAX, max_ns: 0, histogram: Histogram::default() });
        times.total_ns = times.total_ns.saturating_add(ns);
        times.min_ns = times.min_ns.min(ns);
        times.max_ns = times.max_ns.max(ns);
        times.histogram.record(ns);
    }
}
