//! `--verify` for a person: one figure where the backends agree, both where they differ.

use super::{
    page::{Options, Page, Style, align_columns, ruled_table, table_lines, words},
    section::plural,
    text,
};
use crate::{
    report::Certainty,
    units::UNKNOWN,
    verify::{CallFigures, CallRow, Comparison, TransferFigures, TransferRow},
};

/// The page. Its first line says whether the backends agree.
pub(super) fn render(comparison: &Comparison, options: &Options) -> String {
    let mut page = Page::new(options);
    let [first, second] = &comparison.backends;
    let calls = plural(comparison.rows.len() as u64, "call", "calls");
    let transfers = plural(comparison.transfers.len() as u64, "transfer", "transfers");
    if comparison.equal {
        let line =
            format!("equal: {first} and {second} count the same for all: {calls}, {transfers}");
        page.line(0, Style::Good, &line);
    } else {
        let rows = comparison.rows.iter().filter(|row| !row.equal).count();
        let moved = comparison
            .transfers
            .iter()
            .filter(|moved| !moved.equal)
            .count();
        let line =
            format!("DIFFERENT: {rows} of {calls}, {moved} of {transfers} ({first} ≠ {second})");
        page.line(0, Style::Bad, &line);
    }
    page.line(
        0,
        Style::Plain,
        &format!("command: {}", text::command_line(&comparison.command)),
    );
    for (backend, _) in comparison
        .backends
        .iter()
        .zip(comparison.exact)
        .filter(|(_, exact)| !exact)
    {
        page.line(
            0,
            Style::Warning,
            &format!("{backend}: a lower bound, see its own report (--backend {backend})"),
        );
    }
    page.gap();
    let mut table = ruled_table();
    table.set_header(["syscall", "calls", "errors", "bytes", "requested"]);
    for row in &comparison.rows {
        table.add_row(cells(row));
    }
    align_columns(&mut table);
    for (index, line) in table_lines(&table).iter().enumerate() {
        // The first two lines are the titles and the rule.
        let is_different = index
            .checked_sub(2)
            .and_then(|row| comparison.rows.get(row))
            .is_some_and(|row| !row.equal);
        page.line(
            2,
            if is_different {
                Style::Bad
            } else {
                Style::Plain
            },
            line,
        );
    }
    for moved in &comparison.transfers {
        page.flow(
            2,
            &words(
                &transfer(moved),
                if moved.equal {
                    Style::Plain
                } else {
                    Style::Bad
                },
            ),
        );
    }
    page.finish()
}

/// `in -> out: sendfile, 1024 bytes in 2 calls`. If the backends differ, what each of them saw:
/// with ` ≠ ` if only one can be right.
fn transfer(moved: &TransferRow) -> String {
    let show = |figures: &Option<TransferFigures>| {
        let Some(figures) = figures else {
            return "nothing".to_owned();
        };
        let attempts = figures
            .attempts
            .iter()
            .map(|attempt| format!(", after {} ({})", attempt.syscall, attempt.errno));
        let calls = figures.calls.map_or_else(
            || "calls unknown".to_owned(),
            |calls| plural(calls, "call", "calls"),
        );
        let prefix = match figures.certainty {
            Certainty::Observed => "",
            Certainty::Inferred => "probably ",
        };
        format!(
            "{prefix}{} bytes in {calls}{}",
            known(figures.bytes),
            attempts.collect::<String>()
        )
    };
    let [first, second] = moved.figures.each_ref().map(show);
    let figures = match moved.equal {
        true if first == second => first,
        true => format!("{first}; {second}"),
        false => format!("{first} ≠ {second}"),
    };
    format!(
        "{} -> {}: {}, {figures}",
        text::escape(&moved.from),
        text::escape(&moved.to),
        moved.api.name()
    )
}

