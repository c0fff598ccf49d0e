//! How lines are joined and tasks are tracked: a made-up log for each rule.

use std::collections::BTreeMap;

use super::{Collector, lost, read_log, read_text, read_until, row, rows};
use crate::{
    backend::{
        Until,
        strace::{Log, read_logs},
    },
    syscalls::{Abi, Selection},
    trace::{Exit, FailedPath, Loss, Process, State, Trace},
};

const LAUNCH: &str = "10 execve(\"/bin/x\", [\"x\", \"y\"], 0x7ffe /* 3 vars */) = 0 <0.000100>\n";

fn launched(rest: &str) -> Trace {
    read_text(&format!("{LAUNCH}{rest}"))
}

/// Checks that nothing is lost. That made-up processes do not end, or not by `exit_group`, is
/// tested in [`a_log_that_leaves_calls_out_says_so`].
#[track_caller]
fn assert_whole(trace: &Trace) {
    let is_about_ends = |loss: &Loss| matches!(loss, Loss::UnshownCalls | Loss::TracerEnded);
    assert!(trace.losses.keys().all(is_about_ends), "{:?}", trace.losses);
}

/// What a process did in its last program.
fn process(trace: &Trace, pid: u32) -> &Process {
    programs(trace, pid).pop().expect("it ran a program")
}

/// What a process did in each of its programs.
fn programs(trace: &Trace, pid: u32) -> Vec<&Process> {
    let processes = trace.processes.iter();
    processes.filter(|process| process.pid == pid).collect()
}

#[test]
fn the_command_starts_with_its_exec() {
    let trace = launched("10 +++ exited with 3 +++\n");
    assert_eq!(trace.command, ["x", "y"]);
    assert_eq!(trace.exit, Some(Exit::Code(3)));
    let root = process(&trace, 10);
    assert_eq!(
        (root.exe.as_deref(), root.ppid, root.state),
        (Some("/bin/x"), None, State::Exited)
    );
    assert_eq!(
        (
            row(&trace, "execve").calls,
            row(&trace, "execve")
                .times
                .as_ref()
                .map(|times| times.total_ns)
        ),
        (1, Some(100_000))
    );
    assert_whole(&trace);
}

#[test]
fn a_failed_exec_of_the_command_is_not_counted() {
    let trace = read_text(
        "10 execve(\"/bin/x\", [\"x\"], 0x7ffe) = -1 EACCES (Permission denied)\n10 +++ exited with 1 +++\n",
    );
    assert!(rows(&trace).next().is_none());
    assert_eq!((trace.command.len(), trace.exit), (0, Some(Exit::Code(1))));
}

#[test]
fn a_process_has_the_name_of_its_last_program_although_strace_keeps_the_one_before() {
    let name = |log: &str| process(&read_text(log), 10).comm.clone();
    let exec = "10<strace> execve(\"/bin/sh\", [\"sh\"], 0x7f) = 0\n10<sh> execve(\"/opt/a-name-of-more-than-15\", [], 0) = 0\n";
    assert_eq!(
        name(&format!("{exec}10<sh> getuid() = 0\n")).as_deref(),
        Some("a-name-of-more-")
    );
    assert_eq!(
        name(&format!(
            "{exec}10<sh> getuid() = 0\n10<itself> getuid() = 0\n"
        ))
        .as_deref(),
        Some("itself")
    );
    assert_eq!(
        name("10 execve(\"/bin/sh\", [\"sh\"], 0x7f) = 0\n10 getuid() = 0\n"),
        None,
        "the log has no names"
    );
}

#[test]
fn the_exec_of_a_child_is_counted() {
    let trace = launched(
        "10 vfork() = 11\n11 execve(\"/bin/z\", [\"z\"], 0x7f) = 0\n11 +++ exited with 0 +++\n10 execve(\"/bin/q\", [], 0) = 0\n",
    );
    assert_eq!(process(&trace, 11).threads[0].rows[0].call.name, "execve");
    assert_eq!(
        (process(&trace, 11).ppid, process(&trace, 11).exe.as_deref()),
        (Some(10), Some("/bin/z"))
    );
    assert_eq!(
        (process(&trace, 10).exe.as_deref(), trace.command.len()),
        (Some("/bin/q"), 2)
    );
}

