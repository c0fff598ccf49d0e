//! Every case copies from every source to every destination: the right bytes arrive, or the copier
//! refuses with the right error.

use std::{collections::BTreeMap, fs};

use End::{Appended, Block, File, Memory, Null, Pipe, StandardFile, StandardPipe, Tcp, Unix};

use super::{LoopDevice, Scene, Side, cases, copy, crc32, in_c, in_rust};
use crate::harness::{Program, untraced};

/// More than a pipe holds, a whole number of sectors, but not of pages.
const SIZE: u32 = 148 * 512;
/// What is in a file before a copy is appended to it.
const OLD: &[u8] = b"old";

/// A file to copy, and a block device with the same bytes and one with others.
struct Ends {
    scene: Scene,
    full: LoopDevice,
    blank: LoopDevice,
}

impl Ends {
    fn new() -> Self {
        let scene = Scene::new(SIZE);
        fs::write(scene.path("full"), &scene.bytes).expect("room for it");
        fs::write(scene.path("blank"), vec![0; SIZE as usize]).expect("room for it");
        let [full, blank] = ["full", "blank"].map(|name| LoopDevice::for_file(&scene.path(name)));
        Self { scene, full, blank }
    }

    /// An address for a socket. Its file may still be there: if a copier refused to copy, nobody
    /// connected, and the sink was killed.
    fn socket(&self, name: &str) -> String {
        drop(fs::remove_file(self.scene.path(name)));
        self.scene.spec("unix:", name)
    }

    /// A source as an argument of the copier, and its other side.
    fn source(&self, end: End) -> (String, Option<Side>) {
        let file = self.scene.spec("", "in");
        let fed = |address: &str| {
            let side = Side::feed(address, &file);
            (side.spec.clone(), Some(side))
        };
        match end {
            Memory => (format!("memfd:{file}"), None),
            Pipe => (format!("pipe:{file}"), None),
            Block => (self.full.path().to_owned(), None),
            Unix => fed(&self.socket("feed")),
            Tcp => fed("tcp:127.0.0.1:0"),
            StandardFile | StandardPipe => ("-".to_owned(), None),
            _ => (file, None),
        }
    }

    /// The same for a destination.
    fn destination(&self, end: End) -> (String, Option<Side>) {
        let drained = |address: &str| {
            let side = Side::sink(address);
            (side.spec.clone(), Some(side))
        };
        match end {
            Memory => ("memfd:".to_owned(), None),
            Pipe => (self.scene.spec("pipe:", "out"), None),
            Block => (self.blank.path().to_owned(), None),
            Unix => drained(&self.socket("sink")),
            Tcp => drained("tcp:127.0.0.1:0"),
            StandardFile | StandardPipe => ("-".to_owned(), None),
            Null => ("/dev/null".to_owned(), None),
            File | Appended => (self.scene.spec("", "out"), None),
        }
    }

    /// The copier with its stdin.
    fn launch(&self, program: &Program, from: End) -> Program {
        match from {
            StandardPipe => untraced(program).input(&self.scene.bytes),
            // The shell redirects stdin, so `-` is the file itself and not a pipe.
            StandardFile => {
                let script = format!("exec \"$@\" < {}", self.scene.spec("", "in"));
                untraced(&program.clone().through(&["sh", "-c", &script, "sh"]))
            }
            _ => untraced(program),
        }
    }

