//! Who made the calls: the stacks of sampled calls, and what they make of the reasons of transfers.

mod builds;
mod deep;
mod profile;

use std::{fs, os::unix::fs::PermissionsExt as _};

use zctrace::report::{Callers, Frame, Report, Stack, Transfer};

#[cfg(target_arch = "x86_64")]
use crate::harness::c;
use crate::{
    copiers::{Scene, Side, copy, in_c, in_rust},
    harness::{
        BACKENDS, Launch, Program, TestDir, Zctrace, each_backend, program, shell, workload,
        zctrace,
    },
};

fn with_callers() -> Zctrace {
    zctrace().option("--callers")
}

/// The transfer with the most bytes of a copy to a Unix socket.
#[track_caller]
fn to_a_socket(zctrace: Zctrace, copier: &Program, case: &str) -> (Report, Transfer) {
    let scene = Scene::new(1 << 20);
    let sink = Side::sink(&scene.spec("unix:", "socket"));
    let report = zctrace
        .run(&copy(copier, case, &scene.spec("", "in"), &sink.spec))
        .report;
    sink.last_line();
    let transfer = report.transfers.first().expect("it copies").clone();
    (report, transfer)
}

#[track_caller]
fn callers(transfer: &Transfer) -> &Callers {
    transfer
        .callers
        .as_ref()
        .unwrap_or_else(|| panic!("no callers: {transfer:?}"))
}

/// How many samples there are, and how many of them have a complete stack.
fn samples(report: &Report) -> (u64, u64) {
    let stacks = report.stacks.as_ref().expect("callers were sampled");
    let all = || {
        report
            .processes
            .iter()
            .flat_map(|process| &process.syscalls)
            .filter_map(|syscall| syscall.callers.as_ref())
    };
    let each = || all().flat_map(|callers| &callers.stacks);
    let complete = each()
        .filter(|of| stacks[of.stack].complete)
        .map(|of| of.samples)
        .sum();
    (each().map(|of| of.samples).sum(), complete)
}

