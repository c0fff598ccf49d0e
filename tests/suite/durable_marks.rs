//! Marks, as docs/durability.md shows them for each language.

use crate::harness::{Program, TestDir, each_backend, program, python, shell};

/// The code of a language in the table of the page.
#[track_caller]
fn code(language: &str) -> &'static str {
    const PAGE: &str = include_str!("../../docs/durability.md");
    let row = format!("| {language} | `");
    let rest = PAGE.split_once(&row).expect("the page has the language").1;
    rest.split_once('`').expect("it ends").0
}

/// Checks that the program makes the mark `commit` once, under each backend.
#[track_caller]
fn assert_marks(directory: &TestDir, marking: &Program) {
    for zctrace in each_backend() {
        let zctrace = zctrace.option("--syncs").dir(directory.path());
        let run = zctrace.run(marking);
        run.finished.exits(0);
        let marks = run.report.syncs.expect("it was asked for").marks;
        let marks: Vec<_> = marks.iter().map(|mark| (&*mark.name, mark.count)).collect();
        assert_eq!(marks, [("commit", 1)], "{:?}", marking.words());
    }
}

/// Builds a program from a file, or says that its compiler is missing.
fn build(directory: &TestDir, compiler: &str, script: &str) -> bool {
    if shell(&format!("command -v {compiler}")).finish().code != Some(0) {
        eprintln!("marks by {compiler}: NOT RUN, it is not installed");
        return false;
    }
    let build = shell(script).dir(directory.path());
    build
        .env("GOCACHE", directory.join("cache"))
        .finish()
        .exits(0);
    true
}

#[test]
fn every_language_can_make_a_mark() {
    let directory = TestDir::new();
    assert_marks(&directory, &shell(&format!("{} || true", code("shell"))));
    assert_marks(
        &directory,
        &python(&format!("import os; {}", code("Python"))),
    );
    assert_eq!(code("Rust"), r#"zctrace::mark("commit")"#);
    // It calls that.
    let rust = program(env!("CARGO_BIN_EXE_file-script")).arg("mark commit");
    assert_marks(&directory, &rust);
    let text = format!("#include <unistd.h>\nint main(void) {{ {} }}\n", code("C"));
    directory.write("m.c", text);
    if build(&directory, "cc", "cc -o in-c m.c") {
        assert_marks(&directory, &program("./in-c"));
    }
    let text = format!(
        "package main\nimport \"os\"\nfunc main() {{ {} }}\n",
        code("Go")
    );
    directory.write("m.go", text);
    if build(&directory, "go", "go build -o in-go m.go") {
        assert_marks(&directory, &program("./in-go"));
    }
    let begin = "class M { public static void main(String[] words) {";
    directory.write("M.java", format!("{begin} {} }} }}\n", code("Java")));
    if build(&directory, "javac", "javac M.java") {
        assert_marks(&directory, &program("java").args(&["-Xint", "M"]));
    }
}
