//! The distribution of the times in the table, with `--histogram`.

use super::*;

fn with_histogram(trace: &Trace, bars: Bars, width: usize) -> String {
    let options = Options {
        histogram: Some(bars),
        width: Some(width),
        ..Options::default()
    };
    shown(&report(trace), &options)
}

/// The part of the table.
fn part(table: &str) -> String {
    let lines = table
        .lines()
        .skip_while(|line| !line.starts_with("LATENCY"));
    lines
        .take_while(|line| !line.is_empty())
        .flat_map(|line| [line, "\n"])
        .collect()
}

#[test]
fn figures_are_beside_the_bars_if_there_is_room() {
    let bars = |bars, width| part(&with_histogram(&sample::copier(), bars, width));
    let read = "\n  read   ▁    █               ▁  4.35 µs  4.35 µs  4.35 µs\n";
    assert_has(&bars(Bars::Blocks, 80), &["p50      p90      p99\n", read]);
    assert_has(
        &bars(Bars::Ascii, 80),
        &["\n  read   .    @               .  4.35 µs "],
    );
    assert!(!bars(Bars::Blocks, 40).contains("p50"));
}

#[test]
fn ascii_bars_are_ascii() {
    let bars = part(&with_histogram(&sample::make(5), Bars::Ascii, 80)).replace("µs", "us");
    assert!(bars.is_ascii() && bars.contains('@'), "{bars}");
}

#[test]
fn a_report_without_times_says_so() {
    let text = with_histogram(&sample::from_strace(), Bars::Blocks, 80);
    assert_has(&text, &["\n  no call that moves data was timed\n"]);
}
