//! What a person reads of bytes that are not all proven: "at least" only where the figure is a
//! lower bound.

use super::*;
use crate::report::{
    Certainty,
    sample::files::{written_changed, written_held},
};

/// The amount and what it rests on, and the verdict.
fn words(transfer: &Transfer) -> [String; 2] {
    let doubt = transfer
        .doubt()
        .map(|doubt| format!(", {doubt}"))
        .unwrap_or_default();
    [
        format!("{}{doubt}", transfer.amount().unwrap_or_default()),
        transfer.verdict.clone(),
    ]
}

/// The words of the only transfer of a process between two files.
fn of_rows(sees_memory: bool, rows: impl FnOnce(FileId, FileId) -> Vec<Row>) -> [String; 2] {
    let mut scene = Scene::new();
    scene.trace.sees_memory = sees_memory;
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    scene.set_windows([from, to], [&[1], &[1]]);
    scene.process("copier", rows(from, to));
    words(&analyse(&scene.trace).processes[0].transfers[0])
}

/// The words of the only transfer over two processes that see memory, by what the second one does.
fn across(second: impl FnOnce(FileId, FileId) -> Vec<Row>) -> [String; 2] {
    let mut scene = Scene::new();
    scene.trace.sees_memory = true;
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    scene.process("cat", held(from, pipe));
    scene.process("tr", second(pipe, to));
    words(&analyse(&scene.trace).across[0])
}

fn held(from: FileId, to: FileId) -> Vec<Row> {
    vec![
        read("read", from, 8, MIB).zero(1),
        written_held("write", from, to, 8, MIB, MIB),
    ]
}

fn by_order(from: FileId, to: FileId) -> Vec<Row> {
    vec![
        read("read", from, 8, MIB),
        written_after("write", from, to, 8, MIB, MIB),
    ]
}

fn changed(from: FileId, to: FileId) -> Vec<Row> {
    vec![
        read("read", from, 8, MIB),
        written_changed("write", from, to, 8, MIB, MIB),
    ]
}

#[test]
fn what_is_inferred_from_the_order_of_calls_is_probable() {
    let amount = "probably 1.0 MiB, inferred from the order of calls";
    let seen = "read + write, 8 calls of 128 KiB, copied in memory, perhaps changed or replaced on the way";
    assert_eq!(of_rows(true, by_order), [amount, seen]);
    // strace sees no memory, so it knows even less.
    let unseen = "read + write, 8 calls of 128 KiB, perhaps changed or replaced on the way";
    assert_eq!(of_rows(false, by_order), [amount, unseen]);
}

#[test]
fn what_is_inferred_from_equal_byte_counts_is_probable() {
    assert_eq!(
        words(&one_by_totals()),
        [
            "probably 1.0 MiB, inferred from equal byte counts",
            "read + write, 8 calls of 128 KiB, perhaps changed or replaced on the way"
        ]
    );
}

#[test]
fn what_was_changed_in_memory_is_probable() {
    assert_eq!(
        of_rows(true, changed),
        [
            "probably 1.0 MiB, inferred from the memory that the calls used",
            "read + write, 8 calls of 128 KiB, changed or replaced on the way"
        ]
    );
}

#[test]
fn a_proven_part_is_a_lower_bound() {
    let rows = |from, to| {
        vec![
            read("read", from, 8, MIB),
            written_held("write", from, to, 4, MIB, MIB / 2),
        ]
    };
    let words = of_rows(true, rows);
    assert_eq!(
        words,
        [
            "at least 512.0 KiB, all of it proven, but there may be more",
            "read + write, 4 calls of 128 KiB"
        ]
    );
}

#[test]
fn a_chain_is_as_sure_as_its_least_sure_step() {
    assert_eq!(
        across(changed),
        [
            "probably 1.0 MiB, inferred from the memory that the calls used",
            "through 2 processes, changed or replaced on the way: cat: read + write, 8 calls of 128 KiB; \
             tr: read + write, 8 calls of 128 KiB, changed or replaced"
        ]
    );
    assert_eq!(
        across(|pipe, to| vec![
            read("read", pipe, 8, MIB),
            written_held("write", pipe, to, 4, MIB, MIB / 2)
        ])[0],
        "at least 512.0 KiB, all of it proven, but there may be more"
    );
}

/// If others may have used the pipe, the steps do not show that the bytes may be other ones, so the
/// figure says it.
#[test]
fn what_no_step_says_is_said_with_the_figure() {
    let [_, verdict] = across(held);
    let plain = Transfer {
        verdict,
        certainty: Certainty::Inferred,
        proven_bytes: Some(0),
        ..one_by_totals()
    };
    assert_eq!(
        words(&plain)[0],
        "probably 1.0 MiB, inferred from equal byte counts, perhaps changed or replaced on the way"
    );
    let part = Transfer {
        proven_bytes: Some(MIB / 2),
        ..plain
    };
    assert_eq!(
        words(&part)[0],
        "probably 1.0 MiB, 512.0 KiB of it proven, the rest inferred from equal byte counts, \
         perhaps changed or replaced on the way"
    );
}

fn one_by_totals() -> Transfer {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    scene.threads(
        "copier",
        vec![
            vec![read("read", from, 8, MIB).at(1)],
            vec![write("write", to, 8, MIB).at(2)],
        ],
    );
    analyse(&scene.trace).processes[0].transfers[0].clone()
}
