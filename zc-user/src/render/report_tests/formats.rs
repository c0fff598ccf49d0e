//! CSV and Markdown, read by independent parsers.

use pulldown_cmark::{Event, Options as Extensions, Parser, Tag, TagEnd};

use super::*;

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
fn csv_keeps_hostile_names_but_no_formulas_and_no_control_characters() {
    for (name, cell) in [
        ("a,\"b\"|*c*\r\n`d`", r#"a,"b"|*c*\r\n`d`"#),
        ("=cmd|calc!A0", "'=cmd|calc!A0"),
        ("+1+1", "'+1+1"),
        ("-1", "'-1"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", r"\t=1"),
        ("a\x1b[2J\r", r"a\u{1b}[2J\r"),
    ] {
        let mut report = hostile();
        report.processes[0].comm = Some(name.into());
        report.processes[0].syscalls[0].name = name.into();
        let line = &read_csv(&report)[0];
        let names = (line["comm"].as_str(), line["syscall"].as_str());
        assert_eq!(names, (cell, cell));
        let calls = report.processes[0].syscalls[0].calls;
        assert_eq!(line["calls"], calls.to_string());
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

/// The cells of all tables of a document, without what stands below the name of a row, and all its other
/// text. No text is taken for markup.
fn read_markdown(text: &str) -> (Vec<String>, String) {
    let (mut cells, mut rest, mut in_cell) = (Vec::new(), String::new(), false);
    let extensions = Extensions::ENABLE_TABLES | Extensions::ENABLE_STRIKETHROUGH;
    for event in Parser::new_ext(text, extensions) {
        match event {
            Event::Start(Tag::TableCell) => {
                in_cell = true;
                cells.push(String::new());
            }
            Event::End(TagEnd::TableCell) => in_cell = false,
            Event::InlineHtml(tag) if in_cell && *tag == *"<br>" => in_cell = false,
            Event::Text(text) | Event::Code(text) => match cells.last_mut() {
                Some(cell) if in_cell => cell.push_str(&text),
                _ => rest.push_str(&text),
            },
            Event::SoftBreak | Event::HardBreak | Event::End(_) => rest.push('\n'),
            Event::Html(_)
            | Event::InlineHtml(_)
            | Event::Start(
                Tag::Emphasis
                | Tag::Link { .. }
                | Tag::Image { .. }
                | Tag::CodeBlock(_)
                | Tag::Strikethrough,
            ) => panic!("unexpected markup: {event:?} in {text}"),
            _ => {}
        }
    }
    (cells, rest)
}

#[test]
fn markdown_has_every_call_and_every_name() {
    for report in samples() {
        let text = in_format(&report, Format::Markdown);
        let (cells, rest) = read_markdown(&text);
        let syscalls = report.totals.syscalls.iter();
        for call in syscalls.filter(|call| call.calls > 0) {
            let expected = [calls::name(call), call.calls.to_string()];
            assert!(cells.windows(2).any(|cells| cells == expected), "{text}");
        }
        for name in report.programs.iter().filter_map(|of| of.name.as_ref()) {
            assert!(cells.contains(name), "{text}");
        }
        let backend = format!("backend {}", report.backend);
        assert_has(&rest, &[&head::command(&report), &backend]);
        let sources = report.transfers.iter().map(|transfer| &transfer.from);
        for path in sources.filter_map(|from| from.path.as_ref()) {
            assert_has(&rest, &[&escape(path)]);
        }
    }
}