#[test]
fn bytes_are_positive_results_of_calls_that_return_bytes() {
    let trace = launched(
        "10 read(3, \"ab\", 10) = 2 <0.000002>\n10 read(3, 0x7f, 10) = -1 EAGAIN (x) <0.000004>\n10 mmap(NULL, 4096, 0, 0, 3, 0) = 0x7f0000000000\n10 close(3) = 0\n",
    );
    let read = row(&trace, "read");
    assert_eq!(
        (read.calls, read.errors, &read.errnos),
        (2, 1, &BTreeMap::from([(11, 1)]))
    );
    assert_eq!((read.bytes, read.requested_bytes), (Some(2), Some(20)));
    let times = read.times.as_ref().expect("has -T");
    assert_eq!(
        (
            times.total_ns,
            times.min_ns,
            times.max_ns,
            times.histogram.count()
        ),
        (6000, 2000, 4000, 2)
    );
    assert_eq!(
        (
            row(&trace, "mmap").bytes,
            row(&trace, "mmap").requested_bytes
        ),
        (None, Some(4096))
    );
    assert_eq!(
        (
            row(&trace, "close").bytes,
            row(&trace, "close").requested_bytes,
            &row(&trace, "close").times
        ),
        (None, None, &None)
    );
}

#[test]
fn one_unknown_size_makes_the_sum_unknown() {
    let trace = launched(
        "10 readv(3, [{iov_base=\"a\", iov_len=5}], 1) = 1\n10 readv(3, 0x7f, 2) = -1 EAGAIN (x)\n10 readv(3, [{iov_base=\"a\", iov_len=5}], 1) = 1\n",
    );
    assert_eq!(
        (
            row(&trace, "readv").bytes,
            row(&trace, "readv").requested_bytes
        ),
        (Some(2), None)
    );
}

#[test]
fn an_interrupted_call_is_counted_once() {
    let trace = launched(
        "10 read(3,  <unfinished ...>\n11 getuid() = 0\n10 <... read resumed>\"ab\", 10) = 2 <1.5>\n",
    );
    let read = row(&trace, "read");
    assert_eq!(
        (read.calls, read.bytes, read.requested_bytes),
        (1, Some(2), Some(10))
    );
    assert_eq!(
        read.times.as_ref().map(|times| times.total_ns),
        Some(1_500_000_000)
    );
}

#[test]
fn a_restart_is_an_error_and_then_another_call() {
    let trace = launched(
        "10 read(3, 0x7f, 10) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)\n10 --- SIGALRM {si_signo=SIGALRM} ---\n10 read(3, \"a\", 10) = 1\n",
    );
    let read = row(&trace, "read");
    assert_eq!(
        (read.calls, read.errors, &read.errnos),
        (2, 1, &BTreeMap::from([(512, 1)]))
    );
}

#[test]
fn a_call_that_a_deadly_signal_interrupts_never_returned() {
    let trace = launched(
        "10 read(3, 0x7f, 10) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)\n10 --- SIGTERM {x} ---\n10 +++ killed by SIGTERM +++\n",
    );
    let read = row(&trace, "read");
    assert_eq!((read.calls, read.errors, read.unfinished), (0, 0, 1));
    assert_eq!(trace.exit, Some(Exit::Signal(15)));
}

