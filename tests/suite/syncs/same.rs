//! Both backends say the same of a program.

use std::fs;

use serde_json::{Value, to_value};

use super::{check, replace, sqlite, syncs_of, verdict};
use crate::harness::{BACKENDS, Program, TestDir, binary, program, python, shell, zctrace};
use zctrace::durable::SyncVerdict::{InOrder, NotSynced, Unknown};

/// What a report says of syncs, without times and without names that a program makes up.
fn comparable(value: Value, made_up: &dyn Fn(&str) -> bool) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(name, _)| !name.ends_with("ns"))
            .map(|(name, value)| (name, comparable(value, made_up)))
            .collect(),
        Value::Array(values) => {
            let values = values.into_iter();
            let mut values: Vec<_> = values.map(|value| comparable(value, made_up)).collect();
            // Names that a program makes up decide their order.
            values.sort_by_key(ToString::to_string);
            values.into()
        }
        Value::String(text) if made_up(&text) => "made up".into(),
        other => other,
    }
}

#[track_caller]
fn assert_same(program: &Program, made_up: &dyn Fn(&str) -> bool) {
    // In a new directory, strace also shows which files an open creates.
    let renew = shell("rmdir data && mkdir data && sync . && exec \"$@\"").arg("sh");
    let program = &renew.args(program.words());
    let [strace, ebpf] = ["--backend=strace", "--backend=ebpf"].map(|backend| {
        let syncs = to_value(syncs_of(program, backend)).expect("is JSON");
        comparable(syncs, made_up)
    });
    let [ebpf, strace] = [ebpf, strace].map(|syncs| format!("{syncs:#}"));
    let lines = ebpf.lines().zip(strace.lines());
    let differing: Vec<_> = lines.filter(|(ebpf, strace)| ebpf != strace).collect();
    let words = program.words();
    assert!(ebpf == strace, "{words:?}: eBPF, strace: {differing:#?}");
}

#[track_caller]
fn assert_all_same(programs: impl IntoIterator<Item = Program>) {
    for program in programs {
        assert_same(&program, &|_| false);
    }
}

#[test]
fn of_files_that_are_replaced() {
    let syncs = ["none", "file", "directory", "file and directory"];
    assert_all_same(syncs.map(replace));
    let scripts = [
        "cd data; echo a>a; echo b>b; mv a c; mv b c; ln c d; ln -s c e; rm d; mkdir k; mv c k/c; rmdir k; sync",
        "mkdir data/d; cd data/d; echo a > a; cd ..; mv d e; echo b > e/b; sync e/a; sync e",
        "mkdir data/d; ln -s d data/l; echo a > data/l/f; sync data/d/f; sync data/l; sync data",
        "echo a>data/a; sync; sed -i s/a/b/ data/a",
        "echo a>data/a; sync -f data; touch data/a; sync data/a; sync data/a",
        "exec >data/out; echo a; echo b; exec 1>&2; echo c",
        "echo a; echo b; echo c > data/a",
        "dd if=/dev/zero bs=4k count=3 status=none of=data/a oflag=dsync; sync data",
    ];
    assert_all_same(scripts.map(shell));
}

#[test]
fn of_databases() {
    for journal in ["delete", "wal"] {
        assert_all_same(["off", "full", "extra"].map(|level| sqlite(journal, level)));
    }
}

/// A commit with this `core.fsync`.
fn git_commit(fsync: &str) -> Program {
    // The time of a commit decides how well it can be compressed.
    let git = "GIT_AUTHOR_DATE=2000-01-01T00:00Z GIT_COMMITTER_DATE=2000-01-01T00:00Z git -c user.name=n -c user.email=e@x -c init.defaultBranch=main";
    let options = format!("-c core.fsync={fsync} -c core.fsyncMethod=fsync");
    shell(&format!(
        "{git} init -q data && cd data && echo x > f && {git} {options} add f && {git} {options} commit -qm m"
    ))
}

#[test]
fn of_commits() {
    // Objects have the time in their names.
    let is_made_up = |text: &str| text.contains("objects/");
    for fsync in ["all", "none"] {
        assert_same(&git_commit(fsync), &is_made_up);
    }
}

