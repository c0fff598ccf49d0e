//! What the copiers call, as zctrace counts it: what a case's name promises, and nothing else moves the bytes.

use super::support::{Scene, Side, copy, in_c, in_rust};
use crate::harness::{Program, Run, zctrace};

const SIZE: u32 = 1 << 20;
const BYTES: Option<u64> = Some(SIZE as u64);

/// Which of these calls moved the whole file, in the process that copies.
fn movers(run: &Run) -> Vec<&'static str> {
    run.assert_exact();
    let rows = crate::harness::Rows::of(run.root());
    let names = ["write", "sendto", "sendfile", "splice", "vmsplice", "copy_file_range"];
    names.into_iter().filter(|name| rows.row(name).bytes >= BYTES).collect()
}

/// Traces a copy of the file to a file, through a pipe, and to a socket.
fn traced(copier: &Program, case: &str) -> [Run; 3] {
    let scene = Scene::new(SIZE);
    let from = scene.spec("", "in");
    let sink = Side::sink(&scene.spec("unix:", "socket"));
    let specs = [scene.spec("", "out"), "pipe:/dev/null".to_owned(), sink.spec.clone()];
    specs.map(|to| {
        let run = zctrace().run(&copy(copier, case, &from, &to));
        run.finished.successful();
        run
    })
}

#[test]
fn fast_cat_takes_splice_for_a_pipe_and_sendfile_for_the_rest() {
    let runs = traced(&in_c(), "fast-cat");
    assert_eq!(runs.each_ref().map(movers), [vec!["sendfile"], vec!["splice"], vec!["sendfile"]]);
}

#[test]
fn std_io_copy_stays_in_the_kernel_from_file_to_file_alone() {
    let runs = traced(&in_rust(), "std-io-copy");
    assert_eq!(runs.each_ref().map(movers), [vec!["copy_file_range"], vec!["write"], vec!["sendto"]]);
}

#[test]
fn twins_move_the_bytes_with_the_same_calls() {
    for (rust, c) in [
        ("libc-sendfile64", "sendfile"),
        ("nix-sendfile64", "sendfile"),
        ("splice-pipe", "splice-pipe"),
        ("vmsplice", "vmsplice"),
    ] {
        let [in_rust, in_c] = [traced(&in_rust(), rust), traced(&in_c(), c)];
        for (rust, c) in in_rust.iter().zip(&in_c) {
            for call in ["sendfile", "splice", "vmsplice"] {
                assert_eq!(rust.totals().row(call).bytes, c.totals().row(call).bytes, "{call} of {:?}", c.report.command);
            }
            assert_eq!(movers(rust), movers(c));
        }
    }
}

#[test]
fn a_byte_wise_cat_makes_two_calls_a_byte() {
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
fn a_call_asks_for_what_the_buffer_holds() {
    let scene = Scene::new(SIZE);
    let copies =
        |case: &str, buffer: &str| copy(&in_c(), case, &scene.spec("", "in"), &scene.spec("", "out")).args(&["--buffer", buffer]);
    let sendfile = zctrace().run(&copies("sendfile", "4k")).totals().row("sendfile");
    assert_eq!((sendfile.calls, sendfile.bytes, sendfile.requested_bytes), (256 + 1, BYTES, Some(257 * 4096)));
    for (case, buffer, writes) in [("read-write", "4k", 256), ("read-write", "32k", 32), ("read-write-stack", "4096000", 1)] {
        assert_eq!(zctrace().run(&copies(case, buffer)).totals().row("write").calls, writes + 1, "{case} {buffer}");
    }
}