/// Asserts that nearly all samples have a complete stack.
#[track_caller]
fn assert_complete(report: &Report) {
    let (all, complete) = samples(report);
    let incomplete: Vec<&Stack> = report
        .stacks
        .iter()
        .flatten()
        .filter(|stack| !stack.complete)
        .collect();
    assert!(
        all > 0 && complete * 100 >= all * 95,
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
    assert_eq!(
        (site.via.as_deref(), site.samples),
        (Some("std::io::copy"), callers.samples)
    );
    let file = site.at.file.as_deref().expect("there are line tables");
    assert!(
        file.ends_with("tests/workloads/copier/library_copies.rs") && site.at.line.is_some(),
        "{site:?}"
    );
    let reason = ": std::io::copy does not use sendfile or splice from a file to a socket";
    assert!(transfer.verdict.ends_with(reason), "{}", transfer.verdict);
}

#[test]
fn a_loop_of_its_own_is_not_taken_for_std_io_copy() {
    let (_, transfer) = to_a_socket(
        with_callers().option("--syscalls=all"),
        &in_rust(),
        "read-write",
    );
    assert!(
        callers(&transfer)
            .sites
            .iter()
            .all(|site| site.via.as_deref() != Some("std::io::copy"))
    );
    assert!(
        !transfer.verdict.contains("std::io::copy"),
        "{}",
        transfer.verdict
    );
}

#[test]
fn without_callers_the_reason_stays_a_guess_and_nothing_is_sampled() {
    let (report, transfer) = to_a_socket(zctrace(), &in_rust(), "std-io-copy");
    assert!(
        transfer.verdict.contains("if this is std::io::copy"),
        "{}",
        transfer.verdict
    );
    assert!(report.stacks.is_none() && transfer.callers.is_none());
}

#[test]
fn a_c_program_without_frame_pointers_is_unwound_to_its_start() {
    let (report, transfer) = to_a_socket(with_callers(), &in_c(), "read-write");
    let stacks = report.stacks.as_ref().expect("callers were sampled");
    for of in &callers(&transfer).stacks {
        let stack = &stacks[of.stack];
        let has_main = stack
            .frames
            .iter()
            .any(|frame| frame.function.as_deref() == Some("main"));
        assert!(stack.complete && has_main, "{stack:?}");
    }
}

#[test]
fn with_all_every_call_of_a_row_is_sampled() {
    let report = zctrace()
        .option("--callers=all")
        .run(&workload("write").args(&["100", "10"]))
        .report;
    let write = report.processes[0]
        .syscalls
        .iter()
        .find(|syscall| syscall.name == "write")
        .expect("it writes");
    assert_eq!(
        (
            write.calls,
            write.callers.as_ref().expect("they are sampled").samples
        ),
        (100, 100)
    );
    assert_complete(&report);
}

#[test]
fn no_sample_of_a_process_that_ended_is_lost_unsaid() {
    let loop_of_processes = shell(&format!(
        "for i in $(seq 300); do {} write 20 10; done",
        env!("CARGO_BIN_EXE_workload")
    ));
    let report = zctrace()
        .option("--callers=all")
        .run(&loop_of_processes)
        .report;
    let syscalls = || {
        report
            .processes
            .iter()
            .flat_map(|process| &process.syscalls)
    };
    let sampled: u64 = syscalls()
        .filter_map(|syscall| syscall.callers.as_ref())
        .map(|callers| callers.samples)
        .sum();
    let unsampled = report.losses.get("unsampled_callers").copied().unwrap_or(0);
    assert_eq!(
        sampled + unsampled,
        syscalls().map(|syscall| syscall.calls).sum::<u64>(),
        "{unsampled} are known to be lost"
    );
}

#[test]
fn otherwise_the_samples_are_the_calls_1_2_4_and_so_on() {
    let report = with_callers()
        .run(&workload("write").args(&["100", "10"]))
        .report;
    let write = report.processes[0]
        .syscalls
        .iter()
        .find(|syscall| syscall.name == "write")
        .expect("it writes");
    assert_eq!(
        write.callers.as_ref().expect("they are sampled").samples,
        7,
        "1, 2, 4, 8, 16, 32, 64"
    );
}

#[test]
fn threads_are_unwound_to_their_start() {
    let report = with_callers()
        .run(&workload("thread-storm").args(&["64", "100"]))
        .report;
    assert_complete(&report);
    let stacks = report.stacks.as_ref().expect("callers were sampled");
    let is_of_std = |frame: &Frame| {
        frame
            .function
            .as_deref()
            .is_some_and(|name| name.ends_with("thread_start"))
    };
    let threads: Vec<_> = stacks
        .iter()
        .filter_map(|stack| Some((stack, stack.frames.iter().position(is_of_std)?)))
        .collect();
    assert!(!threads.is_empty(), "{stacks:?}");
    for (stack, in_rust) in threads {
        let outer = &stack.frames[in_rust + 1..];
        // The C library's own: `start_thread` and `clone3`, if it has symbols.
        let is_in_libc = |frame: &Frame| {
            frame
                .module
                .as_deref()
                .is_some_and(|module| module.contains("/libc.so"))
        };
        assert!(
            stack.complete && !outer.is_empty() && outer.iter().all(is_in_libc),
            "{stack:?}"
        );
        assert!(
            matches!(outer[0].function.as_deref(), Some("start_thread") | None),
            "{stack:?}"
        );
    }
}

#[test]
fn short_programs_and_children_without_an_exec_are_unwound() {
    assert_complete(&with_callers().run(&program("/bin/true")).report);
    assert_complete(
        &with_callers()
            .run(&workload("fork-storm").arg("100"))
            .report,
    );
    assert_complete(&with_callers().run(&workload("exec-storm").arg("50")).report);
    assert_complete(
        &with_callers()
            .run(&shell(
                "for i in 1 2 3; do (cat /etc/passwd; echo x) | tail -n 1; done",
            ))
            .report,
    );
}

#[test]
fn programs_of_the_distribution_are_unwound() {
    let dir = TestDir::new();
    let to = dir.join("out").to_str().expect("a plain path").to_owned();
    assert_complete(
        &with_callers()
            .run(&program("/bin/ls").args(&["-lR", "/etc"]))
            .report,
    );
    assert_complete(
        &with_callers()
            .run(&program("/bin/cp").args(&["/bin/ls", &to]))
            .report,
    );
    assert_complete(
        &with_callers()
            .run(&program("/bin/tar").args(&["cf", &to, "/usr/share/doc/libc6"]))
            .report,
    );
}

#[test]
fn a_program_that_is_gone_by_the_end_is_unwound_without_names() {
    let dir = TestDir::new();
    let report = with_callers()
        .dir(dir.path())
        .run(&shell("cp /bin/cat mycat; ./mycat /etc/passwd; rm mycat"))
        .report;
    let frames = || {
        report
            .stacks
            .iter()
            .flatten()
            .flat_map(|stack| &stack.frames)
    };
    let own: Vec<_> = frames()
        .filter(|frame| {
            frame
                .module
                .as_deref()
                .is_some_and(|module| module.ends_with("/mycat"))
        })
        .collect();
    assert!(
        !own.is_empty() && own.iter().all(|frame| frame.function.is_none()),
        "{own:?}"
    );
}

/// A place that calls were made at: its function, line and library function, and the samples.
type Place<'a> = (Option<&'a str>, Option<u32>, Option<&'a str>, u64);

/// Where the calls of transfers were made.
fn sites(report: &Report) -> Vec<Place<'_>> {
    let all = report
        .transfers
        .iter()
        .flat_map(|transfer| &callers(transfer).sites);
    let mut sites: Vec<_> = all
        .map(|site| {
            (
                site.at.function.as_deref(),
                site.at.line,
                site.via.as_deref(),
                site.samples,
            )
        })
        .collect();
    sites.sort_unstable();
    sites
}

