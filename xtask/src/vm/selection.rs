//! Which tests and checks a guest runs.

/// Tests that no guest runs, by a part of their names. Most are judged and printed the same way on
/// every kernel; guests run the checks of zctrace.toml instead. Some take compilers, binutils or Go,
/// which guests lack. The other tests depend on the kernel: on its verifier, its tracepoints, its
/// system calls and its rules for tracers.
const LEFT_OUT: [&str; 9] = [
    "callers::builds::",
    "check::",
    "compare::",
    "formats::",
    "gos_io_copy_uses_sendfile_to_tcp",
    "help::",
    "output::",
    "saved_reports::",
    "usage_errors::",
];

/// The tests that CI runs in guests, those that depend most on the kernel: that the programs load,
/// known counts, calls of 32 bits, the kernel's own counters beside ours, storms of processes, programs
/// and threads, callers, running processes and a cgroup, and a span.
const SUBSET: [&str; 9] = [
    "attach::cgroup::everything_in_a_cgroup",
    "attach::threads_and_children",
    "callers::std_io_copy_is_named",
    "counters::",
    "counts::",
    "spans::a_controlled_span",
    "storms::sixty_four_threads",
    "storms::three_hundred_programs",
    "storms::two_thousand_processes",
];

/// Of these, the tests that CI leaves out because they take long and depend the least on the kernel.
const NOT_IN_SUBSET: [&str; 7] = [
    "_beside_bystanders",
    "counts::a_child_that_strace_cannot_follow",
    "counts::calls_without_a_name",
    "counts::only_selected_calls",
    "counts::processes_in_a_pid_namespace",
    "counts::without_files",
    "counts::without_times",
];

/// The checks that CI runs in guests: every kernel interface that a copier can use.
const SUBSET_OF_CHECKS: [&str; 3] = ["copier: *", "copier-c: *", "std::io::copy: file to *"];

/// Which tests and checks to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TestSelection {
    /// Only tests whose names contain one of these; all tests if this is empty.
    only: Vec<String>,
    /// No tests whose names contain one of these.
    without: Vec<&'static str>,
    /// Patterns of checks; all checks if this is empty, none if it is `None`.
    checks: Option<Vec<&'static str>>,
}

impl TestSelection {
    /// Everything that guests can run.
    pub(super) fn all() -> Self {
        Self {
            only: Vec::new(),
            without: LEFT_OUT.to_vec(),
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
            without: LEFT_OUT.to_vec(),
            checks: None,
        }
    }

    /// Whether this is what CI runs.
    pub(super) fn is_subset(&self) -> bool {
        *self == Self::subset()
    }

    /// The files that tell a guest the selection, with one name on each line.
    pub(super) fn plan(&self) -> Vec<(&'static str, String)> {
        let (only, without) = (lines(&self.only), lines(&self.without));
        let mut plan = vec![("only", only), ("without", without)];
        plan.extend(self.checks.iter().map(|checks| ("checks", lines(checks))));
        plan
    }
}

/// One name on each line.
fn lines(names: &[impl AsRef<str>]) -> String {
    names
        .iter()
        .flat_map(|name| [name.as_ref(), "\n"])
        .collect()
}
