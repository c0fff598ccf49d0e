//! The program behind `cargo xtask matrix` and `cargo xtask reference`.
//!
//! The matrix shows which kernel interface `std::io::copy` uses between which ends. Under both
//! backends it must be as in the golden table, which `cargo xtask matrix >
//! tests/golden/std-io-copy.md` updates.

use std::{fs, os::unix::fs::symlink, path::Path};

use rustix::process::Signal;

use crate::harness::{Program, TestDir, binary, exists, program, untraced, wait_until};

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

/// The program `runs`, with programs in this directory and another one for files.
fn runs(programs: &Path, scratch: &Path) -> Program {
    let runs = program(env!("CARGO_BIN_EXE_runs"));
    let runs = runs.arg("--programs").arg(programs);
    runs.arg("--scratch").arg(scratch)
}

/// Makes the table, and fails with each line that differs. The first line names the kernel.
#[track_caller]
fn assert_golden(backend: &str) {
    // A directory with the copier of this build and the zctrace to test.
    let (programs, scratch) = (TestDir::new(), TestDir::new());
    let copier = env!("CARGO_BIN_EXE_copier").into();
    for (name, path) in [("zctrace", binary()), ("copier", copier)] {
        symlink(path, programs.join(name)).expect("room for a link");
    }
    let runs = runs(programs.path(), scratch.path());
    let finished = untraced(&runs.args(&["matrix", "--backend", backend])).finish();
    let golden = fs::read_to_string(Path::new(GOLDEN)).expect("the golden table");
    let about = golden.lines().next();
    let [before, now] = [&golden, finished.successful()].map(rows);
    for (line, golden) in now.iter().zip(&before) {
        assert_eq!(line, golden, "now (left) and {about:?}");
    }
    assert_eq!(now.len(), before.len(), "rows");
}

/// The rows of the tables in a page.
fn rows(page: &str) -> Vec<&str> {
    page.lines().filter(|line| line.starts_with("| ")).collect()
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
        for made in [&scenarios, &scratch] {
            fs::create_dir(made).expect("it belongs to the test");
        }
        dir.write("scenarios/waiting.toml", scenario(&heard));
        let runs = runs(binary().parent().expect("a directory"), &scratch);
        let reference = runs.arg("reference").arg("--scenarios").arg(&scenarios);
        let runs = untraced(&reference).start();
        wait_until("it measures", || heard.exists());
        let pid = dir.read("heard");
        runs.signal(signal);
        assert_eq!(runs.wait(), None, "killed");
        wait_until("the command is gone", || !exists(pid.trim()));
    }
}