    /// Copies, and checks the result.
    #[track_caller]
    fn check(&self, copier: &Program, case: &str, from: End, to: End) {
        println!("{case} from {from:?} to {to:?}");
        fs::write(self.scene.path("out"), OLD).expect("it belongs to the test");
        fs::write(self.blank.path(), vec![0; SIZE as usize]).expect("it belongs to the test");
        let ((source, feed), (destination, sink)) = (self.source(from), self.destination(to));
        let mut program = copy(copier, case, &source, &destination);
        if to == Appended {
            program = program.arg("--append");
        }
        if which_is_summed_up(from, to).is_some() {
            program = program.arg("--checksum");
        }
        let finished = self.launch(&program, from).finish();
        if let Some(text) = refusal(case, from, to) {
            finished.exits(1).says(text).in_one_line();
            return;
        }
        finished.exits(0);
        let is_short = case == "std-buffered-copy";
        let expected = &self.scene.bytes[..if is_short { 14 } else { SIZE as usize }];
        let is_said_on_stderr = to == StandardFile;
        let said = if is_said_on_stderr {
            &finished.stderr
        } else {
            finished.text()
        };
        assert_eq!(*said, line(expected, from, to));
        self.check_destination(to, expected, &finished.stdout);
        // What the other sides counted, and their checksum.
        let bytes = expected.len();
        if let Some(sink) = sink {
            let line = format!("received {bytes} bytes, {}", crc32(expected));
            assert_eq!(sink.last_line(), line);
        }
        if let Some(feed) = feed {
            assert_eq!(feed.last_line(), format!("sent {bytes} bytes"));
        }
    }

    /// Checks the bytes at the destination.
    #[track_caller]
    fn check_destination(&self, to: End, expected: &[u8], stdout: &[u8]) {
        let found = match to {
            File | Pipe | Appended => self.scene.read("out"),
            Block => fs::read(self.blank.path()).expect("it is there")[..expected.len()].to_vec(),
            StandardFile => stdout.to_vec(),
            _ => return,
        };
        let expected = [if to == Appended { OLD } else { b"" }, expected].concat();
        assert!(
            found == expected,
            "{} of {} bytes",
            found.len(),
            expected.len()
        );
    }
}

/// The line that the copier prints.
fn line(bytes: &[u8], from: End, to: End) -> String {
    let copied = format!("copied {} bytes", bytes.len());
    match which_is_summed_up(from, to) {
        Some(which) => format!("{copied}, {} of {which}\n", crc32(bytes)),
        None => copied + "\n",
    }
}

/// Which ends the copier can compute a checksum of. The checksum of a socket is computed by the
/// other side.
fn which_is_summed_up(from: End, to: End) -> Option<&'static str> {
    let knows_source = !matches!(from, Unix | Tcp | StandardPipe);
    let knows_sink = !matches!(to, Unix | Tcp | Null);
    match (knows_source, knows_sink) {
        (true, true) => Some("both ends"),
        (true, false) => Some("the source"),
        (false, true) => Some("the destination"),
        (false, false) => None,
    }
}

fn every_case_between_all_ends(copier: &Program) {
    let ends = Ends::new();
    for (case, _) in cases(copier) {
        let has_append = !["std-fs-copy", "std-buffered-copy"].contains(&case.as_str());
        for &from in SOURCES {
            for &to in DESTINATIONS {
                if has_append || to != Appended {
                    ends.check(copier, &case, from, to);
                }
            }
        }
    }
}

#[test]
fn every_case_of_the_rust_copier_works_between_all_ends() {
    every_case_between_all_ends(&in_rust());
}

#[test]
fn every_case_of_the_c_copier_works_between_all_ends() {
    every_case_between_all_ends(&in_c());
}

#[test]
fn a_checksum_is_refused_if_no_end_can_be_read_again() {
    let feed = Side::feed("tcp:127.0.0.1:0", "/dev/null");
    for copier in [in_rust(), in_c()] {
        let copying = copy(&copier, "read-write", &feed.spec, "/dev/null");
        let finished = untraced(&copying.arg("--checksum")).finish();
        finished.exits(1).says("can be read again");
    }
}

/// A source, or a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// A regular file.
    File,
    /// A regular file, to which the copy is appended.
    Appended,
    /// A file in memory.
    Memory,
    /// A block device.
    Block,
    /// A pipe that another process of the copier feeds or drains.
    Pipe,
    /// A socket of the Unix family.
    Unix,
    /// A TCP socket.
    Tcp,
    /// `-`, which is a regular file.
    StandardFile,
    /// `-`, which is a pipe.
    StandardPipe,
    /// `/dev/null`.
    Null,
}

/// What can be read from.
const SOURCES: &[End] = &[
    File,
    Memory,
    Block,
    Pipe,
    Unix,
    Tcp,
    StandardFile,
    StandardPipe,
];

