//! The rows of the view, from span to span. Pure: a span goes in, and rows change.

use std::{borrow::Cow, cmp::Reverse, collections::BTreeMap};

use super::{
    figures::LiveSums,
    span_rows::{Grouping, LiveKey, SpanRow, SpanRows},
};
use crate::{
    report::Api,
    trace::{Span, Trace},
};

/// How long the row of a process or thread stays after its end, in ns.
const KEPT_NS: u64 = 10_000_000_000;
/// So many rows of a grouping are told apart.
const MAX_ROWS: usize = 10_000;

/// The bytes that an interface moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveBytes {
    /// In the last span.
    pub last: u64,
    /// In all spans so far.
    pub total: u64,
}

/// A row of the view.
#[derive(Debug, Clone, Default)]
pub struct LiveRow {
    /// Its figures.
    pub sums: LiveSums,
    /// The same by call.
    pub calls: BTreeMap<Cow<'static, str>, LiveSums>,
    /// The bytes of its transfers, by interface.
    pub moved: BTreeMap<Api, LiveBytes>,
    /// The end of the last span in which it made a call, in ns.
    active_ns: u64,
    /// The end of the span in which it ended, in ns. `None`: it has not.
    pub ended_ns: Option<u64>,
}

impl LiveRow {
    /// Goes on to a span in which nothing happened.
    fn rest(&mut self) {
        self.sums.rest();
        self.calls.values_mut().for_each(LiveSums::rest);
        self.moved.values_mut().for_each(|moved| moved.last = 0);
    }

    fn add(&mut self, span: &SpanRow, now_ns: u64) {
        self.rest();
        self.sums.add(&span.figures);
        for (name, figures) in &span.calls {
            self.calls.entry(name.clone()).or_default().add(figures);
        }
        for (&api, &bytes) in &span.moved {
            let moved = self.moved.entry(api).or_default();
            moved.last = bytes;
            moved.total = moved.total.saturating_add(bytes);
        }
        if span.figures.sums.calls != Some(0) {
            self.active_ns = now_ns;
        }
    }

    /// Adds all that a row did which is no longer told apart.
    fn absorb(&mut self, dropped: &Self) {
        self.sums.total += dropped.sums.total;
        for (name, sums) in &dropped.calls {
            self.calls.entry(name.clone()).or_default().total += sums.total;
        }
        for (&api, bytes) in &dropped.moved {
            let moved = self.moved.entry(api).or_default();
            moved.total = moved.total.saturating_add(bytes.total);
        }
    }

    /// The interface that moved the most bytes: in the last span, if it moved any, or else in all.
    pub fn main_interface(&self) -> Option<Api> {
        let moved = self.moved.iter().filter(|(_, moved)| moved.total > 0);
        let most = moved.max_by_key(|(_, moved)| (moved.last, moved.total));
        most.map(|(&api, _)| api)
    }
}

/// The rows of one grouping.
#[derive(Debug, Clone)]
struct LiveGroup {
    grouping: Grouping,
    /// Those that are told apart.
    rows: BTreeMap<LiveKey, LiveRow>,
    /// How many are not told apart any more.
    dropped: u64,
    /// Their sum.
    dropped_row: (LiveKey, LiveRow),
}

impl LiveGroup {
    fn new(grouping: Grouping) -> Self {
        Self {
            grouping,
            rows: BTreeMap::new(),
            dropped: 0,
            dropped_row: (LiveKey::named(String::new()), LiveRow::default()),
        }
    }

    fn apply(&mut self, span: &BTreeMap<LiveKey, SpanRow>, now_ns: u64) {
        let has_end = self.grouping.has_end();
        for (key, row) in &mut self.rows {
            if !span.contains_key(key) {
                row.rest();
                row.ended_ns = row.ended_ns.or(has_end.then_some(now_ns));
            }
        }
        for (key, seen) in span {
            let row = self.rows.entry(key.clone()).or_default();
            row.add(seen, now_ns);
            let end_ns = row.ended_ns.unwrap_or(now_ns);
            row.ended_ns = (has_end && seen.has_ended).then_some(end_ns);
        }
        self.drop_rows(now_ns);
    }

