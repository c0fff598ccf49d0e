//! Signals, full buffers and slow peers: what was copied is still right.

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

use super::support::{Scene, cases, copy, crc32, in_c, in_rust};
use crate::harness::{Conversation, Group, Program, state_of, untraced, wait_until};

const SIZE: u32 = 148 * 512;
/// A signal every millisecond, and the smallest send buffer that there is.
const OPTIONS: [&str; 4] = ["--interrupt-every=1000", "--send-buffer=1", "--buffer=16k", "--checksum"];

/// A copier that a signal interrupts every millisecond, and the other side of its socket.
struct Copying {
    talk: Conversation,
    stream: UnixStream,
}

impl Copying {
    fn start(scene: &Scene, case: &str, program: &Program) -> Self {
        let listener = UnixListener::bind(scene.path(case)).expect("ours");
        let talk = untraced(program).start();
        Self { stream: listener.accept().expect("it connects").0, talk }
    }

    /// Waits until signals have woken the copier a few times while it could not go on; or it has ended.
    fn wait_for_signals(&self) {
        let before = switches(self.talk.pid());
        wait_until("it is woken by signals", || self.talk.has_ended() || switches(self.talk.pid()) >= before + 3);
    }

    /// Its last line: the count, the signals that came, and the checksum.
    #[track_caller]
    fn assert_copied(mut self, case: &str, bytes: &[u8]) {
        let line = self.talk.hear();
        assert_eq!(self.talk.wait(), Some(0), "{case}: {line}");
        let [copied, signals, checksum] = line.splitn(3, ", ").collect::<Vec<_>>()[..] else { panic!("{case}: {line}") };
        assert_eq!(copied, format!("copied {} bytes", bytes.len()), "{case}");
        assert!(checksum.starts_with(&crc32(bytes)), "{case}: {line}");
        let signals: u64 = signals.split(' ').next().and_then(|count| count.parse().ok()).expect("a count");
        assert!(signals > 0, "{case}: {line}");
    }
}

/// How often the process has gone to sleep of its own.
fn switches(process: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.as_raw_pid())).expect("it is not reaped");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.map_or(0, |count| count.trim().parse().expect("a number"))
}

/// The cases of a copier but for some.
fn cases_but(copier: &Program, others: &[&str]) -> Vec<String> {
    cases(copier).into_iter().map(|(case, _)| case).filter(|case| !others.contains(&case.as_str())).collect()
}

/// The options that a case understands, and how much it has to copy: a byte at a time takes long.
fn options(case: &str) -> (Vec<&'static str>, usize) {
    let has_buffer = !["std-io-copy", "tokio-io-copy", "byte-cat"].contains(&case);
    let mut options: Vec<&str> = OPTIONS.into_iter().filter(|option| has_buffer || !option.starts_with("--buffer")).collect();
    if case == "byte-cat" {
        options.push("--size=200");
        return (options, 200);
    }
    (options, SIZE as usize)
}

#[test]
fn a_destination_that_takes_a_little_at_a_time() {
    for copier in [in_rust(), in_c()] {
        for case in cases_but(&copier, &["std-fs-copy", "std-buffered-copy", "copy-file-range"]) {
            let scene = Scene::new(SIZE);
            let (options, size) = options(&case);
            let program = copy(&copier, &case, &scene.spec("", "in"), &scene.spec("unix:", &case)).args(&options);
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
            assert!(received == scene.bytes[..size], "{case}: {} bytes", received.len());
            copying.assert_copied(&case, &scene.bytes[..size]);
        }
    }
}

#[test]
fn a_source_that_gives_a_little_at_a_time() {
    let with_pages = ["libc-sendfile64", "nix-sendfile64", "sendfile", "mmap-write", "mmap-send", "vmsplice", "copy-file-range"];
    let others = ["std-fs-copy", "std-buffered-copy", "read-send"];
    for copier in [in_rust(), in_c()] {
        for case in cases_but(&copier, &[&with_pages[..], &others].concat()) {
            let scene = Scene::new(SIZE);
            let (options, size) = options(&case);
            let program = copy(&copier, &case, &scene.spec("unix:", &case), &scene.spec("", "out")).args(&options);
            let mut copying = Copying::start(&scene, &case, &program);
            for piece in scene.bytes[..size].chunks(10_007) {
                copying.wait_for_signals();
                copying.stream.write_all(piece).unwrap_or_else(|error| panic!("{case} reads no more: {error}"));
            }
            copying.wait_for_signals();
            copying.stream.shutdown(Shutdown::Write).expect("it is open");
            assert!(fs::read(scene.path("out")).is_ok(), "{case}");
            copying.assert_copied(&case, &scene.bytes[..size]);
            assert!(fs::read(scene.path("out")).expect("it is there") == scene.bytes[..size], "{case}");
        }
    }
}

/// What std does not do for a program: `std::io::copy` does not repeat a `splice` that a signal interrupted.
#[test]
fn std_io_copy_gives_up_when_a_signal_interrupts_splice() {
    let scene = Scene::new(4096);
    let program = copy(&in_rust(), "std-io-copy", "-", &scene.spec("", "out")).arg("--interrupt-every=1000");
    let copying = untraced(&program).start();
    assert_eq!(copying.wait(), Some(1));
    let stderr = copying.into_stderr();
    assert!(stderr.contains("std::io::copy - ->") && stderr.contains("EINTR"), "{stderr}");
}

/// The kernel does it: the copier is never told EAGAIN.
#[test]
fn the_ring_waits_for_a_terminal_that_does_not_block() {
    let scene = Scene::new(0);
    let mut keyboard = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal"));
    unlockpt(&keyboard).expect("ours");
    let name = ptsname(&keyboard, Vec::new()).expect("it has one");
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let screen = OpenOptions::new().read(true).custom_flags(flags).open(name.to_str().expect("text")).expect("ours");
    let mut command = untraced(&copy(&in_rust(), "io-uring", "-", &scene.spec("", "out"))).command();
    let copying = Group::start(command.stdin(screen).stdout(Stdio::null()));
    for line in ["one\n", "two\n", "\u{4}"] {
        wait_until("it waits", || state_of(copying.pid()) == 'S');
        keyboard.write_all(line.as_bytes()).expect("it reads");
    }
    assert_eq!(copying.wait(), Some(0));
    assert_eq!(fs::read_to_string(scene.path("out")).expect("it is there"), "one\ntwo\n");
}
