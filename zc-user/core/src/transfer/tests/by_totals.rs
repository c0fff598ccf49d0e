//! Rule 6: only the sums of both sides agree.

use super::*;

#[test]
fn equal_sums_are_a_transfer_if_no_other_file_has_that_number() {
    for (calls, expected) in [
        ("read a 3 5000, write b 5 5000", Some(5000)),
        (
            "read a 3 5000, read c 3 7000, write b 5 5000, write d 5 6000",
            Some(5000),
        ),
        ("read a 3 4096, write b 5 4096", Some(4096)),
        // Fewer are equal by chance.
        ("read a 3 4095, write b 5 4095", None),
        ("read a 3 5000, write b 5 5001", None),
        ("read a 3 5000, read c 3 5000, write b 5 5000", None),
        ("read a 3 5000, write b 5 5000, write c 5 5000", None),
        // What another process's memory held may be anything.
        (
            "read a 2 8192, process_vm_readv - 1 8192, write b 2 8192",
            None,
        ),
        // The call that was cut off may have written more.
        ("read a 2 8192, write b 2 8192 cut", None),
        // A database.
        ("pread64 a 2 8192, pwrite64 a 2 8192", None),
    ] {
        let expected = expected.map(|bytes: u64| format!("a -> b read+write {bytes}"));
        let found = transfers(&scene(&format!("tokio: {calls}")));
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{calls}");
    }
    // A program that feeds a socket and drains another, while it splices between their other ends.
    let calls = "write fed 4 1M, splice tcp1->tcp2 4 1M, read drained 4 1M";
    let found = transfers(&scene(&format!("program: {calls}")));
    assert_eq!(found, ["tcp1 -> tcp2 splice 1048576"]);
}

#[test]
fn the_verdict_says_that_only_the_sums_agree() {
    let transfer = only(&scene("tokio: read in 4 1M +1, write out 4 1M"));
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
    let scene = scene(
        "program: read in 20 30000, write in>copy 10 11000, write in!copy 5 5000, \
         write out 5 14000, mmap mapped 1 9000, write mapped=both 1 9000, read whole 3 8000, \
         write both 2 8000",
    );
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
