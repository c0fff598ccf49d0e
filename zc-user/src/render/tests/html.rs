//! The page of `--html`: as a snapshot, as an XML parser reads it, with hostile names, and with
//! more than it draws.

use std::collections::BTreeSet;

use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;

use super::*;
use crate::report::{Bucket, Certainty};

/// A parser's view of a page, which checks that the page is well formed.
#[track_caller]
fn read<T>(page: &str, look: impl FnOnce(&Document<'_>) -> T) -> T {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(page, options)
        .unwrap_or_else(|error| panic!("{error}: {page}"));
    look(&document)
}

/// The text of a page, element by element.
fn texts(page: &str) -> Vec<String> {
    let text = |node: Node<'_, '_>| {
        node.text()
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    read(page, |document| {
        document
            .descendants()
            .filter(Node::is_text)
            .filter_map(text)
            .collect()
    })
}

/// The text of a page in one piece.
fn text(page: &str) -> String {
    texts(page).join(" ")
}

/// The names of the elements of a page.
fn elements(page: &str) -> BTreeSet<String> {
    let name = |node: Node<'_, '_>| node.tag_name().name().to_owned();
    read(page, |document| {
        document
            .descendants()
            .filter(Node::is_element)
            .map(name)
            .collect()
    })
}

fn samples() -> [(&'static str, Report); 6] {
    [
        ("copier", report(&sample::copier())),
        ("make", report(&sample::make(3))),
        ("lossy", report(&lossy())),
        ("strace", report(&sample::from_strace())),
        ("nothing", report(&sample::nothing())),
        ("transfers", report(&transfers::several())),
    ]
}

#[test]
fn pages_have_snapshots() {
    let style = include_str!("../html/page.css");
    for (name, report) in samples()
        .into_iter()
        .filter(|(name, _)| ["copier", "transfers"].contains(name))
    {
        // An element on each line, so that a difference can be read.
        let page = html(&report).replace(style, "").replace("><", ">\n<");
        assert_snapshot(&format!("{name}-html"), &page);
    }
}

#[test]
fn a_page_loads_and_runs_nothing() {
    for (name, report) in samples() {
        let page = html(&report);
        let found = elements(&page);
        for element in [
            "script", "link", "img", "iframe", "object", "embed", "base", "form", "a", "image",
            "use",
        ] {
            assert!(!found.contains(element), "{name} has {element}");
        }
        assert!(
            !page.contains("://") && !page.contains("url(") && !page.contains("@import"),
            "{name}"
        );
        assert!(page.contains("default-src 'none'"), "{name}");
    }
}

#[test]
fn the_page_says_what_the_table_says() {
    for (name, report) in samples() {
        let found = text(&html(&report));
        let words: BTreeSet<&str> = found.split_whitespace().collect();
        let table = render(&report, Format::Table, &Options::default());
        let missing: Vec<&str> = table
            .lines()
            .filter(|line| !line.trim_start().starts_with("--") && !line.starts_with("\"-\""))
            .flat_map(str::split_whitespace)
            .filter(|word| !words.contains(word) && !found.contains(*word))
            .collect();
        assert!(missing.is_empty(), "{name} lacks {missing:?}: {found}");
    }
}

/// What somebody who chooses names may try.
const HOSTILE: [&str; 6] = [
    "<script>alert(1)</script>",
    "\"onload=alert(1) x='",
    "]]>&lt;&#60;--><!--</style></title>",
    "\x1b[2J\r\n\t\0\u{85}\u{fffe}",
    "\u{202e}gpj.exe\u{2066}\u{200b}",
    "\u{fffd}\u{fffd}",
];

/// A report in which every text is hostile, also those that only a forged report can have.
fn hostile(name: &str) -> Report {
    let mut json =
        serde_json::to_value(report(&transfers::several())).expect("every key is a string");
    poison(&mut json, name);
    serde_json::from_value(json).expect("it is still a report")
}

fn poison(value: &mut Value, name: &str) {
    match value {
        Value::String(text) => name.clone_into(text),
        Value::Array(values) => values.iter_mut().for_each(|value| poison(value, name)),
        Value::Object(fields) => {
            // These are words of the schema.
            let is_free = |field: &str| {
                !["api", "certainty", "counted", "evidence", "state"].contains(&field)
            };
            fields
                .iter_mut()
                .filter(|(field, _)| is_free(field))
                .for_each(|(_, value)| poison(value, name));
            for counts in ["errnos", "losses", "retries"] {
                fields
                    .entry(counts)
                    .and_modify(|counts| *counts = serde_json::json!({ name: 1 }));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn hostile_names_are_harmless_and_can_be_read() {
    let usual = elements(&html(&hostile("name")));
    for name in HOSTILE.into_iter().map(str::to_owned).chain([
        HOSTILE.concat(),
        "x".repeat(4096),
        "<".repeat(4096),
    ]) {
        let page = html(&hostile(&name));
        assert!(elements(&page).is_subset(&usual), "{name:?} adds elements");
        assert!(
            page.chars()
                .all(|c| c == '\n' || escape(&c.to_string()) == c.to_string()),
            "{name:?} is not escaped"
        );
        let shown = escape(&name);
        let start: String = shown.chars().take(8).collect();
        assert!(
            texts(&page).iter().any(|text| text.contains(&start)),
            "{name:?} cannot be read"
        );
        read(&page, |document| {
            let attributes = document.descendants().flat_map(|node| node.attributes());
            let handlers: Vec<&str> = attributes
                .map(|attribute| attribute.name())
                .filter(|name| name.starts_with("on"))
                .collect();
            assert!(handlers.is_empty(), "{handlers:?}");
        });
        assert!(page.len() < 2_000_000, "{} bytes", page.len());
    }
}

#[test]
fn a_page_is_small_however_many_processes_there_are() {
    let report = report(&sample::make(20_000));
    let page = html(&report);
    assert!(page.len() < 200_000, "{} bytes", page.len());
    let text = text(&page);
    assert!(
        text.contains("and 19950 more processes with ")
            && text.contains("The 50 processes with the most calls"),
        "{text}"
    );
    assert_eq!(page.matches("<details").count(), 10);
}

#[test]
fn transfers_that_are_not_drawn_are_summed() {
    let page = html(&report(&transfers::many_sizes()));
    assert_eq!(page.matches("class=\"band ").count(), 10, "{page}");
    assert!(text(&page).contains("and 10 more with "), "{}", text(&page));
}

#[test]
fn an_inferred_transfer_is_dashed() {
    let with = |certainty, is_known: bool| {
        let mut report = report(&transfers::many_sizes());
        for transfer in &mut report.transfers {
            transfer.certainty = certainty;
            transfer.bytes = transfer.bytes.filter(|_| is_known);
        }
        let page = html(&report);
        (text(&page), page)
    };
    let (observed, _) = with(Certainty::Observed, true);
    assert!(
        !observed.contains("dashed") && !observed.contains("dotted"),
        "{observed}"
    );
    let (inferred, page) = with(Certainty::Inferred, true);
    assert!(
        page.contains(" inferred\"") && inferred.contains("dashed: probably so many bytes"),
        "{inferred}"
    );
    assert!(inferred.contains("probably 1.0 MiB"), "{inferred}");
    let (unknown, page) = with(Certainty::Inferred, false);
    assert!(
        page.contains(" unknown\"") && unknown.contains("dotted: bytes unknown"),
        "{unknown}"
    );
}

#[test]
fn an_old_report_has_no_distribution_and_the_page_says_so() {
    let mut report = report(&sample::copier());
    assert!(!text(&html(&report)).contains("the distribution is not in this report"));
    for call in &mut report.totals.syscalls {
        call.histogram = Vec::new();
    }
    let old = text(&html(&report));
    assert!(
        old.contains("the distribution is not in this report: an older zctrace saved it")
            && old.contains("p50"),
        "{old}"
    );
    let untimed = text(&html(&super::report(&sample::from_strace())));
    assert!(untimed.contains("no call was timed"), "{untimed}");
}

#[test]
fn sums_without_processes_keep_the_transfers() {
    let options = report::Options {
        detail: Detail::Total,
        ..report::Options::default()
    };
    let page = text(&html(&Report::from_trace(&transfers::several(), &options)));
    assert!(
        page.contains("TRANSFERS, 3") && page.contains("made with --by total"),
        "{page}"
    );
}

#[test]
fn extreme_figures_do_not_break_the_page() {
    let mut report = report(&sample::copier());
    let top = u64::MAX;
    report.totals.syscalls[0].histogram = vec![
        Bucket {
            from_ns: 0,
            below_ns: Some(1),
            calls: 1,
        },
        Bucket {
            from_ns: top,
            below_ns: Some(0),
            calls: top,
        },
        Bucket {
            from_ns: top,
            below_ns: None,
            calls: top,
        },
    ];
    (
        report.totals.syscalls[0].min_ns,
        report.totals.syscalls[0].max_ns,
    ) = (Some(0), Some(top));
    let page = html(&report);
    assert!(
        !page.contains("NaN") && !page.contains("inf%") && !page.contains("\"inf\""),
        "{page}"
    );
    for bars in [Bars::Blocks, Bars::Ascii] {
        render(
            &report,
            Format::Table,
            &Options {
                histogram: Some(bars),
                width: Some(80),
                ..Options::default()
            },
        );
    }
}
