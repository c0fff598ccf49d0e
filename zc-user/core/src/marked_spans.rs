//! [`MarkedSpans`]: the spans between the marks `/zctrace/begin/NAME` and `/zctrace/end/NAME` that a
//! thread made, and how many calls the thread made in each.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{histogram::Histogram, units::is_zero};

/// So many names of spans are kept.
const MAX_NAMES: usize = 1_000;
/// So many different combinations of calls are kept for each name.
const MAX_COMBINATIONS: usize = 1_000;

/// The calls in one span, by name.
pub type CallsInSpan = BTreeMap<String, u64>;

/// All spans of one name, from a thread's mark `/zctrace/begin/NAME` to its mark
/// `/zctrace/end/NAME`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MarkedSpan {
    /// The name.
    pub name: String,
    /// How many ended.
    pub count: u64,
    /// Spans that did not end in their thread.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unended: u64,
    /// The median of their times, at most 6.25 % off. `None`: unknown.
    pub median_ns: Option<u64>,
    /// The longest time. `None`: unknown.
    pub max_ns: Option<u64>,
    /// The combinations of calls in them.
    pub combinations: Vec<SpanCalls>,
    /// Spans in no combination, because there are too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

/// Spans in which the same calls were made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpanCalls {
    /// How many spans.
    pub spans: u64,
    /// Calls in each, by name, without marks and those that never returned.
    pub calls: CallsInSpan,
}

impl MarkedSpan {
    /// How many calls with such names were made in each span, and in how many spans, the fewest first.
    /// Spans that were left out are missing.
    pub fn spans_by_calls(&self, is_chosen: impl Fn(&str) -> bool) -> BTreeMap<u64, u64> {
        let mut spans = BTreeMap::new();
        for combination in &self.combinations {
            let calls = combination.calls.iter();
            let chosen = calls.filter(|(name, _)| is_chosen(name));
            let sum = chosen.map(|(_, count)| count).sum();
            *spans.entry(sum).or_default() += combination.spans;
        }
        spans
    }

    /// The median and the largest number of calls with such names in a span. `None`: there was no span,
    /// or some were left out.
    pub fn median_and_max(&self, is_chosen: impl Fn(&str) -> bool) -> Option<(u64, u64)> {
        let spans = self.spans_by_calls(is_chosen);
        let (&max, _) = spans.last_key_value().filter(|_| self.left_out == 0)?;
        let mut before = 0;
        let (&median, _) = spans.iter().find(|(_, count)| {
            before += **count;
            before >= self.count.div_ceil(2)
        })?;
        Some((median, max))
    }
}

/// Adds up spans.
#[derive(Debug, Default)]
pub struct MarkedSpans(BTreeMap<String, SpanSums>);

#[derive(Debug, Default)]
struct SpanSums {
    count: u64,
    unended: u64,
    times: Histogram,
    max_ns: u64,
    combinations: BTreeMap<CallsInSpan, u64>,
    left_out: u64,
}

impl MarkedSpans {
    /// A span ended. `ns` is its time; `None`: unknown.
    pub fn add_ended(&mut self, name: &str, ns: Option<u64>, calls: CallsInSpan) {
        let Some(sums) = self.of_name(name) else {
            return;
        };
        sums.count += 1;
        if let Some(ns) = ns {
            sums.times.record(ns);
            sums.max_ns = sums.max_ns.max(ns);
        }
        let has_room = sums.combinations.len() < MAX_COMBINATIONS;
        match sums.combinations.get_mut(&calls) {
            Some(spans) => *spans += 1,
            None if has_room => {
                sums.combinations.insert(calls, 1);
            }
            None => sums.left_out += 1,
        }
    }

    /// A span did not end.
    pub fn add_unended(&mut self, name: &str) {
        if let Some(sums) = self.of_name(name) {
            sums.unended += 1;
        }
    }

    fn of_name(&mut self, name: &str) -> Option<&mut SpanSums> {
        if self.0.len() >= MAX_NAMES && !self.0.contains_key(name) {
            return None;
        }
        Some(self.0.entry(name.to_owned()).or_default())
    }

    /// All spans, by name.
    pub fn into_spans(self) -> Vec<MarkedSpan> {
        let mut spans = Vec::new();
        for (name, sums) in self.0 {
            let has_times = sums.count > 0 && sums.times.count() == sums.count;
            // It is the middle of its bucket.
            let median_ns = sums.times.percentile(50).map(|ns| ns.min(sums.max_ns));
            let combinations = sums.combinations.into_iter();
            let combinations = combinations.map(|(calls, spans)| SpanCalls { spans, calls });
            spans.push(MarkedSpan {
                name,
                count: sums.count,
                unended: sums.unended,
                median_ns: median_ns.filter(|_| has_times),
                max_ns: has_times.then_some(sums.max_ns),
                combinations: combinations.collect(),
                left_out: sums.left_out,
            });
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_calls(count: u64) -> CallsInSpan {
        let calls = [("read", count), ("write", 1)];
        let made = calls.into_iter().filter(|(_, count)| *count > 0);
        made.map(|(name, count)| (name.to_owned(), count)).collect()
    }

    #[test]
    fn the_median_and_the_largest_are_of_all_spans() {
        let mut spans = MarkedSpans::default();
        for (count, ns) in [(0, 10), (2, 30), (2, 20), (7, 40), (2, 50)] {
            spans.add_ended("request", Some(ns), read_calls(count));
        }
        let [request] = &spans.into_spans()[..] else {
            panic!("it has one name");
        };
        assert_eq!(request.combinations.len(), 3);
        let is_read = |name: &str| name == "read";
        let distribution = BTreeMap::from([(0, 1), (2, 3), (7, 1)]);
        assert_eq!(request.spans_by_calls(is_read), distribution);
        assert_eq!(request.median_and_max(is_read), Some((2, 7)));
        assert_eq!(request.median_and_max(|_| true), Some((3, 8)));
        assert_eq!((request.median_ns, request.max_ns), (Some(30), Some(50)));
    }

    #[test]
    fn what_is_not_kept_is_unknown() {
        let mut spans = MarkedSpans::default();
        for count in 0..2_000 {
            spans.add_ended("many", (count > 0).then_some(1), read_calls(count));
            spans.add_ended(&format!("name {count}"), None, read_calls(1));
        }
        spans.add_unended("many");
        let spans = spans.into_spans();
        assert_eq!(spans.len(), MAX_NAMES);
        let many = &spans[0];
        assert_eq!((many.count, many.left_out, many.unended), (2_000, 1_000, 1));
        assert_eq!(many.median_and_max(|_| true), None);
        assert_eq!((many.median_ns, many.max_ns), (None, None));
    }
}
