//! The calls of the copiers as zctrace counts them: each case moves its bytes by the interface in
//! its name, and by no other.
//!
//! `std::io::copy` from a `BufReader` with `take` to a `BufWriter` first drains the buffers, and
//! then the kernel copies the rest (the standard library's own test `copy_specialization`).

use std::fs;

use super::{Scene, Side, copy, in_c, in_rust};
use zc_tests::Figure;

use crate::harness::{Program, Rows, Run, program, untraced, zctrace};

const SIZE: u32 = 1 << 20;
const BYTES: Option<u64> = Some(SIZE as u64);

/// Which of these calls moved the whole file, in the process that copies.
fn movers(run: &Run) -> Vec<&'static str> {
    let rows = Rows::of_process(run.root());
    let names = [
        "write",
        "sendto",
        "sendfile",
        "splice",
        "vmsplice",
        "copy_file_range",
    ];
    names
        .into_iter()
        .filter(|name| rows.row(name).bytes >= BYTES)
        .collect()
}

/// Traces a copy of the file to a file, through a pipe, and to a socket.
fn traced(copier: &Program, case: &str) -> [Run; 3] {
    let scene = Scene::new(SIZE);
    let sink = Side::sink(&scene.spec("unix:", "socket"));
    let (file, pipe) = (scene.spec("", "out"), "pipe:/dev/null".to_owned());
    [file, pipe, sink.spec.clone()].map(|to| {
        let run = zctrace().run_exactly(&copy(copier, case, &scene.spec("", "in"), &to));
        run.finished.successful();
        run
    })
}

#[test]
fn fast_cat_uses_splice_for_pipes_and_std_io_copy_stays_in_the_kernel_only_from_file_to_file() {
    let moved =
        |copier: Program, case: &str| traced(&copier, case).map(|run| movers(&run).join(" "));
    assert_eq!(
        moved(in_c(), "fast-cat"),
        ["sendfile", "splice", "sendfile"]
    );
    assert_eq!(
        moved(in_rust(), "std-io-copy"),
        ["copy_file_range", "write", "sendto"]
    );
}

#[test]
fn equal_cases_in_rust_and_c_use_the_same_calls() {
    for (rust, c) in [
        ("libc-sendfile64", "sendfile"),
        ("nix-sendfile64", "sendfile"),
        ("splice-pipe", "splice-pipe"),
        ("vmsplice", "vmsplice"),
    ] {
        let [in_rust, in_c] = [traced(&in_rust(), rust), traced(&in_c(), c)];
        for (rust, c) in in_rust.iter().zip(&in_c) {
            for call in ["sendfile", "splice", "vmsplice"] {
                let [rust, c] = [rust, c].map(|run| run.totals().row(call).bytes);
                assert_eq!(rust, c, "{call}");
            }
            assert_eq!(movers(rust), movers(c));
        }
    }
}

#[test]
fn byte_cat_makes_two_calls_for_each_byte() {
    let scene = Scene::new(5000);
    let to = scene.spec("", "out");
    let run = zctrace().run(&copy(&in_c(), "byte-cat", &scene.spec("", "in"), &to));
    run.assert_exact();
    let said = run.finished.successful().len() as u64;
    let write = run.totals().row("write");
    assert_eq!((write.calls, write.bytes), (5000 + 1, Some(5000 + said)));
    // The loader reads the C library's first block.
    assert_eq!(run.totals().row("read").calls, 5000 + 1 + 1);
}

#[test]
fn each_call_requests_the_size_of_the_buffer() {
    let scene = Scene::new(SIZE);
    let row = |case: &str, buffer: &str, call: &str| {
        let copying = copy(&in_c(), case, &scene.spec("", "in"), &scene.spec("", "out"));
        let run = zctrace().run(&copying.args(&["--buffer", buffer]));
        run.totals().row(call)
    };
    let sendfile = row("sendfile", "4k", "sendfile");
    let found = (sendfile.calls, sendfile.bytes, sendfile.requested_bytes);
    assert_eq!(found, (256 + 1, BYTES, Some(257 * 4096)));
    for (case, buffer, writes) in [
        ("read-write", "4k", 256),
        ("read-write", "32k", 32),
        ("read-write-stack", "4096000", 1),
    ] {
        assert_eq!(
            row(case, buffer, "write").calls,
            writes + 1,
            "{case} {buffer}"
        );
    }
}

/// A copy of 14 bytes: 4 wait in the `BufWriter`, 5 in the `BufReader`, and 5 are left in the file.
fn buffered_copy(scene: &Scene) -> Program {
    let (from, to) = (scene.spec("", "in"), scene.spec("", "out"));
    copy(&in_rust(), "std-buffered-copy", &from, &to)
}

/// The copier's last line. The copier writes it with a `write` of its own.
const LAST_LINE: &str = "copied 14 bytes\n";

#[test]
fn strace_shows_and_zctrace_counts_write_4_write_5_copy_file_range_5() {
    let scene = Scene::new(4096);
    let log = scene.path("log");
    let strace = program("strace").args(&["--trace=write,copy_file_range", "-o"]);
    let strace = untraced(&strace.arg(&log).arg("--"));
    strace
        .args(buffered_copy(&scene).words())
        .finish()
        .successful();
    let log = fs::read_to_string(log).expect("strace wrote it");
    // A line is like `write(4, "..."..., 5) = 5`.
    let calls: Vec<(&str, &str, &str)> = log.lines().filter_map(call).collect();
    let range = ("copy_file_range", "5", "5");
    let [four, five, last] = ["4", "5", "16"].map(|bytes| ("write", bytes, bytes));
    assert_eq!(calls, [four, five, range, last], "{log}");
    assert!(scene.read("out") == scene.bytes[..14]);

    let run = zctrace().run_exactly(&buffered_copy(&scene));
    assert_eq!(run.finished.successful(), LAST_LINE);
    let [write, range] = ["write", "copy_file_range"].map(|name| run.totals().row(name));
    assert_eq!(
        write,
        Figure {
            calls: 3,
            ..Figure::of_calls(1, 4 + 5 + 16)
        }
    );
    assert_eq!(range, Figure::of_calls(1, 5));
    for absent in ["sendfile", "splice"] {
        assert_eq!(run.totals().row(absent).calls, 0, "{absent}");
    }
}

/// The name, the size asked for and the result in a line of the log.
fn call(line: &str) -> Option<(&str, &str, &str)> {
    let (call, result) = line.rsplit_once(" = ")?;
    let (name, arguments) = call.split_once('(')?;
    let arguments = arguments
        .trim_end()
        .trim_end_matches(')')
        .trim_end_matches(", 0");
    Some((name, arguments.rsplit_once(", ")?.1, result))
}

#[test]
fn a_source_that_is_too_short_is_refused() {
    let scene = Scene::new(12);
    let finished = untraced(&buffered_copy(&scene)).finish();
    finished.exits(1).says("at least 14 bytes");
}