/// What can be written to. (Every test has its stdout in a file.)
const DESTINATIONS: &[End] = &[
    File,
    Appended,
    Memory,
    Block,
    Pipe,
    Unix,
    Tcp,
    StandardFile,
    Null,
];

impl End {
    /// Whether it has positions, and pages that can be mapped.
    fn has_pages(self) -> bool {
        matches!(self, File | Appended | Memory | Block | StandardFile)
    }

    /// Whether it is a regular file.
    fn is_regular(self) -> bool {
        self.has_pages() && self != Block
    }

    fn is_socket(self) -> bool {
        matches!(self, Unix | Tcp)
    }

    fn is_named_file(self) -> bool {
        matches!(self, File | Block | Null)
    }
}

/// The error of the copier if the case cannot copy between these ends; `None` if it can.
fn refusal(case: &str, from: End, to: End) -> Option<&'static str> {
    match case {
        "std-fs-copy" if !from.is_named_file() || !to.is_named_file() => {
            Some("from a path to a path")
        }
        "std-fs-copy" => (from != File).then_some("neither a regular file nor a symlink"),
        "std-buffered-copy" if !from.has_pages() && from != StandardPipe => {
            Some("from file to file")
        }
        "std-buffered-copy" => (to.is_socket() || to == Pipe).then_some("from file to file"),
        "mmap-write" | "mmap-send" | "vmsplice" if !from.has_pages() => Some("ESPIPE"),
        "read-send" | "mmap-send" => (!to.is_socket()).then_some("ENOTSOCK"),
        // sendfile needs a source with pages, except from a socket to a pipe. Neither sendfile nor
        // splice can append.
        "libc-sendfile64" | "nix-sendfile64" | "sendfile" if from.is_socket() && to == Pipe => None,
        "libc-sendfile64" | "nix-sendfile64" | "sendfile" if !from.has_pages() => Some("EINVAL"),
        "libc-sendfile64" | "nix-sendfile64" | "sendfile" | "splice-pipe" | "vmsplice"
        | "fast-cat" => (to == Appended).then_some("EINVAL"),
        "copy-file-range" => copy_file_range_refusal(from, to),
        _ => None,
    }
}

/// The checks of the kernel's `generic_copy_file_checks`, in their order; then both ends must be on
/// one filesystem.
fn copy_file_range_refusal(from: End, to: End) -> Option<&'static str> {
    match (from.is_regular(), to.is_regular()) {
        (true, true) if to == Appended => Some("EBADF"),
        (true, true) if (from == Memory) != (to == Memory) => Some("EXDEV"),
        (true, true) => None,
        (..) => Some("EINVAL"),
    }
}

#[test]
fn equal_cases_of_the_two_copiers_name_each_other() {
    // With the other name, and without an equal.
    let split = |cases: Vec<(String, Option<String>)>| {
        let (mut twins, mut alone) = (BTreeMap::new(), Vec::new());
        for (name, twin) in cases {
            match twin {
                Some(twin) => drop(twins.insert(name, twin)),
                None => alone.push(name),
            }
        }
        (twins, alone.join(" "))
    };
    let ((rust, alone_in_rust), (c, alone_in_c)) =
        (split(cases(&in_rust())), split(cases(&in_c())));
    assert!(
        c.iter().all(|(name, twin)| rust.get(twin) == Some(name)),
        "{rust:?} {c:?}"
    );
    // The Rust copier makes this call through two crates.
    assert_eq!(rust["nix-sendfile64"], "sendfile");
    let mut others = rust.iter().filter(|(name, _)| *name != "nix-sendfile64");
    assert!(
        others.all(|(name, twin)| c.get(twin) == Some(name)),
        "{rust:?} {c:?}"
    );
    assert_eq!(
        alone_in_rust,
        "std-io-copy std-buffered-copy std-fs-copy tokio-io-copy io-uring"
    );
    assert_eq!(
        alone_in_c,
        "read-write-stack read-send byte-cat mmap-send fast-cat"
    );
}
