//! Callers in programs that are linked in other ways, have changed, or name files that must not be
//! opened.

use std::{fs, path::Path};

use zctrace::report::{Report, Transfer};

use super::{
    assert_complete, is_called, is_in, sampled, sampled_stacks, site, stacks, stacks_of,
    to_a_socket, with_callers,
};
use crate::harness::{Program, TestDir, copy_program, fifo, program, shell, untraced};

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
fn tool(dir: &TestDir, line: &str) {
    untraced(&shell(line)).dir(dir.path()).finish().exits(0);
}

/// A directory with the sources of a C program whose function that writes has this name.
fn sources(function: &str) -> TestDir {
    let dir = TestDir::with("leaf.c", source(function));
    dir.write("main.c", MAIN.replace("leaf", function));
    dir
}

const COMPILE: &str = "gcc -O2 -fomit-frame-pointer";

#[test]
fn static_and_position_dependent_programs_are_unwound_to_their_start() {
    for flags in ["-static", "-static-pie", "-no-pie", "-pie -fPIE"] {
        let dir = sources("leaf");
        tool(&dir, &format!("{COMPILE} -o program leaf.c main.c {flags}"));
        let report = sampled(&program(dir.join("program")));
        assert_complete(&report);
        let writes = stacks_of(&report, &report.processes[0], "write");
        for name in ["leaf", "work", "main"] {
            let mut frames = writes.iter().flat_map(|(stack, _)| &stack.frames);
            assert!(
                frames.any(|frame| is_called(frame, name)),
                "{flags}: {writes:?}"
            );
        }
    }
}

/// As in programs with musl, whose functions have unwind tables for debuggers only.
#[test]
fn a_program_with_both_kinds_of_unwind_tables_is_unwound_by_both() {
    let dir = sources("leaf");
    let without_tables = "-fno-asynchronous-unwind-tables -fno-unwind-tables";
    tool(&dir, &format!("{COMPILE} -g -c leaf.c {without_tables}"));
    tool(&dir, &format!("{COMPILE} -o program leaf.o main.c"));
    let program = program(dir.join("program"));
    assert_complete(&sampled(&program));
    // Without that table, the stacks end there, and say so.
    tool(&dir, "strip --strip-debug program");
    let report = sampled(&program);
    let mut stacks = stacks(&report).iter();
    let stack = stacks.find(|stack| stack.frames.iter().any(|frame| is_called(frame, "leaf")));
    let why = &stack.expect("it writes").incomplete_because;
    let why = why.as_ref().expect("it is incomplete");
    assert!(why.contains("has no unwind table"), "{why}");
}

#[test]
fn a_program_that_is_overwritten_in_place_is_not_asked_for_the_names_of_what_it_was() {
    let dir = TestDir::new();
    for (name, function) in [("first", "alpha"), ("second", "beta")] {
        let to = dir.word(name);
        tool(
            &sources(function),
            &format!("gcc -O2 -o {to} leaf.c main.c"),
        );
    }
    // Longer than a tick of the kernel's clock, which times of files are counted in.
    let commands = "cp first program; ./program > /dev/null; stat -c %i program; sleep 0.05; \
        cp second program; ./program > /dev/null; stat -c %i program";
    let run = with_callers().dir(dir.path()).run(&shell(commands));
    let inodes: Vec<&str> = run.finished.text().split_whitespace().collect();
    assert_eq!(inodes[0], inodes[1], "cp overwrites it");
    let mut ran: Vec<_> = run.report.processes.iter().collect();
    ran.retain(|process| process.comm.as_deref() == Some("program"));
    let functions = ran.iter().map(|process| {
        let stacks = sampled_stacks(&run.report, process.syscalls.iter());
        let frames = stacks.into_iter().flat_map(|(stack, _)| &stack.frames);
        let own = frames.filter(|frame| is_in(frame, "/program"));
        own.map(|frame| frame.function.as_deref())
            .collect::<Vec<_>>()
    });
    let [first, second] = &functions.collect::<Vec<_>>()[..] else {
        panic!("it ran twice: {ran:?}")
    };
    let has_no_names = first.iter().all(Option::is_none);
    assert!(!first.is_empty() && has_no_names, "{first:?}");
    assert!(second.contains(&Some("beta")), "{second:?}");
    assert_complete(&run.report);
}

/// A copy of the copier, after this line has changed it.
fn changed_copier(dir: &TestDir, line: &str) -> Program {
    let path = dir.join("copier");
    copy_program(Path::new(env!("CARGO_BIN_EXE_copier")), &path);
    tool(dir, line);
    program(path)
}

/// A copy of the copier that has the names of its functions, and whose other debug information is
/// in the file `copier.debug`.
fn split_copier(dir: &TestDir) -> Program {
    let line = "objcopy --only-keep-debug copier copier.debug \
                && strip --strip-debug --strip-unneeded copier \
                && objcopy --add-gnu-debuglink=copier.debug copier";
    changed_copier(dir, line)
}

/// The transfer of a copy to a socket by `std::io::copy`.
fn copied_by(copier: &Program) -> (Report, Transfer) {
    to_a_socket(with_callers(), copier, "std-io-copy")
}

#[test]
fn in_a_stripped_program_callers_are_places_in_its_file_and_the_reason_says_what_would_settle_it() {
    let dir = TestDir::new();
    let (report, transfer) = copied_by(&changed_copier(&dir, "strip copier"));
    let at = &site(&transfer).at;
    assert_eq!(at.function, None);
    let module = at.module.as_deref();
    let is_right = module.is_some_and(|module| module.ends_with("/copier"));
    assert!(is_right && at.address > 0, "{at:?}");
    for said in ["if this is std::io::copy", "debug = \"line-tables-only\""] {
        assert!(transfer.verdict.contains(said), "{}", transfer.verdict);
    }
    assert_complete(&report);
}

#[test]
fn names_come_from_a_separate_debug_file() {
    let dir = TestDir::new();
    let (_, transfer) = copied_by(&split_copier(&dir));
    let site = site(&transfer);
    assert_eq!(site.via.as_deref(), Some("std::io::copy"), "{site:?}");
    assert!(site.at.line.is_some(), "{site:?}");
}

#[test]
fn debug_files_that_are_pipes_are_not_opened() {
    let dir = TestDir::new();
    let copier = split_copier(&dir);
    fs::remove_file(dir.join("copier.debug")).expect("it is there");
    for name in ["copier.debug", "copier.dwp"] {
        fifo(dir.join(name));
    }
    // It would wait for ever.
    let (report, transfer) = copied_by(&copier);
    assert_eq!(site(&transfer).at.line, None);
    assert_complete(&report);
}
