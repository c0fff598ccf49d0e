//! Who made the calls: the stacks of sampled calls, and what they make of the reasons of transfers.

mod builds;
mod profile;

use std::process::Command;

use zctrace::report::{Callers, Report, Stack, Transfer};

use crate::{
    copiers::{Scene, Side, copy, in_c, in_rust},
    harness::{Program, TestDir, Zctrace, each_backend, program, shell, workload, zctrace},
};

fn with_callers() -> Zctrace {
    zctrace().option("--callers")
}

/// The transfer with the most bytes of a copy to a Unix socket.
#[track_caller]
fn to_a_socket(zctrace: Zctrace, copier: &Program, case: &str) -> (Report, Transfer) {
    let scene = Scene::new(1 << 20);
    let sink = Side::sink(&scene.spec("unix:", "socket"));
    let report = zctrace.run(&copy(copier, case, &scene.spec("", "in"), &sink.spec)).report;
    sink.last_line();
    let transfer = report.transfers.first().expect("it copies").clone();
    (report, transfer)
}

#[track_caller]
fn callers(transfer: &Transfer) -> &Callers {
    transfer.callers.as_ref().unwrap_or_else(|| panic!("no callers: {transfer:?}"))
}

/// How many samples there are, and how many of them have a complete stack.
fn samples(report: &Report) -> (u64, u64) {
    let stacks = report.stacks.as_ref().expect("callers were sampled");
    let all = || report.processes.iter().flat_map(|process| &process.syscalls).filter_map(|syscall| syscall.callers.as_ref());
    let each = || all().flat_map(|callers| &callers.stacks);
    let complete = each().filter(|of| stacks[of.stack].complete).map(|of| of.samples).sum();
    (each().map(|of| of.samples).sum(), complete)
}

/// Asserts that nearly all samples have a complete stack.
#[track_caller]
fn assert_complete(report: &Report) {
    let (all, complete) = samples(report);
    let incomplete: Vec<&Stack> = report.stacks.iter().flatten().filter(|stack| !stack.complete).collect();
    assert!(all > 0 && complete * 100 >= all * 95, "{complete} of {all} are complete: {incomplete:#?}");
}

#[test]
fn std_io_copy_is_named_with_its_caller_and_the_reason_is_a_fact() {
    let (_, transfer) = to_a_socket(with_callers(), &in_rust(), "std-io-copy");
    let callers = callers(&transfer);
    assert!(callers.samples >= 8, "{callers:?}");
    let [site] = callers.sites.as_slice() else { panic!("several sites: {callers:?}") };
    assert_eq!((site.via.as_deref(), site.samples), (Some("std::io::copy"), callers.samples));
    let file = site.at.file.as_deref().expect("there are line tables");
    assert!(file.ends_with("tests/workloads/copier/library_copies.rs") && site.at.line.is_some(), "{site:?}");
    let reason = ": std::io::copy does not use sendfile or splice from a file to a socket";
    assert!(transfer.verdict.ends_with(reason), "{}", transfer.verdict);
}

#[test]
fn a_loop_of_its_own_is_not_taken_for_std_io_copy() {
    let (_, transfer) = to_a_socket(with_callers().option("--syscalls=all"), &in_rust(), "read-write");
    assert!(callers(&transfer).sites.iter().all(|site| site.via.as_deref() != Some("std::io::copy")));
    assert!(!transfer.verdict.contains("std::io::copy"), "{}", transfer.verdict);
}

#[test]
fn without_callers_the_reason_stays_a_guess_and_nothing_is_sampled() {
    let (report, transfer) = to_a_socket(zctrace(), &in_rust(), "std-io-copy");
    assert!(transfer.verdict.contains("if this is std::io::copy"), "{}", transfer.verdict);
    assert!(report.stacks.is_none() && transfer.callers.is_none());
}

/// A copy of the copier, after these programs have changed it; `{}` stands for its path.
fn changed_copier(dir: &TestDir, commands: &[&[&str]]) -> Program {
    let path = dir.join("copier").to_str().expect("a plain path").to_owned();
    std::fs::copy(env!("CARGO_BIN_EXE_copier"), &path).expect("room for it");
    for words in commands {
        let words: Vec<String> = words.iter().map(|word| word.replace("{}", &path)).collect();
        assert!(Command::new(&words[0]).args(&words[1..]).status().expect("binutils are there").success(), "{words:?}");
    }
    program(path)
}

#[test]
fn in_a_stripped_program_callers_are_places_in_its_file_and_the_reason_says_what_would_settle_it() {
    let dir = TestDir::new();
    let (report, transfer) = to_a_socket(with_callers(), &changed_copier(&dir, &[&["strip", "{}"]]), "std-io-copy");
    let site = &callers(&transfer).sites[0];
    assert_eq!(site.at.function, None);
    assert!(site.at.module.as_deref().is_some_and(|module| module.ends_with("/copier")) && site.at.address > 0, "{site:?}");
    assert!(transfer.verdict.contains("if this is std::io::copy"), "{}", transfer.verdict);
    assert!(transfer.verdict.contains("debug = \"line-tables-only\""), "{}", transfer.verdict);
    assert_complete(&report);
}

