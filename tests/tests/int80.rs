//! Calls through the 32-bit entry have rows of their own.

use zc_tests::Figure;

use crate::harness::{c, each_backend, zctrace};

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
fn thirty_two_bit_calls_with_their_arguments_in_memory_are_what_they_stand_for() {
    // The arguments are in memory, which the eBPF programs do not read: how much was asked for is unknown to them.
    let requested = [[None, None], [Some(10_000), Some(8192)]];
    for (zctrace, [by_socket, by_mmap]) in each_backend().into_iter().zip(requested) {
        let run = zctrace.run(&c("socketcall").args(&["10", "1000"]));
        run.finished.successful();
        run.assert_exact();
        let figures = run.totals().figures();
        for name in ["send@i386", "recv@i386"] {
            assert_eq!(figures[name], Figure { requested_bytes: by_socket, ..Figure::of(10, 10_000) }, "{name}");
        }
        assert_eq!((figures["mmap@i386"].calls, figures["mmap@i386"].requested_bytes), (1, by_mmap));
    }
}

#[test]
fn thirty_two_bit_calls_are_not_taken_for_those_with_their_number() {
    // Number 4 is `write` there and `stat` here.
    let run = zctrace().syscalls("stat").run(&c("int80").args(&["500", "20"]));
    run.stated();
    run.assert_exact();
    run.totals().assert_equal(&[].into());
}
