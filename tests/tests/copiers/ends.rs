//! Every case from every source to every destination: the right bytes, or the right refusal.

use std::fs;

use super::{
    expected::{DESTINATIONS, End, SOURCES, has_append, refusal},
    support::{LoopDevice, Scene, Side, cases, copy, crc32, in_c, in_rust},
};
use crate::harness::{Launch, Program, untraced};

/// More than a pipe holds, no multiple of a page, and whole sectors.
const SIZE: u32 = 148 * 512;
/// What a file that is appended to has already.
const OLD: &[u8] = b"old";

/// A file to copy, and a block device with the same bytes and one with others.
struct Ends {
    scene: Scene,
    full: LoopDevice,
    blank: LoopDevice,
}

/// What the other sides have to say after a copy.
struct Sides {
    feed: Option<Side>,
    sink: Option<Side>,
}

impl Ends {
    fn new() -> Self {
        let scene = Scene::new(SIZE);
        for (name, bytes) in [("full", &scene.bytes), ("blank", &vec![0; SIZE as usize])] {
            fs::write(scene.path(name), bytes).expect("room for it");
        }
        let [full, blank] = ["full", "blank"].map(|name| LoopDevice::of(&scene.path(name)));
        Self { scene, full, blank }
    }

    /// A place for a socket. A copier that refused to copy has not connected, and the killed sink left its file.
    fn socket(&self, name: &str) -> String {
        drop(fs::remove_file(self.scene.path(name)));
        self.scene.spec("unix:", name)
    }

    /// A source as the copier is to be given it, and its other side.
    fn source(&self, end: End) -> (String, Option<Side>) {
        let file = self.scene.spec("", "in");
        let fed = |address: &str| {
            let side = Side::feed(address, &file);
            (side.spec.clone(), Some(side))
        };
        match end {
            End::Memory => (format!("memfd:{file}"), None),
            End::Pipe => (format!("pipe:{file}"), None),
            End::Block => (self.full.path().to_owned(), None),
            End::Unix => fed(&self.socket("feed")),
            End::Tcp => fed("tcp:127.0.0.1:0"),
            End::StandardFile | End::StandardPipe => ("-".to_owned(), None),
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
            End::Memory => ("memfd:".to_owned(), None),
            End::Pipe => (self.scene.spec("pipe:", "out"), None),
            End::Block => (self.blank.path().to_owned(), None),
            End::Unix => drained(&self.socket("sink")),
            End::Tcp => drained("tcp:127.0.0.1:0"),
            End::StandardFile | End::StandardPipe => ("-".to_owned(), None),
            End::Null => ("/dev/null".to_owned(), None),
            End::File | End::Appended => (self.scene.spec("", "out"), None),
        }
    }

    /// Gives the copier its stdin.
    fn launch(&self, program: &Program, from: End) -> Launch {
        match from {
            End::StandardPipe => untraced(program).input(&self.scene.bytes),
            // A shell's redirection, and no cat: `-` is the file itself.
            End::StandardFile => {
                let script = format!("exec \"$@\" < {}", self.scene.spec("", "in"));
                untraced(&program.clone().through(&["sh", "-c", &script, "sh"]))
            }
            _ => untraced(program),
        }
    }

