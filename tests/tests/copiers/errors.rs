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
use crate::harness::{Conversation, Group, Program, full, state_of, untraced, wait_until};

/// Makes sure that the program fails with one line that has these words.
#[track_caller]
fn assert_refused(program: &Program, words: &[&str]) {
    assert_refused_with(1, program, words);
}

/// The same with this exit status, which is 2 for an invalid command line.
#[track_caller]
fn assert_refused_with(status: i32, program: &Program, words: &[&str]) {
    println!("{program:?}");
    let finished = untraced(program).finish();
    finished.exits(status).in_one_line();
    for word in words {
        finished.says(word);
    }
}

/// The cases of a copier, except these.
fn cases_but(copier: &Program, others: &[&str]) -> Vec<String> {
    let names = cases(copier).into_iter().map(|(case, _)| case);
    names
        .filter(|case| !others.contains(&case.as_str()))
        .collect()
}

#[test]
fn an_unreadable_source_leaves_the_destination_unchanged() {
    let scene = Scene::new(4096);
    fs::write(scene.path("out"), "old").expect("it belongs to the test");
    let (dir, missing) = (scene.spec("", ""), scene.spec("", "missing"));
    let to = scene.spec("", "out");
    for copier in [in_rust(), in_c()] {
        for case in cases_but(&copier, &["std-fs-copy"]) {
            assert_refused(&copy(&copier, &case, &dir, &to), &[&dir, "EISDIR"]);
            assert_refused(&copy(&copier, &case, &missing, &to), &["missing", "ENOENT"]);
        }
    }
    let std_fs_copy = copy(&in_rust(), "std-fs-copy", &dir, &to);
    assert_refused(&std_fs_copy, &[&dir, "neither a regular file"]);
    assert_eq!(scene.read("out"), b"old");
}

#[test]
fn a_file_is_not_copied_onto_itself() {
    let scene = Scene::new(4096);
    let already = "the source already";
    fs::hard_link(scene.path("in"), scene.path("other")).expect("it belongs to the test");
    for copier in [in_rust(), in_c()] {
        let onto_itself = |case: &str, [from, to]: [&str; 2], name: &str| {
            copy(
                &copier,
                case,
                &scene.spec(from, "in"),
                &scene.spec(to, name),
            )
        };
        for case in cases_but(&copier, &[]) {
            for name in ["in", "other"] {
                assert_refused(&onto_itself(&case, ["", ""], name), &[name, already]);
            }
        }
        for ends in [
            ["", "pipe:"],
            ["pipe:", ""],
            ["pipe:", "pipe:"],
            ["memfd:", ""],
        ] {
            assert_refused(
                &onto_itself("read-write", ends, "other"),
                &["other", already],
            );
        }
        let appended = onto_itself("read-write", ["", ""], "other").arg("--append");
        assert_refused(&appended, &["other", already]);
        let file = scene.spec("", "in");
        let redirected = ["sh", "-c", "exec \"$@\" <\"$0\" >>\"$0\"", &file];
        let redirected = copy(&copier, "read-write", "-", "-").through(&redirected);
        assert_refused(&redirected, &[already]);
    }
    assert!(scene.read("in") == scene.bytes);
}

#[test]
fn a_socket_without_a_listener_is_reported() {
    let scene = Scene::new(4096);
    let from = scene.spec("", "in");
    let (nobody, gone) = (scene.spec("unix:", "nobody"), scene.spec("unix:", "gone"));
    drop(UnixListener::bind(scene.path("gone")).expect("it belongs to the test"));
    for copier in [in_rust(), in_c()] {
        for (spec, errno) in [
            (nobody.as_str(), "ENOENT"),
            (&gone, "ECONNREFUSED"),
            ("tcp:127.0.0.1:1", "ECONNREFUSED"),
        ] {
            let to = copy(&copier, "read-write", &from, spec);
            assert_refused(&to, &["connect to", spec, "copier sink", errno]);
            let from = copy(&copier, "read-write", spec, "/dev/null");
            assert_refused(&from, &["connect to", spec, "copier feed", errno]);
        }
    }
}

