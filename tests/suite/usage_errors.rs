//! Usage errors: each is one line that says what to do, has the right exit status, and leaves
//! nothing behind.

use crate::harness::{TestDir, each_backend, full, program, shell, zctrace};

#[test]
fn options_are_refused_with_what_is_wrong_and_what_would_be_right() {
    let unwritable = "'missing/report.json': No such file or directory";
    for (option, said) in [
        (
            "--syscalls=raed",
            "unknown system call 'raed'; did you mean 'read'?",
        ),
        ("-e=write,sendfiel", "'sendfile'"),
        ("--syscalls=%netwerk", "%network"),
        ("--syscalls=xyzzyplugh", "%data"),
        ("--syscalls=", ""),
        ("--syscalls=,", ""),
        ("--al-processes", "--all-processes"),
        ("--format=jsn", "json"),
        ("--max-rows=many", "--max-rows"),
        ("--max-rows=0", "0"),
        ("--sort=speed", "'speed'"),
        ("--user=nobody-of-this-name", "'nobody-of-this-name'"),
        ("--user=12x", "'12x'"),
        ("--output=", ""),
        ("--output=.", "'.': Is a directory"),
        ("--output=/etc/passwd/report", "Not a directory"),
        ("--output=missing/report.json", unwritable),
    ] {
        println!("{option}");
        let refused = zctrace().option(option).refuses();
        refused.exits(125).says(said);
    }
}

#[test]
fn nothing_at_all_is_answered_with_examples() {
    let refused = zctrace().finish_with(&[] as &[&str]);
    refused
        .exits(125)
        .says_all(&["no command", "zctrace cp in out", "zctrace run --help"]);
    assert_eq!(refused.stderr.lines().count(), 5);
}

#[test]
fn a_command_line_without_a_command_is_refused_with_an_example() {
    for (words, said) in [
        (&[][..], &["no command", "zctrace cp a b"][..]),
        (&["--"], &["no command"]),
        (
            &["--by=total", "check"],
            &[
                "write the subcommand 'check' before its options",
                "zctrace -- check",
            ],
        ),
    ] {
        zctrace().refuses_words(words).exits(125).says_all(said);
    }
}

#[test]
fn a_missing_command_whose_name_is_close_to_a_subcommand_gets_a_suggestion() {
    let missing = "not found in PATH";
    let refused = zctrace().refuses_words(&["chek", "x.toml"]);
    let suggestion = "did you mean the subcommand 'check'?";
    refused
        .exits(127)
        .says_all(&[missing, "'chek'", suggestion]);
    for words in [
        ["--", "chek"],
        ["run", "chek"],
        ["--by=total", "no-such-command"],
    ] {
        let refused = zctrace().finish_with(&words);
        refused.exits(127).says(missing);
        refused.never_says("did you mean");
    }
}

#[test]
fn a_command_without_dashes_before_it_is_refused_with_them() {
    let dir = TestDir::with("r.json", "{}");
    let in_dir = |words: &[&str]| zctrace().dir(dir.path()).finish_with(words);
    let expect = ["check", "--expect", "write.calls == 0"];
    let refused = in_dir(&[&expect[..], &["cp", "a b", "out"]].concat());
    refused
        .exits(2)
        .says("`--` is missing before the command: zctrace check ... -- cp 'a b' out");
    let refused = in_dir(&[&expect[..], &["z.toml"]].concat());
    refused
        .exits(2)
        .says("for 'z.toml', write them in the file");
    let refused = in_dir(&["diff", "r.json", "cp", "in", "out"]);
    refused
        .exits(125)
        .says("unexpected argument 'in': a command and its arguments come after `--`: zctrace diff A -- CMD");
}

#[test]
fn a_command_line_in_one_word_and_a_file_of_zctrace_are_told_from_a_command() {
    let dir = TestDir::with("r.json", "{}");
    dir.write("z.toml", "");
    let in_one_word = "; it is a command line in one word: ";
    for (word, status, said) in [
        ("cp in out", 127, "leave out the quotes: cp in out"),
        (
            "cat in | wc -c",
            127,
            "run it with a shell: sh -c 'cat in | wc -c'",
        ),
        ("r.json", 127, "did you mean: zctrace report r.json?"),
        ("./r.json", 126, "did you mean: zctrace report ./r.json?"),
        ("z.toml", 127, "did you mean: zctrace check z.toml?"),
    ] {
        for zctrace in each_backend() {
            let refused = zctrace.dir(dir.path()).finish_with(&[word]);
            refused.exits(status).says(said);
        }
    }
    let check = ["check", "--expect", "exit.code == 0", "--", "cp in out"];
    let refused = zctrace().finish_with(&check);
    refused.exits(2).prints(in_one_word);
}