/// Runs a program under both backends with every call sampled.
fn under_both(program: &Program) -> [Report; 2] {
    each_backend().map(|zctrace| zctrace.option("--callers=all").run(program).report)
}

#[cfg(target_arch = "x86_64")]
#[test]
fn strace_and_ebpf_name_the_same_callers_of_a_program_that_gnu_ld_linked() {
    let dir = TestDir::with("in", "a line\n".repeat(5000));
    let file = dir.join("in").to_str().expect("a plain path").to_owned();
    for (how, function, via) in [
        ("library", "std_copy::by_library", Some("std::io::copy")),
        ("hand", "std_copy::by_hand", Some("std::fs::File::read")),
    ] {
        let [ebpf, strace] = under_both(&c("std-copy").args(&[how, &file]));
        assert_eq!(sites(&ebpf), sites(&strace));
        assert!(
            sites(&strace)
                .iter()
                .any(|site| (site.0, site.2) == (Some(function), via)),
            "{:?}",
            sites(&strace)
        );
        // Only strace does not know whether the bytes were changed.
        let verdict = |transfer: &Transfer| {
            transfer
                .verdict
                .replace(", perhaps changed or replaced on the way", "")
        };
        let verdicts = |report: &Report| report.transfers.iter().map(verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(&ebpf), verdicts(&strace));
        assert_complete(&strace);
    }
}

#[test]
fn strace_and_ebpf_name_the_same_callers_of_a_program_in_c() {
    let scene = Scene::new(1 << 18);
    let [from, to] = [scene.spec("", "in"), scene.spec("", "out")];
    let [ebpf, strace] = under_both(&copy(&in_c(), "read-write", &from, &to));
    assert_eq!(sites(&ebpf), sites(&strace));
    assert!(
        sites(&strace)
            .iter()
            .all(|site| site.0.is_some() && site.1.is_some()),
        "{:?}",
        sites(&strace)
    );
}

#[test]
fn strace_says_nothing_of_callers_that_ebpf_contradicts() {
    for case in ["std-io-copy", "read-write"] {
        let [(_, ebpf), (_, strace)] = each_backend()
            .map(|zctrace| to_a_socket(zctrace.option("--callers=all"), &in_rust(), case));
        let known: Vec<_> = callers(&ebpf)
            .sites
            .iter()
            .map(|site| (&site.at.function, &site.via))
            .collect();
        for site in &callers(&strace).sites {
            assert!(
                known.contains(&(&site.at.function, &site.via)),
                "{site:?} {known:?}"
            );
        }
        // Either the stacks show it, or it stays a guess.
        let states = |transfer: &Transfer, words: &str| transfer.verdict.contains(words);
        let is_settled = states(&strace, ": std::io::copy does not")
            == states(&ebpf, ": std::io::copy does not");
        assert!(
            is_settled || states(&strace, "if this is std::io::copy"),
            "{}",
            strace.verdict
        );
    }
}

#[test]
fn a_log_with_stacks_has_callers() {
    let dir = TestDir::with("in", "a line\n".repeat(5000));
    let [from, to, log] =
        ["in", "out", "log"].map(|name| dir.join(name).to_str().expect("a plain path").to_owned());
    let program = copy(&in_c(), "read-write", &from, &to);
    let strace = Launch::default()
        .words(&["strace", "-f", "-T", "-yy", "-k", "-o", &log, "--"])
        .words(program.words());
    strace.finish().successful();
    let text = zctrace()
        .option("report")
        .option(&log)
        .option("--format=json")
        .launch()
        .finish();
    let report = Report::from_json(text.successful()).expect("a report");
    let stacks = report.stacks.as_ref().expect("the log has stacks");
    let transfer = report.transfers.first().expect("it copies");
    let in_log = dir
        .read("log")
        .lines()
        .filter(|line| line.starts_with(" > ") && line.contains("copier-c(main+"))
        .count();
    assert!(
        Some(callers(transfer).samples) == transfer.calls && in_log > 0,
        "{transfer:?}"
    );
    for of in &callers(transfer).stacks {
        let has_main = stacks[of.stack]
            .frames
            .iter()
            .any(|frame| frame.function.as_deref() == Some("main"));
        assert!(
            has_main && stacks[of.stack].complete,
            "{:?}",
            stacks[of.stack]
        );
    }
    let shown = zctrace().option("report").option(&log).launch().finish();
    assert!(shown.successful().contains("caller: "), "{}", shown.text());
}

