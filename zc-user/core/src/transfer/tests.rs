//! Tests of the analysis as a whole, on made-up traces.

mod attribution;
mod by_call;
mod by_order;
mod by_stream;
mod by_totals;
mod certainty;
mod conduits;
mod ground_truth;
mod pipes;
mod properties;
mod wording;

use super::*;
use crate::{
    report::{
        Api, Evidence, Transfer,
        sample::files::{Loop, Scene, copy, map, peek, read, write, written_after, written_from},
    },
    trace::{
        FileId,
        FileKind::{Eventfd, Regular, Tcp},
        FirstBytes, Row,
    },
};

const MIB: u64 = 1 << 20;

/// Source, destination, API and bytes of each transfer of the only process.
fn transfers(scene: &Scene) -> Vec<(String, String, Api, Option<u64>)> {
    let analysis = analyse(&scene.trace);
    assert_eq!(analysis.processes.len(), 1);
    analysis.processes[0].transfers.iter().map(short).collect()
}

fn short(transfer: &Transfer) -> (String, String, Api, Option<u64>) {
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

fn one(from: &str, to: &str, api: Api, bytes: u64) -> Vec<(String, String, Api, Option<u64>)> {
    vec![(from.into(), to.into(), api, Some(bytes))]
}

#[test]
fn unidentified_files_have_bytes_but_no_transfers() {
    let mut trace = crate::report::sample::copier();
    trace.calls_without_files = 5;
    let analysis = analyse(&trace);
    assert!(analysis.processes[0].transfers.is_empty() && analysis.across.is_empty());
    let read = &analysis.processes[0].unattributed.read;
    assert_eq!(
        (read.len(), &read[0].file, read[0].bytes),
        (1, &None, Some(1 << 30))
    );
}

#[test]
fn ends_are_described_by_their_files() {
    let mut scene = Scene::new();
    let (from, to) = (
        scene.file(Regular, "in"),
        scene.connection("[::1]:5000", "[::1]:80")[0],
    );
    scene.process("copier", vec![copy("sendfile", from, to, 1, MIB)]);
    let transfer = &analyse(&scene.trace).processes[0].transfers[0];
    assert_eq!(
        (transfer.from.kind.as_deref(), transfer.from.fs.as_deref()),
        (Some("regular"), Some("ext4"))
    );
    assert_eq!(
        (transfer.to.local.as_deref(), transfer.to.peer.as_deref()),
        (Some("[::1]:5000"), Some("[::1]:80"))
    );
}
