//! The figures of a row: sums over calls.

use std::ops::AddAssign;

use crate::{
    counts::{CallSums, Times, add_times},
    syscalls::Returned,
    trace::Row,
    units::sum_all,
};

/// Sums over calls. `None`: unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveFigures {
    /// How many returned.
    pub calls: Option<u64>,
    /// How many of them failed.
    pub errors: Option<u64>,
    /// Bytes that they returned as moved, which calls without rows are not asked for.
    pub bytes: Option<u64>,
    /// Sum of the times from entry to exit, in ns.
    pub total_ns: Option<u64>,
}

impl LiveFigures {
    /// No calls.
    pub const NONE: Self = Self {
        calls: Some(0),
        errors: Some(0),
        bytes: Some(0),
        total_ns: Some(0),
    };
}

impl Default for LiveFigures {
    fn default() -> Self {
        Self::NONE
    }
}

impl AddAssign for LiveFigures {
    fn add_assign(&mut self, more: Self) {
        self.calls = sum_all([self.calls, more.calls]);
        self.errors = sum_all([self.errors, more.errors]);
        self.total_ns = sum_all([self.total_ns, more.total_ns]);
        self.bytes = sum_all([self.bytes, more.bytes]);
    }
}

impl From<CallSums> for LiveFigures {
    fn from(sums: CallSums) -> Self {
        Self {
            calls: Some(sums.calls),
            errors: Some(sums.errors),
            bytes: Some(0),
            total_ns: sums.total_ns,
        }
    }
}

/// The figures of one span.
#[derive(Debug, Clone, Default)]
pub struct SpanFigures {
    /// Their sums.
    pub sums: LiveFigures,
    /// The times of the calls that have rows.
    times: Option<Times>,
}

impl SpanFigures {
    /// Figures without the times of single calls.
    pub const fn summed(sums: LiveFigures) -> Self {
        Self { sums, times: None }
    }

    /// Adds the calls of a row.
    pub fn add_row(&mut self, row: &Row) {
        let returns_none = row.call.spec().returned != Returned::Bytes;
        self.sums += LiveFigures {
            bytes: row.bytes.or(returns_none.then_some(0)),
            ..row.sums.into()
        };
        add_times(&mut self.times, row.times.as_ref());
    }

    /// Adds the figures of more calls.
    pub fn merge(&mut self, more: &Self) {
        self.sums += more.sums;
        add_times(&mut self.times, more.times.as_ref());
    }

    /// The 99th percentile of the times, in ns, of the calls that have rows.
    fn p99_ns(&self) -> Option<u64> {
        self.times.as_ref()?.percentile_ns(99)
    }
}

/// The figures of a row of the view: of the last span, and of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveSums {
    /// Those of the last span.
    pub last: LiveFigures,
    /// The 99th percentile of the times in the last span, in ns.
    pub p99_ns: Option<u64>,
    /// Those of all spans so far.
    pub total: LiveFigures,
}

impl LiveSums {
    /// Goes on to a span in which nothing happened.
    pub fn rest(&mut self) {
        self.last = LiveFigures::NONE;
        self.p99_ns = None;
    }

    /// Adds a span, which is the last one then.
    pub fn add(&mut self, span: &SpanFigures) {
        self.last = span.sums;
        self.p99_ns = span.p99_ns();
        self.total += span.sums;
    }
}
