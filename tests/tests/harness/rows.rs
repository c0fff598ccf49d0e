//! Comparing a report's rows with what is known of them.

use std::{collections::BTreeSet, env::consts::ARCH, fmt::Debug};

use zc_tests::{Figure, Figures};
use zctrace::report::{Process, Syscall};

/// Somebody's rows.
pub struct Rows<'a> {
    whose: String,
    rows: &'a [Syscall],
}

impl<'a> Rows<'a> {
    pub fn new(whose: impl Into<String>, rows: &'a [Syscall]) -> Self {
        Self { whose: whose.into(), rows }
    }

    /// A process's rows.
    pub fn of(process: &'a Process) -> Self {
        let name = process.comm.as_deref().unwrap_or("nameless");
        Self::new(format!("process {name} ({})", process.pid), &process.syscalls)
    }

    /// The row of one of the machine's own calls; all zero if it is not there.
    pub fn row(&self, name: &str) -> Figure {
        self.figures().remove(name).unwrap_or_default()
    }

    /// All rows by name. A call through another ABI than the machine's is called `write@i386`.
    pub fn figures(&self) -> Figures {
        let named = |row: &Syscall| if row.abi == ARCH { row.name.clone() } else { format!("{}@{}", row.name, row.abi) };
        let figures: Figures = self.rows.iter().map(|row| (named(row), figure(row))).collect();
        assert_eq!(figures.len(), self.rows.len(), "{}: no call has two rows", self.whose);
        figures
    }

    /// Makes sure that there are exactly these rows, figure by figure.
    #[track_caller]
    pub fn assert_equal(&self, expected: &Figures) {
        let differences = self.differences(expected);
        assert!(differences.is_empty(), "{}:\n  {}", self.whose, differences.join("\n  "));
    }

    /// Makes sure that these rows are there, figure by figure, whatever else is.
    #[track_caller]
    pub fn assert_contain(&self, expected: &Figures) {
        let differences: Vec<String> =
            expected.iter().flat_map(|(name, expected)| compare(name, expected, &self.row(name), not_equal)).collect();
        assert!(differences.is_empty(), "{}:\n  {}", self.whose, differences.join("\n  "));
    }

    /// Makes sure that nothing was counted that did not happen.
    #[track_caller]
    pub fn assert_at_most(&self, expected: &Figures) {
        let none = Figure { bytes: Some(0), requested_bytes: Some(0), ..Figure::default() };
        let excesses: Vec<String> = (self.figures().iter())
            .flat_map(|(name, found)| compare(name, expected.get(name).unwrap_or(&none), found, more))
            .collect();
        assert!(excesses.is_empty(), "{}:\n  {}", self.whose, excesses.join("\n  "));
    }

    /// Where the rows differ, each a line for a person.
    pub fn differences(&self, expected: &Figures) -> Vec<String> {
        let found = self.figures();
        let names: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
        let difference = |name: &String| match (expected.get(name), found.get(name)) {
            (Some(expected), Some(found)) => compare(name, expected, found, not_equal),
            (Some(expected), None) => vec![format!("{name}: missing; expected {expected:?}")],
            (None, found) => vec![format!("{name}: not expected; found {found:?}")],
        };
        names.into_iter().flat_map(difference).collect()
    }
}

/// The figures of a row, without its times.
fn figure(row: &Syscall) -> Figure {
    Figure {
        calls: row.calls,
        errors: row.errors,
        errnos: row.errnos.clone(),
        unfinished: row.unfinished,
        bytes: row.bytes,
        requested_bytes: row.requested_bytes,
    }
}

/// How two figures may not be: the expected one, and the one found.
type IsWrong = fn(Option<u64>, Option<u64>) -> bool;

fn not_equal(expected: Option<u64>, found: Option<u64>) -> bool {
    expected != found
}

fn more(expected: Option<u64>, found: Option<u64>) -> bool {
    found.zip(expected).is_some_and(|(found, expected)| found > expected)
}

fn compare(name: &str, expected: &Figure, found: &Figure, is_wrong: IsWrong) -> Vec<String> {
    let wrong = |figure: &str, expected: &dyn Debug, found: &dyn Debug| {
        format!("{name}.{figure}: expected {expected:?}, found {found:?}")
    };
    let mut lines = Vec::new();
    for (figure, expected, found) in [
        ("calls", Some(expected.calls), Some(found.calls)),
        ("errors", Some(expected.errors), Some(found.errors)),
        ("unfinished", Some(expected.unfinished), Some(found.unfinished)),
        ("bytes", expected.bytes, found.bytes),
        ("requested_bytes", expected.requested_bytes, found.requested_bytes),
    ] {
        if is_wrong(expected, found) {
            lines.push(wrong(figure, &expected, &found));
        }
    }
    let errnos: BTreeSet<&String> = expected.errnos.keys().chain(found.errnos.keys()).collect();
    let count = |figure: &Figure, errno| Some(figure.errnos.get(errno).copied().unwrap_or(0));
    if errnos.into_iter().any(|errno| is_wrong(count(expected, errno), count(found, errno))) {
        lines.push(wrong("errnos", &expected.errnos, &found.errnos));
    }
    lines
}