#[test]
fn a_call_that_seccomp_traps_was_not_made() {
    let trace = launched(
        "10 write(1, \"a\", 6) = 1\n10 --- SIGSYS {si_signo=SIGSYS, si_code=SYS_SECCOMP, si_call_addr=0x7f, si_syscall=__NR_write, si_arch=AUDIT_ARCH_X86_64} ---\n\
         10 read(0x10, 0x7f, 6) = 16\n10 --- SIGSYS {si_signo=SIGSYS, si_code=SYS_SECCOMP, si_call_addr=0x7f, si_syscall=__NR_read, si_arch=AUDIT_ARCH_AARCH64} ---\n\
         10 sendto(1, \"a\", 50, 0, NULL, 0) = 44\n10 +++ killed by SIGSYS (core dumped) +++\n",
    );
    for name in ["write", "read", "sendto"] {
        let row = row(&trace, name);
        assert_eq!(
            (row.calls, row.unfinished, row.bytes, row.requested_bytes),
            (0, 1, Some(0), Some(0)),
            "{name}"
        );
    }
}

#[test]
fn a_call_may_return_its_own_number_or_its_first_argument() {
    for after in [
        "10 --- SIGTERM {x} ---\n10 +++ killed by SIGTERM +++\n",
        "10 write(1, \"a\", 1) = 1\n",
        "10 getuid() = 0\n",
        "",
    ] {
        let trace = launched(&format!("10 write(1, \"a\", 1) = 1\n{after}"));
        let row = row(&trace, "write");
        let writes = if after.contains("write") { 2 } else { 1 };
        assert_eq!(
            (row.calls, row.unfinished, row.bytes),
            (writes, 0, Some(writes)),
            "{after}"
        );
    }
}

#[test]
fn a_call_that_does_not_return_is_unfinished() {
    let trace = launched(
        "10 exit_group(0) = ?\n10 +++ exited with 0 +++\n11 read(0,  <unfinished ...>\n11 +++ killed by SIGKILL +++\n12 write(1, \"\", 0 <unfinished ...>\n",
    );
    for name in ["exit_group", "read", "write"] {
        assert_eq!(
            (row(&trace, name).calls, row(&trace, name).unfinished),
            (0, 1),
            "{name}"
        );
    }
    assert_eq!(process(&trace, 12).state, State::Running);
    assert_whole(&trace);
}

#[test]
fn a_return_without_an_entry_is_counted_and_is_a_loss() {
    let trace = launched(
        "10 <... read resumed>\"ab\", 10) = 2 <0.1>\n10 write(1,  <unfinished ...>\n10 <... close resumed>) = 0\n",
    );
    assert_eq!(
        (
            row(&trace, "read").calls,
            row(&trace, "read").bytes,
            row(&trace, "read").requested_bytes
        ),
        (1, Some(2), None)
    );
    assert_eq!(
        (row(&trace, "write").unfinished, row(&trace, "close").calls),
        (1, 1)
    );
    assert_eq!(lost(&trace, Loss::ExitsWithoutEntry), 2);
}

#[test]
fn threads_belong_to_the_process_of_their_creator() {
    let trace = launched(
        "10 clone3({flags=CLONE_VM|CLONE_THREAD, x} => {parent_tid=[11]}, 88) = 11\n11 clone3({flags=CLONE_VM|CLONE_THREAD, x}, 88 <unfinished ...>\n12 getuid() = 0\n11 <... clone3 resumed>) = 12\n12 clone(child_stack=NULL, flags=SIGCHLD) = 13\n13 getuid() = 0\n13 clone(child_stack=NULL, flags=CLONE_PARENT|SIGCHLD) = 14\n14 getuid() = 0\n",
    );
    assert_eq!(trace.processes.len(), 3);
    let tids: Vec<u32> = process(&trace, 10)
        .threads
        .iter()
        .map(|thread| thread.tid)
        .collect();
    assert_eq!(tids, [10, 11, 12]);
    assert_eq!(
        (process(&trace, 13).ppid, process(&trace, 14).ppid),
        (Some(10), Some(10))
    );
    assert_whole(&trace);
}

#[test]
fn a_reused_id_is_another_process() {
    let trace = launched(
        "10 fork() = 11\n11 +++ exited with 0 +++\n10 fork( <unfinished ...>\n11 getuid() = 0\n11 +++ exited with 0 +++\n10 <... fork resumed>) = 11\n",
    );
    let children: Vec<Option<u32>> = trace
        .processes
        .iter()
        .filter(|process| process.pid == 11)
        .map(|process| process.ppid)
        .collect();
    assert_eq!(children, [Some(10), Some(10)]);
    assert_whole(&trace);
}

