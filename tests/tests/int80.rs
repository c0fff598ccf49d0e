//! Calls through the 32-bit entry have rows of their own.

use zc_tests::Figure;

use crate::harness::{c, zctrace};

#[test]
fn thirty_two_bit_writes_are_writes_and_not_mixed_with_the_others() {
    let run = zctrace().run(&c("int80").args(&["500", "20"]));
    let stated = run.stated();
    let figures = run.totals().figures();
    run.assert_exact();
    assert_eq!(figures["write@i386"], stated.calls["write"]);
    assert_eq!(figures["write"], Figure::of(1, run.finished.stdout.len() as u64));
    assert_eq!(figures.keys().filter(|name| name.contains('@')).collect::<Vec<_>>(), ["write@i386"]);
}

#[test]
fn thirty_two_bit_calls_are_not_taken_for_those_with_their_number() {
    // Number 4 is `write` there and `stat` here.
    let run = zctrace().syscalls("stat").run(&c("int80").args(&["500", "20"]));
    run.stated();
    run.assert_exact();
    run.totals().assert_equal(&[].into());
}
