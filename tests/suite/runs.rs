//! The script behind `cargo xtask matrix`: which kernel interface `std::io::copy` uses between which
//! ends. Under both backends it must be as in the golden table, which `cargo xtask matrix >
//! tests/golden/std-io-copy.md` updates.

use std::{fs, path::Path};

use rustix::process::Signal;

use crate::harness::{Program, TestDir, program, untraced, wait_until};

/// The path of the golden table.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/std-io-copy.md");

/// The script, with all its files in this directory.
fn matrix(scratch: &TestDir) -> Program {
    let copier = Path::new(env!("CARGO_BIN_EXE_copier"));
    let matrix = program("python3").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/runs.py"));
    let matrix = matrix.arg("--programs").arg(copier.with_file_name(""));
    matrix.arg("matrix").env("TMPDIR", scratch.path())
}

#[test]
fn the_table_of_std_io_copy_is_unchanged_under_ebpf() {
    assert_golden("ebpf");
}

#[test]
fn the_table_of_std_io_copy_is_unchanged_under_strace() {
    assert_golden("strace");
}

#[test]
fn a_signal_ends_a_series_and_its_files_are_deleted() {
    let scratch = TestDir::new();
    let running = untraced(&matrix(&scratch)).start();
    let first = || scratch.names().into_iter().next();
    wait_until("it has files", || {
        let made = first().and_then(|name| fs::read_dir(scratch.join(name)).ok());
        made.is_some_and(|mut made| made.next().is_some())
    });
    running.signal(Signal::TERM);
    assert_eq!(running.wait(), Some(1));
    scratch.assert_has_only(&[]);
}

/// Makes the table, and fails with each line that differs. The first line names the kernel.
#[track_caller]
fn assert_golden(backend: &str) {
    let scratch = TestDir::new();
    let matrix = matrix(&scratch).args(&["--backend", backend]);
    let finished = untraced(&matrix).finish();
    scratch.assert_has_only(&[]);
    let golden = fs::read_to_string(Path::new(GOLDEN)).expect("the golden table");
    let about = golden.lines().next();
    let [before, now] = [&golden, finished.successful()].map(rows);
    for (line, golden) in now.iter().zip(&before) {
        assert_eq!(line, golden, "now (left) and {about:?}");
    }
    assert_eq!(now.len(), before.len(), "rows");
}

#[test]
fn the_page_has_every_contract_and_its_reason() {
    let page = include_str!("../../docs/contracts.md");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("contracts");
    for file in fs::read_dir(directory).expect("the repository has them") {
        let text = fs::read_to_string(file.expect("is there").path()).expect("text");
        let file: toml::Table = text.parse().expect("TOML");
        for check in file["check"].as_array().expect("checks") {
            let [name, why] = ["name", "why"].map(|key| check[key].as_str().expect("text"));
            assert!(page.contains(&format!("| {name} |")), "{name}");
            assert!(page.contains(why), "{name}: {why}");
        }
    }
}

/// The rows of the tables in a page.
fn rows(page: &str) -> Vec<&str> {
    page.lines().filter(|line| line.starts_with("| ")).collect()
}
