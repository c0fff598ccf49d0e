//! CSV and Markdown, read by independent parsers.

use pulldown_cmark::{Event, Options as Extensions, Parser, Tag, TagEnd};

use super::*;
use crate::report::Syscall;

fn samples() -> [Report; 5] {
    let traces = [sample::copier(), sample::make(3), lossy()];
    let [copier, make, lossy] = traces.map(|trace| report(&trace));
    [copier, make, lossy, everything(), hostile()]
}

fn in_format(report: &Report, format: Format) -> String {
    render(report, format, &Options::default())
}

/// A report whose names contain the special characters of the formats.
fn hostile() -> Report {
    let mut report = report(&sample::copier());
    let name = "a,\"b\"|*c*\r\n`d`\\ <br> | x";
    report.command = vec![name.into()];
    report.processes[0].comm = Some(name.into());
    for rows in [
        &mut report.totals.syscalls,
        &mut report.processes[0].syscalls,
    ] {
        rows[0].name = name.into();
        rows[0].errnos = BTreeMap::from([(name.to_owned(), 1)]);
    }
    report
}

#[test]
fn csv_has_every_figure() {
    for report in samples() {
        let text = in_format(&report, Format::Csv);
        assert!(text.lines().count() > 1 && text.ends_with("\r\n"));
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let lines: Vec<BTreeMap<String, String>> = reader
            .deserialize()
            .collect::<Result<_, _>>()
            .expect("is CSV");
        let expected: Vec<(&str, &Syscall)> = report
            .processes
            .iter()
            .flat_map(|process| {
                process
                    .syscalls
                    .iter()
                    .map(|call| (process.comm.as_deref().unwrap_or_default(), call))
            })
            .collect();
        assert_eq!(lines.len(), expected.len());
        let text =
            |figure: Option<u64>| figure.map(|figure| figure.to_string()).unwrap_or_default();
        for (line, (comm, call)) in lines.iter().zip(expected) {
            assert_eq!(
                (line["comm"].as_str(), &line["syscall"]),
                (comm, &call.name)
            );
            assert_eq!(
                (&line["calls"], &line["errors"]),
                (&call.calls.to_string(), &call.errors.to_string())
            );
            assert_eq!(
                [&line["bytes"], &line["max_ns"]],
                [&text(call.bytes), &text(call.max_ns)]
            );
            assert_eq!(line["exact"], report.exact.to_string());
        }
    }
}

#[test]
fn csv_counts_a_call_once() {
    let calls = |detail| {
        let report = Report::from_trace(&sample::copier(), &by_detail(detail));
        let text = in_format(&report, Format::Csv);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let lines: Vec<BTreeMap<String, String>> = reader
            .deserialize()
            .collect::<Result<_, _>>()
            .expect("is CSV");
        lines
            .iter()
            .map(|line| line["calls"].parse::<u64>().expect("a number"))
            .sum::<u64>()
    };
    let [by_process, by_thread, total] =
        [Detail::Process, Detail::Thread, Detail::Total].map(calls);
    assert!(by_process > 0 && by_process == by_thread && by_process == total);
}

#[test]
fn csv_without_calls_has_a_header() {
    let text = in_format(&report(&sample::nothing()), Format::Csv);
    assert!(
        text.starts_with("pid,tid,comm,syscall,") && text.lines().count() == 1,
        "{text}"
    );
}

/// The tables of a document, cell by cell; and all its other text.
fn read_markdown(text: &str) -> (Vec<Vec<Vec<String>>>, String) {
    let (mut tables, mut rest, mut in_cell) = (Vec::new(), String::new(), false);
    for event in Parser::new_ext(
        text,
        Extensions::ENABLE_TABLES | Extensions::ENABLE_STRIKETHROUGH,
    ) {
        match event {
            Event::Start(Tag::Table(_)) => tables.push(Vec::new()),
            Event::Start(Tag::TableHead | Tag::TableRow) => {
                tables.last_mut().expect("in a table").push(Vec::new())
            }
            Event::Start(Tag::TableCell) => {
                in_cell = true;
                tables
                    .last_mut()
                    .and_then(|table: &mut Vec<Vec<String>>| table.last_mut())
                    .expect("in a row")
                    .push(String::new());
            }
            Event::End(TagEnd::TableCell) => in_cell = false,
            Event::Text(text) | Event::Code(text) if in_cell => {
                let cell = tables
                    .last_mut()
                    .and_then(|table| table.last_mut())
                    .and_then(|row| row.last_mut());
                cell.expect("in a cell").push_str(&text);
            }
            Event::Text(text) | Event::Code(text) => rest.push_str(&text),
            Event::SoftBreak | Event::HardBreak | Event::End(_) => rest.push('\n'),
            Event::Html(_) | Event::InlineHtml(_) => panic!("no HTML: {event:?}"),
            Event::Start(
                Tag::Emphasis
                | Tag::Link { .. }
                | Tag::Image { .. }
                | Tag::CodeBlock(_)
                | Tag::Strikethrough,
            ) => {
                panic!("unexpected markup: {event:?} in {text}")
            }
            _ => {}
        }
    }
    (tables, rest)
}

#[test]
fn markdown_has_every_table() {
    for report in samples() {
        let text = in_format(&report, Format::Markdown);
        let (tables, rest) = read_markdown(&text);
        let (programs, tables): (Vec<_>, Vec<_>) = tables
            .into_iter()
            .partition(|table| table[0][0] == "program");
        let names: Vec<&str> = programs
            .iter()
            .flat_map(|table| &table[1..])
            .map(|row| row[0].as_str())
            .collect();
        assert_eq!(
            names,
            report
                .programs
                .iter()
                .filter_map(|program| program.name.as_deref())
                .collect::<Vec<_>>()
        );
        let total = (report.processes.len() != 1).then_some(&report.totals.syscalls);
        let expected: Vec<&Vec<Syscall>> = total
            .into_iter()
            .chain(report.processes.iter().map(|process| &process.syscalls))
            .collect();
        assert_eq!(tables.len(), expected.len(), "{text}");
        for (table, syscalls) in tables.iter().zip(expected) {
            assert_eq!(table[0][..2], ["syscall", "calls"]);
            let found: Vec<(&str, &str)> = table[1..]
                .iter()
                .map(|row| (row[0].as_str(), row[1].as_str()))
                .collect();
            let returned = syscalls.iter().filter(|call| call.calls > 0);
            let expected: Vec<(String, String)> = returned
                .map(|call| (columns::name(call), call.calls.to_string()))
                .collect();
            assert_eq!(
                found,
                expected
                    .iter()
                    .map(|(name, calls)| (name.as_str(), calls.as_str()))
                    .collect::<Vec<_>>()
            );
            assert!(table.iter().all(|row| row.len() == table[0].len()));
        }
        assert!(
            rest.contains(&head::command(&report))
                && rest.contains(&format!("backend {}", report.backend)),
            "{rest}"
        );
        for transfer in &report.transfers {
            assert!(
                rest.contains(&escape(transfer.from.path.as_deref().unwrap_or_default())),
                "{rest}"
            );
        }
    }
}
