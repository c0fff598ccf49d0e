//! Which tests and checks a guest runs.

/// Tests that no guest runs, by a part of their names, and why. The other tests depend on the
/// kernel: on its verifier, its tracepoints, its system calls and its rules for tracers.
const LEFT_OUT: [(&str, &str); 15] = [
    (
        "a_download_is_a_transfer_from_the_servers_file",
        "guests have no curl",
    ),
    (
        "callers::builds::",
        "guests have no C compiler and no binutils",
    ),
    (
        "check::",
        "results are judged the same way on every kernel; guests run the checks of zctrace.toml instead",
    ),
    (
        "compare::",
        "runs are compared the same way on every kernel",
    ),
    (
        "copiers::copies::",
        "the copiers by themselves, without zctrace",
    ),
    (
        "copiers::errors::",
        "the copiers by themselves, without zctrace",
    ),
    (
        "formats::",
        "reports are printed the same way on every kernel",
    ),
    ("gos_io_copy_uses_sendfile_to_tcp", "guests have no Go"),
    (
        "help::",
        "help, versions and completions are the same on every kernel",
    ),
    (
        "javas_file_channel_uses_sendfile_to_a_socket",
        "guests have no Java",
    ),
    (
        "killing_the_reference_runs_ends_their_commands",
        "runs are compared the same way on every kernel",
    ),
    ("node_uses_copy_file_range", "guests have no Node"),
    (
        "output::",
        "reports are printed the same way on every kernel",
    ),
    (
        "saved_reports::",
        "saved reports are read the same way on every kernel",
    ),
    (
        "usage_errors::",
        "no command starts, or its report cannot be written",
    ),
];

/// The tests that CI runs in guests: that the programs load, known counts, the kernel's own
/// counters beside ours, storms of processes, programs and threads, and the callers of programs in
/// Rust and C, in threads and with deep stacks.
const SUBSET: [&str; 7] = [
    "callers::a_c_program_without_frame_pointers",
    "callers::deep::",
    "callers::std_io_copy_is_named",
    "callers::threads_are_unwound",
    "counters::",
    "counts::",
    "storms::",
];

/// Of these, the tests that CI leaves out because they take too long.
const NOT_IN_SUBSET: [&str; 1] = ["_beside_bystanders"];

/// The checks that CI runs in guests: every kernel interface that a copier can use.
const SUBSET_OF_CHECKS: [&str; 2] = ["copier: *", "std::io::copy: file to *"];

/// Which tests and checks to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    /// Only tests whose names contain one of these; all tests if this is empty.
    only: Vec<String>,
    /// No tests whose names contain one of these.
    without: Vec<&'static str>,
    /// Patterns of checks; all checks if this is empty, none if it is `None`.
    checks: Option<Vec<&'static str>>,
}

impl Selection {
    /// Everything that guests can run.
    pub(super) fn all() -> Self {
        Self {
            only: Vec::new(),
            without: left_out(),
            checks: Some(Vec::new()),
        }
    }

    /// What CI runs.
    pub(super) fn subset() -> Self {
        Self {
            only: SUBSET.map(str::to_owned).to_vec(),
            without: NOT_IN_SUBSET.to_vec(),
            checks: Some(SUBSET_OF_CHECKS.to_vec()),
        }
    }

    /// Tests whose names contain one of these, if guests can run them; no checks.
    pub(super) fn named(names: &[String]) -> Self {
        Self {
            only: names.to_vec(),
            without: left_out(),
            checks: None,
        }
    }

    /// Whether this is what CI runs.
    pub(super) fn is_subset(&self) -> bool {
        *self == Self::subset()
    }

    /// Whether there are checks to run.
    pub(super) fn has_checks(&self) -> bool {
        self.checks.is_some()
    }

    /// The files that tell a guest the selection, with one name on each line.
    pub(super) fn plan(&self) -> Vec<(&'static str, String)> {
        let checks = self.checks.iter().map(|checks| ("checks", lines(checks)));
        [
            ("only", lines(&self.only)),
            ("without", lines(&self.without)),
        ]
        .into_iter()
        .chain(checks)
        .collect()
    }

    /// The selection for a person to read.
    pub(super) fn describe(&self) -> String {
        let tests = if self.only.is_empty() {
            "all".to_owned()
        } else {
            self.only.join(", ")
        };
        let checks = match self.checks.as_deref() {
            None => "none".to_owned(),
            Some([]) => "all".to_owned(),
            Some(checks) => checks.join(", "),
        };
        let without: Vec<String> = self
            .without
            .iter()
            .map(|name| format!("\n  without {name}{}", reason(name)))
            .collect();
        format!("tests: {tests}{}\nchecks: {checks}", without.concat())
    }
}

/// The names of the tests that no guest runs.
fn left_out() -> Vec<&'static str> {
    LEFT_OUT.into_iter().map(|(name, _)| name).collect()
}

/// Why a test is left out, if it is one that no guest runs.
fn reason(name: &str) -> String {
    LEFT_OUT
        .into_iter()
        .find(|(left_out, _)| *left_out == name)
        .map_or_else(String::new, |(_, reason)| format!(": {reason}"))
}

/// One name on each line.
fn lines(names: &[impl AsRef<str>]) -> String {
    names
        .iter()
        .flat_map(|name| [name.as_ref(), "\n"])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_has_the_tests_to_run_and_those_to_leave_out() {
        let plan = Selection::subset().plan();
        assert_eq!(plan[0].0, "only");
        assert!(
            plan[0].1.starts_with("callers::")
                && plan[0].1.ends_with("\ncounters::\ncounts::\nstorms::\n"),
            "{}",
            plan[0].1
        );
        assert_eq!(plan[1], ("without", "_beside_bystanders\n".to_owned()));
        assert_eq!(
            plan[2],
            ("checks", "copier: *\nstd::io::copy: file to *\n".to_owned())
        );
        let named = Selection::named(&["one".to_owned()]);
        assert_eq!(named.plan()[0], ("only", "one\n".to_owned()));
        assert!(
            named.plan()[1].1.contains(LEFT_OUT[0].0),
            "asking for a part of them does not bring back what no guest runs"
        );
        assert!(!named.has_checks());
    }

    #[test]
    fn tests_that_no_guest_runs_are_listed_with_their_reasons() {
        let said = Selection::all().describe();
        for (name, reason) in LEFT_OUT {
            assert!(
                said.contains(&format!("without {name}: {reason}")),
                "{said}"
            );
        }
    }
}
