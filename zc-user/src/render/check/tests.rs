//! Snapshots of every format. An independent parser reads those that have one here;
//! tests/tests/check reads the others.

use zctrace_core::check::sample;

use super::*;
use crate::{
    check::{Results, SCHEMA},
    render::tests::{assert_fits, assert_snapshot},
};

fn rendered(format: CheckFormat) -> String {
    check(&sample::results(), format, &Options::default())
}

fn nothing() -> Results {
    Results {
        schema: SCHEMA,
        checks: Vec::new(),
        interrupted: Some("SIGINT".to_owned()),
    }
}

#[test]
fn every_format_has_a_snapshot() {
    for format in CheckFormat::value_variants() {
        let name = format
            .to_possible_value()
            .expect("has a name")
            .get_name()
            .to_owned();
        assert_snapshot(&format!("check-{name}"), &rendered(*format));
        assert!(
            check(&nothing(), *format, &Options::default()).is_empty()
                == (*format == CheckFormat::Github)
        );
    }
}

#[test]
fn the_page_fits_narrow_terminals() {
    for width in [40, 60, 80] {
        let options = Options {
            width: Some(width),
            ..Options::default()
        };
        let text = check(&sample::results(), CheckFormat::Text, &options);
        // A command is for copying, so it is not broken.
        let lines = text
            .lines()
            .filter(|line| !line.contains("the whole report:"));
        assert_fits(&lines.collect::<Vec<_>>().join("\n"), width);
    }
    let coloured = check(
        &sample::results(),
        CheckFormat::Text,
        &Options {
            colour: true,
            ..Options::default()
        },
    );
    assert!(coloured.starts_with("\x1b[32mok"), "{coloured}");
}

#[test]
fn an_xml_parser_reads_the_cases() {
    let text = rendered(CheckFormat::Junit);
    let document =
        roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let suites = document.root_element();
    let suite = suites.first_element_child().expect("a suite");
    assert_eq!(
        (suites.tag_name().name(), suite.tag_name().name()),
        ("testsuites", "testsuite")
    );
    let attribute = |name: &str| suite.attribute(name).map(str::to_owned);
    let counts = ["tests", "failures", "errors"].map(|name| attribute(name).expect("is counted"));
    assert_eq!(counts, ["5", "2", "2"].map(str::to_owned));
    let cases: Vec<_> = suite
        .children()
        .filter(|node| node.has_tag_name("testcase"))
        .collect();
    let found: Vec<_> = cases
        .iter()
        .map(|case| {
            (
                case.attribute("name").expect("a name"),
                case.first_element_child()
                    .map_or("passed", |child| child.tag_name().name()),
            )
        })
        .collect();
    let names: Vec<String> = sample::results()
        .checks
        .into_iter()
        .map(|check| check.name)
        .collect();
    let expected: Vec<_> = names
        .iter()
        .map(String::as_str)
        .zip(["passed", "failure", "failure", "error", "error"])
        .collect();
    assert_eq!(found, expected);
    let failure = cases[1]
        .first_element_child()
        .and_then(|failure| failure.text())
        .expect("a text");
    assert!(
        failure.contains("said <this> & 100 %") && failure.contains("write.calls is 2"),
        "{failure}"
    );
}

#[test]
fn output_of_a_command_is_not_a_workflow_command() {
    let mut results = sample::results();
    results.checks[1].stderr = vec![
        "::stop-commands::tok".to_owned(),
        "a ##[group]x :: y".to_owned(),
    ];
    let text = escape_workflow_commands(&check(&results, CheckFormat::Text, &Options::default()));
    assert!(
        text.contains("\n    : :stop-commands::tok\n    a ## [group]x :: y\n"),
        "{text}"
    );
    let harmless = check(&sample::results(), CheckFormat::Text, &Options::default());
    assert_eq!(escape_workflow_commands(&harmless), harmless);
}

#[test]
fn names_with_control_characters_are_safe_in_every_format() {
    let mut results = sample::results();
    results.checks[1].name = "a\nb\u{1b}\u{ffff}".to_owned();
    results.checks[1].stderr = vec!["\u{fffe}".to_owned()];
    results.checks[1].expectations[0].outcome.findings[0].facts =
        vec!["write, a\nb (regular): 1 call".to_owned()];
    for format in CheckFormat::value_variants() {
        let text = check(&results, *format, &Options::default());
        assert!(!text.contains(['\u{1b}', '\u{fffe}', '\u{ffff}']) || *format == CheckFormat::Json);
    }
    let text = check(&results, CheckFormat::Text, &Options::default());
    assert!(
        text.contains("\n      write, a\\nb (regular): 1 call\n"),
        "{text}"
    );
    let junit = check(&results, CheckFormat::Junit, &Options::default());
    roxmltree::Document::parse(&junit).unwrap_or_else(|error| panic!("{error}: {junit}"));
    let markdown = check(&results, CheckFormat::Markdown, &Options::default());
    assert!(
        markdown.contains(r"| a\\nb\\u{1b}\\u{ffff} |"),
        "{markdown}"
    );
}

#[test]
fn an_annotation_is_one_line_whatever_it_contains() {
    let text = rendered(CheckFormat::Github);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4);
    let begins = |line: &&str| {
        ["::error title=", "::error file=", "::warning title="]
            .iter()
            .any(|start| line.starts_with(start))
    };
    assert!(lines.iter().all(begins), "{text}");
    let of_file =
        "::error file=/work/tests/a b%2C c.toml,line=12,title=check 'fails in one run' failed::";
    assert!(lines[0].starts_with(of_file), "{}", lines[0]);
    assert!(
        lines[1].starts_with("::error title=check 'a | \"b\" <c> & %3A%3Ad%2C# \\e' failed::"),
        "{}",
        lines[1]
    );
    assert!(
        lines[0].contains("100 %25") && lines[0].contains("%0A"),
        "{}",
        lines[0]
    );
}
