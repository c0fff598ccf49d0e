//! Without privileges: the same command, the same counts.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use tempfile::TempDir;
use zc_tests::Figures;
use zctrace::report::Report;

use crate::harness::{Program, Run, Zctrace, binary, copy_program, program, workload, zctrace};

/// Nobody in particular, with no capability, nor a way to get one.
const NOBODY: [&str; 8] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=-all",
    "--bounding-set=-all",
    "--no-new-privs",
    "--",
];

/// A folder that everybody can reach, with copies of zctrace and of the workloads in it.
struct Public(TempDir);

impl Public {
    fn new() -> Self {
        let public = Self(tempfile::tempdir().expect("a directory"));
        for (file, name) in [(binary(), "zctrace"), (PathBuf::from(env!("CARGO_BIN_EXE_workload")), "workload")] {
            copy_program(&file, &public.path(name));
            fs::set_permissions(public.path(name), fs::Permissions::from_mode(0o755)).expect("ours");
        }
        fs::set_permissions(public.0.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        public
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// zctrace, run by nobody, with these words before it.
    fn zctrace(&self, through: &[&str]) -> Zctrace {
        zctrace().through(&NOBODY).through(through).binary(self.path("zctrace")).dir("/")
    }

    fn workload(&self, words: &[&str]) -> Program {
        program(self.path("workload")).args(words)
    }

    /// Traces a workload by default; the report goes to stderr, since nobody can write elsewhere.
    #[track_caller]
    fn run(&self, words: &[&str]) -> Run {
        let finished = self.zctrace(&[]).by_thread().option("--format=json").show(&self.workload(words));
        let report: Report =
            serde_json::from_str(&finished.stderr).unwrap_or_else(|error| panic!("{error}: {}", finished.stderr));
        Run { report, finished }
    }
}

/// The rows of the workload's own thread, which must be as it states.
#[track_caller]
fn own_rows(run: &Run) -> Figures {
    let stated = run.stated();
    run.assert_exact();
    run.thread(stated.thread.as_deref().expect("it names its thread")).assert_equal(&stated.calls);
    stated.calls
}

#[test]
fn it_works_by_default_and_counts_the_same() {
    let public = Public::new();
    for words in [["known"].as_slice(), &["errnos"], &["signal-reads", "20"]] {
        let nobody = public.run(words);
        let root = zctrace().by_thread().option("--backend=ebpf").run(&workload(words[0]).args(&words[1..]));
        assert_eq!((nobody.report.backend.as_str(), root.report.backend.as_str()), ("strace", "ebpf"));
        assert_eq!(own_rows(&nobody), own_rows(&root), "{words:?}");
    }
}

#[test]
fn the_report_says_which_backend_and_why() {
    let public = Public::new();
    let notes = public.run(&["write"]).report.notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].starts_with("backend strace, since eBPF cannot run here: ") && notes[0].contains("CAP_BPF"), "{notes:?}");
    let table = public.zctrace(&[]).show(&public.workload(&["write"])).stderr;
    assert!(table.lines().any(|line| line.contains(&notes[0])), "not in one line: {table}");
}

#[test]
fn the_exit_status_is_the_commands_own() {
    let public = Public::new();
    for (words, status) in [(["exit-code", "7"], 7), (["kill-self", "TERM"], 143)] {
        assert_eq!(public.run(&words).finished.code, Some(status));
    }
}

#[test]
fn without_strace_it_says_both_reasons() {
    let public = Public::new();
    let zctrace = public.zctrace(&["env", "PATH=/nonexistent"]);
    let refusal = zctrace.refuses_to_run(&public.workload(&["write"]));
    refusal.with_status(125).saying("CAP_BPF").saying("strace is not installed").saying("package 'strace'");
}