#[test]
fn a_full_disk_is_reported() {
    let scene = Scene::new(4096);
    let full = full(scene.dir());
    let (from, to) = (scene.spec("", "in"), full.to_str().expect("text"));
    for copier in [in_rust(), in_c()] {
        for (case, _) in cases(&copier) {
            // The device supports neither sendfile nor splice, and is not a regular file.
            let errno = match case.as_str() {
                "sendfile" | "libc-sendfile64" | "nix-sendfile64" | "splice-pipe" | "vmsplice"
                | "copy-file-range" | "fast-cat" => "EINVAL",
                "read-send" | "mmap-send" => "ENOTSOCK",
                _ => "ENOSPC",
            };
            assert_refused(&copy(&copier, &case, &from, to), &[&from, to, errno]);
        }
    }
    // A process at a pipe fails after the copy of the small file, and during that of the large
    // one, which does not fit into the pipe. Both processes may say so.
    let to = format!("pipe:{to}");
    for scene in [&scene, &Scene::new(1 << 20)] {
        for copier in [in_rust(), in_c()] {
            let copying = copy(&copier, "read-write", &scene.spec("", "in"), &to);
            untraced(&copying)
                .finish()
                .exits(1)
                .says(&to)
                .says("ENOSPC");
        }
    }
}

/// The cases that do not copy to a socket.
const NO_SOCKETS: [&str; 3] = ["std-fs-copy", "std-buffered-copy", "copy-file-range"];

#[test]
fn a_peer_that_stops_reading_is_reported_as_a_broken_pipe() {
    let scene = Scene::new(4 << 20);
    let from = scene.spec("", "in");
    for copier in [in_rust(), in_c()] {
        for case in cases_but(&copier, &NO_SOCKETS) {
            let to = scene.spec("unix:", &case);
            let listener = UnixListener::bind(scene.path(&case)).expect("it belongs to the test");
            let copying = untraced(&copy(&copier, &case, &from, &to)).start();
            // The copy is far larger than the socket's buffer. A close instead of a shutdown could
            // also give ECONNRESET.
            let (stream, _) = listener.accept().expect("it connects");
            stream.shutdown(Shutdown::Read).expect("it is open");
            assert_eq!(copying.wait(), Some(1), "{case}");
            let stderr = copying.into_stderr();
            let is_named = stderr.contains("EPIPE") && stderr.contains(&to);
            assert!(is_named && stderr.lines().count() == 1, "{case}: {stderr}");
            fs::remove_file(scene.path(&case)).expect("it belongs to the test");
        }
        let script = "{ \"$@\"; echo $? >&2; } | head -c 1 >/dev/null";
        let to_stdout = copy(&copier, "read-write", "/dev/zero", "-");
        let finished = untraced(&to_stdout.through(&["sh", "-c", script, "sh"])).finish();
        let lines: Vec<&str> = finished.stderr.lines().collect();
        assert!(
            matches!(lines[..], [error, "1"] if error.contains("EPIPE")),
            "{lines:?}"
        );
    }
}

#[test]
fn a_buffer_that_cannot_be_allocated_is_reported() {
    let scene = Scene::new(4096);
    let with_buffer = |copier: &Program, case: &str, size: &str| {
        copy(copier, case, &scene.spec("", "in"), "/dev/null").args(&["--buffer", size])
    };
    for copier in [in_rust(), in_c()] {
        for case in ["splice-pipe", "vmsplice"] {
            // The lower 32 bits of this size are 0.
            let copying = with_buffer(&copier, case, "4G");
            assert_refused(&copying, &["fcntl(F_SETPIPE_SZ)", "EPERM"]);
        }
    }
    // This is more than the address space of any machine.
    for (copier, case) in [
        (in_rust(), "read-write"),
        (in_rust(), "io-uring"),
        (in_c(), "read-write"),
    ] {
        let copying = with_buffer(&copier, case, "4000000000G");
        assert_refused(&copying, &["malloc", "ENOMEM"]);
    }
}

