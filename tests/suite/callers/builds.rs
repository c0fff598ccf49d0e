//! Callers in programs that are linked in other ways, or have their debug information elsewhere.

use std::path::Path;

use zctrace::report::{Report, Transfer};

use super::{
    assert_complete, is_called, sampled, site, stacks, stacks_of, to_a_socket, with_callers,
};
use crate::harness::{Program, TestDir, copy_program, fifo, program, shell, untraced};

/// Writes to stdout through a function that has a frame.
const LEAF: &str = "#include <unistd.h>\n#include <string.h>\n\
    __attribute__((noinline)) int leaf(const char *text, int length) {\n\
    volatile char pad[200]; memset((void *)pad, length, sizeof pad);\n\
    return write(1, text, length) + pad[3]; }\n";

/// Calls it 16 times.
const MAIN: &str = "extern int leaf(const char *, int);\n\
    __attribute__((noinline)) int work(void) { int sum = 0; for (int i = 0; i < 16; i++) sum += leaf(\"hello\\n\", 6); return sum; }\n\
    int main(void) { return work() == 0; }\n";

/// Runs a command of the test itself.
#[track_caller]
fn tool(dir: &TestDir, line: &str) {
    untraced(&shell(line)).dir(dir.path()).finish().exits(0);
}

/// A directory with the sources of that program.
fn sources() -> TestDir {
    let dir = TestDir::with("leaf.c", LEAF);
    dir.write("main.c", MAIN);
    dir
}

const COMPILE: &str = "gcc -O2 -fomit-frame-pointer";

#[test]
fn static_and_position_dependent_programs_are_unwound_to_their_start() {
    for flags in ["-static", "-static-pie", "-no-pie", "-pie -fPIE"] {
        let dir = sources();
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
    let dir = sources();
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

/// A copy of the copier, after this line has changed it.
fn changed_copier(dir: &TestDir, line: &str) -> Program {
    let path = dir.join("copier");
    copy_program(Path::new(env!("CARGO_BIN_EXE_copier")), &path);
    tool(dir, line);
    program(path)
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
fn names_come_from_a_separate_debug_file_and_a_pipe_in_the_place_of_another_is_not_opened() {
    let dir = TestDir::new();
    // It would wait for ever.
    fifo(dir.join("copier.dwp"));
    let line = "objcopy --only-keep-debug copier copier.debug \
                && strip --strip-debug --strip-unneeded copier \
                && objcopy --add-gnu-debuglink=copier.debug copier";
    let (_, transfer) = copied_by(&changed_copier(&dir, line));
    let site = site(&transfer);
    assert_eq!(site.via.as_deref(), Some("std::io::copy"), "{site:?}");
    assert!(site.at.line.is_some(), "{site:?}");
}
