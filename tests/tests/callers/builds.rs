//! Callers in programs that are linked in other ways, have changed, or name files that must not be
//! opened.

use std::{fs, path::Path, process::Command};

use zctrace::report::{Frame, Report};

use super::{assert_complete, callers, to_a_socket, with_callers};
use crate::harness::{Program, TestDir, copy_program, fifo_at, program, shell};

/// Writes to stdout 16 times, through a function of this name that has a frame.
fn source(function: &str) -> String {
    format!(
        "#include <unistd.h>\n#include <string.h>\n\
         __attribute__((noinline)) int {function}(const char *text, int length) {{\n\
         volatile char pad[200]; memset((void *)pad, length, sizeof pad);\n\
         return write(1, text, length) + pad[3]; }}\n"
    )
}

const MAIN: &str = "extern int leaf(const char *, int);\n\
    __attribute__((noinline)) int work(void) { int sum = 0; for (int i = 0; i < 16; i++) sum += leaf(\"hello\\n\", 6); return sum; }\n\
    int main(void) { return work() == 0; }\n";

/// Runs a command of the test itself.
#[track_caller]
fn tool(dir: &TestDir, words: &[&str]) {
    let status = Command::new(words[0])
        .args(&words[1..])
        .current_dir(dir.path())
        .status();
    assert!(
        status.expect("gcc and binutils are there").success(),
        "{words:?}"
    );
}

/// A C program without frame pointers, linked with these options.
fn c_program(dir: &TestDir, flags: &[&str]) -> Program {
    dir.write("leaf.c", source("leaf"));
    dir.write("main.c", MAIN);
    tool(
        dir,
        &[
            &[
                "gcc",
                "-O2",
                "-fomit-frame-pointer",
                "-o",
                "program",
                "leaf.c",
                "main.c",
            ],
            flags,
        ]
        .concat(),
    );
    program(dir.join("program").to_str().expect("a plain path"))
}

/// The names of the functions that made this call, from the one that made it.
fn names_of(report: &Report, call: &str) -> Vec<String> {
    let stacks = report.stacks.as_ref().expect("callers were sampled");
    let syscalls = report
        .processes
        .iter()
        .flat_map(|process| &process.syscalls);
    let of = syscalls
        .filter(|syscall| syscall.name == call)
        .filter_map(|syscall| syscall.callers.as_ref());
    let frames = of
        .flat_map(|callers| &callers.stacks)
        .flat_map(|of| &stacks[of.stack].frames);
    frames.filter_map(|frame| frame.function.clone()).collect()
}

#[test]
fn static_and_position_dependent_programs_are_unwound_to_their_start() {
    for flags in [
        &["-static"][..],
        &["-static-pie"],
        &["-no-pie"],
        &["-pie", "-fPIE"],
    ] {
        let dir = TestDir::new();
        let report = with_callers().run(&c_program(&dir, flags)).report;
        assert_complete(&report);
        let names = names_of(&report, "write");
        assert!(
            ["leaf", "work", "main"]
                .iter()
                .all(|name| names.iter().any(|known| known == name)),
            "{flags:?}: {names:?}"
        );
    }
}

/// As in programs with musl, whose functions have unwind tables for debuggers only.
#[test]
fn a_program_with_both_kinds_of_unwind_tables_is_unwound_by_both() {
    let dir = TestDir::new();
    dir.write("leaf.c", source("leaf"));
    dir.write("main.c", MAIN);
    let without_tables = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    tool(
        &dir,
        &[
            &["gcc", "-O2", "-g", "-fomit-frame-pointer", "-c", "leaf.c"],
            &without_tables[..],
        ]
        .concat(),
    );
    tool(
        &dir,
        &[
            "gcc",
            "-O2",
            "-fomit-frame-pointer",
            "-o",
            "program",
            "leaf.o",
            "main.c",
        ],
    );
    let program = program(dir.join("program").to_str().expect("a plain path"));
    assert_complete(&with_callers().run(&program).report);
    // Without that table, the stacks end there, and say so.
    tool(&dir, &["strip", "--strip-debug", "program"]);
    let report = with_callers().run(&program).report;
    let stack = report
        .stacks
        .iter()
        .flatten()
        .find(|stack| stack.frames.iter().any(is_leaf))
        .expect("it writes");
    assert!(
        stack
            .incomplete_because
            .as_deref()
            .is_some_and(|why| why.contains("has no unwind table")),
        "{stack:?}"
    );
}

fn is_leaf(frame: &Frame) -> bool {
    frame.function.as_deref() == Some("leaf")
}

