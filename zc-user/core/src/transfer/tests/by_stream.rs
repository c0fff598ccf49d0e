//! Streams that are equal at all sampled places, and streams that are not.

use super::*;
use crate::{
    report::{Certainty, sample::files::written_held},
    trace::{Row, Stream},
};

/// A scene of a backend that sees memory. A sum stands for the contents of a file that was read or
/// written as a whole.
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
        self.scene.streams(file).read = Some(Stream {
            bytes,
            sum,
            telling: 40,
            ..Stream::default()
        });
        file
    }

    fn destination(&mut self, name: &str, bytes: u64, sum: u64) -> FileId {
        let file = self.scene.regular(name);
        self.scene.streams(file).written = Some(Stream {
            bytes,
            sum,
            telling: 40,
            ..Stream::default()
        });
        file
    }

    /// The transfers of a process with one thread for each of these rows.
    fn said(&mut self, rows: Vec<Row>) -> Vec<Transfer> {
        self.scene.trace.processes.clear();
        self.scene
            .threads("copier", rows.into_iter().map(|row| vec![row]).collect());
        analyse(&self.scene.trace)
            .processes
            .swap_remove(0)
            .transfers
    }
}

/// Certainty, evidence, bytes and proven bytes of a transfer.
fn figures(transfer: &Transfer) -> (Certainty, Option<Evidence>, Option<u64>, Option<u64>) {
    (
        transfer.certainty,
        transfer.evidence,
        transfer.bytes,
        transfer.proven_bytes,
    )
}

#[test]
fn equal_streams_are_joined_and_others_are_not() {
    let mut streams = Streams::new();
    let from = streams.source("in", MIB, 7);
    let (to, other) = (
        streams.destination("out", MIB, 7),
        streams.destination("other", MIB, 8),
    );
    let rows = |to| {
        vec![
            read("read", from, 16, MIB).at(1),
            write("write", to, 16, MIB).at(2),
        ]
    };
    let said = streams.said(rows(to));
    assert_eq!(said.len(), 1);
    assert_eq!(
        figures(&said[0]),
        (
            Certainty::Inferred,
            Some(Evidence::Totals),
            Some(MIB),
            Some(0)
        )
    );
    assert_eq!(streams.said(rows(other)), []);
}

#[test]
fn incomplete_streams_and_zeroes_show_nothing() {
    let mut streams = Streams::new();
    let (from, to) = (
        streams.source("in", MIB - 1, 7),
        streams.destination("out", MIB - 1, 7),
    );
    assert_eq!(
        streams.said(vec![
            read("read", from, 16, MIB).at(1),
            write("write", to, 16, MIB).at(2)
        ]),
        []
    );
    let zeroes = Stream {
        bytes: MIB,
        sum: 7,
        ..Stream::default()
    };
    (
        streams.scene.streams(from).read,
        streams.scene.streams(to).written,
    ) = (Some(zeroes.clone()), Some(zeroes));
    assert_eq!(
        streams.said(vec![
            read("read", from, 16, MIB).at(1),
            write("write", to, 16, MIB).at(2)
        ]),
        []
    );
}

#[test]
fn two_equal_sources_give_no_transfer() {
    let mut streams = Streams::new();
    let (from, copy) = (streams.source("in", MIB, 7), streams.source("copy", MIB, 7));
    let to = streams.destination("out", MIB, 7);
    let rows = vec![
        read("read", from, 16, MIB).at(1),
        read("read", copy, 16, MIB).at(1),
        write("write", to, 16, MIB).at(2),
    ];
    assert_eq!(streams.said(rows), []);
}

#[test]
fn a_partly_proven_flow_is_completed() {
    let mut streams = Streams::new();
    let (from, to) = (
        streams.source("in", MIB, 7),
        streams.destination("out", MIB, 7),
    );
    let half = MIB / 2;
    let rows = vec![
        read("read", from, 16, MIB).at(1),
        written_held("write", from, to, 8, half, half).at(2),
        write("write", to, 8, half).at(3),
    ];
    let said = streams.said(rows);
    assert_eq!(
        said.iter().map(figures).collect::<Vec<_>>(),
        [(
            Certainty::Inferred,
            Some(Evidence::Totals),
            Some(MIB),
            Some(half)
        )]
    );
    assert_eq!(said[0].calls, 32);
}

#[test]
fn equal_samples_in_different_windows_are_chance() {
    let mut streams = Streams::new();
    let (from, to) = (
        streams.source("in", MIB, 7),
        streams.destination("out", MIB, 7),
    );
    let rows = || {
        vec![
            read("read", from, 16, MIB).at(1),
            write("write", to, 16, MIB).at(2),
        ]
    };
    for (written, is_stated) in [(&[1, 2, 3], true), (&[1, 0, 3], true), (&[1, 2, 4], false)] {
        streams.scene.set_windows([from, to], [&[1, 2, 3], written]);
        assert_eq!(
            streams.said(rows()).len(),
            usize::from(is_stated),
            "{written:?}"
        );
    }
}

#[test]
fn bytes_that_a_thread_writes_in_turn_count_up_to_the_first_window_with_others() {
    let mut streams = Streams::new();
    let (from, to) = (
        streams.source("in", MIB, 7),
        streams.destination("out", MIB, 8),
    );
    let bytes_stated = |streams: &Streams, proven_bytes| {
        let written = written_after(
            "write",
            from,
            to,
            16,
            MIB - proven_bytes,
            MIB - proven_bytes,
        )
        .at(2);
        let proven = (proven_bytes > 0)
            .then(|| written_held("write", from, to, 16, proven_bytes, proven_bytes).at(3));
        let mut scene = Scene {
            trace: streams.scene.trace.clone(),
        };
        scene.trace.processes.clear();
        scene.process(
            "copier",
            [read("read", from, 16, MIB).at(1), written]
                .into_iter()
                .chain(proven)
                .collect(),
        );
        analyse(&scene.trace)
            .processes
            .swap_remove(0)
            .transfers
            .iter()
            .filter_map(|transfer| transfer.bytes)
            .sum::<u64>()
    };
    // The windows begin at 2 KiB, 8 KiB, 32 KiB, 128 KiB, 512 KiB.
    let read = [1, 2, 3, 4, 5];
    for (written, bytes, with_proof) in [
        ([1, 2, 3, 4, 5], MIB, MIB),
        ([1, 0, 3, 0, 5], MIB, MIB),
        ([1, 2, 3, 4, 9], 0, 512 << 10),
        ([9, 2, 3, 4, 5], 0, 64 << 10),
        ([0, 0, 0, 0, 9], 0, 64 << 10),
        ([0; 5], 0, 64 << 10),
    ] {
        streams.scene.set_windows([from, to], [&read, &written]);
        let stated = [bytes_stated(&streams, 0), bytes_stated(&streams, 64 << 10)];
        assert_eq!(stated, [bytes, with_proof], "{written:?}");
    }
    // Without all marks, a window only shows what is in common.
    streams
        .scene
        .set_windows([from, to], [&read, &[1, 2, 3, 4, 9]]);
    streams
        .scene
        .streams(to)
        .written
        .as_mut()
        .expect("it was written")
        .gaps = 1 << 4;
    assert_eq!(bytes_stated(&streams, 0), MIB);
    streams.scene.streams(to).written = None;
    assert_eq!(bytes_stated(&streams, 0), 0);
}
