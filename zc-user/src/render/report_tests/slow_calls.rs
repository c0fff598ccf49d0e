//! The section of `--slower-than`.

use super::{Options, section, shown};
use crate::{
    report::{Report, sample::files::scene},
    slow_calls::{SlowCall, SlowCalls},
};

fn report(wall_ns: u64) -> Report {
    let mut report = scene("cat: read in 1 10").report();
    report.wall_ns = Some(wall_ns);
    report.slow_calls = Some(SlowCalls {
        slower_than_ns: 10_000_000,
        calls: vec![
            SlowCall {
                at_ns: Some(20_000_000),
                ns: 50_000_000,
                call: "read".to_owned(),
                path: Some("pipe".to_owned()),
                result: Some(1),
                program: Some("server".to_owned()),
                thread: Some("worker".to_owned()),
                pid: Some(7),
                tid: Some(8),
                ..SlowCall::default()
            },
            SlowCall {
                ns: 20_000_000,
                call: "pause".to_owned(),
                error: Some("ERESTARTNOHAND".to_owned()),
                program: Some("server".to_owned()),
                pid: Some(7),
                tid: Some(7),
                ..SlowCall::default()
            },
        ],
        left_out: 3,
        lost: 0,
        untimed: 1,
    });
    report
}

#[test]
fn slow_calls_are_listed_with_what_is_missing() {
    let text = shown(&report(500_000_000), &Options::default());
    let expected = "\
SLOW CALLS, at least 5 that took longer than 10.0 ms
time since start call path result process, thread
50.0 ms 20.0 ms read pipe 1 server (7), worker (8)
20.0 ms - pause ERESTARTNOHAND server (7)
3 calls that took at most 20.0 ms were not kept
the times of 1 call are unknown";
    assert_eq!(section(&text, "SLOW CALLS"), expected);
}

#[test]
fn the_head_names_a_call_that_took_a_tenth_of_the_run() {
    let line = "slowest call: read of pipe took 50.0 ms in server (7), worker (8)";
    for (wall_ns, is_named) in [(500_000_000, true), (501_000_000, false)] {
        let text = shown(&report(wall_ns), &Options::default());
        assert_eq!(text.contains(line), is_named, "{text}");
    }
}
