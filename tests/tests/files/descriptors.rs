//! A descriptor stands for the file that it stands for at the moment of the call.

use super::{traced_odd, written};

#[test]
fn closed_and_opened_again_it_is_another_file() {
    let run = traced_odd("reopened");
    assert_eq!(written(&run.report, "a"), (100, Some(100)));
    assert_eq!(written(&run.report, "b"), (100, Some(200)));
}

#[test]
fn what_dup2_puts_there_counts_from_then_on() {
    let run = traced_odd("replaced");
    assert_eq!(written(&run.report, "a"), (100, Some(100)));
    assert_eq!(written(&run.report, "b"), (100, Some(200)));
}

#[test]
fn another_thread_may_replace_it_between_two_calls() {
    let run = traced_odd("replaced-by-thread");
    assert_eq!(written(&run.report, "a"), (100, Some(100)));
    assert_eq!(written(&run.report, "b"), (100, Some(200)));
}

#[test]
fn received_over_a_socket_it_is_the_file_of_its_sender() {
    let run = traced_odd("passed");
    assert_eq!(written(&run.report, "passed"), (1, Some(500)));
    let [child] = run.descendants() else { panic!("one child, not {:?}", run.descendants().len()) };
    let writes = child.syscalls.iter().find(|call| call.name == "write").expect("it wrote");
    assert_eq!((writes.calls, writes.bytes), (1, Some(500)));
}
