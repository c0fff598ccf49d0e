//! A descriptor stands for the file that it stands for at the moment of the call.

use super::{file, traced_odd, written};

/// Makes sure that 1 byte went to `a` and 2 to `b`, a hundred times in turn.
#[track_caller]
fn assert_in_turn(case: &str) {
    let run = traced_odd(case);
    assert_eq!((written(&run.report, "a"), written(&run.report, "b")), ((100, Some(100)), (100, Some(200))));
}

#[test]
fn closed_and_opened_again_it_is_another_file() {
    assert_in_turn("reopened");
}

#[test]
fn what_dup2_puts_there_counts_from_then_on() {
    assert_in_turn("replaced");
}

#[test]
fn another_thread_may_replace_it_between_two_calls() {
    assert_in_turn("replaced-by-thread");
}

#[test]
fn an_operation_of_io_uring_may_replace_it_between_two_calls() {
    let run = traced_odd("ring-replaced");
    let read = |name| (file(&run.report, name).reads, file(&run.report, name).bytes_read);
    assert_eq!((read("a"), read("b")), ((1, Some(1)), (1, Some(2))));
}

#[test]
fn received_over_a_socket_it_is_the_file_of_its_sender() {
    let run = traced_odd("passed");
    assert_eq!(written(&run.report, "passed"), (1, Some(500)));
    let [child] = run.descendants() else { panic!("one child, not {:?}", run.descendants().len()) };
    let writes = child.syscalls.iter().find(|call| call.name == "write").expect("it wrote");
    assert_eq!((writes.calls, writes.bytes), (1, Some(500)));
}