#[test]
fn a_strace_without_stacks_says_that_callers_are_unknown() {
    let dir = TestDir::new();
    // A strace that says nothing of stacks, and refuses to print them.
    let script = "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'strace -- version 6.1'; exit; fi\nexec /usr/bin/strace \"$@\"\n";
    fs::write(dir.join("strace"), script).expect("room for it");
    fs::set_permissions(dir.join("strace"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    let zctrace = zctrace()
        .env("PATH", path)
        .backend("strace")
        .option("--callers");
    let report = zctrace.run(&program("/bin/true")).report;
    let note = report
        .notes
        .iter()
        .find(|note| note.starts_with("callers are unknown: "))
        .expect("it says so");
    assert!(
        report.stacks.is_none() && note.contains("stack-trace="),
        "{note}"
    );
}

/// The exit status and the result of a check of this command.
fn check(backend: &str, expectation: &str, program: &Program) -> (Option<i32>, String) {
    let options = ["check", backend, &format!("--expect={expectation}"), "--"];
    let finished = zctrace()
        .options(&options)
        .launch_with(program.words())
        .finish();
    (finished.code, finished.text().to_owned())
}

#[test]
fn expectations_hold_or_fail_by_caller() {
    for backend in BACKENDS {
        let scene = Scene::new(1 << 18);
        let copies = copy(
            &in_c(),
            "read-write",
            &scene.spec("", "in"),
            &scene.spec("", "out"),
        );
        let check = |expectation: &str| check(backend, expectation, &copies);
        let (code, shown) = check(r#"read[caller="main"].calls == 0"#);
        assert!(code == Some(1) && shown.contains("caller: "), "{shown}");
        assert_eq!(
            check(r#"read[caller="main"].calls >= 1"#).0,
            Some(0),
            "{backend}"
        );
        let (code, shown) = check(r#"read[caller="no_such_crate::**"].calls == 0"#);
        assert_eq!(code, Some(0), "{shown}");
        let (code, shown) = check(r#"read[caller="mian"].calls == 0"#);
        assert!(code == Some(0) || code == Some(3), "{shown}");
        assert!(
            shown.contains(
                r#""mian" matches no function of a sampled stack; the nearest is "main""#
            ),
            "{shown}"
        );
        let (code, shown) = check(r#"transfer("in" -> "out").via == "std::io::copy""#);
        // strace does not prove the transfer.
        assert_eq!(
            code,
            Some(if backend == BACKENDS[0] { 1 } else { 3 }),
            "{shown}"
        );
    }
}

#[test]
fn an_expectation_of_via_holds_if_all_samples_agree() {
    let copies = |case: &str| {
        let scene = Scene::new(1 << 18);
        let program = copy(
            &in_rust(),
            case,
            &scene.spec("", "in"),
            &scene.spec("", "out"),
        );
        check(
            "--backend=ebpf",
            r#"transfer("in" -> "out").via == "std::io::copy""#,
            &program,
        )
    };
    let (code, shown) = copies("std-io-copy");
    assert_eq!(code, Some(0), "{shown}");
    let (code, shown) = copies("read-write");
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("caller: "), "{shown}");
}

#[test]
fn folded_stacks_begin_with_the_process_and_end_with_the_call() {
    let dir = TestDir::new();
    let zctrace = zctrace()
        .option("--callers=folded")
        .option("-o")
        .option(dir.join("folded"));
    zctrace
        .show(&workload("write").args(&["8", "10"]))
        .successful();
    let text = dir.read("folded");
    let line = text
        .lines()
        .find(|line| line.contains(";write "))
        .unwrap_or_else(|| panic!("no write: {text}"));
    assert!(
        line.starts_with("workload;_start;")
            && line.contains("main;")
            && line.ends_with(";write 4"),
        "{line}"
    );
}
