//! Snapshots of comparisons.

use zctrace_core::compare::sample_measurements::{
    by_sendfile, comparison, timed_series, with_losses,
};

use super::*;
use crate::render::report_tests::{assert_beginnings, assert_snapshot, at_width, check_page};

/// Two commands, the second twice as fast.
fn two() -> Comparison {
    named(
        comparison(&[timed_series(&[40, 42, 38]), by_sendfile(&[20, 21, 19])]),
        &["read and write", "sendfile"],
    )
}

/// Four commands, one of them slow at first, one with a trace that is not exact.
fn four() -> Comparison {
    let lossy = with_losses(by_sendfile(&[20, 21, 19]));
    let series = [
        timed_series(&[400, 42, 38, 41, 40]),
        lossy,
        timed_series(&[12, 12, 12]),
        timed_series(&[30]),
    ];
    let names = [
        "copier read-write --from in --to unix:/tmp/socket --buffer 4k",
        "copier | tee",
        "c",
        "d",
    ];
    named(comparison(&series), &names)
}

fn named(mut comparison: Comparison, names: &[&str]) -> Comparison {
    comparison.tool.version = "0.0.0".into();
    for (command, &name) in comparison.commands.iter_mut().zip(names) {
        name.clone_into(&mut command.name);
    }
    comparison
}

fn table_page(comparison: &Comparison, options: &Options) -> String {
    compare(comparison, CompareFormat::Table, options)
}

#[test]
fn every_format_has_a_snapshot() {
    assert_snapshot("compare-200", &table_page(&four(), &at_width(200)));
    assert_snapshot("compare-80", &table_page(&four(), &at_width(80)));
    let others = [
        ("compare-markdown", four(), CompareFormat::Markdown),
        ("compare-json", two(), CompareFormat::Json),
    ];
    for (name, comparison, format) in others {
        assert_snapshot(name, &compare(&comparison, format, &Options::default()));
    }
}

#[test]
fn the_page_fits_every_width() {
    for comparison in [two(), four()] {
        let page = |options: &Options| table_page(&comparison, options);
        let coloured = check_page(page, |_| false);
        assert!(coloured.starts_with("\x1b[1m"), "{coloured}");
    }
}

#[test]
fn a_page_says_which_command_is_faster_and_which_calls_are_counted() {
    let alone = |name, times: &[u64]| named(comparison(&[timed_series(times)]), &[name]);
    let series = [&[10, 12, 14][..], &[9, 11, 13], &[30, 30, 31]].map(timed_series);
    let unmeasured = [timed_series(&[0, 0]), timed_series(&[5, 5])];
    let counted = |selection: &str| {
        let mut series = timed_series(&[40]);
        series.trace.counted = Some(selection.parse().expect("a selection"));
        named(comparison(&[series]), &["alone"])
    };
    let pages = [
        ("a difference", two()),
        (
            "names that are alike",
            named(
                two(),
                &["/usr/bin/copy in fsync", "/usr/bin/copy in fdatasync"],
            ),
        ),
        ("a difference and none", comparison(&series)),
        ("unmeasured", comparison(&unmeasured)),
        ("one command", alone("alone", &[40, 42])),
        ("an outlier, no name", alone("", &[10, 10, 10, 90])),
        ("all calls", counted("all")),
        ("calls that move data", counted("%data")),
        ("two calls", counted("mmap,read")),
        ("chosen calls", counted("%network")),
    ];
    let pages =
        pages.map(|(title, comparison)| (title, table_page(&comparison, &Options::default())));
    assert_beginnings("compare-pages", &pages);
}
