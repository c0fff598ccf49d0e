//! Tests of the analysis as a whole, on made-up traces: one module for each rule.

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
            Loop, Scene, copy, map, peek, read, write, written_after, written_changed,
            written_from, written_held,
        },
    },
    trace::{
        FileKind::{Eventfd, Regular, Tcp},
        Fills,
    },
};

const MIB: u64 = 1 << 20;

/// Source, destination, interface and bytes of a transfer.
type Short = (String, String, Api, Option<u64>);

/// All transfers of a trace.
fn found(scene: &Scene) -> Vec<Transfer> {
    // Its sums are checked there.
    Report::from_trace(&scene.trace, &Options::default()).transfers
}

/// The transfers within processes.
fn within(scene: &Scene) -> Vec<Transfer> {
    let mut found = found(scene);
    found.retain(|transfer| !transfer.crosses_processes());
    found
}

/// The transfers within processes, in short.
fn transfers(scene: &Scene) -> Vec<Short> {
    within(scene).iter().map(short).collect()
}

/// The transfers over several processes, in short.
fn across(scene: &Scene) -> Vec<Short> {
    let found = found(scene);
    let across = found.iter().filter(|transfer| transfer.crosses_processes());
    across.map(short).collect()
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

/// The rows of `cat`, whose buffers were seen.
fn cat(from: FileId, to: FileId) -> Vec<Row> {
    vec![
        read("read", from, 8, MIB).zero(1),
        written_held("write", from, to, 8, MIB, MIB),
    ]
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
    let from = scene.file(Regular, "in");
    let to = scene.connection("[::1]:5000", "[::1]:80")[0];
    scene.process("copier", vec![copy("sendfile", from, to, 1, MIB)]);
    let transfer = only(&scene);
    assert_eq!(
        (transfer.from.kind.as_deref(), transfer.from.fs.as_deref()),
        (Some("regular"), Some("ext4"))
    );
    assert_eq!(
        (transfer.to.local.as_deref(), transfer.to.peer.as_deref()),
        (Some("[::1]:5000"), Some("[::1]:80"))
    );
}
