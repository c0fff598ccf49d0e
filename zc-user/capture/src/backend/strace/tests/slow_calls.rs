//! Which calls of a log took longer than a limit.

use super::read_recorded;
use crate::backend::Recorded;
use zctrace_core::slow_calls::SlowCalls;

fn slow_in(log: &str) -> SlowCalls {
    let recorded = Recorded::default().with_slower_than(Some(10_000_000));
    let trace = read_recorded(log, recorded);
    trace.slow_calls.expect("it was asked for")
}

const LOG: &str = r#"
5 100.000000 execve("/bin/a", ["a"], 0x7f /* 1 var */) = 0 <0.010000>
5 100.100000 openat(4</srv/d>, "f", O_RDONLY) = 3</srv/d/f> <0.020000>
5 100.200000 read(3</srv/d/f>, "x"..., 4096) = 1 <0.030000>
5 100.300000 connect(5<TCP:[7]>, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("10.0.0.1")}, 16) = -1 ETIMEDOUT (Connection timed out) <2.000000>
5 102.400000 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_THREAD|CLONE_SIGHAND) = 6 <0.000100>
6 102.500000 read(7<pipe:[8]>,  <unfinished ...>
5 102.510000 access("gone", F_OK) = -1 ENOENT (No such file or directory) <0.009000>
5 102.520000 pause( <unfinished ...>
6 102.600000 <... read resumed>"", 10) = 0 <0.100000>
5 102.700000 <... pause resumed>) = ? ERESTARTNOHAND (To be restarted if no handler) <0.180000>
5 102.700100 --- SIGTERM {si_signo=SIGTERM} ---
6 102.700200 +++ killed by SIGTERM +++
5 102.700200 +++ killed by SIGTERM +++
"#;

#[test]
fn slow_calls_have_when_they_began_and_what_they_were_given() {
    let slow = slow_in(
        &LOG.trim_start()
            .replace("100.", "1700000100.")
            .replace("102.", "1700000102."),
    );
    let shown = slow.calls.iter().map(|call| {
        let result = call.result.map(|result| result.to_string());
        let result = result.or(call.error.clone()).expect("has one");
        let path = call.path.as_deref().unwrap_or("-");
        let at_ms = call.at_ns.expect("is known") / 1_000_000;
        let ids = [call.pid, call.tid].map(|id| id.expect("is known"));
        format!(
            "{at_ms} {} {path} {result} {} {ids:?}",
            call.call,
            call.ns / 1_000_000
        )
    });
    let expected = [
        "300 connect 10.0.0.1:80 ETIMEDOUT 2000 [5, 5]",
        "2500 read pipe 0 100 [5, 6]",
        "200 read /srv/d/f 1 30 [5, 5]",
        "100 openat /srv/d/f 3 20 [5, 5]",
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    assert_eq!((slow.left_out, slow.lost, slow.untimed), (0, 0, 0));
}

#[test]
fn calls_of_unknown_times_are_counted() {
    let slow =
        slow_in("close(3) = 0\nread(0, \"\", 1) = 0 <1.0>\npause() = ?\n+++ exited with 0 +++\n");
    let [read] = &slow.calls[..] else {
        panic!("{slow:?}");
    };
    assert_eq!((read.at_ns, read.tid, slow.untimed), (None, None, 1));
}