#[test]
fn options_of_strace_that_change_nothing_are_accepted_with_one_line_on_stderr() {
    let dir = TestDir::new();
    for words in ["-f -c -T", "-fcT", "-ff -yy -q -z -e trace=file"] {
        let with_report = [
            &words.split(' ').collect::<Vec<_>>()[..],
            &["-o", "r", "true"],
        ];
        let finished = zctrace().dir(dir.path()).finish_with(&with_report.concat());
        finished.exits(0).says("zctrace: ignored: -f (");
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    }
    let quiet = zctrace().dir(dir.path()).finish_with(&["-o", "r", "true"]);
    quiet.exits(0).says_only("");
}

#[test]
fn a_command_that_cannot_be_run_ends_with_127_or_126_and_leaves_no_temporary_file() {
    let dir = TestDir::new();
    dir.write_with_mode("plain", "#!/bin/sh\n", 0o644);
    dir.executable("command", "#!/no/such/interpreter\n");
    // One of this name in the working directory is not the one that PATH lacks.
    dir.executable("no-such-command", "#!/no/such/interpreter\n");
    let (plain, no_interpreter) = (dir.word("plain"), dir.word("command"));
    let missing = "No such file or directory";
    for (command, status, said) in [
        (
            "no-such-command",
            127,
            &["'no-such-command': not found in PATH"][..],
        ),
        ("/no/such/command", 127, &[missing]),
        ("", 127, &[]),
        (
            &no_interpreter,
            127,
            &[
                "cannot run '",
                "its interpreter '/no/such/interpreter' does not exist",
            ],
        ),
        (&plain, 126, &["Permission denied"]),
        ("/etc", 126, &["'/etc'", "Is a directory"]),
        ("/etc/passwd/x", 126, &["Not a directory"]),
    ] {
        println!("{command}");
        for zctrace in each_backend() {
            let tmp = TestDir::new();
            let refused = zctrace.env("TMPDIR", tmp.path()).dir(dir.path());
            let refused = refused.refuses_to_run(&program(command));
            refused.exits(status).says_all(said);
            tmp.assert_has_only(&[]);
        }
    }
    for zctrace in each_backend() {
        let shown = zctrace.dir(dir.path()).show(&shell("./command"));
        shown.says("'./command' could not be executed: its interpreter '/no/such/interpreter' ");
    }
    let without_path = zctrace().env("PATH", "/nonexistent");
    without_path.refuses().exits(127);
}

#[test]
fn a_full_device_fails_at_the_end_of_the_run_and_the_report_is_not_lost() {
    // zctrace notices it only when it writes the report.
    let dir = TestDir::new();
    let to_full = zctrace().option("--output").option(full(dir.path()));
    let finished = to_full.show(&program("true"));
    let said = finished.exits(125).says("zctrace: true\nexit 0, ");
    said.says("zctrace: cannot write the report to ")
        .says("No space left on device");
}

#[test]
fn a_failed_run_keeps_the_old_report() {
    let dir = TestDir::with("report.json", "old");
    let output = || zctrace().json_to(dir.join("report.json"));
    let missing = output().refuses_to_run(&program("no-such-command"));
    missing.exits(127);
    let without_btf = output().ebpf().env("ZCTRACE_BTF", "/nonexistent");
    without_btf.refuses().exits(125);
    assert_eq!(dir.read("report.json"), "old");
    dir.assert_has_only(&["report.json"]);
}

#[test]
fn a_closed_or_read_only_stream_is_refused() {
    for redirection in [">&-", "1</dev/null"] {
        let zctrace = zctrace().by_script(&format!(r#"exec "$@" {redirection}"#));
        let refused = zctrace.option("--output=-").refuses();
        refused.exits(125).says("cannot write the report to stdout");
    }
    let dir = TestDir::new();
    for redirection in ["2>&-", "2</dev/null"] {
        let zctrace = zctrace()
            .by_script(&format!(r#"exec "$@" {redirection}"#))
            .dir(dir.path());
        zctrace.show(&program("touch").arg("it-ran")).exits(125);
    }
    dir.assert_has_only(&[]);
    let doctor = zctrace()
        .by_script(r#"exec "$@" >&-"#)
        .finish_with(&["doctor"]);
    doctor.exits(125);
}

#[test]
fn a_file_size_limit_leaves_no_partial_report() {
    let dir = TestDir::new();
    // Messages go through a pipe, because the limit also holds for the files that collect the
    // output of tests.
    let script = r#"(ulimit -f 0; "$@" 2>&1) | cat >&2; exit ${PIPESTATUS[0]}"#;
    let limited = || zctrace().by_script(script).json_to(dir.join("report.json"));
    let finished = limited().show(&program("true"));
    finished.exits(125).says("File too large");
    dir.assert_has_only(&[]);
    // The command still gets the signal.
    let elsewhere = TestDir::inside("/var/tmp");
    let to_file = format!("of={}", elsewhere.word("file"));
    let dd = program("dd").args(&["if=/dev/zero", &to_file, "count=1"]);
    limited().show(&dd).never_says("records out");
}
