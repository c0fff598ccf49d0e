//! Errors are reported in one line and damage nothing. Signals, full buffers and slow peers do not
//! change what is copied.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    net::Shutdown,
    os::unix::{
        fs::OpenOptionsExt as _,
        net::{UnixListener, UnixStream},
    },
    process::Stdio,
};

use rustix::{
    fs::OFlags,
    process::Pid,
    pty::{OpenptFlags, openpt, ptsname, unlockpt},
};

use super::{Scene, cases, copy, crc32, in_c, in_rust};
use crate::harness::{
    Conversation, Finished, Group, Program, full, state_of, untraced, wait_until,
};

/// Makes sure that the program fails with one line that has these words.
#[track_caller]
fn assert_refused(program: &Program, words: &[&str]) -> Finished {
    assert_refused_with(1, program, words)
}

/// The same, with the exit status for an invalid command line.
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
fn an_unreadable_source_leaves_the_destination_unchanged() {
    let scene = Scene::new(4096);
    fs::write(scene.path("out"), "old").expect("it belongs to the test");
    let (dir, to) = (scene.spec("", ""), scene.spec("", "out"));
    for copier in [in_rust(), in_c()] {
        for (case, _) in cases(&copier)
            .iter()
            .filter(|(case, _)| case != "std-fs-copy")
        {
            assert_refused(&copy(&copier, case, &dir, &to), &[&dir, "EISDIR"]);
            assert_refused(
                &copy(&copier, case, &scene.spec("", "missing"), &to),
                &["missing", "ENOENT"],
            );
        }
    }
    assert_refused(
        &copy(&in_rust(), "std-fs-copy", &dir, &to),
        &[&dir, "neither a regular file"],
    );
    assert_eq!(fs::read(scene.path("out")).expect("it is there"), b"old");
}

#[test]
fn a_file_is_not_copied_onto_itself() {
    let scene = Scene::new(4096);
    fs::hard_link(scene.path("in"), scene.path("other")).expect("it belongs to the test");
    for copier in [in_rust(), in_c()] {
        for (case, _) in cases(&copier) {
            for name in ["in", "other"] {
                let onto_itself =
                    copy(&copier, &case, &scene.spec("", "in"), &scene.spec("", name));
                assert_refused(&onto_itself, &[name, "the source already"]);
            }
        }
        for (from, to) in [
            ("", "pipe:"),
            ("pipe:", ""),
            ("pipe:", "pipe:"),
            ("memfd:", ""),
        ] {
            let onto_itself = copy(
                &copier,
                "read-write",
                &scene.spec(from, "in"),
                &scene.spec(to, "other"),
            );
            assert_refused(&onto_itself, &["other", "the source already"]);
        }
        let onto_itself = copy(
            &copier,
            "read-write",
            &scene.spec("", "in"),
            &scene.spec("", "other"),
        );
        assert_refused(
            &onto_itself.arg("--append"),
            &["other", "the source already"],
        );
        let redirected = [
            "sh",
            "-c",
            "exec \"$@\" <\"$0\" >>\"$0\"",
            &scene.spec("", "in"),
        ];
        assert_refused(
            &copy(&copier, "read-write", "-", "-").through(&redirected),
            &["the source already"],
        );
    }
    assert!(fs::read(scene.path("in")).expect("it is there") == scene.bytes);
}

#[test]
fn a_socket_without_a_listener_is_reported() {
    let scene = Scene::new(4096);
    let from = scene.spec("", "in");
    let (nobody, gone) = (scene.spec("unix:", "nobody"), scene.spec("unix:", "gone"));
    drop(UnixListener::bind(scene.path("gone")).expect("it belongs to the test"));
    for copier in [in_rust(), in_c()] {
        for (spec, errno) in [
            (&nobody, "ENOENT"),
            (&gone, "ECONNREFUSED"),
            (&"tcp:127.0.0.1:1".to_owned(), "ECONNREFUSED"),
        ] {
            assert_refused(
                &copy(&copier, "read-write", &from, spec),
                &["connect to", spec, "copier sink", errno],
            );
            assert_refused(
                &copy(&copier, "read-write", spec, "/dev/null"),
                &["connect to", spec, "copier feed", errno],
            );
        }
    }
}

