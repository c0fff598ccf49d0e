//! Which of the tests a guest runs.

/// Tests that no guest runs, by the beginning of their names, and why.
const LEFT_OUT: [(&str, &str); 0] = [];

/// What CI runs in guests: that the programs load, every kernel interface that a copier can take, storms of processes and threads, known
/// counts and the kernel's own counters beside ours, and what the verifier says of each program.
const SUBSET: [&str; 5] = ["copiers::apis::", "counters::", "counts::", "storms::", "verifier::"];

/// Names that choose tests: those that contain one of `only`, or all if there is none, without those that contain one of `without`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    only: Vec<String>,
}

impl Selection {
    /// All tests that guests can run.
    pub(super) fn all() -> Self {
        Self { only: Vec::new() }
    }

    /// What CI runs.
    pub(super) fn subset() -> Self {
        Self { only: SUBSET.map(str::to_owned).to_vec() }
    }

    /// The tests with these names in theirs.
    pub(super) fn named(names: &[String]) -> Self {
        Self { only: names.to_vec() }
    }

    /// The files of the plan that a guest reads it from: a name a line.
    pub(super) fn plan(&self) -> [(&'static str, String); 2] {
        let without = LEFT_OUT.map(|(name, _)| name.to_owned());
        [("only", lines(&self.only)), ("without", lines(&without))]
    }

    /// What is run, in words.
    pub(super) fn describe(&self) -> String {
        let only = if self.only.is_empty() { "all tests".to_owned() } else { self.only.join(", ") };
        let without: Vec<String> = LEFT_OUT.into_iter().map(|(name, reason)| format!("\n  without {name}: {reason}")).collect();
        only + &without.concat()
    }
}

/// A name a line.
fn lines(names: &[String]) -> String {
    names.iter().flat_map(|name| [name.as_str(), "\n"]).collect()
}
