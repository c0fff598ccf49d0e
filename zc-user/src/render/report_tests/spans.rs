//! The section of spans that threads marked.

use super::*;
use crate::marked_spans::{MarkedSpan, SpanCalls};

#[test]
fn spans_are_shown_with_their_median_and_their_largest() {
    let calls = |reads: u64| {
        let calls = [("read", reads), ("write", 1)];
        calls.map(|(name, count)| (name.to_owned(), count)).into()
    };
    let combination = |spans, reads| SpanCalls {
        spans,
        calls: calls(reads),
    };
    let mut report = report(&transfers::several());
    report.marked_spans = vec![
        MarkedSpan {
            name: "request\u{7}".to_owned(),
            count: 3,
            median_ns: Some(1_500_000),
            max_ns: Some(4_000_000),
            combinations: vec![combination(2, 2), combination(1, 9)],
            ..MarkedSpan::default()
        },
        MarkedSpan {
            name: "start".to_owned(),
            unended: 1,
            ..MarkedSpan::default()
        },
    ];
    let expected = r"SPANS that threads marked
span count median time largest median calls largest
request\u{7} 3 1.50 ms 4.00 ms 3 10
start 0 - - - -
request\u{7}: read 2, at most 9; write 1
start: 1 span did not end in the thread that began it";
    let page = shown(&report, &Options::default());
    assert_eq!(section(&page, "SPANS"), expected);
}