#[test]
fn a_full_disk_is_reported() {
    let scene = Scene::new(4096);
    let full = full(scene.dir());
    let [from, to] = [
        scene.spec("", "in"),
        full.to_str().expect("text").to_owned(),
    ];
    for copier in [in_rust(), in_c()] {
        for (case, _) in cases(&copier) {
            // The device supports neither sendfile nor splice, and is not a regular file.
            let errno = match case.as_str() {
                "sendfile" | "libc-sendfile64" | "nix-sendfile64" | "splice-pipe" | "vmsplice"
                | "copy-file-range" | "fast-cat" => "EINVAL",
                "read-send" | "mmap-send" => "ENOTSOCK",
                _ => "ENOSPC",
            };
            assert_refused(&copy(&copier, &case, &from, &to), &[&from, &to, errno]);
        }
    }
}

#[test]
fn a_peer_that_stops_reading_is_reported_as_a_broken_pipe() {
    let scene = Scene::new(4 << 20);
    let from = scene.spec("", "in");
    for copier in [in_rust(), in_c()] {
        for (case, _) in cases(&copier)
            .iter()
            .filter(|(case, _)| !NO_SOCKETS.contains(&case.as_str()))
        {
            let to = scene.spec("unix:", case);
            let listener = UnixListener::bind(scene.path(case)).expect("it belongs to the test");
            let copying = untraced(&copy(&copier, case, &from, &to)).start();
            // The copy is far larger than the socket's buffer. A close instead of a shutdown could
            // also give ECONNRESET.
            let (stream, _) = listener.accept().expect("it connects");
            stream
                .shutdown(Shutdown::Read)
                .expect("it belongs to the test");
            assert_eq!(copying.wait(), Some(1), "{case}");
            let stderr = copying.into_stderr();
            assert!(
                stderr.contains("EPIPE") && stderr.contains(&to) && stderr.lines().count() == 1,
                "{case}: {stderr}"
            );
            fs::remove_file(scene.path(case)).expect("it belongs to the test");
        }
    }
}

/// The cases that do not copy to a socket.
const NO_SOCKETS: [&str; 3] = ["std-fs-copy", "std-buffered-copy", "copy-file-range"];

#[test]
fn a_closed_stdout_is_reported_as_a_broken_pipe() {
    for copier in [in_rust(), in_c()] {
        let words = copy(&copier, "read-write", "/dev/zero", "-");
        let finished = untraced(&words.through(&[
            "sh",
            "-c",
            "{ \"$@\"; echo $? >&2; } | head -c 1 >/dev/null",
            "sh",
        ]))
        .finish();
        let lines: Vec<&str> = finished.stderr.lines().collect();
        assert!(
            matches!(lines[..], [error, "1"] if error.contains("EPIPE")),
            "{lines:?}"
        );
    }
}

#[test]
fn a_failing_process_at_a_pipe_is_named() {
    // It fails after the copy of the small file, and during that of the large one, which does not
    // fit into the pipe.
    for size in [4096, 1 << 20] {
        let scene = Scene::new(size);
        let full = full(scene.dir());
        let to = format!("pipe:{}", full.display());
        for copier in [in_rust(), in_c()] {
            let finished =
                untraced(&copy(&copier, "read-write", &scene.spec("", "in"), &to)).finish();
            assert_eq!(finished.code, Some(1), "{}", finished.stderr);
            assert!(
                finished.stderr.contains(&to) && finished.stderr.contains("ENOSPC"),
                "{}",
                finished.stderr
            );
        }
    }
}

#[test]
fn a_buffer_that_cannot_be_allocated_is_reported() {
    let scene = Scene::new(4096);
    for copier in [in_rust(), in_c()] {
        for case in ["splice-pipe", "vmsplice"] {
            // The lower 32 bits of this size are 0.
            let copying =
                copy(&copier, case, &scene.spec("", "in"), "/dev/null").args(&["--buffer", "4G"]);
            assert_refused(&copying, &["fcntl(F_SETPIPE_SZ)", "EPERM"]);
        }
    }
    // This is more than the address space of any machine.
    for (copier, case) in [
        (in_rust(), "read-write"),
        (in_rust(), "io-uring"),
        (in_c(), "read-write"),
    ] {
        let copying = copy(&copier, case, &scene.spec("", "in"), "/dev/null")
            .args(&["--buffer", "4000000000G"]);
        assert_refused(&copying, &["malloc", "ENOMEM"]);
    }
}

