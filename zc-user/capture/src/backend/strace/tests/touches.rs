//! What was touched: a made-up log for each rule.

use std::fmt::Write as _;

use super::{GoldenCase, check_golden, read_recorded};
use crate::backend::Recorded;
use zctrace_core::touched::Touched;

#[test]
fn what_calls_touch_is_as_the_golden_file_says() {
    check_golden("rules/touches.txt", GoldenCase::Lines, |case| {
        let trace = read_recorded(case, Recorded::default().with_touches(true));
        assert_eq!(trace.syncs, None);
        describe(&trace.touched.expect("it was asked for"))
    });
}

/// A line for each path and call, and one for each doubt.
fn describe(touched: &Touched) -> String {
    let mut text = String::new();
    let mut paths = touched.paths.clone();
    paths.sort_by(|a, b| a.path.cmp(&b.path));
    for path in paths {
        for touch in path.touches {
            let (action, call, calls) = (touch.action.name(), touch.call, touch.calls);
            write!(text, "{}: {action} by {call} {calls}", path.path).expect("memory takes it");
            let numbers = [("unfinished", touch.unfinished), ("bytes", touch.bytes)];
            let numbers = numbers.map(|(name, number)| (name.to_owned(), number));
            for (name, number) in touch.errors.into_iter().chain(numbers) {
                if number > 0 {
                    write!(text, " {name} {number}").expect("memory takes it");
                }
            }
            if touch.is_counted_elsewhere {
                text.push_str(" counted elsewhere");
            }
            text.push('\n');
        }
    }
    for doubt in &touched.doubts {
        writeln!(text, "unseen: {doubt}").expect("memory takes it");
    }
    text
}
