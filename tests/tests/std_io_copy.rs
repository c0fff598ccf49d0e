//! Which kernel interface `std::io::copy` uses between which ends: as the golden table has it, and by both backends the same.
//!
//! `cargo xtask matrix > tests/golden/std-io-copy.md` refreshes the table.

use std::{collections::BTreeMap, fs, path::Path};

use crate::harness::{binary, program, untraced};

/// Where the table is.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/std-io-copy.md");

#[test]
fn every_cell_as_it_was_under_ebpf() {
    assert_golden("ebpf");
}

#[test]
fn every_cell_as_it_was_under_strace() {
    assert_golden("strace");
}

/// Makes the table anew, and shows each cell that is another.
#[track_caller]
fn assert_golden(backend: &str) {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    // The programs of this build, and the zctrace to test beside them.
    let programs = tempfile::tempdir().expect("a temporary directory");
    for (name, path) in [("zctrace", binary()), ("copier", env!("CARGO_BIN_EXE_copier").into())] {
        std::os::unix::fs::symlink(path, programs.path().join(name)).expect("room for a link");
    }
    let runs = program(env!("CARGO_BIN_EXE_runs")).arg("--programs").arg(programs.path()).arg("--scratch").arg(scratch.path());
    let finished = untraced(&runs.args(&["matrix", "--backend", backend])).finish();
    let found = finished.successful();
    let golden = fs::read_to_string(Path::new(GOLDEN)).expect("the golden table");
    let differences = differences(&cells(&golden), &cells(found));
    let (before, now) = (golden.lines().next(), found.lines().next());
    assert!(differences.is_empty(), "{before:?}, now {now:?}:\n  {}", differences.join("\n  "));
}

/// Every cell by its row and column.
fn cells(text: &str) -> BTreeMap<(String, String), String> {
    let mut cells = BTreeMap::new();
    let mut head: Vec<&str> = Vec::new();
    for line in text.lines() {
        let Some(row) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else {
            continue;
        };
        let columns: Vec<&str> = row.split(" | ").collect();
        if columns[0] == "from \\ to" || columns[0] == "wrapped" {
            head = columns;
            continue;
        }
        for (name, cell) in head.iter().zip(&columns).skip(1) {
            cells.insert((columns[0].to_owned(), (*name).to_owned()), (*cell).to_owned());
        }
    }
    cells
}

fn differences(golden: &BTreeMap<(String, String), String>, found: &BTreeMap<(String, String), String>) -> Vec<String> {
    let mut places: Vec<_> = golden.keys().chain(found.keys()).collect();
    places.sort_unstable();
    places.dedup();
    let shown = |cell: Option<&String>| cell.map_or("missing", String::as_str).to_owned();
    (places.into_iter().filter(|place| golden.get(*place) != found.get(*place)))
        .map(|place| format!("{} -> {}: {}, now {}", place.0, place.1, shown(golden.get(place)), shown(found.get(place))))
        .collect()
}

#[test]
fn a_cell_that_changed_is_named() {
    let [before, now] =
        ["`splice`", "`read+write`"].map(|cell| cells(&format!("| from \\ to | tcp |\n|---|---|\n| pipe | {cell} |\n")));
    assert_eq!(differences(&before, &now), ["pipe -> tcp: `splice`, now `read+write`"]);
    assert_eq!(differences(&before, &BTreeMap::new()), ["pipe -> tcp: `splice`, now missing"]);
}
