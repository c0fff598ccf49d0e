//! The calls of the copiers as zctrace counts them: each case moves its bytes by the interface in
//! its name, and by no other.
//!
//! `std::io::copy` from a `BufReader` with `take` to a `BufWriter` first drains the buffers, and
//! then the kernel copies the rest (the standard library's own test `copy_specialization`).

use std::fs;

use super::{Scene, Side, copy, in_c, in_rust};
use crate::harness::{Program, Run, program, untraced, zctrace};

const SIZE: u32 = 1 << 20;
const BYTES: Option<u64> = Some(SIZE as u64);

/// Which of these calls moved the whole file, in the process that copies.
fn movers(run: &Run) -> Vec<&'static str> {
    run.assert_exact();
    let rows = crate::harness::Rows::of(run.root());
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
    let from = scene.spec("", "in");
    let sink = Side::sink(&scene.spec("unix:", "socket"));
    let specs = [
        scene.spec("", "out"),
        "pipe:/dev/null".to_owned(),
        sink.spec.clone(),
    ];
    specs.map(|to| {
        let run = zctrace().run(&copy(copier, case, &from, &to));
        run.finished.successful();
        run
    })
}

#[test]
fn fast_cat_uses_splice_for_pipes_and_sendfile_otherwise() {
    let runs = traced(&in_c(), "fast-cat");
    assert_eq!(
        runs.each_ref().map(movers),
        [vec!["sendfile"], vec!["splice"], vec!["sendfile"]]
    );
}

#[test]
fn std_io_copy_stays_in_the_kernel_only_from_file_to_file() {
    let runs = traced(&in_rust(), "std-io-copy");
    assert_eq!(
        runs.each_ref().map(movers),
        [vec!["copy_file_range"], vec!["write"], vec!["sendto"]]
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
                assert_eq!(
                    rust.totals().row(call).bytes,
                    c.totals().row(call).bytes,
                    "{call} of {:?}",
                    c.report.command
                );
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
    let copies = |case: &str, buffer: &str| {
        copy(&in_c(), case, &scene.spec("", "in"), &scene.spec("", "out"))
            .args(&["--buffer", buffer])
    };
    let sendfile = zctrace()
        .run(&copies("sendfile", "4k"))
        .totals()
        .row("sendfile");
    assert_eq!(
        (sendfile.calls, sendfile.bytes, sendfile.requested_bytes),
        (256 + 1, BYTES, Some(257 * 4096))
    );
    for (case, buffer, writes) in [
        ("read-write", "4k", 256),
        ("read-write", "32k", 32),
        ("read-write-stack", "4096000", 1),
    ] {
        assert_eq!(
            zctrace()
                .run(&copies(case, buffer))
                .totals()
                .row("write")
                .calls,
            writes + 1,
            "{case} {buffer}"
        );
    }
}

/// A copy of 14 bytes: 4 wait in the `BufWriter`, 5 in the `BufReader`, and 5 are left in the file.
fn buffered_copy(scene: &Scene) -> Program {
    copy(
        &in_rust(),
        "std-buffered-copy",
        &scene.spec("", "in"),
        &scene.spec("", "out"),
    )
}

/// The copier's last line. The copier writes it with a `write` of its own.
const LAST_LINE: &str = "copied 14 bytes\n";

#[test]
fn strace_shows_write_4_write_5_copy_file_range_5() {
    let scene = Scene::new(4096);
    let log = scene.path("log");
    let strace = program("strace")
        .args(&["--trace=write,copy_file_range", "-o"])
        .arg(&log)
        .arg("--");
    untraced(&strace)
        .words(buffered_copy(&scene).words())
        .finish()
        .successful();
    let log = fs::read_to_string(log).expect("strace wrote it");
    // A line is like `write(4, "..."..., 5) = 5`.
    let calls: Vec<(&str, &str, &str)> = log.lines().filter_map(call).collect();
    assert_eq!(
        calls,
        [
            ("write", "4", "4"),
            ("write", "5", "5"),
            ("copy_file_range", "5", "5"),
            ("write", "16", "16")
        ],
        "{log}"
    );
    assert!(fs::read(scene.path("out")).expect("it is there") == scene.bytes[..14]);
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
fn zctrace_counts_write_4_write_5_copy_file_range_5() {
    let scene = Scene::new(4096);
    let run = zctrace().run(&buffered_copy(&scene));
    run.assert_exact();
    assert_eq!(run.finished.successful(), LAST_LINE);
    let [write, range] = ["write", "copy_file_range"].map(|name| run.totals().row(name));
    let last = LAST_LINE.len() as u64;
    assert_eq!(
        (write.calls, write.bytes, write.requested_bytes),
        (2 + 1, Some(4 + 5 + last), Some(4 + 5 + last))
    );
    assert_eq!(
        (
            range.calls,
            range.errors,
            range.bytes,
            range.requested_bytes
        ),
        (1, 0, Some(5), Some(5))
    );
    for absent in ["sendfile", "splice"] {
        assert_eq!(run.totals().row(absent).calls, 0, "{absent}");
    }
}

#[test]
fn a_source_that_is_too_short_is_refused() {
    let scene = Scene::new(12);
    let finished = untraced(&buffered_copy(&scene)).finish();
    assert_eq!(finished.code, Some(1));
    assert!(
        finished.stderr.contains("at least 14 bytes"),
        "{}",
        finished.stderr
    );
}
