//! Who made the calls: the stacks of sampled calls, and what they make of the reasons of transfers.

mod builds;
mod deep;
mod profile;

use zctrace::report::{Callers, Frame, Process, Report, Site, Stack, Syscall, Transfer};

use crate::{
    copiers::{copy, in_c, in_rust, sink},
    harness::{Program, TestDir, Zctrace, program, shell, workload, zctrace},
};

fn with_callers() -> Zctrace {
    zctrace().option("--callers")
}

/// The report on a program, with callers.
#[track_caller]
fn sampled(program: &Program) -> Report {
    with_callers().run(program).report
}

/// Runs a copy to a Unix socket.
#[track_caller]
fn copy_to_a_socket<T>(copier: &Program, case: &str, run: impl FnOnce(&Program) -> T) -> T {
    let dir = TestDir::with_input(1 << 20);
    let sink = sink(&format!("unix:{}", dir.word("socket")));
    let done = run(&copy(copier, case, &dir.word("in"), &sink.address));
    sink.finish().expect("it succeeds");
    done
}

/// The report on such a copy, and its transfer with the most bytes.
#[track_caller]
fn to_a_socket(zctrace: Zctrace, copier: &Program, case: &str) -> (Report, Transfer) {
    let report = copy_to_a_socket(copier, case, |copy| zctrace.run(copy).report);
    let transfer = report.transfers.first().expect("it copies").clone();
    (report, transfer)
}

#[track_caller]
fn callers(transfer: &Transfer) -> &Callers {
    let callers = transfer.callers.as_ref();
    callers.unwrap_or_else(|| panic!("no callers: {transfer:?}"))
}

/// Where most of a transfer's calls were made.
#[track_caller]
fn site(transfer: &Transfer) -> &Site {
    &callers(transfer).sites[0]
}

#[track_caller]
fn stacks(report: &Report) -> &[Stack] {
    report.stacks.as_ref().expect("callers were sampled")
}

/// The calls of all processes.
fn calls(report: &Report) -> impl Iterator<Item = &Syscall> {
    let processes = report.processes.iter();
    processes.flat_map(|process| &process.syscalls)
}

/// The stacks of some calls, with the number of their samples.
fn sampled_stacks<'a>(
    report: &'a Report,
    calls: impl Iterator<Item = &'a Syscall>,
) -> Vec<(&'a Stack, u64)> {
    let callers = calls.filter_map(|call| call.callers.as_ref());
    let each = callers.flat_map(|callers| &callers.stacks);
    each.map(|of| (&stacks(report)[of.stack], of.samples))
        .collect()
}

/// The stacks of a call of a process.
fn stacks_of<'a>(report: &'a Report, process: &'a Process, name: &str) -> Vec<(&'a Stack, u64)> {
    let calls = process.syscalls.iter();
    sampled_stacks(report, calls.filter(|call| call.name == name))
}

fn is_called(frame: &Frame, name: &str) -> bool {
    frame.function.as_deref() == Some(name)
}

fn is_in(frame: &Frame, module: &str) -> bool {
    let own = frame.module.as_deref();
    own.is_some_and(|own| own.contains(module))
}

/// Asserts that nearly all samples have a complete stack.
#[track_caller]
fn assert_complete(report: &Report) {
    let sum = |stacks: &[(&Stack, u64)]| stacks.iter().map(|(_, samples)| samples).sum::<u64>();
    let sampled = sampled_stacks(report, calls(report));
    let all = sum(&sampled);
    let (complete, incomplete): (Vec<_>, Vec<_>) =
        sampled.into_iter().partition(|(stack, _)| stack.complete);
    let complete = sum(&complete);
    let is_right = all > 0 && complete * 100 >= all * 95;
    assert!(
        is_right,
        "{complete} of {all} are complete: {incomplete:#?}"
    );
}

#[test]
fn std_io_copy_is_named_with_its_caller_and_the_reason_is_a_fact() {
    let (report, transfer) = to_a_socket(with_callers(), &in_rust(), "std-io-copy");
    assert_complete(&report);
    let callers = callers(&transfer);
    assert!(callers.samples >= 8, "{callers:?}");
    let [site] = callers.sites.as_slice() else {
        panic!("several sites: {callers:?}")
    };
    let found = (site.via.as_deref(), site.samples);
    assert_eq!(found, (Some("std::io::copy"), callers.samples));
    let file = site.at.file.as_deref().expect("there are line tables");
    let is_right = file.ends_with("tests/workloads/copier/library_copies.rs");
    assert!(is_right && site.at.line.is_some(), "{site:?}");
    let reason =
        ": std::io::copy does not use sendfile or splice from a file to a pipe or a socket";
    assert!(transfer.verdict.ends_with(reason), "{}", transfer.verdict);
}

