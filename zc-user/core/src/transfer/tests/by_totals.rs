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
    let expected = one("in0", "out0", Api::ReadWrite, 5000);
    assert_eq!(of_sums(&[5000], &[5000]), expected);
    assert_eq!(of_sums(&[5000, 7000], &[5000, 6000]), expected);
    assert!(
        of_sums(&[5000, 5000], &[5000]).is_empty(),
        "whose are they?"
    );
    assert!(
        of_sums(&[5000], &[5000, 5000]).is_empty(),
        "where are they?"
    );
    assert!(of_sums(&[5000], &[5001]).is_empty());
}

#[test]
fn few_bytes_are_equal_by_chance() {
    assert!(of_sums(&[4095], &[4095]).is_empty());
    assert_eq!(of_sums(&[4096], &[4096]).len(), 1);
}

#[test]
fn the_verdict_says_that_only_the_sums_agree() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let rows = vec![
        read("read", from, 4, MIB).zero(1),
        write("write", to, 4, MIB),
    ];
    scene.process("tokio", rows);
    let transfer = only(&scene);
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

#[test]
fn what_is_in_a_transfer_or_changed_does_not_count() {
    let mut scene = Scene::new();
    let [from, copy, to] = ["in", "copy", "out"].map(|name| scene.regular(name));
    let rows = vec![
        read("read", from, 20, 30_000),
        written_held("write", from, copy, 10, 11_000, 11_000),
        written_changed("write", from, copy, 5, 5000, 5000),
        write("write", to, 5, 14_000),
    ];
    scene.process("program", rows);
    let expected = [
        one("in", "out", Api::ReadWrite, 14_000),
        one("in", "copy", Api::ReadWrite, 11_000),
    ];
    assert_eq!(transfers(&scene), expected.concat());
    assert_eq!(within(&scene)[0].calls, None, "which reads these are");
}

#[test]
fn its_calls_are_those_that_no_other_transfer_has() {
    let mut scene = Scene::new();
    let [mapped, from, to] = ["mapped", "in", "out"].map(|name| scene.regular(name));
    let rows = vec![
        map(mapped, 5000),
        written_from("write", mapped, to, 1, 5000),
        read("read", from, 3, 8000),
        write("write", to, 2, 8000),
    ];
    scene.process("program", rows);
    let figures = |one: &Transfer| (one.evidence, one.bytes, one.calls);
    let found: Vec<_> = within(&scene).iter().map(figures).collect();
    let expected = [
        (Evidence::Totals, Some(8000), Some(5)),
        (Evidence::Mapping, Some(5000), Some(2)),
    ];
    assert_eq!(found, expected);
}

/// A program that feeds a socket and drains another, while it splices between their other ends.
#[test]
fn a_file_with_that_number_that_is_in_a_transfer_counts_as_another() {
    let mut scene = Scene::new();
    let [drained, fed] = ["drained", "fed"].map(|name| scene.file(Tcp, name));
    let [from, to] = ["from", "to"].map(|name| scene.file(Tcp, name));
    let rows = vec![
        write("write", fed, 4, MIB),
        copy("splice", from, to, 4, MIB),
        read("read", drained, 4, MIB),
    ];
    scene.process("program", rows);
    assert_eq!(transfers(&scene), one("from", "to", Api::Splice, MIB));
}

#[test]
fn a_file_that_was_read_and_written_is_no_transfer_to_itself() {
    let mut scene = Scene::new();
    let file = scene.regular("database");
    let rows = vec![
        read("pread64", file, 2, 8192),
        write("pwrite64", file, 2, 8192),
    ];
    scene.process("program", rows);
    assert!(found(&scene).is_empty());
}

#[test]
fn bytes_of_unknown_files_may_be_anything() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let rows = vec![
        read("read", from, 2, 8192),
        peek(8192),
        write("write", to, 2, 8192),
    ];
    scene.process("program", rows);
    assert!(found(&scene).is_empty());
}

#[test]
fn a_call_that_was_cut_off_may_have_written_more() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let rows = vec![
        read("read", from, 2, 8192),
        write("write", to, 2, 8192).unfinished(1),
    ];
    scene.process("program", rows);
    assert!(found(&scene).is_empty());
}
