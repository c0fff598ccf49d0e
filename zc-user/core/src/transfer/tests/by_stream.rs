//! Streams that are equal at all sampled places, and streams that are not.

use super::*;
use crate::{
    report::{Certainty, sample::files::written_held},
    trace::{Row, Stream},
};

/// A scene of a backend that sees memory. A sum stands for the contents of a file that was read or written as a whole.
struct Streams {
    scene: Scene,
}

impl Streams {
    fn new() -> Self {
        let mut scene = Scene::new();
        scene.trace.sees_memory = true;
        Self { scene }
    }

    fn source(&mut self, name: &str, bytes: u64, sum: u64) -> FileId {
        let file = self.scene.regular(name);
        self.streams(file).read = Some(Stream { bytes, sum, telling: 40 });
        file
    }

    fn destination(&mut self, name: &str, bytes: u64, sum: u64) -> FileId {
        let file = self.scene.regular(name);
        self.streams(file).written = Some(Stream { bytes, sum, telling: 40 });
        file
    }

    fn streams(&mut self, file: FileId) -> &mut crate::trace::Streams {
        &mut self.scene.trace.files[usize::try_from(file.0).expect("fits")].streams
    }

    /// The transfers of a process with one thread for each of these rows.
    fn said(&mut self, rows: Vec<Row>) -> Vec<Transfer> {
        self.scene.trace.processes.clear();
        self.scene.threads("copier", rows.into_iter().map(|row| vec![row]).collect());
        analyse(&self.scene.trace).processes.swap_remove(0).transfers
    }
}

/// Certainty, evidence, bytes and proven bytes of a transfer.
fn figures(transfer: &Transfer) -> (Certainty, Option<Evidence>, Option<u64>, Option<u64>) {
    (transfer.certainty, transfer.evidence, transfer.bytes, transfer.proven_bytes)
}

#[test]
fn equal_streams_are_joined_and_others_are_not() {
    let mut streams = Streams::new();
    let from = streams.source("in", MIB, 7);
    let (to, other) = (streams.destination("out", MIB, 7), streams.destination("other", MIB, 8));
    let rows = |to| vec![read("read", from, 16, MIB).at(1), write("write", to, 16, MIB).at(2)];
    let said = streams.said(rows(to));
    assert_eq!(said.len(), 1);
    assert_eq!(figures(&said[0]), (Certainty::Inferred, Some(Evidence::Totals), Some(MIB), Some(0)));
    assert_eq!(streams.said(rows(other)), []);
}

#[test]
fn incomplete_streams_and_zeroes_show_nothing() {
    let mut streams = Streams::new();
    let (from, to) = (streams.source("in", MIB - 1, 7), streams.destination("out", MIB - 1, 7));
    assert_eq!(streams.said(vec![read("read", from, 16, MIB).at(1), write("write", to, 16, MIB).at(2)]), []);
    let zeroes = Stream { bytes: MIB, sum: 7, telling: 0 };
    (streams.streams(from).read, streams.streams(to).written) = (Some(zeroes), Some(zeroes));
    assert_eq!(streams.said(vec![read("read", from, 16, MIB).at(1), write("write", to, 16, MIB).at(2)]), []);
}

#[test]
fn two_equal_sources_give_no_transfer() {
    let mut streams = Streams::new();
    let (from, copy) = (streams.source("in", MIB, 7), streams.source("copy", MIB, 7));
    let to = streams.destination("out", MIB, 7);
    let rows = vec![read("read", from, 16, MIB).at(1), read("read", copy, 16, MIB).at(1), write("write", to, 16, MIB).at(2)];
    assert_eq!(streams.said(rows), []);
}

#[test]
fn a_partly_proven_flow_is_completed() {
    let mut streams = Streams::new();
    let (from, to) = (streams.source("in", MIB, 7), streams.destination("out", MIB, 7));
    let half = MIB / 2;
    let rows = vec![
        read("read", from, 16, MIB).at(1),
        written_held("write", from, to, 8, half, half).at(2),
        write("write", to, 8, half).at(3),
    ];
    let said = streams.said(rows);
    assert_eq!(
        said.iter().map(figures).collect::<Vec<_>>(),
        [(Certainty::Inferred, Some(Evidence::Totals), Some(MIB), Some(half))]
    );
    assert_eq!(said[0].calls, 32);
}

#[test]
fn a_loop_whose_streams_differ_changed_the_bytes_and_a_single_call_is_chance() {
    let mut streams = Streams::new();
    let (from, to) = (streams.source("in", MIB, 7), streams.destination("out", MIB, 8));
    for (calls, is_stated) in [(16, true), (1, false)] {
        streams.scene.trace.processes.clear();
        let rows = vec![read("read", from, calls, MIB).at(1), written_after("write", from, to, calls, MIB, MIB).at(2)];
        streams.scene.process("tr", rows);
        let said = analyse(&streams.scene.trace).processes.swap_remove(0).transfers;
        assert_eq!(said.len(), usize::from(is_stated));
        assert!(said.iter().all(|transfer| transfer.verdict.ends_with("changed or replaced on the way")), "{said:?}");
    }
}