    /// Sums up in one row what ended some time ago, and of too many rows those that made no call for
    /// the longest time.
    fn drop_rows(&mut self, now_ns: u64) {
        let is_old = |row: &LiveRow| row.ended_ns.is_some_and(|ns| now_ns - ns > KEPT_NS);
        let (mut dropped, mut kept): (Vec<_>, Vec<_>) =
            self.rows.iter().partition(|(_, row)| is_old(row));
        if kept.len() > MAX_ROWS {
            kept.sort_by_key(|(_, row)| Reverse(row.active_ns));
            dropped.extend(kept.split_off(MAX_ROWS));
        }
        let dropped: Vec<LiveKey> = dropped.into_iter().map(|(key, _)| key.clone()).collect();
        for row in dropped.iter().filter_map(|key| self.rows.remove(key)) {
            self.dropped_row.1.absorb(&row);
            self.dropped += 1;
        }
        self.dropped_row.0.name = format!("(no longer listed: {})", self.dropped);
    }

    fn rows(&self) -> impl Iterator<Item = (&LiveKey, &LiveRow)> {
        let (key, row) = &self.dropped_row;
        let dropped = (self.dropped > 0).then_some((key, row));
        self.rows.iter().chain(dropped)
    }
}

/// What the view shows: rows by grouping, and the sum over everything.
#[derive(Debug, Clone)]
pub struct LiveModel {
    /// In the order of [`Grouping::ALL`].
    groups: [LiveGroup; Grouping::ALL.len()],
    /// What is traced.
    pub subject: String,
    /// The backend that counts.
    pub backend: &'static str,
    /// The figures of all processes.
    pub whole: LiveSums,
    /// How many processes had not ended.
    pub running: usize,
    /// The length of the last span, in ns.
    pub span_ns: u64,
    /// The time from the beginning of the trace to the end of the last span, in ns.
    pub elapsed_ns: u64,
    /// Whether a count of any span is a lower bound.
    pub is_lower_bound: bool,
}

impl LiveModel {
    /// A view of this, of which nothing is known yet.
    pub fn new(subject: String) -> Self {
        Self {
            groups: Grouping::ALL.map(LiveGroup::new),
            subject,
            backend: "",
            whole: LiveSums::default(),
            running: 0,
            span_ns: 0,
            elapsed_ns: 0,
            is_lower_bound: false,
        }
    }

    /// Adds the trace of a span. One that is none changes nothing.
    pub fn apply(&mut self, trace: &Trace) {
        let Some(Span {
            since_ns, until_ns, ..
        }) = trace.span
        else {
            return;
        };
        let span = SpanRows::new(trace);
        self.backend = trace.backend;
        self.span_ns = until_ns.saturating_sub(since_ns);
        self.elapsed_ns = until_ns;
        self.running = span.running;
        self.is_lower_bound |= !span.is_exact;
        self.whole.add(&span.whole);
        for (group, rows) in self.groups.iter_mut().zip(&span.groups) {
            group.apply(rows, until_ns);
        }
    }

    /// The rows of a grouping.
    pub fn rows(&self, grouping: Grouping) -> impl Iterator<Item = (&LiveKey, &LiveRow)> {
        self.groups[grouping as usize].rows()
    }

    /// A figure of the last span as a rate per second, rounded to the nearest. `None`: no span is
    /// known.
    pub fn per_second(&self, figure: u64) -> Option<u64> {
        let span = u128::from(self.span_ns);
        let scaled = u128::from(figure) * 1_000_000_000 + span / 2;
        u64::try_from(scaled.checked_div(span)?).ok()
    }
}