#[test]
fn children_without_a_line_are_a_loss() {
    let trace = launched("10 fork() = 11\n10 fork() = 12\n10 +++ exited with 0 +++\n");
    assert_eq!(lost(&trace, Loss::UnfollowedTasks), 2);
}

#[test]
fn the_trace_ends_with_the_command_if_asked_to() {
    let log = format!(
        "{LAUNCH}10 fork() = 11\n10 fork() = 12\n11 read(0,  <unfinished ...>\n10 +++ exited with 0 +++\n11 <... read resumed>\"\", 1) = 0\n11 +++ exited with 0 +++\n12 +++ exited with 0 +++\n"
    );
    let trace = read_until(&log, Until::RootEnds);
    assert_eq!(
        (row(&trace, "read").calls, row(&trace, "read").unfinished),
        (0, 1)
    );
    assert_eq!(
        (process(&trace, 11).state, process(&trace, 12).state),
        (State::Running, State::Running)
    );
    assert_whole(&trace);
    assert_eq!(row(&read_until(&log, Until::AllEnd), "read").calls, 1);
}

#[test]
fn a_child_that_is_not_known_to_be_followed_is_a_loss() {
    let trace = read_until(
        &format!("{LAUNCH}10 fork() = 11\n10 +++ exited with 0 +++\n"),
        Until::RootEnds,
    );
    assert_eq!(
        (trace.processes.len(), lost(&trace, Loss::UnfollowedTasks)),
        (1, 1)
    );
}

#[test]
fn a_child_in_another_namespace_has_the_id_that_strace_sees() {
    let trace = launched(
        "10 clone(flags=SIGCHLD) = 2<sh> /* 11 in strace's PID NS */\n11 +++ exited with 0 +++\n",
    );
    assert_eq!(
        (trace.processes.len(), process(&trace, 11).ppid),
        (2, Some(10))
    );
    assert_whole(&trace);
    assert!(
        trace.notes.iter().all(|note| !note.contains("who created")),
        "{:?}",
        trace.notes
    );
}

#[test]
fn an_exec_in_another_thread_takes_over_the_process() {
    let trace = launched(
        "10 clone3({flags=CLONE_THREAD, x}, 88) = 11\n10 pause( <unfinished ...>\n11 execve(\"/bin/z\", [\"z\"], 0x7f <unfinished ...>\n10 <... pause resumed>) = ?\n10 +++ superseded by execve in pid 11 +++\n10 <... execve resumed>) = 0\n10 read(0, \"\", 1) = 0\n10 +++ exited with 0 +++\n",
    );
    let executed: Vec<_> = programs(&trace, 10)
        .iter()
        .map(|program| (program.exe.as_deref(), program.earlier.len()))
        .collect();
    assert_eq!(executed, [(Some("/bin/x"), 0), (Some("/bin/z"), 1)]);
    assert_eq!(trace.processes.len(), 2);
    // The one that launched the command, and the thread's.
    let execs = rows(&trace).filter(|row| row.call.name == "execve");
    assert_eq!(
        (
            execs
                .map(|row| (row.calls, row.unfinished))
                .collect::<Vec<_>>(),
            row(&trace, "pause").unfinished
        ),
        (vec![(1, 0), (1, 0)], 1)
    );
    assert_whole(&trace);
}

#[test]
fn the_figures_so_far_have_the_calls_before_an_exec() {
    let log = "10 execve(\"/bin/x\", [\"x\"], 0x7f) = 0\n10 read(3, \"ab\", 10) = 2\n10 execve(\"/bin/z\", [\"z\"], 0x7f) = 0\n10 read(3, \"abcd\", 10) = 4\n";
    let log = Log {
        reader: log.as_bytes(),
        tid: None,
    };
    let mut ignore = |_: &str| {};
    let mut collector = Collector::new(&Selection::All, Until::AllEnd, &mut ignore);
    read_log(log, &mut collector).expect("memory can be read");
    // The command's first exec is counted in the end.
    assert_eq!(collector.processes_calls_and_bytes(), [1, 3, 6]);
}

