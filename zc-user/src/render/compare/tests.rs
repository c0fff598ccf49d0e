//! Snapshots of comparisons.

use zctrace_core::compare::sample::{by_sendfile, comparison, timed, with_losses};

use super::*;
use crate::render::tests::{assert_fits, assert_snapshot};

/// Two commands, the second twice as fast.
fn two() -> Comparison {
    named(
        comparison(&[timed(&[40, 42, 38]), by_sendfile(&[20, 21, 19])]),
        &["read and write", "sendfile"],
    )
}

/// Four commands, one of them slow at first, one with a trace that is not exact.
fn four() -> Comparison {
    let lossy = with_losses(by_sendfile(&[20, 21, 19]));
    let series = [
        timed(&[400, 42, 38, 41, 40]),
        lossy,
        timed(&[12, 12, 12]),
        timed(&[30]),
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

fn table_page(comparison: &Comparison, width: Option<usize>) -> String {
    compare(
        comparison,
        CompareFormat::Table,
        &Options {
            width,
            ..Options::default()
        },
    )
}

#[test]
fn the_page_at_several_widths() {
    assert_snapshot("compare-two", &table_page(&two(), None));
    assert_snapshot("compare-four-200", &table_page(&four(), Some(200)));
    assert_snapshot("compare-four-80", &table_page(&four(), Some(80)));
    assert_snapshot("compare-four-40", &table_page(&four(), Some(40)));
}

#[test]
fn the_page_fits_every_width() {
    for comparison in [two(), four()] {
        for width in 40..200 {
            assert_fits(&table_page(&comparison, Some(width)), width);
        }
        // Fewer columns are too few for the page, but it must not panic.
        for width in 0..40 {
            table_page(&comparison, Some(width));
        }
    }
}

#[test]
fn every_figure_of_every_command_is_on_a_narrow_page() {
    let (wide, narrow) = (table_page(&four(), None), table_page(&four(), Some(40)));
    for row in ["\nAPI  ", "\npeak memory  ", "\ncounted calls  "] {
        assert_eq!(wide.matches(row).count(), 1, "{row}: {wide}");
        assert_eq!(
            narrow.matches(row).count(),
            4,
            "{row}, one block for each command: {narrow}"
        );
    }
}

#[test]
fn one_command_is_compared_with_nothing() {
    let text = table_page(&named(comparison(&[timed(&[40, 42])]), &["alone"]), None);
    assert!(
        text.starts_with("alone: 41.0 ± 1.4 ms\n\n") && !text.contains(" times "),
        "{text}"
    );
}

#[test]
fn without_measurable_times_there_are_no_speeds() {
    let text = table_page(&comparison(&[timed(&[0, 0]), timed(&[5, 5])]), None);
    assert!(text.starts_with("no speeds to compare"), "{text}");
}

#[test]
fn an_empty_command_has_a_visible_name() {
    let outlier = timed(&[10, 10, 10, 90]);
    let text = table_page(&named(comparison(&[outlier]), &[""]), None);
    assert!(
        text.starts_with("'': ") && text.contains("warning: '': 1 of 4 runs"),
        "{text}"
    );
}

#[test]
fn the_page_says_which_calls_are_counted_and_what_is_unknown() {
    let of_selection = |selection: &str| {
        let mut series = timed(&[40]);
        series.trace.counted = Some(selection.parse().expect("a selection"));
        table_page(&named(comparison(&[series]), &["alone"]), None)
    };
    for (selection, words) in [
        ("all", "exact) of all calls\n"),
        (
            "%data",
            "exact) of the calls that move data (--syscalls all counts all)\n",
        ),
        ("mmap,read", "exact) of mmap, read alone\n"),
        ("%network", " chosen calls\n"),
    ] {
        assert!(
            of_selection(selection).contains(words),
            "{selection}: {}",
            of_selection(selection)
        );
    }
    let api = |text: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix("API"))
            .expect("a row")
            .trim()
            .to_owned()
    };
    assert_eq!(
        (api(&of_selection("%data")), api(&of_selection("mmap"))),
        ("read+write".into(), "read+write".into())
    );
}

#[test]
fn a_ratio_whose_interval_includes_1_is_no_difference() {
    let series = [
        timed(&[10, 12, 14]),
        timed(&[9, 11, 13]),
        timed(&[30, 30, 31]),
    ];
    let text = table_page(&comparison(&series), None);
    let expected = "b ran\n  2.76 ± 0.50 times faster than c\nno difference found between b and a (b 1.09 ± 0.27 times faster)\n";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn the_page_in_colour() {
    let options = Options {
        width: Some(80),
        colour: true,
        ..Options::default()
    };
    assert_snapshot(
        "compare-colour",
        &compare(&four(), CompareFormat::Table, &options).replace('\x1b', "^["),
    );
}

#[test]
fn markdown_is_a_line_for_each_command() {
    assert_snapshot(
        "compare-markdown",
        &compare(&four(), CompareFormat::Markdown, &Options::default()),
    );
}

#[test]
fn json_has_every_figure_of_every_run() {
    assert_snapshot(
        "compare-json",
        &compare(&two(), CompareFormat::Json, &Options::default()),
    );
}

#[test]
fn names_wrap_between_words() {
    assert_eq!(
        wrap("dd if=/dev/zero of=/dev/null bs=4k", 16),
        ["dd if=/dev/zero", "of=/dev/null", "bs=4k"]
    );
    assert_eq!(wrap("sendfile", 16), ["sendfile"]);
    assert_eq!(wrap("", 16), [""]);
}

#[test]
fn long_words_are_broken() {
    assert_eq!(
        wrap("cp /a/very/long/path b", 8),
        ["cp", "/a/very/", "long/pat", "h b"]
    );
    assert_eq!(wrap("漢字漢", 4), ["漢字", "漢"]);
}

#[test]
fn long_names_are_cut() {
    assert_eq!(wrap("a b c d e f g", 1), ["a", "b", "c", "d", "…"]);
}
