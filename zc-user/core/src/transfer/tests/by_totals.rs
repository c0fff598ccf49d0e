//! Rule 6: only the sums of both sides agree.

use super::*;

/// The transfers of a process that read `read` bytes of files and wrote `written` bytes to others,
/// all of which are in no transfer by another rule.
fn of_sums(read_bytes: &[u64], written: &[u64]) -> Vec<Short> {
    let mut scene = Scene::new();
    let mut rows = Vec::new();
    for (index, &bytes) in read_bytes.iter().enumerate() {
        let file = scene.regular(&format!("in{index}"));
        rows.push(read("read", file, 3, bytes));
    }
    for (index, &bytes) in written.iter().enumerate() {
        let file = scene.regular(&format!("out{index}"));
        rows.push(write("write", file, 5, bytes));
    }
    scene.process("tokio", rows);
    transfers(&scene)
}

#[test]
fn equal_sums_are_a_transfer_if_no_other_file_has_that_number() {
    for (read, written, found) in [
        (&[5000][..], &[5000][..], Some(5000)),
        (&[5000, 7000], &[5000, 6000], Some(5000)),
        (&[4096], &[4096], Some(4096)),
        // Fewer are equal by chance.
        (&[4095], &[4095], None),
        (&[5000], &[5001], None),
        (&[5000, 5000], &[5000], None),
        (&[5000], &[5000, 5000], None),
    ] {
        let expected = found.map(|bytes| one("in0", "out0", Api::ReadWrite, bytes));
        assert_eq!(of_sums(read, written), expected.unwrap_or_default());
    }
}

#[test]
fn the_verdict_says_that_only_the_sums_agree() {
    let transfer = only(&scene_of("tokio", |from, to| {
        vec![
            read("read", from, 4, MIB).zero(1),
            write("write", to, 4, MIB),
        ]
    }));
    assert_eq!(
        (transfer.evidence, transfer.certainty, transfer.calls),
        (Evidence::Totals, Certainty::Inferred, Some(9))
    );
    assert_eq!(
        transfer.verdict,
        "read + write, 4 calls of 256 KiB, as only the sums of both sides show"
    );
    assert_eq!(transfer.hint, None);
}

/// What is in a transfer by another rule, or changed, does not count, and neither do its calls.
#[test]
fn only_what_is_left_of_both_sides_counts() {
    let mut scene = Scene::new();
    let [from, copy, to] = ["in", "copy", "out"].map(|name| scene.regular(name));
    let [mapped, whole, both] = ["mapped", "whole", "both"].map(|name| scene.regular(name));
    let rows = vec![
        read("read", from, 20, 30_000),
        written_held("write", from, copy, 10, 11_000, 11_000),
        written_changed("write", from, copy, 5, 5000, 5000),
        write("write", to, 5, 14_000),
        map(mapped, 9000),
        written_from("write", mapped, both, 1, 9000),
        read("read", whole, 3, 8000),
        write("write", both, 2, 8000),
    ];
    scene.process("program", rows);
    let figures = |one: &Transfer| (one.evidence, one.bytes, one.calls);
    let found: Vec<_> = found(&scene).iter().map(figures).collect();
    let expected = [
        // Nobody knows which reads these are.
        (Evidence::Totals, Some(14_000), None),
        (Evidence::Buffer, Some(11_000), Some(20)),
        (Evidence::Mapping, Some(9000), Some(2)),
        (Evidence::Totals, Some(8000), Some(5)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn nothing_is_concluded_from_what_may_be_otherwise() {
    let cases: [RowsOfCopy; 3] = [
        |from, to| {
            vec![
                read("read", from, 2, 8192),
                peek(8192),
                write("write", to, 2, 8192),
            ]
        },
        // The call that was cut off may have written more.
        |from, to| {
            vec![
                read("read", from, 2, 8192),
                write("write", to, 2, 8192).unfinished(1),
            ]
        },
        // A database.
        |file, _| {
            vec![
                read("pread64", file, 2, 8192),
                write("pwrite64", file, 2, 8192),
            ]
        },
    ];
    for rows in cases {
        assert!(found(&scene_of("program", rows)).is_empty());
    }
}

/// A program that feeds a socket and drains another, while it splices between their other ends.
#[test]
fn a_file_with_that_number_that_is_in_a_transfer_counts_as_another() {
    let mut scene = Scene::new();
    let [drained, fed, from, to] =
        ["drained", "fed", "from", "to"].map(|name| scene.file(Tcp, name));
    let rows = vec![
        write("write", fed, 4, MIB),
        copy("splice", from, to, 4, MIB),
        read("read", drained, 4, MIB),
    ];
    scene.process("program", rows);
    assert_eq!(transfers(&scene), one("from", "to", Api::Splice, MIB));
}