#[test]
fn an_exec_may_end_the_thread_that_has_just_created_its_thread() {
    let trace = launched(
        "10 clone3({flags=CLONE_THREAD, x} <unfinished ...>\n11 getuid() = 0\n11 execve(\"/bin/z\", [\"z\"], 0x7f <unfinished ...>\n10 <... clone3 resumed> <unfinished ...>) = ?\n10 +++ superseded by execve in pid 11 +++\n10 <... execve resumed>) = 0\n10 +++ exited with 0 +++\n",
    );
    let tids: Vec<Vec<u32>> = programs(&trace, 10)
        .iter()
        .map(|program| program.threads.iter().map(|thread| thread.tid).collect())
        .collect();
    assert_eq!(tids, [vec![10, 11], vec![10]]);
    assert!(
        trace.notes.iter().all(|note| !note.contains("who created")),
        "{:?}",
        trace.notes
    );
    assert_eq!(
        (
            row(&trace, "clone3").unfinished,
            row(&trace, "getuid").calls
        ),
        (1, 1)
    );
    assert_whole(&trace);
}

#[test]
fn logs_of_one_thread_each_are_one_trace_in_any_order() {
    let root = "execve(\"/bin/x\", [\"x\"], 0x7f) = 0\nvfork() = 11\nclone3({flags=CLONE_THREAD, x}, 88) = 12\npause() = ?\n+++ superseded by execve in pid 12 +++\n<... execve resumed>) = 0\n+++ exited with 7 +++\n";
    let child = "execve(\"/bin/c\", [\"c\"], 0x7f) = 0\n+++ exited with 0 +++\n";
    let thread = "getuid() = 0\nexecve(\"/bin/t\", [\"t\"], 0x7f <pid changed to 10 ...>\n";
    let mut logs = [(10, root), (11, child), (12, thread)];
    for _ in 0..3 {
        logs.rotate_left(1);
        let logs = logs
            .iter()
            .map(|&(tid, text)| Log {
                reader: text.as_bytes(),
                tid: Some(tid),
            })
            .collect();
        let trace = read_logs(logs, &Selection::All, &mut |line| panic!("{line}"))
            .expect("memory can be read");
        assert_eq!(
            (trace.exit, &trace.command[..]),
            (Some(Exit::Code(7)), &["x".to_owned()][..])
        );
        assert_eq!(
            (
                process(&trace, 11).ppid,
                process(&trace, 11).threads[0].rows[0].calls
            ),
            (Some(10), 1)
        );
        let mut tids: Vec<u32> = programs(&trace, 10)[0]
            .threads
            .iter()
            .map(|thread| thread.tid)
            .collect();
        tids.sort_unstable();
        assert_eq!(
            (tids, process(&trace, 10).exe.as_deref()),
            (vec![10, 12], Some("/bin/t"))
        );
        assert_whole(&trace);
    }
}

#[test]
fn logs_of_one_thread_each_show_an_exec_before_the_return_of_a_clone() {
    let leader = "execve(\"/bin/x\", [\"x\"], 0x7f) = 0\nclone3({flags=CLONE_THREAD, x} <unfinished ...>) = ?\n+++ superseded by execve in pid 12 +++\n<... execve resumed>) = 0\n+++ exited with 7 +++\n";
    let thread = "getuid() = 0\nexecve(\"/bin/t\", [\"t\"], 0x7f <pid changed to 10 ...>\n";
    for logs in [[(10, leader), (12, thread)], [(12, thread), (10, leader)]] {
        let logs = logs
            .into_iter()
            .map(|(tid, text)| Log {
                reader: text.as_bytes(),
                tid: Some(tid),
            })
            .collect();
        let trace = read_logs(logs, &Selection::All, &mut |line| panic!("{line}"))
            .expect("memory can be read");
        assert_eq!(
            (trace.processes.len(), trace.processes[0].pid, trace.exit),
            (2, 10, Some(Exit::Code(7)))
        );
        assert_eq!(process(&trace, 10).exe.as_deref(), Some("/bin/t"));
    }
}

