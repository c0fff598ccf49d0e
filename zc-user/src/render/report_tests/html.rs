//! The page of `--html`: as an XML parser reads it, with hostile names, and with more than it
//! draws.

use std::collections::BTreeSet;

use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;

use super::*;
use crate::report::{Bucket, Certainty};

/// The page as an XML parser reads it, which checks that it is well formed.
#[track_caller]
fn read(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).unwrap_or_else(|error| panic!("{error}: {page}"))
}

/// The text of a page, element by element.
fn texts(page: &str) -> Vec<String> {
    let document = read(page);
    let nodes = document.descendants().filter(Node::is_text);
    let texts = nodes.filter_map(|node| node.text()).map(str::trim);
    texts
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The text of a page in one piece.
fn text(page: &str) -> String {
    texts(page).join(" ")
}

/// The names of the elements of a page.
fn elements(page: &str) -> BTreeSet<String> {
    let document = read(page);
    let elements = document.descendants().filter(Node::is_element);
    elements
        .map(|node| node.tag_name().name().to_owned())
        .collect()
}

#[test]
fn a_page_loads_and_runs_nothing() {
    for report in [everything(), report(&sample::nothing())] {
        let page = html(&report);
        let found = elements(&page);
        for element in [
            "script", "link", "img", "iframe", "object", "embed", "base", "form", "a", "image",
            "use",
        ] {
            assert!(!found.contains(element), "{element}");
        }
        for word in ["://", "url(", "@import"] {
            assert!(!page.contains(word), "{word} in {page}");
        }
        assert_has(&page, &["default-src 'none'"]);
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
        let document = read(&page);
        let mut attributes = document.descendants().flat_map(|node| node.attributes());
        assert!(!attributes.any(|attribute| attribute.name().starts_with("on")));
        assert!(page.len() < 2_000_000, "{} bytes", page.len());
    }
}

#[test]
fn a_page_is_small_however_many_processes_there_are() {
    let page = html(&report(&sample::make(20_000)));
    assert!(page.len() < 200_000, "{} bytes", page.len());
    let parts = [
        "and 19990 more processes with ",
        "PROGRAMS, 3 in 20000 processes",
    ];
    assert_has(&text(&page), &parts);
    assert_eq!(page.matches("<h2").count(), 13, "{page}");
    let page = html(&report(&transfers::many_sizes()));
    assert_eq!(page.matches("<rect").count(), 8 + 8 + 3, "{page}");
    assert_has(&text(&page), &["and 10 more with ", "12 more programs"]);
}

#[test]
fn a_page_opens_with_the_picture_and_then_the_transfers() {
    let page = html(&everything());
    let document = read(&page);
    let titles = document
        .descendants()
        .filter(|node| node.has_tag_name("h2"));
    let titles: Vec<&str> = titles.filter_map(|title| title.text()).collect();
    assert!(
        titles[0] == "FLOW OF BYTES" && titles[1].starts_with("TRANSFERS"),
        "{titles:?}"
    );
    let nothing = html(&report(&sample::nothing()));
    assert!(
        !nothing.contains("<svg"),
        "there is nothing to draw: {nothing}"
    );
}

#[test]
fn a_page_names_no_option_that_shows_more() {
    for trace in [
        sample::make(2000),
        transfers::many_sizes(),
        transfers::several(),
        with_failed_paths(),
    ] {
        let mut report = transfers::with_files(&trace);
        report
            .notes
            .push("the transfers are sums; --all keeps them apart".to_owned());
        let page = html(&report);
        assert_has(&page, &["the transfers are sums"]);
        assert!(!page.contains("--all"), "{page}");
    }
}

#[test]
fn the_edges_of_the_picture_show_how_sure_they_are() {
    for (certainty, is_known, drawn, said) in [
        (Certainty::Observed, true, " observed\"", "1.0 MiB"),
        (
            Certainty::Inferred,
            true,
            " inferred\"",
            "dashed: probably this many bytes",
        ),
        (Certainty::Inferred, true, " inferred\"", "probably 1.0 MiB"),
        (
            Certainty::Changed,
            true,
            " changed\"",
            "1.0 MiB, changed on the way",
        ),
        (
            Certainty::Inferred,
            false,
            " unknown\"",
            "dotted: bytes unknown",
        ),
    ] {
        let mut report = report(&transfers::many_sizes());
        for transfer in &mut report.transfers {
            transfer.certainty = certainty;
            if certainty != Certainty::Observed {
                transfer.observed_bytes = Some(0);
            }
            transfer.bytes = transfer.bytes.filter(|_| is_known);
        }
        let page = html(&report);
        assert_has(&page, &[drawn]);
        let text = text(&page);
        assert_has(&text, &[said]);
        let is_inferred = certainty == Certainty::Inferred;
        assert_eq!(
            !is_inferred,
            !text.contains("dashed") && !text.contains("dotted")
        );
    }
}

#[test]
fn a_page_says_what_the_report_does_not_have() {
    let untimed = report(&sample::from_strace());
    assert_has(
        &text(&html(&untimed)),
        &["no call that moves data was timed"],
    );
    let sums = Report::from_trace(&transfers::several(), &by_detail(Detail::Total));
    assert_has(&text(&html(&sums)), &["TRANSFERS, 3"]);
}

#[test]
fn extreme_figures_do_not_break_the_page() {
    let mut report = report(&sample::copier());
    let top = u64::MAX;
    let bucket = |from_ns, below_ns, calls| Bucket {
        from_ns,
        below_ns,
        calls,
    };
    let call = &mut report.totals.syscalls[0];
    call.histogram = vec![
        bucket(0, Some(1), 1),
        bucket(top, Some(0), top),
        bucket(top, None, top),
    ];
    (call.min_ns, call.max_ns) = (Some(0), Some(top));
    let page = html(&report);
    assert!(
        !page.contains("NaN") && !page.contains("inf%") && !page.contains("\"inf\""),
        "{page}"
    );
    let options = Options {
        histogram: true,
        ..at_width(80)
    };
    shown(&report, &options);
}
