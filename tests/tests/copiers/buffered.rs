//! `std::io::copy` from a `BufReader` with `take` to a `BufWriter`: the buffers drain first, then the kernel copies the rest
//! (the standard library's own test `copy_specialization`, from the change that introduced this).

use std::fs;

use super::support::{Scene, copy, in_rust};
use crate::harness::{Program, program, untraced, zctrace};

/// A copy of 14 bytes: 4 wait in the `BufWriter`, 5 in the `BufReader`, and 5 are left in the file.
fn buffered_copy(scene: &Scene) -> Program {
    copy(&in_rust(), "std-buffered-copy", &scene.spec("", "in"), &scene.spec("", "out"))
}

/// The copier's last line, which it writes as well.
const LAST_LINE: &str = "copied 14 bytes\n";

#[test]
fn write_4_write_5_copy_file_range_5_as_strace_tells() {
    let scene = Scene::new(4096);
    let log = scene.path("log");
    let strace = program("strace").args(&["--trace=write,copy_file_range", "-o"]).arg(&log).arg("--");
    untraced(&strace).words(buffered_copy(&scene).words()).finish().successful();
    let log = fs::read_to_string(log).expect("strace wrote it");
    // `write(4, "..."..., 5) = 5`: the name, the size asked for, the result.
    let calls: Vec<(&str, &str, &str)> = log.lines().filter_map(call).collect();
    assert_eq!(calls, [("write", "4", "4"), ("write", "5", "5"), ("copy_file_range", "5", "5"), ("write", "16", "16")], "{log}");
    assert!(fs::read(scene.path("out")).expect("it is there") == scene.bytes[..14]);
}

/// A line of the log.
fn call(line: &str) -> Option<(&str, &str, &str)> {
    let (call, result) = line.rsplit_once(" = ")?;
    let (name, arguments) = call.split_once('(')?;
    let arguments = arguments.trim_end().trim_end_matches(')').trim_end_matches(", 0");
    Some((name, arguments.rsplit_once(", ")?.1, result))
}

#[test]
fn write_4_write_5_copy_file_range_5_as_zctrace_tells() {
    let scene = Scene::new(4096);
    let run = zctrace().run(&buffered_copy(&scene));
    run.assert_exact();
    assert_eq!(run.finished.successful(), LAST_LINE);
    let [write, range] = ["write", "copy_file_range"].map(|name| run.totals().row(name));
    let last = LAST_LINE.len() as u64;
    assert_eq!((write.calls, write.bytes, write.requested_bytes), (2 + 1, Some(4 + 5 + last), Some(4 + 5 + last)));
    assert_eq!((range.calls, range.errors, range.bytes, range.requested_bytes), (1, 0, Some(5), Some(5)));
    for absent in ["sendfile", "splice"] {
        assert_eq!(run.totals().row(absent).calls, 0, "{absent}");
    }
}

#[test]
fn a_source_that_is_too_short_is_refused() {
    let scene = Scene::new(12);
    let finished = untraced(&buffered_copy(&scene)).finish();
    assert_eq!(finished.code, Some(1));
    assert!(finished.stderr.contains("at least 14 bytes"), "{}", finished.stderr);
}