#[test]
fn options_that_a_case_does_not_support_are_refused() {
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
        assert_misused(
            &copy(&in_rust(), case, &from, &to).arg(option),
            &[case, name],
        );
    }
    assert_refused(
        &copy(&in_rust(), "std-io-copy", &from, &to).arg("--wrap=dyn,mut"),
        &["dyn stands alone"],
    );
    for copier in [in_rust(), in_c()] {
        assert_misused(
            &copy(&copier, "no-such-case", &from, &to),
            &["no-such-case", "--list"],
        );
        for option in [
            "--interrupt-every=0",
            "--buffer=0",
            "--buffer=4X",
            "--no-such-option",
        ] {
            let finished = untraced(&copy(&copier, "read-write", &from, &to).arg(option)).finish();
            assert_eq!(finished.code, Some(2), "{option}: {}", finished.stderr);
        }
        assert!(
            untraced(&copier.clone().arg("--help"))
                .finish()
                .successful()
                .contains("--interrupt-every")
        );
        assert_refused(
            &copy(&copier, "read-write", "pipe:", &to),
            &[": pipe:", " a source needs a path"],
        );
        assert_refused(
            &copy(&copier, "read-write", &from, "tcp:127.0.0.1:99999"),
            &["tcp:127.0.0.1:99999", "port"],
        );
    }
    assert!(!scene.path("out").exists());
}

#[test]
fn every_wrapper_copies_the_same_bytes() {
    let scene = Scene::new(100_000);
    for wrap in [
        "bufreader",
        "bufwriter",
        "take",
        "mut",
        "dyn",
        "bufreader,bufwriter",
        "bufreader,take,bufwriter,mut",
    ] {
        let program = copy(
            &in_rust(),
            "std-io-copy",
            &scene.spec("", "in"),
            &scene.spec("", "out"),
        )
        .args(&["--wrap", wrap]);
        untraced(&program).finish().successful();
        assert!(
            fs::read(scene.path("out")).expect("it is there") == scene.bytes,
            "{wrap}"
        );
    }
    let program = copy(
        &in_rust(),
        "std-io-copy",
        &scene.spec("", "in"),
        &scene.spec("", "out"),
    )
    .args(&["--size", "777"]);
    untraced(&program.args(&["--wrap", "bufreader,take"]))
        .finish()
        .successful();
    assert!(fs::read(scene.path("out")).expect("it is there") == scene.bytes[..777]);
}

const SIZE: u32 = 148 * 512;
/// A signal every millisecond, and the smallest send buffer.
const OPTIONS: [&str; 4] = [
    "--interrupt-every=1000",
    "--send-buffer=1",
    "--buffer=16k",
    "--checksum",
];

/// A copier that a signal interrupts every millisecond, and the other side of its socket.
struct Copying {
    talk: Conversation,
    stream: UnixStream,
}

impl Copying {
    fn start(scene: &Scene, case: &str, program: &Program) -> Self {
        let listener = UnixListener::bind(scene.path(case)).expect("it belongs to the test");
        let talk = untraced(program).start();
        Self {
            stream: listener.accept().expect("it connects").0,
            talk,
        }
    }

    /// Waits until signals have woken the copier a few times while it was blocked, or until it has
    /// ended.
    fn wait_for_signals(&self) {
        let before = switches(self.talk.pid());
        wait_until("it is woken by signals", || {
            self.talk.has_ended() || switches(self.talk.pid()) >= before + 3
        });
    }

    /// Checks its last line: the number of bytes, the number of signals, and the checksum.
    #[track_caller]
    fn assert_copied(mut self, case: &str, bytes: &[u8]) {
        let line = self.talk.hear();
        assert_eq!(self.talk.wait(), Some(0), "{case}: {line}");
        let [copied, signals, checksum] = line.splitn(3, ", ").collect::<Vec<_>>()[..] else {
            panic!("{case}: {line}")
        };
        assert_eq!(copied, format!("copied {} bytes", bytes.len()), "{case}");
        assert!(checksum.starts_with(&crc32(bytes)), "{case}: {line}");
        let signals: u64 = signals
            .split(' ')
            .next()
            .and_then(|count| count.parse().ok())
            .expect("a count");
        assert!(signals > 0, "{case}: {line}");
    }
}

/// How often the process has gone to sleep voluntarily.
fn switches(process: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.as_raw_pid()))
        .expect("it is not reaped");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.map_or(0, |count| count.trim().parse().expect("a number"))
}

/// The cases of a copier, except these.
fn cases_but(copier: &Program, others: &[&str]) -> Vec<String> {
    cases(copier)
        .into_iter()
        .map(|(case, _)| case)
        .filter(|case| !others.contains(&case.as_str()))
        .collect()
}

