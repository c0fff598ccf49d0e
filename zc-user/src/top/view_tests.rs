//! The view of made-up spans, as a terminal shows it.

use ratatui::{Terminal, backend::TestBackend};
use zctrace_core::report::sample::files::scene;

use super::{
    KeyEffect, KeyPress, LiveModel, LiveView, columns::LiveColumn, draw, figures::LiveFigures,
    span_rows::Grouping,
};
use crate::trace::{Span, State, Trace};

const SECOND: u64 = 1_000_000_000;

/// A span of a second that ends then.
fn add_span(model: &mut LiveModel, second: u64, processes: &str) {
    model.apply(&span(processes, second - 1, second));
}

/// The trace of a span between these seconds. Processes whose name ends with an exclamation mark
/// have ended.
fn span(processes: &str, since: u64, until: u64) -> Trace {
    let mut trace = scene(processes).trace;
    trace.span = Some(Span {
        name: None,
        since_ns: since * SECOND,
        until_ns: until * SECOND,
        earlier_ns: 0,
    });
    for (tid, process) in (4100..).zip(&mut trace.processes) {
        let name = process.comm.take().expect("has one");
        process.state = if name.ends_with('!') {
            State::Exited
        } else {
            State::Running
        };
        let name = name.trim_end_matches('!');
        process.comm = Some(name.to_owned());
        process.pid = tid;
        for thread in &mut process.threads {
            thread.tid = tid;
            thread.comm = process.comm.clone();
        }
    }
    trace
}

const SERVER: &str =
    "nginx: sendfile index.html->tcp 1200 12M 3000..4200ns, accept4 tcp 0 0 EAGAIN*1 100+100ns";
const COPY: &str = "cp!: read in 16 1M 2000..2016ns, write in>out 16 1M 9000..9016ns";

/// A server that goes on, and a copy that ended in the second of three spans.
fn server() -> LiveModel {
    let mut model = LiveModel::new("./serve --port 80".to_owned());
    add_span(
        &mut model,
        1,
        &format!("{SERVER}; cp: read in 4 4096 5000..5004ns"),
    );
    add_span(&mut model, 2, &format!("{SERVER}; {COPY}"));
    add_span(&mut model, 3, SERVER);
    model
}

fn pressed(model: &LiveModel, keys: &str) -> LiveView {
    let mut view = LiveView::default();
    press(&mut view, model, keys);
    view
}

fn press(view: &mut LiveView, model: &LiveModel, keys: &str) {
    for key in super::parse_keys(keys.as_bytes()) {
        assert_eq!(view.press(key, model), KeyEffect::None);
    }
}

/// What a terminal of this size shows.
fn screen(size: (u16, u16), model: &LiveModel, view: &mut LiveView) -> String {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("fits");
    terminal
        .draw(|frame| draw(frame, model, view))
        .expect("draws");
    let cells = terminal.backend().buffer().content().chunks(size.0.into());
    let line = |cells: &[ratatui::buffer::Cell]| {
        let text: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.trim_end().to_owned() + "\n"
    };
    cells.map(line).collect()
}

/// The names of the rows, in their order.
fn names(model: &LiveModel, view: &LiveView) -> Vec<String> {
    let rows = view.rows(view.shown(model));
    rows.iter().map(|(key, _)| key.name.clone()).collect()
}

#[test]
fn every_view_has_a_snapshot() {
    let model = server();
    let mut shown = String::new();
    let narrow = (80, 24);
    for (title, size, keys) in [
        ("programs", narrow, ""),
        ("processes, the calls of one", narrow, "P\x1b[B\r"),
        ("threads, sorted by name, reversed", narrow, "t<r"),
        ("files", narrow, "f"),
        ("transfers", narrow, "x"),
        ("a filter is typed", narrow, "P/NG"),
        ("frozen", narrow, " "),
        ("help", narrow, "?"),
        ("processes with all columns", (200, 50), "P"),
    ] {
        let mut view = pressed(&model, keys);
        let text = screen(size, &model, &mut view);
        shown = format!("{shown}== {title}, {}x{}\n{text}", size.0, size.1);
    }
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!("views", shown) });
}

#[test]
fn no_size_of_the_terminal_is_too_small() {
    let model = server();
    for keys in ["", "P\r", "?", "/x"] {
        for width in [1, 7, 30, 80] {
            for height in [1, 3, 9, 24] {
                screen((width, height), &model, &mut pressed(&model, keys));
            }
        }
    }
    let empty = LiveModel::new(String::new());
    screen((80, 24), &empty, &mut pressed(&empty, "P\x1b[B\r"));
}

#[test]
fn rates_are_those_of_the_last_span_and_totals_those_of_all() {
    let model = server();
    let view = pressed(&model, "");
    let rows = view.rows(&model);
    let sums = |name: &str| {
        rows.iter()
            .find(|row| row.0.name == name)
            .expect(name)
            .1
            .sums
    };
    let nginx = sums("nginx");
    assert_eq!(
        (nginx.last.calls, nginx.total.calls),
        (Some(2403), Some(7209))
    );
    assert_eq!((nginx.last.errors, nginx.total.errors), (Some(1), Some(3)));
    let moved = (nginx.last.bytes, nginx.total.bytes);
    assert_eq!(moved, (Some(12 << 20), Some(36 << 20)));
    let cp = sums("cp");
    assert_eq!((cp.last, cp.total.calls), (LiveFigures::NONE, Some(72)));
    assert_eq!((cp.p99_ns, cp.total.bytes), (None, Some((2 << 20) + 4096)));
    let whole = model.whole;
    assert_eq!(
        (whole.last.calls, whole.total.calls),
        (Some(2403), Some(7281))
    );
}

