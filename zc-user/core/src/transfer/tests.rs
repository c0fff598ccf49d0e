//! Tests of the analysis as a whole, on made-up traces: one module for each group of rules. What is
//! observed by call and buffer, and that every byte has one source, is also checked by the random
//! programs of `zc-tests`, which know every address.

mod by_call;
mod by_totals;
mod chains;
mod from_memory;
mod pipes;
mod rest;

use super::*;
use crate::{
    report::{
        Options, Report,
        sample::files::{
            Scene, copy, map, peek, read, write, written_after, written_changed, written_from,
            written_held,
        },
    },
    trace::{
        FileKind::{Eventfd, Tcp},
        Fills,
    },
};

const MIB: u64 = 1 << 20;

/// What a program does between two files.
type RowsOfCopy = fn(FileId, FileId) -> Vec<Row>;

/// Source, destination, interface and bytes of a transfer.
type Short = (String, String, Api, Option<u64>);

/// All transfers of a trace.
fn found(scene: &Scene) -> Vec<Transfer> {
    // Its sums are checked there.
    Report::from_trace(&scene.trace, &Options::default()).transfers
}

/// The transfers within processes, in short.
fn transfers(scene: &Scene) -> Vec<Short> {
    let found = found(scene);
    let within = found
        .iter()
        .filter(|transfer| !transfer.crosses_processes());
    within.map(short).collect()
}

/// The transfers over several processes, in short.
fn across(scene: &Scene) -> Vec<Short> {
    let found = found(scene);
    let across = found.iter().filter(|transfer| transfer.crosses_processes());
    across.map(short).collect()
}

/// A process of this name that does this between the files `in` and `out`.
fn scene_of(name: &str, rows: RowsOfCopy) -> Scene {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    scene.process(name, rows(from, to));
    scene
}

/// The only transfer.
fn only(scene: &Scene) -> Transfer {
    let mut found = found(scene);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn short(transfer: &Transfer) -> Short {
    let name = |end: &End| {
        end.path
            .clone()
            .or_else(|| end.kind.clone())
            .unwrap_or_default()
    };
    (
        name(&transfer.from),
        name(&transfer.to),
        transfer.api,
        transfer.bytes,
    )
}

fn one(from: &str, to: &str, api: Api, bytes: u64) -> Vec<Short> {
    vec![(from.into(), to.into(), api, Some(bytes))]
}

/// The rows of a program that writes from buffers what it had read.
fn held(from: FileId, to: FileId, bytes: u64) -> Vec<Row> {
    vec![
        read("read", from, 8, bytes).zero(1),
        written_held("write", from, to, 8, bytes, bytes),
    ]
}

/// The rows of `cat`.
fn cat(from: FileId, to: FileId) -> Vec<Row> {
    held(from, to, MIB)
}

#[test]
fn unidentified_files_have_bytes_but_no_transfers() {
    let mut trace = crate::report::sample::copier();
    trace.calls_without_files = 5;
    let analysis = analyse(&trace);
    assert!(analysis.transfers.is_empty());
    let read = &analysis.processes[0].sources;
    assert_eq!(
        (read.len(), &read[0].file, read[0].kept_bytes),
        (1, &None, Some(1 << 30))
    );
}

#[test]
fn ends_are_described_by_their_files() {
    let mut scene = Scene::new();
    let from = scene.regular("in");
    let to = scene.connection("[::1]:5000", "[::1]:80")[0];
    scene.process("copier", vec![copy("sendfile", from, to, 1, MIB)]);
    let Transfer { from, to, .. } = only(&scene);
    assert_eq!(
        [from.kind, from.fs, from.path, to.local, to.peer].map(Option::unwrap_or_default),
        ["regular", "ext4", "in", "[::1]:5000", "[::1]:80"]
    );
}
