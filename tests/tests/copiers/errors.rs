//! What goes wrong has a name, in one line, and does no harm.

use std::{fs, net::Shutdown, os::unix::net::UnixListener};

use super::support::{Scene, cases, copy, in_c, in_rust};
use crate::harness::{Finished, Program, full, untraced};

/// Runs what must fail with one line that has these words.
#[track_caller]
fn assert_refused(program: &Program, words: &[&str]) -> Finished {
    assert_refused_with(1, program, words)
}

/// The same, with the status of a command line that makes no sense.
#[track_caller]
fn assert_misused(program: &Program, words: &[&str]) -> Finished {
    assert_refused_with(2, program, words)
}

#[track_caller]
fn assert_refused_with(status: i32, program: &Program, words: &[&str]) -> Finished {
    let finished = untraced(program).finish();
    let stderr = &finished.stderr;
    assert_eq!(finished.code, Some(status), "{program:?}: {stderr}");
    assert!(
        stderr.lines().count() == 1 && words.iter().all(|word| stderr.contains(word)),
        "not {words:?}: {program:?}: {stderr}"
    );
    finished
}

#[test]
fn a_source_that_cannot_be_read_leaves_the_destination_as_it_was() {
    let scene = Scene::new(4096);
    fs::write(scene.path("out"), "old").expect("ours");
    let (dir, to) = (scene.spec("", ""), scene.spec("", "out"));
    for copier in [in_rust(), in_c()] {
        for (case, _) in cases(&copier).iter().filter(|(case, _)| case != "std-fs-copy") {
            assert_refused(&copy(&copier, case, &dir, &to), &[&dir, "EISDIR"]);
            assert_refused(&copy(&copier, case, &scene.spec("", "missing"), &to), &["missing", "ENOENT"]);
        }
    }
    assert_refused(&copy(&in_rust(), "std-fs-copy", &dir, &to), &[&dir, "neither a regular file"]);
    assert_eq!(fs::read(scene.path("out")).expect("it is there"), b"old");
}

#[test]
fn a_file_is_not_copied_onto_itself() {
    let scene = Scene::new(4096);
    fs::hard_link(scene.path("in"), scene.path("other")).expect("ours");
    for copier in [in_rust(), in_c()] {
        for (case, _) in cases(&copier) {
            for name in ["in", "other"] {
                let onto_itself = copy(&copier, &case, &scene.spec("", "in"), &scene.spec("", name));
                assert_refused(&onto_itself, &[name, "the source already"]);
            }
        }
        for (from, to) in [("", "pipe:"), ("pipe:", ""), ("pipe:", "pipe:"), ("memfd:", "")] {
            let onto_itself = copy(&copier, "read-write", &scene.spec(from, "in"), &scene.spec(to, "other"));
            assert_refused(&onto_itself, &["other", "the source already"]);
        }
        let onto_itself = copy(&copier, "read-write", &scene.spec("", "in"), &scene.spec("", "other"));
        assert_refused(&onto_itself.arg("--append"), &["other", "the source already"]);
        let redirected = ["sh", "-c", "exec \"$@\" <\"$0\" >>\"$0\"", &scene.spec("", "in")];
        assert_refused(&copy(&copier, "read-write", "-", "-").through(&redirected), &["the source already"]);
    }
    assert!(fs::read(scene.path("in")).expect("it is there") == scene.bytes);
}

#[test]
fn nobody_listens() {
    let scene = Scene::new(4096);
    let from = scene.spec("", "in");
    let (nobody, gone) = (scene.spec("unix:", "nobody"), scene.spec("unix:", "gone"));
    drop(UnixListener::bind(scene.path("gone")).expect("ours"));
    for copier in [in_rust(), in_c()] {
        for (spec, errno) in [(&nobody, "ENOENT"), (&gone, "ECONNREFUSED"), (&"tcp:127.0.0.1:1".to_owned(), "ECONNREFUSED")] {
            assert_refused(&copy(&copier, "read-write", &from, spec), &["connect to", spec, "copier sink", errno]);
            assert_refused(&copy(&copier, "read-write", spec, "/dev/null"), &["connect to", spec, "copier feed", errno]);
        }
    }
}

#[test]
fn a_full_disk() {
    let scene = Scene::new(4096);
    let full = full(scene.dir());
    let [from, to] = [scene.spec("", "in"), full.to_str().expect("text").to_owned()];
    for copier in [in_rust(), in_c()] {
        for (case, _) in cases(&copier) {
            // The device has no way in for sendfile and splice, and is no regular file.
            let errno = match case.as_str() {
                "sendfile" | "libc-sendfile64" | "nix-sendfile64" | "splice-pipe" | "vmsplice" | "copy-file-range"
                | "fast-cat" => "EINVAL",
                "read-send" | "mmap-send" => "ENOTSOCK",
                _ => "ENOSPC",
            };
            assert_refused(&copy(&copier, &case, &from, &to), &[&from, &to, errno]);
        }
    }
}

