//! Two backends side by side: one figure where they agree, both where they differ.

use super::{
    Options,
    page::{Page, Style},
    ruled, text,
    units::UNKNOWN,
};
use crate::verify::{Comparison, Figures, Row};

/// The comparison for a person. The first line says whether they agree.
pub(super) fn render(comparison: &Comparison, options: &Options) -> String {
    let mut page = Page::new(options);
    let [first, second] = &comparison.backends;
    let different = comparison.rows.iter().filter(|row| !row.equal).count();
    if different == 0 {
        page.line(0, Style::Good, &format!("equal: {first} and {second} count the same for all {} calls", comparison.rows.len()));
    } else {
        let line = format!("DIFFERENT: {different} of {} calls ({first} ≠ {second})", comparison.rows.len());
        page.line(0, Style::Bad, &line);
    }
    page.line(0, Style::Plain, &format!("command: {}", text::command_line(&comparison.command)));
    for (backend, _) in comparison.backends.iter().zip(comparison.exact).filter(|(_, exact)| !exact) {
        page.line(0, Style::Warning, &format!("{backend}: a lower bound, see its own report (--backend {backend})"));
    }
    page.gap();
    let mut table = ruled::table();
    table.set_header(["syscall", "calls", "errors", "bytes", "requested"]);
    for row in &comparison.rows {
        table.add_row(cells(row));
    }
    ruled::align(&mut table);
    for (index, line) in ruled::lines(&table).iter().enumerate() {
        // Two lines of titles, then a line for each row.
        let is_different = index.checked_sub(2).and_then(|row| comparison.rows.get(row)).is_some_and(|row| !row.equal);
        page.line(2, if is_different { Style::Bad } else { Style::Plain }, line);
    }
    page.finish()
}

fn cells(row: &Row) -> [String; 5] {
    let both = |show: fn(&Figures) -> String| {
        let [first, second] = row.figures.each_ref().map(show);
        if first == second { first } else { format!("{first} ≠ {second}") }
    };
    let name =
        if row.abi == crate::syscall::Abi::NATIVE.name() { row.name.clone() } else { format!("{} ({})", row.name, row.abi) };
    [name, both(|f| f.calls.to_string()), both(errors), both(|f| known(f.bytes)), both(|f| known(f.requested_bytes))]
}

/// By errno, since that is what must agree.
fn errors(figures: &Figures) -> String {
    let errnos: Vec<String> = figures.errnos.iter().map(|(name, count)| format!("{name} {count}")).collect();
    if errnos.is_empty() { "0".to_owned() } else { errnos.join(", ") }
}

fn known(number: Option<u64>) -> String {
    number.map_or_else(|| UNKNOWN.to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, first: u64, second: u64) -> Row {
        let figures = [first, second].map(|calls| Figures { calls, bytes: Some(calls * 10), ..Figures::default() });
        Row { name: name.into(), abi: crate::syscall::Abi::NATIVE.name().into(), equal: first == second, figures }
    }

    fn comparison(rows: Vec<Row>) -> String {
        let backends = ["ebpf", "strace"].map(String::from);
        render(
            &Comparison {
                command: vec!["cp".into(), "a b".into()],
                backends,
                exact: [true, true],
                equal: rows.iter().all(|row| row.equal),
                rows,
            },
            &Options::default(),
        )
    }

    #[test]
    fn what_agrees_is_shown_once() {
        let text = comparison(vec![row("read", 3, 3)]);
        assert!(text.starts_with("equal: ebpf and strace count the same for all 1 calls\n"), "{text}");
        assert!(text.contains("  read         3       0     30          -\n"), "{text}");
    }

    #[test]
    fn what_differs_is_shown_twice() {
        let text = comparison(vec![row("read", 3, 3), row("write", 4, 5)]);
        assert!(text.starts_with("DIFFERENT: 1 of 2 calls (ebpf ≠ strace)\n"), "{text}");
        assert!(text.contains("4 ≠ 5") && text.contains("40 ≠ 50"), "{text}");
    }
}
