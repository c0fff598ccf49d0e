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

/// The lines of CSV, by column.
fn read_csv(report: &Report) -> Vec<BTreeMap<String, String>> {
    let text = in_format(report, Format::Csv);
    assert!(text.ends_with("\r\n"), "{text}");
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let lines = reader.deserialize().collect::<Result<_, _>>();
    lines.expect("is CSV")
}

#[test]
fn csv_keeps_hostile_names() {
    let lines = read_csv(&hostile());
    let call = &hostile().processes[0].syscalls[0];
    for (column, text) in [
        ("comm", &call.name),
        ("syscall", &call.name),
        ("calls", &call.calls.to_string()),
    ] {
        assert_eq!(&lines[0][column], text);
    }
}

#[test]
fn csv_counts_a_call_once() {
    let calls = |detail| {
        let report = Report::from_trace(&sample::copier(), &by_detail(detail));
        let calls = |line: &BTreeMap<String, String>| line["calls"].parse::<u64>();
        let calls: Result<Vec<u64>, _> = read_csv(&report).iter().map(calls).collect();
        calls.expect("are numbers").into_iter().sum::<u64>()
    };
    let [by_process, by_thread, total] =
        [Detail::Process, Detail::Thread, Detail::Total].map(calls);
    assert!(by_process > 0 && by_process == by_thread && by_process == total);
    let nothing = in_format(&report(&sample::nothing()), Format::Csv);
    assert!(nothing.starts_with("pid,tid,comm,syscall,") && nothing.lines().count() == 1);
}

/// The row that is being read.
fn last_row(tables: &mut [Vec<Vec<String>>]) -> &mut Vec<String> {
    let table = tables.last_mut().expect("in a table");
    table.last_mut().expect("in a row")
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
                tables.last_mut().expect("in a table").push(Vec::new());
            }
            Event::Start(Tag::TableCell) => {
                in_cell = true;
                last_row(&mut tables).push(String::new());
            }
            Event::End(TagEnd::TableCell) => in_cell = false,
            Event::Text(text) | Event::Code(text) if in_cell => {
                let cell = last_row(&mut tables).last_mut();
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

/// The first cells of each row of a table, below its titles.
fn first_cells<const N: usize>(table: &[Vec<String>]) -> Vec<[String; N]> {
    let first = |row: &Vec<String>| std::array::from_fn(|column| row[column].clone());
    table[1..].iter().map(first).collect()
}

#[test]
fn markdown_has_every_table() {
    for report in samples() {
        let text = in_format(&report, Format::Markdown);
        let (mut tables, rest) = read_markdown(&text);
        if !report.programs.is_empty() {
            let names = report.programs.iter().filter_map(|of| of.name.clone());
            let expected: Vec<[String; 1]> = names.map(|name| [name]).collect();
            assert_eq!(first_cells(&tables.remove(0)), expected, "{text}");
        }
        let of_calls = tables.iter().filter(|table| table[0][0] == "syscall");
        let tables: Vec<_> = of_calls.collect();
        let total = (report.processes.len() != 1).then_some(&report.totals.syscalls);
        let of_processes = report.processes.iter().map(|process| &process.syscalls);
        let expected: Vec<&Vec<Syscall>> = total.into_iter().chain(of_processes).collect();
        assert_eq!(tables.len(), expected.len(), "{text}");
        for (table, syscalls) in tables.into_iter().zip(expected) {
            assert_eq!(table[0][..2], ["syscall", "calls"]);
            let returned = syscalls.iter().filter(|call| call.calls > 0);
            let expected: Vec<[String; 2]> = returned
                .map(|call| [calls::name(call), call.calls.to_string()])
                .collect();
            assert_eq!(first_cells(table), expected);
            assert!(table.iter().all(|row| row.len() == table[0].len()));
        }
        let backend = format!("backend {}", report.backend);
        assert_has(&rest, &[&head::command(&report), &backend]);
        for path in report
            .transfers
            .iter()
            .filter_map(|of| of.from.path.as_ref())
        {
            assert_has(&rest, &[&escape(path)]);
        }
    }
}