#[test]
fn names_come_from_a_separate_debug_file() {
    let dir = TestDir::new();
    let split: &[&[&str]] = &[
        &["objcopy", "--only-keep-debug", "{}", "{}.debug"],
        &["strip", "--strip-debug", "--strip-unneeded", "{}"],
        &["objcopy", "--add-gnu-debuglink={}.debug", "{}"],
    ];
    let (_, transfer) = to_a_socket(with_callers(), &changed_copier(&dir, split), "std-io-copy");
    let site = &callers(&transfer).sites[0];
    assert_eq!(site.via.as_deref(), Some("std::io::copy"), "{site:?}");
    assert!(site.at.line.is_some(), "{site:?}");
}

#[test]
fn a_c_program_without_frame_pointers_is_unwound_to_its_start() {
    let (report, transfer) = to_a_socket(with_callers(), &in_c(), "read-write");
    let stacks = report.stacks.as_ref().expect("callers were sampled");
    for of in &callers(&transfer).stacks {
        let stack = &stacks[of.stack];
        let has_main = stack.frames.iter().any(|frame| frame.function.as_deref() == Some("main"));
        assert!(stack.complete && has_main, "{stack:?}");
    }
}

#[test]
fn with_all_every_call_of_a_row_is_sampled() {
    let report = zctrace().option("--callers=all").run(&workload("write").args(&["100", "10"])).report;
    let write = report.processes[0].syscalls.iter().find(|syscall| syscall.name == "write").expect("it writes");
    assert_eq!((write.calls, write.callers.as_ref().expect("they are sampled").samples), (100, 100));
    assert_complete(&report);
}

#[test]
fn otherwise_the_samples_are_the_calls_1_2_4_and_so_on() {
    let report = with_callers().run(&workload("write").args(&["100", "10"])).report;
    let write = report.processes[0].syscalls.iter().find(|syscall| syscall.name == "write").expect("it writes");
    assert_eq!(write.callers.as_ref().expect("they are sampled").samples, 7, "1, 2, 4, 8, 16, 32, 64");
}

#[test]
fn threads_are_unwound_to_their_start() {
    let report = with_callers().run(&workload("thread-storm").args(&["64", "100"])).report;
    assert_complete(&report);
    let stacks = report.stacks.as_ref().expect("callers were sampled");
    let begins = |stack: &Stack| stack.frames.iter().any(|frame| frame.function.as_deref() == Some("start_thread"));
    assert!(stacks.iter().any(begins), "{stacks:?}");
}

#[test]
fn short_programs_and_children_without_an_exec_are_unwound() {
    assert_complete(&with_callers().run(&program("/bin/true")).report);
    assert_complete(&with_callers().run(&workload("fork-storm").arg("100")).report);
    assert_complete(&with_callers().run(&workload("exec-storm").arg("50")).report);
    assert_complete(&with_callers().run(&shell("for i in 1 2 3; do (cat /etc/passwd; echo x) | tail -n 1; done")).report);
}

#[test]
fn programs_of_the_distribution_are_unwound() {
    let dir = TestDir::new();
    let to = dir.join("out").to_str().expect("a plain path").to_owned();
    assert_complete(&with_callers().run(&program("/bin/ls").args(&["-lR", "/etc"])).report);
    assert_complete(&with_callers().run(&program("/bin/cp").args(&["/bin/ls", &to])).report);
    assert_complete(&with_callers().run(&program("/bin/tar").args(&["cf", &to, "/usr/share/doc/libc6"])).report);
}

#[test]
fn a_program_that_is_gone_by_the_end_is_unwound_without_names() {
    let dir = TestDir::new();
    let report = with_callers().dir(dir.path()).run(&shell("cp /bin/cat mycat; ./mycat /etc/passwd; rm mycat")).report;
    let frames = || report.stacks.iter().flatten().flat_map(|stack| &stack.frames);
    let own: Vec<_> = frames().filter(|frame| frame.module.as_deref().is_some_and(|module| module.ends_with("/mycat"))).collect();
    assert!(!own.is_empty() && own.iter().all(|frame| frame.function.is_none()), "{own:?}");
}

#[test]
fn strace_says_that_callers_are_unknown() {
    let [ebpf, strace] = each_backend().map(|zctrace| zctrace.option("--callers").run(&program("true")).report);
    assert!(ebpf.stacks.is_some() && !ebpf.notes.iter().any(|note| note.contains("callers")), "{:?}", ebpf.notes);
    assert!(
        strace.stacks.is_none() && strace.notes.iter().any(|note| note.starts_with("callers are unknown")),
        "{:?}",
        strace.notes
    );
}

#[test]
fn folded_stacks_begin_with_the_process_and_end_with_the_call() {
    let dir = TestDir::new();
    let zctrace = zctrace().option("--callers=folded").option("-o").option(dir.join("folded"));
    zctrace.show(&workload("write").args(&["8", "10"])).successful();
    let text = dir.read("folded");
    let line = text.lines().find(|line| line.contains(";write ")).unwrap_or_else(|| panic!("no write: {text}"));
    assert!(line.starts_with("workload;_start;") && line.contains("main;") && line.ends_with(";write 4"), "{line}");
}