#[test]
fn a_program_that_is_overwritten_in_place_is_not_asked_for_the_names_of_what_it_was() {
    let dir = TestDir::new();
    for (name, function) in [("first", "alpha"), ("second", "beta")] {
        dir.write("leaf.c", source(function));
        dir.write("main.c", MAIN.replace("leaf", function));
        tool(&dir, &["gcc", "-O2", "-o", name, "leaf.c", "main.c"]);
    }
    // Longer than a tick of the kernel's clock, which times of files are counted in.
    let commands = "cp first program; ./program > /dev/null; stat -c %i program; sleep 0.05; \
        cp second program; ./program > /dev/null; stat -c %i program";
    let run = with_callers().dir(dir.path()).run(&shell(commands));
    let stdout = String::from_utf8_lossy(&run.finished.stdout);
    let inodes: Vec<&str> = stdout.split_whitespace().collect();
    assert_eq!(inodes[0], inodes[1], "cp overwrites it");
    let of_program: Vec<&_> = run
        .report
        .processes
        .iter()
        .filter(|process| process.comm.as_deref() == Some("program"))
        .collect();
    let [first, second] = of_program.as_slice() else {
        panic!("it ran twice: {of_program:?}")
    };
    let stacks = run.report.stacks.as_ref().expect("callers were sampled");
    let frames = |process: &zctrace::report::Process| {
        let callers = process
            .syscalls
            .iter()
            .filter_map(|syscall| syscall.callers.as_ref());
        let all = callers
            .flat_map(|callers| &callers.stacks)
            .flat_map(|of| stacks[of.stack].frames.clone());
        all.filter(|frame| {
            frame
                .module
                .as_deref()
                .is_some_and(|path| path.ends_with("/program"))
        })
        .collect::<Vec<_>>()
    };
    assert!(
        !frames(first).is_empty() && frames(first).iter().all(|frame| frame.function.is_none()),
        "{:?}",
        frames(first)
    );
    assert!(
        frames(second)
            .iter()
            .any(|frame| frame.function.as_deref() == Some("beta")),
        "{:?}",
        frames(second)
    );
    assert_complete(&run.report);
}

/// A copy of the copier, after these programs have changed it; `{}` stands for its path.
fn changed_copier(dir: &TestDir, commands: &[&[&str]]) -> Program {
    let path = dir
        .join("copier")
        .to_str()
        .expect("a plain path")
        .to_owned();
    copy_program(Path::new(env!("CARGO_BIN_EXE_copier")), Path::new(&path));
    for words in commands {
        let words: Vec<String> = words.iter().map(|word| word.replace("{}", &path)).collect();
        assert!(
            Command::new(&words[0])
                .args(&words[1..])
                .status()
                .expect("binutils are there")
                .success(),
            "{words:?}"
        );
    }
    program(path)
}

/// A copy of the copier whose debug information is in the file `copier.debug`. `strip` removes from
/// the copy what these options say.
fn split_copier(dir: &TestDir, options: &[&str]) -> Program {
    let keep = ["objcopy", "--only-keep-debug", "{}", "{}.debug"];
    let strip = [&["strip"], options, &["{}"]].concat();
    changed_copier(
        dir,
        &[
            &keep,
            &strip,
            &["objcopy", "--add-gnu-debuglink={}.debug", "{}"],
        ],
    )
}

#[test]
fn in_a_stripped_program_callers_are_places_in_its_file_and_the_reason_says_what_would_settle_it() {
    let dir = TestDir::new();
    let (report, transfer) = to_a_socket(
        with_callers(),
        &changed_copier(&dir, &[&["strip", "{}"]]),
        "std-io-copy",
    );
    let site = &callers(&transfer).sites[0];
    assert_eq!(site.at.function, None);
    assert!(
        site.at
            .module
            .as_deref()
            .is_some_and(|module| module.ends_with("/copier"))
            && site.at.address > 0,
        "{site:?}"
    );
    assert!(
        transfer.verdict.contains("if this is std::io::copy"),
        "{}",
        transfer.verdict
    );
    assert!(
        transfer.verdict.contains("debug = \"line-tables-only\""),
        "{}",
        transfer.verdict
    );
    assert_complete(&report);
}

#[test]
fn names_come_from_a_separate_debug_file() {
    let dir = TestDir::new();
    let (_, transfer) = to_a_socket(
        with_callers(),
        &split_copier(&dir, &["--strip-debug", "--strip-unneeded"]),
        "std-io-copy",
    );
    let site = &callers(&transfer).sites[0];
    assert_eq!(site.via.as_deref(), Some("std::io::copy"), "{site:?}");
    assert!(site.at.line.is_some(), "{site:?}");
}

#[test]
fn debug_files_that_are_pipes_are_not_opened() {
    let dir = TestDir::new();
    let copier = split_copier(&dir, &["--strip-debug", "--strip-unneeded"]);
    fs::remove_file(dir.join("copier.debug")).expect("it is there");
    for name in ["copier.debug", "copier.dwp"] {
        fifo_at(&dir.join(name));
    }
    // It would wait for ever.
    let (report, transfer) = to_a_socket(with_callers(), &copier, "std-io-copy");
    assert_eq!(callers(&transfer).sites[0].at.line, None);
    assert_complete(&report);
}

#[test]
fn a_debug_file_of_another_program_is_not_used() {
    let dir = TestDir::new();
    let copier = split_copier(&dir, &[]);
    let other = Path::new(env!("CARGO_BIN_EXE_workload"));
    fs::copy(other, dir.join("copier.debug")).expect("there is room");
    let (_, transfer) = to_a_socket(with_callers(), &copier, "std-io-copy");
    assert_eq!(
        callers(&transfer).sites[0].at.function,
        None,
        "{:?}",
        callers(&transfer)
    );
}