#[test]
fn a_peer_that_reads_no_more_is_a_broken_pipe() {
    let scene = Scene::new(4 << 20);
    let from = scene.spec("", "in");
    for copier in [in_rust(), in_c()] {
        for (case, _) in cases(&copier).iter().filter(|(case, _)| !NO_SOCKETS.contains(&case.as_str())) {
            let to = scene.spec("unix:", case);
            let listener = UnixListener::bind(scene.path(case)).expect("ours");
            let copying = untraced(&copy(&copier, case, &from, &to)).start();
            // Far more is to be copied than a socket holds. (To close it could also be ECONNRESET, if something is unread.)
            let (stream, _) = listener.accept().expect("it connects");
            stream.shutdown(Shutdown::Read).expect("ours");
            assert_eq!(copying.wait(), Some(1), "{case}");
            let stderr = copying.into_stderr();
            assert!(stderr.contains("EPIPE") && stderr.contains(&to) && stderr.lines().count() == 1, "{case}: {stderr}");
            fs::remove_file(scene.path(case)).expect("ours");
        }
    }
}

/// The cases that do not copy to a socket.
const NO_SOCKETS: [&str; 3] = ["std-fs-copy", "std-buffered-copy", "copy-file-range"];

#[test]
fn a_reader_of_stdout_that_goes_is_a_broken_pipe() {
    for copier in [in_rust(), in_c()] {
        let words = copy(&copier, "read-write", "/dev/zero", "-");
        let finished = untraced(&words.through(&["sh", "-c", "{ \"$@\"; echo $? >&2; } | head -c 1 >/dev/null", "sh"])).finish();
        let lines: Vec<&str> = finished.stderr.lines().collect();
        assert!(matches!(lines[..], [error, "1"] if error.contains("EPIPE")), "{lines:?}");
    }
}

#[test]
fn a_pipes_other_end_that_fails_is_named() {
    // It fails after the copy, or in the middle of it: a pipe does not hold so much.
    for size in [4096, 1 << 20] {
        let scene = Scene::new(size);
        let full = full(scene.dir());
        let to = format!("pipe:{}", full.display());
        for copier in [in_rust(), in_c()] {
            let finished = untraced(&copy(&copier, "read-write", &scene.spec("", "in"), &to)).finish();
            assert_eq!(finished.code, Some(1), "{}", finished.stderr);
            assert!(finished.stderr.contains(&to) && finished.stderr.contains("ENOSPC"), "{}", finished.stderr);
        }
    }
}

#[test]
fn a_buffer_that_cannot_be_had() {
    let scene = Scene::new(4096);
    for copier in [in_rust(), in_c()] {
        for case in ["splice-pipe", "vmsplice"] {
            // The lower 32 bits of it are 0.
            let copying = copy(&copier, case, &scene.spec("", "in"), "/dev/null").args(&["--buffer", "4G"]);
            assert_refused(&copying, &["fcntl(F_SETPIPE_SZ)", "EPERM"]);
        }
    }
    // More than any machine has addresses for.
    for (copier, case) in [(in_rust(), "read-write"), (in_rust(), "io-uring"), (in_c(), "read-write")] {
        let copying = copy(&copier, case, &scene.spec("", "in"), "/dev/null").args(&["--buffer", "4000000000G"]);
        assert_refused(&copying, &["malloc", "ENOMEM"]);
    }
}

#[test]
fn what_a_case_does_not_understand_is_refused() {
    let scene = Scene::new(4096);
    let (from, to) = (scene.spec("", "in"), scene.spec("", "out"));
    for (case, option) in [
        ("std-io-copy", "--buffer=1"),
        ("tokio-io-copy", "--buffer=1"),
        ("std-fs-copy", "--size=1"),
        ("std-buffered-copy", "--append"),
        ("read-write", "--wrap=take"),
    ] {
        let name = option.split('=').next().expect("a name");
        assert_misused(&copy(&in_rust(), case, &from, &to).arg(option), &[case, name]);
    }
    assert_refused(&copy(&in_rust(), "std-io-copy", &from, &to).arg("--wrap=dyn,mut"), &["dyn stands alone"]);
    for copier in [in_rust(), in_c()] {
        assert_misused(&copy(&copier, "no-such-case", &from, &to), &["no-such-case", "--list"]);
        for option in ["--interrupt-every=0", "--buffer=0", "--buffer=4X", "--no-such-option"] {
            let finished = untraced(&copy(&copier, "read-write", &from, &to).arg(option)).finish();
            assert_eq!(finished.code, Some(2), "{option}: {}", finished.stderr);
        }
        assert!(untraced(&copier.clone().arg("--help")).finish().successful().contains("--interrupt-every"));
        assert_refused(&copy(&copier, "read-write", "pipe:", &to), &[": pipe:", " a source needs a path"]);
        assert_refused(&copy(&copier, "read-write", &from, "tcp:127.0.0.1:99999"), &["tcp:127.0.0.1:99999", "port"]);
    }
    assert!(!scene.path("out").exists());
}

#[test]
fn every_wrapper_copies_the_same() {
    let scene = Scene::new(100_000);
    for wrap in ["bufreader", "bufwriter", "take", "mut", "dyn", "bufreader,bufwriter", "bufreader,take,bufwriter,mut"] {
        let program = copy(&in_rust(), "std-io-copy", &scene.spec("", "in"), &scene.spec("", "out")).args(&["--wrap", wrap]);
        untraced(&program).finish().successful();
        assert!(fs::read(scene.path("out")).expect("it is there") == scene.bytes, "{wrap}");
    }
    let program = copy(&in_rust(), "std-io-copy", &scene.spec("", "in"), &scene.spec("", "out")).args(&["--size", "777"]);
    untraced(&program.args(&["--wrap", "bufreader,take"])).finish().successful();
    assert!(fs::read(scene.path("out")).expect("it is there") == scene.bytes[..777]);
}