#[test]
fn options_that_a_case_does_not_support_are_refused() {
    let scene = Scene::new(4096);
    let (from, to) = (scene.spec("", "in"), scene.spec("", "out"));
    for (case, option, value) in [
        ("std-io-copy", "--buffer", "1"),
        ("tokio-io-copy", "--buffer", "1"),
        ("std-fs-copy", "--size", "1"),
        ("std-buffered-copy", "--append", ""),
        ("read-write", "--wrap", "take"),
    ] {
        let with_option = copy(&in_rust(), case, &from, &to).arg(option);
        let with_option = if value.is_empty() {
            with_option
        } else {
            with_option.arg(value)
        };
        assert_refused_with(2, &with_option, &[case, option]);
    }
    let wrapped = copy(&in_rust(), "std-io-copy", &from, &to).arg("--wrap=dyn,mut");
    assert_refused(&wrapped, &["dyn stands alone"]);
    for copier in [in_rust(), in_c()] {
        let unknown = copy(&copier, "no-such-case", &from, &to);
        assert_refused_with(2, &unknown, &["no-such-case", "--list"]);
        for option in [
            "--interrupt-every=0",
            "--buffer=0",
            "--buffer=4X",
            "--no-such-option",
        ] {
            let with_option = copy(&copier, "read-write", &from, &to).arg(option);
            untraced(&with_option).finish().exits(2);
        }
        let help = untraced(&copier.clone().arg("--help")).finish();
        assert!(help.successful().contains("--interrupt-every"));
        let without_path = copy(&copier, "read-write", "pipe:", &to);
        assert_refused(&without_path, &[": pipe:", " a source needs a path"]);
        let address = "tcp:127.0.0.1:99999";
        assert_refused(
            &copy(&copier, "read-write", &from, address),
            &[address, "port"],
        );
    }
    assert!(!scene.path("out").exists());
}

#[test]
fn every_wrapper_copies_the_same_bytes() {
    let scene = Scene::new(100_000);
    for (wrap, size) in [
        ("bufreader", None),
        ("bufwriter", None),
        ("take", None),
        ("mut", None),
        ("dyn", None),
        ("bufreader,bufwriter", None),
        ("bufreader,take,bufwriter,mut", None),
        ("bufreader,take", Some(777)),
    ] {
        let (from, to) = (scene.spec("", "in"), scene.spec("", "out"));
        let size_option = size.map(|size| format!("--size={size}"));
        let program = copy(&in_rust(), "std-io-copy", &from, &to).args(&["--wrap", wrap]);
        let program = size_option.into_iter().fold(program, Program::arg);
        untraced(&program).finish().successful();
        let expected = &scene.bytes[..size.unwrap_or(100_000)];
        assert!(scene.read("out") == expected, "{wrap}");
    }
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
    case: String,
    talk: Conversation,
    stream: UnixStream,
    /// What it copies.
    bytes: Vec<u8>,
}

impl Copying {
    /// Starts a copy between a file (`in`, `out`) and a socket (`unix:`).
    fn start(scene: &Scene, copier: &Program, case: &str, is_to_socket: bool) -> Self {
        let socket = scene.spec("unix:", case);
        let (from, to) = if is_to_socket {
            (scene.spec("", "in"), socket)
        } else {
            (socket, scene.spec("", "out"))
        };
        // Less is copied byte by byte.
        let size = if case == "byte-cat" {
            200
        } else {
            SIZE as usize
        };
        let has_buffer = !["std-io-copy", "tokio-io-copy", "byte-cat"].contains(&case);
        let mut program = copy(copier, case, &from, &to);
        for option in OPTIONS {
            if has_buffer || !option.starts_with("--buffer") {
                program = program.arg(option);
            }
        }
        if case == "byte-cat" {
            program = program.arg("--size=200");
        }
        let listener = UnixListener::bind(scene.path(case)).expect("it belongs to the test");
        let talk = untraced(&program).start();
        let (stream, _) = listener.accept().expect("it connects");
        let bytes = scene.bytes[..size].to_vec();
        Self {
            case: case.to_owned(),
            talk,
            stream,
            bytes,
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
    fn assert_copied(mut self) {
        let line = self.talk.hear();
        let case = self.case;
        assert_eq!(self.talk.wait(), Some(0), "{case}: {line}");
        let [copied, signals, checksum] = line.splitn(3, ", ").collect::<Vec<_>>()[..] else {
            panic!("{case}: {line}")
        };
        assert_eq!(
            copied,
            format!("copied {} bytes", self.bytes.len()),
            "{case}"
        );
        assert!(checksum.starts_with(&crc32(&self.bytes)), "{case}: {line}");
        let signals = signals
            .split(' ')
            .next()
            .and_then(|count| count.parse().ok());
        assert!(
            signals.is_some_and(|signals: u64| signals > 0),
            "{case}: {line}"
        );
    }
}

/// How often the process has gone to sleep voluntarily.
fn switches(process: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.as_raw_pid()));
    let status = status.expect("it is not reaped");
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.map_or(0, |count| count.trim().parse().expect("a number"))
}