fn cells(row: &CallRow) -> [String; 5] {
    let both = |show: fn(&CallFigures) -> String| {
        let [first, second] = row.figures.each_ref().map(show);
        if first == second {
            first
        } else {
            format!("{first} ≠ {second}")
        }
    };
    let name = if row.abi == crate::syscall::Abi::NATIVE.name() {
        row.name.clone()
    } else {
        format!("{} ({})", row.name, row.abi)
    };
    [
        name,
        both(|f| f.calls.to_string()),
        both(errors),
        both(|f| known(f.bytes)),
        both(|f| known(f.requested_bytes)),
    ]
}

/// Errors by errno, because the backends must agree on each errno.
fn errors(figures: &CallFigures) -> String {
    let errnos: Vec<String> = figures
        .errnos
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if errnos.is_empty() {
        "0".to_owned()
    } else {
        errnos.join(", ")
    }
}

fn known(number: Option<u64>) -> String {
    number.map_or_else(|| UNKNOWN.to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Api;

    fn row(name: &str, first: u64, second: u64) -> CallRow {
        let figures = [first, second].map(|calls| CallFigures {
            calls,
            bytes: Some(calls * 10),
            ..CallFigures::default()
        });
        CallRow {
            name: name.into(),
            abi: crate::syscall::Abi::NATIVE.name().into(),
            equal: first == second,
            figures,
        }
    }

    fn comparison(rows: Vec<CallRow>) -> String {
        comparison_with(rows, Vec::new())
    }

    fn comparison_with(rows: Vec<CallRow>, transfers: Vec<TransferRow>) -> String {
        let backends = ["ebpf", "strace"].map(String::from);
        render(
            &Comparison {
                command: vec!["cp".into(), "a b".into()],
                backends,
                exact: [true, true],
                equal: rows.iter().all(|row| row.equal)
                    && transfers.iter().all(|moved| moved.equal),
                rows,
                transfers,
            },
            &Options::default(),
        )
    }

    #[test]
    fn equal_figures_are_shown_once() {
        let text = comparison(vec![row("read", 3, 3)]);
        assert!(
            text.starts_with(
                "equal: ebpf and strace count the same for all: 1 call, 0 transfers\n"
            ),
            "{text}"
        );
        assert!(
            text.contains("  read         3       0     30          -\n"),
            "{text}"
        );
    }

    #[test]
    fn different_figures_are_both_shown() {
        let text = comparison(vec![row("read", 3, 3), row("write", 4, 5)]);
        assert!(
            text.starts_with("DIFFERENT: 1 of 2 calls, 0 of 0 transfers (ebpf ≠ strace)\n"),
            "{text}"
        );
        assert!(text.contains("4 ≠ 5") && text.contains("40 ≠ 50"), "{text}");
    }

    #[test]
    fn a_transfer_that_only_one_backend_saw_is_a_difference() {
        let figures = TransferFigures {
            certainty: Certainty::Observed,
            bytes: Some(1024),
            calls: Some(2),
            attempts: Vec::new(),
            is_by_call: true,
        };
        let moved = |second: Option<TransferFigures>| TransferRow {
            from: "in".into(),
            to: "out".into(),
            api: Api::Sendfile,
            equal: second.is_some(),
            figures: [Some(figures.clone()), second],
        };
        let text = comparison_with(
            vec![row("sendfile", 2, 2)],
            vec![moved(Some(figures.clone()))],
        );
        assert!(
            text.starts_with("equal: ")
                && text.contains("\n  in -> out: sendfile, 1024 bytes in 2 calls\n"),
            "{text}"
        );
        let text = comparison_with(vec![row("sendfile", 2, 2)], vec![moved(None)]);
        assert!(
            text.starts_with("DIFFERENT: 0 of 1 call, 1 of 1 transfer (ebpf ≠ strace)\n"),
            "{text}"
        );
        assert!(
            text.contains("\n  in -> out: sendfile, 1024 bytes in 2 calls ≠ nothing\n"),
            "{text}"
        );
    }
}