/// The options that a case takes, and how much it copies: less if it copies byte by byte.
fn options(case: &str) -> (Vec<&'static str>, usize) {
    let has_buffer = !["std-io-copy", "tokio-io-copy", "byte-cat"].contains(&case);
    let mut options: Vec<&str> = OPTIONS
        .into_iter()
        .filter(|option| has_buffer || !option.starts_with("--buffer"))
        .collect();
    if case == "byte-cat" {
        options.push("--size=200");
        return (options, 200);
    }
    (options, SIZE as usize)
}

#[test]
fn a_copy_to_a_slow_destination_survives_signals() {
    for copier in [in_rust(), in_c()] {
        for case in cases_but(
            &copier,
            &["std-fs-copy", "std-buffered-copy", "copy-file-range"],
        ) {
            let scene = Scene::new(SIZE);
            let (options, size) = options(&case);
            let program = copy(
                &copier,
                &case,
                &scene.spec("", "in"),
                &scene.spec("unix:", &case),
            )
            .args(&options);
            let mut copying = Copying::start(&scene, &case, &program);
            let (mut received, mut piece) = (Vec::new(), [0; 4096]);
            loop {
                copying.wait_for_signals();
                let count = copying.stream.read(&mut piece).expect("it is open");
                if count == 0 {
                    break;
                }
                received.extend_from_slice(&piece[..count]);
            }
            assert!(
                received == scene.bytes[..size],
                "{case}: {} bytes",
                received.len()
            );
            copying.assert_copied(&case, &scene.bytes[..size]);
        }
    }
}

#[test]
fn a_copy_from_a_slow_source_survives_signals() {
    let with_pages = [
        "libc-sendfile64",
        "nix-sendfile64",
        "sendfile",
        "mmap-write",
        "mmap-send",
        "vmsplice",
        "copy-file-range",
    ];
    let others = ["std-fs-copy", "std-buffered-copy", "read-send"];
    for copier in [in_rust(), in_c()] {
        for case in cases_but(&copier, &[&with_pages[..], &others].concat()) {
            let scene = Scene::new(SIZE);
            let (options, size) = options(&case);
            let program = copy(
                &copier,
                &case,
                &scene.spec("unix:", &case),
                &scene.spec("", "out"),
            )
            .args(&options);
            let mut copying = Copying::start(&scene, &case, &program);
            for piece in scene.bytes[..size].chunks(10_007) {
                copying.wait_for_signals();
                copying
                    .stream
                    .write_all(piece)
                    .unwrap_or_else(|error| panic!("{case} reads no more: {error}"));
            }
            copying.wait_for_signals();
            copying
                .stream
                .shutdown(Shutdown::Write)
                .expect("it is open");
            assert!(fs::read(scene.path("out")).is_ok(), "{case}");
            copying.assert_copied(&case, &scene.bytes[..size]);
            assert!(
                fs::read(scene.path("out")).expect("it is there") == scene.bytes[..size],
                "{case}"
            );
        }
    }
}

/// `std::io::copy` does not repeat a `splice` that a signal interrupted.
#[test]
fn std_io_copy_gives_up_when_a_signal_interrupts_splice() {
    let scene = Scene::new(4096);
    let program =
        copy(&in_rust(), "std-io-copy", "-", &scene.spec("", "out")).arg("--interrupt-every=1000");
    let copying = untraced(&program).start();
    assert_eq!(copying.wait(), Some(1));
    let stderr = copying.into_stderr();
    assert!(
        stderr.contains("std::io::copy - ->") && stderr.contains("EINTR"),
        "{stderr}"
    );
}

/// The kernel waits for the terminal, so the copier never gets EAGAIN.
#[test]
fn io_uring_waits_for_a_non_blocking_terminal() {
    let scene = Scene::new(0);
    let mut keyboard =
        File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal"));
    unlockpt(&keyboard).expect("it belongs to the test");
    let name = ptsname(&keyboard, Vec::new()).expect("it has one");
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let screen = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(name.to_str().expect("text"))
        .expect("it belongs to the test");
    let mut command =
        untraced(&copy(&in_rust(), "io-uring", "-", &scene.spec("", "out"))).command();
    let copying = Group::start(command.stdin(screen).stdout(Stdio::null()));
    for line in ["one\n", "two\n", "\u{4}"] {
        wait_until("it waits", || state_of(copying.pid()) == 'S');
        keyboard.write_all(line.as_bytes()).expect("it reads");
    }
    assert_eq!(copying.wait(), Some(0));
    assert_eq!(
        fs::read_to_string(scene.path("out")).expect("it is there"),
        "one\ntwo\n"
    );
}