#[test]
fn a_copy_to_a_slow_destination_survives_signals() {
    for copier in [in_rust(), in_c()] {
        for case in cases_but(&copier, &NO_SOCKETS) {
            let scene = Scene::new(SIZE);
            let mut copying = Copying::start(&scene, &copier, &case, true);
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
                received == copying.bytes,
                "{case}: {} bytes",
                received.len()
            );
            copying.assert_copied();
        }
    }
}

#[test]
fn a_copy_from_a_slow_source_survives_signals() {
    // They need pages, copy only files, or only to sockets.
    let others = "libc-sendfile64 nix-sendfile64 sendfile mmap-write mmap-send vmsplice \
                  copy-file-range std-fs-copy std-buffered-copy read-send";
    let others: Vec<&str> = others.split_ascii_whitespace().collect();
    for copier in [in_rust(), in_c()] {
        for case in cases_but(&copier, &others) {
            let scene = Scene::new(SIZE);
            let mut copying = Copying::start(&scene, &copier, &case, false);
            for piece in copying.bytes.clone().chunks(10_007) {
                copying.wait_for_signals();
                let written = copying.stream.write_all(piece);
                written.unwrap_or_else(|error| panic!("{case} reads no more: {error}"));
            }
            copying.wait_for_signals();
            copying
                .stream
                .shutdown(Shutdown::Write)
                .expect("it is open");
            let expected = copying.bytes.clone();
            copying.assert_copied();
            assert!(scene.read("out") == expected, "{case}");
        }
    }
}

/// `std::io::copy` does not repeat a `splice` that a signal interrupted.
#[test]
fn std_io_copy_gives_up_when_a_signal_interrupts_splice() {
    let scene = Scene::new(4096);
    let copying = copy(&in_rust(), "std-io-copy", "-", &scene.spec("", "out"));
    let copying = untraced(&copying.arg("--interrupt-every=1000")).start();
    assert_eq!(copying.wait(), Some(1));
    let stderr = copying.into_stderr();
    let is_named = stderr.contains("std::io::copy - ->") && stderr.contains("EINTR");
    assert!(is_named, "{stderr}");
}

/// The kernel waits for the terminal, so the copier never gets EAGAIN.
#[test]
fn io_uring_waits_for_a_non_blocking_terminal() {
    let scene = Scene::new(0);
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    let mut keyboard = File::from(keyboard);
    unlockpt(&keyboard).expect("it belongs to the test");
    let name = ptsname(&keyboard, Vec::new()).expect("it has one");
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let mut screen = OpenOptions::new();
    let screen = screen
        .read(true)
        .custom_flags(flags)
        .open(name.to_str().expect("text"));
    let copying = copy(&in_rust(), "io-uring", "-", &scene.spec("", "out"));
    let mut command = untraced(&copying).command();
    let command = command.stdin(screen.expect("it is there"));
    let copying = Group::start(command.stdout(Stdio::null()));
    for line in ["one\n", "two\n", "\u{4}"] {
        wait_until("it waits", || state_of(copying.pid()) == 'S');
        keyboard.write_all(line.as_bytes()).expect("it reads");
    }
    assert_eq!(copying.wait(), Some(0));
    assert_eq!(scene.read("out"), b"one\ntwo\n");
}
