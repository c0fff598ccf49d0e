//! A report as a few lines of text, for tests and small programs. The program `zctrace` has the
//! tables.

use std::fmt;

use super::{Exit, Report, Syscall, Transfer};
use crate::{
    signal,
    text::{command_line, escape, plural},
    units,
};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", command_line(&self.command))?;
        // A closure has none.
        if self.exit != Exit::default() {
            write!(f, "{}, ", self.exit)?;
        }
        let wall = self.wall_ns.map(units::duration);
        let wall = wall.unwrap_or(units::UNKNOWN.to_owned());
        write!(f, "wall {wall}, {}", self.bound())?;
        for call in &self.totals.syscalls {
            write!(f, "\n  {}", of_call(call))?;
        }
        for transfer in &self.transfers {
            write!(f, "\n  {}", of_transfer(transfer))?;
        }
        for note in &self.notes {
            write!(f, "\n  note: {}", escape(note))?;
        }
        Ok(())
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit {code}"),
            (None, Some(number)) => write!(f, "killed by {}", signal::name(number)),
            (None, None) => write!(f, "exit {}", units::UNKNOWN),
        }
    }
}

/// `read: 9 calls, 2 errors, 7.3 KiB, 32.5 µs`.
fn of_call(call: &Syscall) -> String {
    let mut parts = vec![plural(call.calls, "call", "calls")];
    parts.extend((call.errors > 0).then_some(plural(call.errors, "error", "errors")));
    parts.extend((call.unfinished > 0).then_some(format!("{} unfinished", call.unfinished)));
    parts.extend(call.bytes.map(units::bytes));
    parts.extend(call.total_ns.map(units::duration));
    format!("{}: {}", escape(&call.name), parts.join(", "))
}

/// `in -> out: 2.9 MiB: copy_file_range, 1 call of 2.9 MiB`.
fn of_transfer(transfer: &Transfer) -> String {
    let [from, to] = [&transfer.from, &transfer.to].map(|end| {
        let kind = end.kind.as_deref().unwrap_or("unknown file");
        escape(end.name().unwrap_or(kind))
    });
    let observed = transfer.observed_bytes.unwrap_or(0);
    let amount = |bytes| transfer.certainty.bytes_text(bytes, observed);
    let bytes = transfer.bytes.map_or(units::UNKNOWN.to_owned(), amount);
    format!("{from} -> {to}: {bytes}: {}", escape(&transfer.verdict))
}

#[cfg(test)]
mod tests {
    use crate::report::sample::files::scene;

    #[test]
    fn a_report_is_shown_in_a_line_for_each_call_and_transfer() {
        let mut report = scene("cp: copy_file_range in->out 2 1048576 +1, read - 3 1000").report();
        (report.wall_ns, report.exit.code) = (Some(4_300_000), Some(0));
        let shown = report.to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].ends_with("exit 0, wall 4.30 ms, exact"), "{shown}");
        for line in [
            "  copy_file_range: 3 calls, 1.0 MiB",
            "  read: 3 calls, 1000 B",
            "  in -> out: 1.0 MiB: copy_file_range, ",
        ] {
            assert!(shown.contains(line), "{shown}");
        }
    }
}
