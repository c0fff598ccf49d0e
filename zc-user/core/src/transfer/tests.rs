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
    report::sample::files::{Scene, scene},
    trace::Fills,
};

const MIB: u64 = 1 << 20;

/// All transfers of a trace.
fn found(scene: &Scene) -> Vec<Transfer> {
    // Its sums are checked there.
    scene.report().transfers
}

/// The transfers within processes, as `in -> out sendfile 100`.
fn transfers(scene: &Scene) -> Vec<String> {
    let found = found(scene);
    let within = found
        .iter()
        .filter(|transfer| !transfer.crosses_processes());
    within.map(short).collect()
}

/// The transfers over several processes, likewise.
fn across(scene: &Scene) -> Vec<String> {
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

fn short(transfer: &Transfer) -> String {
    let name = |end: &End| end.path.clone().or_else(|| end.kind.clone());
    let [from, to] = [&transfer.from, &transfer.to].map(|end| name(end).unwrap_or_default());
    let bytes = transfer.bytes.map(|bytes| format!(" {bytes}"));
    let api = transfer.api.name();
    format!("{from} -> {to} {api}{}", bytes.unwrap_or_default())
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
    let [client, _] = scene.connection("[::1]:5000", "[::1]:80");
    scene.name("client", client);
    scene.run("copier: sendfile in->client 1 1M");
    let Transfer { from, to, .. } = only(&scene);
    assert_eq!(
        [from.kind, from.fs, from.path, to.local, to.peer].map(Option::unwrap_or_default),
        ["regular", "ext4", "in", "[::1]:5000", "[::1]:80"]
    );
}

/// Two processes that copy, and a pipeline of two others.
#[test]
fn all_transfers_are_in_one_list_largest_first() {
    let scene = scene(
        "small: sendfile a->b 1 100; cat: read a 8 1M, write a>pipe 8 1M; \
         dd: read pipe 8 1M, write pipe>c 8 1M; large: sendfile a->b 1 1024M",
    );
    let report = scene.report();
    let listed: Vec<_> = report
        .transfers
        .iter()
        .map(|one| (one.bytes, one.pids.as_slice(), one.part_of.as_slice()))
        .collect();
    let expected = [
        (Some(1 << 30), &[1237][..], &[][..]),
        (Some(1 << 20), &[1235, 1236], &[]),
        (Some(1 << 20), &[1235], &[1]),
        (Some(1 << 20), &[1236], &[1]),
        (Some(100), &[1234], &[]),
    ];
    assert_eq!(listed, expected);
    let of_processes: Vec<_> = report
        .processes
        .iter()
        .map(|process| process.transfers.as_slice())
        .collect();
    assert_eq!(of_processes, [[4], [2], [3], [0]]);
}