#[test]
fn lines_without_an_id_are_those_of_the_only_task() {
    let trace = read_text(
        "execve(\"/bin/x\", [\"x\"], 0x7f) = 0\nvfork(strace: Process 11 attached\n <unfinished ...>\n[pid    11] getuid() = 0\n[pid    10] <... vfork resumed>) = 11\n[pid    10] wait4(-1,  <unfinished ...>\n[pid    11] +++ exited with 0 +++\n<... wait4 resumed>[{x}], 0, NULL) = 11\n+++ exited with 0 +++\n",
    );
    assert_eq!(
        (
            trace.processes.len(),
            process(&trace, 11).ppid,
            row(&trace, "wait4").calls
        ),
        (2, Some(10), 1)
    );
    assert_eq!(
        (process(&trace, 10).state, process(&trace, 11).state),
        (State::Exited, State::Exited)
    );
    assert_whole(&trace);
}

#[test]
fn a_task_without_an_id_gets_the_one_that_its_calls_return() {
    assert_eq!(
        read_text("execve(\"/bin/x\", [\"x\"], 0x7f) = 0\nset_tid_address(0x7f) = 10\n").processes
            [0]
        .pid,
        10
    );
    assert_eq!(
        read_text("execve(\"/bin/x\", [\"x\"], 0x7f) = 0\n").processes[0].pid,
        0
    );
}

#[test]
fn output_inside_a_line_does_not_hide_the_call_and_is_not_taken_for_its_size() {
    let trace = launched("10 write(2, \"23\\n4\\n\", 523\n4\n) = 5\n10 write(2, \"a\", 1a) = 1\n");
    assert_eq!(
        (
            row(&trace, "write").calls,
            row(&trace, "write").bytes,
            row(&trace, "write").requested_bytes
        ),
        (2, Some(6), None)
    );
    assert_whole(&trace);
}

#[test]
fn output_between_lines_is_not_understood() {
    let trace = launched("1+0 records in\n10 getuid() = 0\nhelloread(0, \"\", 1) = 0\n");
    assert_eq!(lost(&trace, Loss::UnparsedLines), 2);
}

#[test]
fn a_call_that_is_cut_off_is_unfinished() {
    for (rest, lost_lines) in [
        ("10 read(3, \"ab", 1),
        ("10 read(3, \"ab\", 2) = 2", 1),
        ("10 read(3,  <unfinished ...>", 0),
    ] {
        let trace = launched(rest);
        assert_eq!(
            (row(&trace, "read").calls, row(&trace, "read").unfinished),
            (0, 1),
            "{rest}"
        );
        assert_eq!(lost(&trace, Loss::UnparsedLines), lost_lines, "{rest}");
    }
    let resumed = launched("10 read(3,  <unfinished ...>\n10 <... read resumed>\"ab\", 2) = 2");
    assert_eq!(
        (
            row(&resumed, "read").unfinished,
            lost(&resumed, Loss::UnparsedLines)
        ),
        (1, 1)
    );
    assert_eq!(
        launched("10 +++ exited with 0 +++").exit,
        Some(Exit::Code(0))
    );
}

#[test]
fn the_lines_of_stacks_are_skipped() {
    const STACK: &str = " > /no/such/file(f+0x10) [0x1234] file.c:12\n > /x (deleted)() [0x10]\n > too many stack frames\n";
    let lines = [
        "10 read(3, \"ab\", 2) = 2\n",
        "10 read(3,  <unfinished ...>\n",
        "11 getuid() = 102\n",
        "10 <... read resumed>\"\", 2) = 0\n",
        "11 read(3, 0x7f, 1) = ? ERESTARTSYS (To be restarted)\n",
        "11 +++ killed by SIGKILL +++\n",
        "10 exit_group(2) = ?\n",
        "10 +++ exited with 2 +++\n",
    ];
    let with_stacks = launched(&lines.map(|line| format!("{line}{STACK}")).concat());
    let with_empty_lines = launched(&lines.map(|line| format!("{line}\n\n\n")).concat());
    assert_eq!(
        format!("{:?}", with_stacks.processes),
        format!("{:?}", with_empty_lines.processes)
    );
    assert_eq!(lost(&with_stacks, Loss::UnparsedLines), 0);
}