/// Programs in Python. The line before each one says what it does, and may end with the verdict on a file.
/// The lines before all of them are the beginning of each.
const PROGRAMS: &str = include_str!("same.py");

/// A program that begins as all of them.
fn python_after_begin(script: &str) -> Program {
    let (begin, _) = PROGRAMS.split_once("\n# --- ").expect("has programs");
    python(&format!("{begin}\n{script}"))
}

#[test]
fn of_calls_by_descriptors_and_of_mappings() {
    let programs = PROGRAMS.split("\n# --- ").skip(1);
    for program in programs {
        let (about, script) = program.split_once('\n').expect("has a script");
        let program = python_after_begin(script);
        println!("{about}");
        assert_same(&program, &|_| false);
        if let Some((_, expected)) = about.split_once(": data/a is ") {
            let mut known = [InOrder, Unknown].into_iter();
            let expected = known.find(|one| one.name() == expected);
            check(&program, &[("data/a", expected.expect("a verdict"))]);
        }
    }
}

#[test]
fn of_a_file_that_strace_does_not_show() {
    // It does not show which file this empties.
    let script = "
synced_pages()
handle, mount = ctypes.create_string_buffer(b'\\x80', 136), ctypes.c_int()
assert libc.name_to_handle_at(-100, b'data/a', handle, ctypes.byref(mount), 0) == 0
assert libc.open_by_handle_at(os.open('data', 0), handle, os.O_WRONLY | os.O_TRUNC) >= 0
";
    let program = python_after_begin(script);
    for (backend, expected) in BACKENDS.into_iter().zip([NotSynced, Unknown]) {
        let syncs = syncs_of(&program, backend);
        assert_eq!(verdict(&syncs, "data/a"), expected, "{backend}: {syncs:#?}");
    }
}

/// Before the run, a file has got two names, and a directory two paths.
#[test]
fn of_files_with_two_paths() {
    const PREPARE: &str = "mkdir data other && mount --bind data other && echo x >data/a &&
ln data/a data/b && exec \"$@\"";
    let by_descriptor = "
f = os.open('data/a', os.O_WRONLY)
os.write(f, b'x')
os.fsync(os.open('data/b', os.O_RDONLY))
";
    let by_path = "
os.truncate('data/a', 1)
os.fsync(os.open('data/b', os.O_RDONLY))
";
    let by_mount = "
os.fsync(new('n'))
os.fsync(os.open('other', os.O_RDONLY))
";
    for (script, path, expected) in [
        // The kernel side tells files apart.
        (by_descriptor, "data/a", [InOrder, Unknown]),
        (by_path, "data/a", [Unknown, Unknown]),
        (by_mount, "data/n", [Unknown, Unknown]),
    ] {
        for (backend, expected) in BACKENDS.into_iter().zip(expected) {
            let directory = TestDir::new();
            let zctrace = zctrace().option("--syncs").option(backend);
            let zctrace = zctrace.through(&["unshare", "--mount", "sh", "-c", PREPARE, "sh"]);
            let program = python_after_begin(script);
            let run = zctrace.dir(directory.path()).run(&program);
            let syncs = run.report.syncs.expect("it was asked for");
            assert_eq!(verdict(&syncs, path), expected, "{backend}: {syncs:#?}");
        }
    }
}

/// The file has something to sync after each write, and counts as output, not as changed.
#[test]
fn of_a_file_that_is_stdout() {
    for backend in BACKENDS {
        let directory = TestDir::new();
        let zctrace = binary();
        let script = "echo a; sync out; echo b; sync out; sync out";
        let command = format!(
            "{} --syncs {backend} --format json -o report sh -c '{script}' >out",
            zctrace.display()
        );
        let words = ["-c", &command];
        let run = program("sh").args(&words).dir(directory.path()).finish();
        run.successful();
        let report = fs::read(directory.join("report")).expect("was written");
        let report: Value = serde_json::from_slice(&report).expect("is JSON");
        let syncs = &report["syncs"];
        let found = [
            &syncs["changed"],
            &syncs["sums"]["count"],
            &syncs["sums"]["wasted"],
        ];
        assert_eq!(found, [0, 3, 1], "{backend}: {syncs:#}");
    }
}