    /// Copies, and looks at what came of it.
    #[track_caller]
    fn check(&self, copier: &Program, case: &str, from: End, to: End) {
        fs::write(self.scene.path("out"), OLD).expect("ours");
        fs::write(self.blank.path(), vec![0; SIZE as usize]).expect("ours");
        let ((source, feed), (destination, sink)) = (self.source(from), self.destination(to));
        let options: &[&str] = if to == End::Appended { &["--append"] } else { &[] };
        let checksum: &[&str] = if which_is_summed_up(from, to).is_some() { &["--checksum"] } else { &[] };
        let program = copy(copier, case, &source, &destination).args(options).args(checksum);
        let finished = self.launch(&program, from).finish();
        let what = format!("{case} from {from:?} to {to:?}: {}", finished.stderr);
        if let Some(text) = refusal(case, from, to) {
            assert_eq!(finished.code, Some(1), "{what}");
            assert!(finished.stderr.contains(text) && finished.stderr.lines().count() == 1, "not {text}, but {what}");
            return;
        }
        assert_eq!(finished.code, Some(0), "{what}");
        let expected = if case == "std-buffered-copy" { &self.scene.bytes[..14] } else { &self.scene.bytes };
        let said = if to == End::StandardFile { &finished.stderr } else { finished.text() };
        assert_eq!(*said, told(expected, from, to), "{what}");
        self.check_destination(to, expected, &finished.stdout, &what);
        Sides { feed, sink }.check(expected, &what);
    }

    /// Reads what is at the destination.
    #[track_caller]
    fn check_destination(&self, to: End, expected: &[u8], stdout: &[u8], what: &str) {
        let found = match to {
            End::File | End::Pipe | End::Appended => fs::read(self.scene.path("out")).expect("it is there"),
            End::Block => fs::read(self.blank.path()).expect("it is there")[..expected.len()].to_vec(),
            End::StandardFile => stdout.to_vec(),
            _ => return,
        };
        let expected = [if to == End::Appended { OLD } else { b"" }, expected].concat();
        assert!(found == expected, "{} bytes, expected {}: {what}", found.len(), expected.len());
    }
}

impl Sides {
    /// Compares what the other sides counted and summed up.
    #[track_caller]
    fn check(self, expected: &[u8], what: &str) {
        if let Some(sink) = self.sink {
            assert_eq!(sink.last_line(), format!("received {} bytes, {}", expected.len(), crc32(expected)), "{what}");
        }
        if let Some(feed) = self.feed {
            assert_eq!(feed.last_line(), format!("sent {} bytes", expected.len()), "{what}");
        }
    }
}

/// The copier's line.
fn told(bytes: &[u8], from: End, to: End) -> String {
    let checksum = which_is_summed_up(from, to).map(|which| format!(", {} of {which}", crc32(bytes)));
    format!("copied {} bytes{}\n", bytes.len(), checksum.unwrap_or_default())
}

/// Which end's checksum the copier can tell; a socket's is for the other side to tell.
fn which_is_summed_up(from: End, to: End) -> Option<&'static str> {
    let knows_source = !matches!(from, End::Unix | End::Tcp | End::StandardPipe);
    let knows_sink = !matches!(to, End::Unix | End::Tcp | End::Null);
    match (knows_source, knows_sink) {
        (true, true) => Some("both ends"),
        (true, false) => Some("the source"),
        (false, true) => Some("the destination"),
        (false, false) => None,
    }
}

fn every_case_between_all_ends(copier: &Program) {
    let ends = Ends::new();
    let pairs = || SOURCES.iter().flat_map(|from| DESTINATIONS.iter().map(move |to| (*from, *to)));
    for (case, _) in cases(copier) {
        for (from, to) in pairs().filter(|(_, to)| has_append(&case) || *to != End::Appended) {
            ends.check(copier, &case, from, to);
        }
    }
}

#[test]
fn in_rust_every_case_between_all_ends() {
    every_case_between_all_ends(&in_rust());
}

#[test]
fn in_c_every_case_between_all_ends() {
    every_case_between_all_ends(&in_c());
}

#[test]
fn what_cannot_be_read_again_has_no_checksum() {
    let feed = Side::feed("tcp:127.0.0.1:0", "/dev/null");
    for copier in [in_rust(), in_c()] {
        let finished = untraced(&copy(&copier, "read-write", &feed.spec, "/dev/null").arg("--checksum")).finish();
        assert_eq!(finished.code, Some(1));
        assert!(finished.stderr.contains("can be read again"), "{}", finished.stderr);
    }
}