#[test]
fn a_sum_that_overflows_is_unknown() {
    let all = i64::MAX;
    let line = |call: &str| format!("10 {call}(3, \"\", {all}) = {all} <9999999999.0>\n");
    let trace = launched(
        &[
            line("read"),
            line("read"),
            line("read"),
            line("write"),
            line("write"),
        ]
        .concat(),
    );
    let (read, write) = (row(&trace, "read"), row(&trace, "write"));
    assert_eq!(
        (read.calls, read.bytes, read.requested_bytes),
        (3, None, None)
    );
    assert_eq!(write.bytes, Some(u64::MAX - 1));
    let report = crate::report::Report::from_trace(&trace, &crate::report::Options::default());
    let read = report
        .totals
        .syscalls
        .iter()
        .find(|row| row.name == "read")
        .expect("counted");
    assert_eq!(
        (read.bytes, read.total_ns, read.mean_ns, read.min_ns),
        (None, None, None, Some(9_999_999_999_000_000_000))
    );
}

#[test]
fn lines_that_are_too_long_are_a_loss() {
    let long = "[1, ".repeat(1 << 19);
    // Cut where it is too long to be kept, with and without an end; and one that is shorter, but
    // not whole.
    for line in [
        format!("10 poll({long}) = 1\n10 getuid() = 0\n"),
        format!("10 poll({long}"),
        format!("10 poll({}", &long[..100_000]),
    ] {
        let trace = launched(&line);
        assert_eq!(lost(&trace, Loss::UnparsedLines), 1);
    }
}

#[test]
fn a_log_that_leaves_calls_out_says_so() {
    let exec = "execve(\"/x\", [\"x\"], 0) = 0\n";
    let (exit, end) = ("exit_group(0) = ?\n", "+++ exited with 0 +++\n");
    let read = "read(0, \"\", 1) = 0\n";
    let gaps = |parts: &[&str]| {
        let trace = read_text(&parts.concat());
        assert!(
            trace
                .notes
                .iter()
                .any(|note| note.contains("may have been made")),
            "every log has the note: {:?}",
            trace.notes
        );
        (
            lost(&trace, Loss::UnshownCalls),
            lost(&trace, Loss::TracerEnded),
        )
    };
    assert_eq!(gaps(&[exec, read, exit, end]), (0, 0));
    assert_eq!(
        gaps(&[exec, read, end]),
        (1, 0),
        "-z: exit_group does not succeed"
    );
    assert_eq!(gaps(&[read, end]), (2, 0), "-e trace=read, -Z, -P");
    assert_eq!(gaps(&[exec, read, exit]), (0, 0), "-qq");
    assert_eq!(gaps(&[exec, read, "+++ killed by SIGKILL +++\n"]), (0, 0));
    assert_eq!(gaps(&[exec, read]), (0, 1), "cut off between two lines");
    assert_eq!(
        gaps(&[exec, "read(0, \"\""]),
        (0, 1),
        "cut off within a line"
    );
    assert_eq!(
        gaps(&[read, "read(0,  <detached ...>\n"]),
        (0, 0),
        "-p until Ctrl-C"
    );
}

#[test]
fn a_log_without_names_of_files_says_that_transfers_are_unknown() {
    let says_so = |text: &str| {
        launched(text)
            .notes
            .iter()
            .any(|note| note.contains("strace -yy"))
    };
    assert!(says_so("10 read(3, \"\", 1) = 0\n"));
    assert!(!says_so("10 read(3</x>, \"\", 1) = 0\n"));
    assert!(!says_so("10 getuid() = 0\n"));
    assert!(!says_so(
        "10 read(3, 0, 1) = -1 EBADF (Bad file descriptor)\n"
    ));
}