#[test]
fn a_loop_of_its_own_is_not_taken_for_std_io_copy() {
    let zctrace = with_callers().option("--syscalls=all");
    let (_, transfer) = to_a_socket(zctrace, &in_rust(), "read-write");
    let mut sites = callers(&transfer).sites.iter();
    assert!(sites.all(|site| site.via.as_deref() != Some("std::io::copy")));
    let verdict = &transfer.verdict;
    assert!(!verdict.contains("std::io::copy"), "{verdict}");
}

#[test]
fn without_callers_the_reason_stays_a_guess_and_nothing_is_sampled() {
    let (report, transfer) = to_a_socket(zctrace(), &in_rust(), "std-io-copy");
    let verdict = &transfer.verdict;
    assert!(verdict.contains("if this is std::io::copy"), "{verdict}");
    assert!(report.stacks.is_none() && transfer.callers.is_none());
}

#[test]
fn a_c_program_without_frame_pointers_is_unwound_to_its_start() {
    let (report, transfer) = to_a_socket(with_callers(), &in_c(), "read-write");
    for of in &callers(&transfer).stacks {
        let stack = &stacks(&report)[of.stack];
        let has_main = stack.frames.iter().any(|frame| is_called(frame, "main"));
        assert!(stack.complete && has_main, "{stack:?}");
    }
}

#[test]
fn all_calls_of_a_row_are_sampled_or_those_of_the_powers_of_two() {
    // 1, 2, 4, 8, 16, 32, 64.
    for (option, samples) in [("--callers=all", 100), ("--callers", 7)] {
        let zctrace = zctrace().option(option);
        let report = zctrace.run(&workload("write").args(&["100", "10"])).report;
        let write = calls(&report).find(|call| call.name == "write");
        let write = write.expect("it writes");
        let callers = write.callers.as_ref().expect("they are sampled");
        assert_eq!((write.calls, callers.samples), (100, samples));
        assert_complete(&report);
    }
}

#[test]
fn no_sample_of_a_process_that_ended_is_lost_unsaid() {
    let workload = env!("CARGO_BIN_EXE_workload");
    let many = shell(&format!(
        "for i in $(seq 300); do {workload} write 20 10; done"
    ));
    let report = zctrace().option("--callers=all").run(&many).report;
    let callers = calls(&report).filter_map(|call| call.callers.as_ref());
    let sampled: u64 = callers.map(|callers| callers.samples).sum();
    let unsampled = report.losses.get("unsampled_callers").unwrap_or(&0);
    let made: u64 = calls(&report).map(|call| call.calls).sum();
    assert_eq!(
        sampled + unsampled,
        made,
        "{unsampled} are known to be lost"
    );
}

#[test]
fn threads_are_unwound_to_their_start() {
    let report = sampled(&workload("thread-storm").args(&["64", "100"]));
    assert_complete(&report);
    let is_of_std = |frame: &Frame| {
        let function = frame.function.as_deref();
        function.is_some_and(|name| name.ends_with("thread_start"))
    };
    let mut threads = 0;
    for stack in stacks(&report) {
        let Some(in_rust) = stack.frames.iter().position(is_of_std) else {
            continue;
        };
        threads += 1;
        // The C library's own: `start_thread` and `clone3`, if it has symbols.
        let outer = &stack.frames[in_rust + 1..];
        let are_in_libc = outer.iter().all(|frame| is_in(frame, "/libc.so"));
        assert!(
            stack.complete && !outer.is_empty() && are_in_libc,
            "{stack:?}"
        );
        let is_start = matches!(outer[0].function.as_deref(), Some("start_thread") | None);
        assert!(is_start, "{stack:?}");
    }
    assert!(threads > 0, "{:?}", stacks(&report));
}

#[test]
fn programs_of_the_distribution_short_ones_and_children_without_an_exec_are_unwound() {
    let dir = TestDir::new();
    let to = dir.word("out");
    for program in [
        program("/bin/true"),
        workload("fork-storm").arg("100"),
        workload("exec-storm").arg("50"),
        shell("for i in 1 2 3; do (cat /etc/passwd; echo x) | tail -n 1; done"),
        program("/bin/ls").args(&["-lR", "/etc"]),
        program("/bin/cp").args(&["/bin/ls", &to]),
        program("/bin/tar").args(&["cf", &to, "/usr/share/doc/libc6"]),
    ] {
        println!("{program:?}");
        assert_complete(&sampled(&program));
    }
}

#[test]
fn a_program_that_is_gone_by_the_end_is_unwound_without_names() {
    let dir = TestDir::new();
    let script = shell("cp /bin/cat mycat; ./mycat /etc/passwd; rm mycat");
    let report = with_callers().dir(dir.path()).run(&script).report;
    let frames = stacks(&report).iter().flat_map(|stack| &stack.frames);
    let own: Vec<_> = frames.filter(|frame| is_in(frame, "/mycat")).collect();
    assert!(!own.is_empty());
    assert!(own.iter().all(|frame| frame.function.is_none()), "{own:?}");
}
