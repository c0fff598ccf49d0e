//! The program behind `cargo xtask matrix` and `cargo xtask reference`.
//!
//! The matrix shows which kernel interface `std::io::copy` uses between which ends. Under both
//! backends it must be as in the golden table, which `cargo xtask matrix >
//! tests/golden/std-io-copy.md` updates.

use std::{collections::BTreeMap, fs, path::Path};

use rustix::process::Signal;

use crate::harness::{TestDir, binary, exists, program, untraced, wait_until};

/// The path of the golden table.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/std-io-copy.md");

#[test]
fn the_table_of_std_io_copy_is_unchanged_under_ebpf() {
    assert_golden("ebpf");
}

#[test]
fn the_table_of_std_io_copy_is_unchanged_under_strace() {
    assert_golden("strace");
}

/// Makes the table, and fails with each cell that differs.
#[track_caller]
fn assert_golden(backend: &str) {
    let scratch = TestDir::new();
    // A directory with the copier of this build and the zctrace to test.
    let programs = TestDir::new();
    for (name, path) in [
        ("zctrace", binary()),
        ("copier", env!("CARGO_BIN_EXE_copier").into()),
    ] {
        std::os::unix::fs::symlink(path, programs.join(name)).expect("room for a link");
    }
    let runs = program(env!("CARGO_BIN_EXE_runs"))
        .arg("--programs")
        .arg(programs.path())
        .arg("--scratch")
        .arg(scratch.path());
    let finished = untraced(&runs.args(&["matrix", "--backend", backend])).finish();
    let found = finished.successful();
    let golden = fs::read_to_string(Path::new(GOLDEN)).expect("the golden table");
    let differences = differences(&cells(&golden), &cells(found));
    let (before, now) = (golden.lines().next(), found.lines().next());
    assert!(
        differences.is_empty(),
        "{before:?}, now {now:?}:\n  {}",
        differences.join("\n  ")
    );
}

/// Every cell, by its row and column.
fn cells(text: &str) -> BTreeMap<(String, String), String> {
    let mut cells = BTreeMap::new();
    let mut head: Vec<&str> = Vec::new();
    for line in text.lines() {
        let Some(row) = line
            .strip_prefix("| ")
            .and_then(|line| line.strip_suffix(" |"))
        else {
            continue;
        };
        let columns: Vec<&str> = row.split(" | ").collect();
        if columns[0] == "from \\ to" || columns[0] == "wrapped" {
            head = columns;
            continue;
        }
        for (name, cell) in head.iter().zip(&columns).skip(1) {
            cells.insert(
                (columns[0].to_owned(), (*name).to_owned()),
                (*cell).to_owned(),
            );
        }
    }
    cells
}

fn differences(
    golden: &BTreeMap<(String, String), String>,
    found: &BTreeMap<(String, String), String>,
) -> Vec<String> {
    let mut places: Vec<_> = golden.keys().chain(found.keys()).collect();
    places.sort_unstable();
    places.dedup();
    let shown = |cell: Option<&String>| cell.map_or("missing", String::as_str).to_owned();
    (places
        .into_iter()
        .filter(|place| golden.get(*place) != found.get(*place)))
    .map(|place| {
        format!(
            "{} -> {}: {}, now {}",
            place.0,
            place.1,
            shown(golden.get(place)),
            shown(found.get(place))
        )
    })
    .collect()
}

#[test]
fn a_changed_cell_is_named() {
    let [before, now] = ["`splice`", "`read+write`"].map(|cell| {
        cells(&format!(
            "| from \\ to | tcp |\n|---|---|\n| pipe | {cell} |\n"
        ))
    });
    assert_eq!(
        differences(&before, &now),
        ["pipe -> tcp: `splice`, now `read+write`"]
    );
    assert_eq!(
        differences(&before, &BTreeMap::new()),
        ["pipe -> tcp: `splice`, now missing"]
    );
}

/// A scenario whose command writes its id to a file and waits.
fn scenario(heard: &Path) -> String {
    format!(
        r#"
title = "waiting"
published = "never"
measure = "compare"

[output]
to = "nothing"

[[run]]
name = "waits"
command = ["sh", "-c", "echo $$ > {0}.new; mv {0}.new {0}; exec sleep 100"]
"#,
        heard.display()
    )
}

#[test]
fn killing_the_reference_runs_ends_their_commands() {
    for signal in [Signal::TERM, Signal::KILL] {
        let dir = TestDir::new();
        let [scenarios, scratch, heard] =
            ["scenarios", "scratch", "heard"].map(|name| dir.join(name));
        fs::create_dir(&scenarios)
            .and_then(|()| fs::create_dir(&scratch))
            .expect("it belongs to the test");
        fs::write(scenarios.join("waiting.toml"), scenario(&heard))
            .expect("it belongs to the test");
        let programs = binary().parent().expect("a directory").to_owned();
        let runs = program(env!("CARGO_BIN_EXE_runs"))
            .arg("--programs")
            .arg(programs)
            .arg("--scratch")
            .arg(&scratch);
        let runs = untraced(&runs.arg("reference").arg("--scenarios").arg(&scenarios)).start();
        wait_until("it measures", || heard.exists());
        let pid = dir.read("heard");
        runs.signal(signal);
        assert_eq!(runs.wait(), None, "killed");
        wait_until("the command is gone", || !exists(&pid));
    }
}