#[test]
fn calls_of_another_table_are_rows_of_their_own() {
    let trace = launched(
        "10 read(3, \"\", 1) = 0\n10 [ Process PID=10 runs in 32 bit mode. ]\n10 read(3, \"\", 1) = 0\n10 [ Process PID=10 runs in 64 bit mode. ]\n10 read(3, \"\", 1) = 0\n",
    );
    let reads = rows(&trace).filter(|row| row.call.name == "read");
    let calls: Vec<(Abi, u64)> = reads.map(|row| (row.call.abi, row.calls)).collect();
    assert_eq!(calls, [(Abi::NATIVE, 2), (Abi::COMPAT, 1)]);
}

#[test]
fn timestamps_give_the_duration_of_the_run() {
    let wall = |start: &str, end: &str| {
        read_text(&format!(
            "{start} execve(\"/x\", [], 0) = 0 <0.25>\n{end} +++ exited with 0 +++\n"
        ))
        .wall_ns
    };
    assert_eq!(
        wall("1700000000.000000", "1700000002.000000"),
        Some(1_750_000_000)
    );
    assert_eq!(
        wall("23:59:59.000000", "00:00:01.000000"),
        Some(1_750_000_000)
    );
    assert_eq!(wall("     0.000000", "     2.000000"), Some(1_750_000_000));
    assert_eq!(wall("12:00:00", "12:00:02"), None);
    assert_eq!(launched("10 +++ exited with 0 +++\n").wall_ns, None);
}

#[test]
fn lines_of_any_length_and_line_breaks_of_any_system() {
    let long = format!("{}\n", "x".repeat(3 << 20));
    let trace = launched(&format!(
        "{long}10 getuid() = 0\r\n\n10 +++ exited with 0 +++\r\n"
    ));
    assert_eq!(
        (
            row(&trace, "getuid").calls,
            trace.exit,
            lost(&trace, Loss::UnparsedLines)
        ),
        (1, Some(Exit::Code(0)), 1)
    );
}

#[test]
fn failed_calls_are_counted_by_the_path_that_they_were_given() {
    let trace = launched(concat!(
        "10 openat(AT_FDCWD</tmp>, \"a\\\"\\303\\244\", O_RDONLY) = -1 ENOENT (No such file or directory)\n",
        "10 openat(AT_FDCWD</tmp>, \"a\\\"\\303\\244\", O_RDONLY) = -1 ENOENT (No such file or directory)\n",
        "10 openat(AT_FDCWD</tmp>, \"/etc/passwd\", O_RDONLY) = 3</etc/passwd>\n",
        "10 openat(4</tmp>, \"below\", O_RDONLY) = -1 ENOENT (No such file or directory)\n",
        "10 stat(0x8, 0x7ffe) = -1 EFAULT (Bad address)\n",
        "10 access(\"/etc/x\"..., R_OK) = -1 EACCES (Permission denied)\n",
        "10 open(\"fifo\", O_RDONLY) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)\n",
        "10 read(3, 0x8, 1) = -1 EFAULT (Bad address)\n",
    ));
    let failed = trace.failed_paths.expect("a log has them");
    let line = |(failed, calls): (&FailedPath, &u64)| {
        let path = failed
            .path
            .as_ref()
            .map(|path| (path.text.clone(), path.is_cut, path.is_below_descriptor));
        (failed.call.name.to_string(), failed.errno, path, *calls)
    };
    let lines: Vec<_> = failed.calls.iter().map(line).collect();
    let path = |text: &str, is_cut| Some((text.to_owned(), is_cut, text == "below"));
    let expected = [
        ("access".to_owned(), 13, path("/etc/x", true), 1),
        ("openat".to_owned(), 2, path("a\"ä", false), 2),
        ("openat".to_owned(), 2, path("below", false), 1),
        ("stat".to_owned(), 14, None, 1),
    ];
    assert_eq!(
        (lines.as_slice(), failed.left_out),
        (expected.as_slice(), 0)
    );
}