#[test]
fn a_rate_is_per_second_however_long_the_span_was() {
    let mut model = LiveModel::new(String::new());
    assert_eq!(model.per_second(5), None);
    model.apply(&span(SERVER, 1, 3));
    assert_eq!(
        [5, 4, 0].map(|figure| model.per_second(figure)),
        [Some(3), Some(2), Some(0)]
    );
}

#[test]
fn a_process_stays_for_ten_seconds_after_its_end_and_then_in_a_sum() {
    let mut model = server();
    let view = pressed(&model, "P");
    for second in 4..=12 {
        add_span(&mut model, second, SERVER);
        assert_eq!(
            names(&model, &view),
            ["nginx (4100)", "cp (4101)"],
            "{second}"
        );
    }
    add_span(&mut model, 13, SERVER);
    let sum = "(no longer listed: 1)";
    assert_eq!(names(&model, &view), ["nginx (4100)", sum]);
    let calls = |model: &LiveModel, name: &str| {
        let mut rows = model.rows(Grouping::Process);
        let row = rows.find(|row| row.0.name == name);
        row.and_then(|row| row.1.sums.total.calls)
    };
    assert_eq!(calls(&model, sum), Some(72));
    // Another process with the same id and name.
    add_span(&mut model, 14, &format!("{SERVER}; {COPY}"));
    assert_eq!(names(&model, &view), ["nginx (4100)", "cp (4101)", sum]);
    assert_eq!(calls(&model, "cp (4101)"), Some(64));
}

#[test]
fn a_row_that_comes_back_has_not_ended() {
    let mut model = LiveModel::new(String::new());
    let both = format!("{SERVER}; cp: read in 4 4096 5000..5004ns");
    for (second, processes) in [(1, &both), (2, &SERVER.to_owned()), (3, &both)] {
        add_span(&mut model, second, processes);
        let mut rows = model.rows(Grouping::Process);
        let row = rows.find(|row| row.0.name == "cp (4101)").expect("known");
        assert_eq!(row.1.ended_ns, (second == 2).then_some(2 * SECOND));
    }
}

#[test]
fn a_frozen_view_stands_still_while_counting_goes_on() {
    let mut model = server();
    let mut view = pressed(&model, " P");
    add_span(
        &mut model,
        4,
        &format!("{SERVER}; {COPY}; late: read in 1 1 5ns"),
    );
    assert_eq!(names(&model, &view), ["nginx (4100)", "cp (4101)"]);
    assert_eq!(view.shown(&model).elapsed_ns, 3 * SECOND);
    press(&mut view, &model, " ");
    assert_eq!(names(&model, &view).len(), 3);
    assert_eq!(model.whole.total.calls, Some(7281 + 2403 + 64 + 2));
}

#[test]
fn keys_sort_filter_and_select() {
    let model = server();
    let mut view = pressed(&model, "P>>");
    assert_eq!(view.sort, LiveColumn::ByteRate);
    press(&mut view, &model, "<<<<");
    assert_eq!(view.sort, LiveColumn::Interface);
    press(&mut view, &model, "s");
    assert_eq!(names(&model, &view), ["cp (4101)", "nginx (4100)"]);
    press(&mut view, &model, "r");
    assert_eq!(names(&model, &view), ["nginx (4100)", "cp (4101)"]);
    press(&mut view, &model, "/Q?\x7f\x7fCP\r");
    assert_eq!(
        (names(&model, &view), view.is_typing),
        (vec!["cp (4101)".to_owned()], false)
    );
    press(&mut view, &model, "\x1b[B\x1b[B\x1b");
    let selected = view.selected.as_ref().map(|key| key.name.as_str());
    assert_eq!(
        (selected, names(&model, &view).len()),
        (Some("cp (4101)"), 2)
    );
    // A grouping without a column is not sorted by it. Files are sorted by their bytes.
    let sorted = |keys| pressed(&model, keys).sort;
    assert_eq!(sorted("P>>>>f"), LiveColumn::ByteRate);
    assert_eq!(sorted("fx"), LiveColumn::ByteRate);
    assert_eq!(sorted("f>x"), LiveColumn::TimeRate);
    assert_eq!(sorted("xP"), LiveColumn::CallRate);
}

#[test]
fn the_selected_row_is_always_on_the_screen() {
    let mut model = LiveModel::new(String::new());
    let many: Vec<String> = (0..40)
        .map(|index| format!("p{index:02}: read in 1 1 5ns"))
        .collect();
    add_span(&mut model, 1, &many.join("; "));
    let mut view = pressed(&model, "P<");
    for (keys, first, last) in [
        ("", "p00 (4100)", "p14 (4114)"),
        ("\x1b[6~", "p01 (4101)", "p15 (4115)"),
        ("\x1b[F", "p25 (4125)", "p39 (4139)"),
        ("\x1b[A", "p25 (4125)", "p39 (4139)"),
        ("\x1b[H", "p00 (4100)", "p14 (4114)"),
    ] {
        press(&mut view, &model, keys);
        let text = screen((80, 24), &model, &mut view);
        let rows: Vec<&str> = text.lines().skip(4).take(15).collect();
        let shown = rows[0].starts_with(first) && rows[14].starts_with(last);
        assert!(shown, "{keys:?}: {text}");
    }
}

#[test]
fn keys_end_the_view_or_interrupt_the_command() {
    let model = server();
    let mut view = LiveView::default();
    assert_eq!(view.press(KeyPress::Char('q'), &model), KeyEffect::Quit);
    // In a filter and over the help it is a letter.
    press(&mut view, &model, "/q\r?q");
    assert_eq!((view.filter.as_str(), view.shows_help), ("q", false));
    assert_eq!(
        view.press(KeyPress::Interrupt, &model),
        KeyEffect::Interrupt
    );
}
