//! `runs reference`, of `cargo xtask reference`: killed, it takes with it what it measures.

use std::{fs, path::Path};

use rustix::process::Signal;
use tempfile::tempdir;

use crate::harness::{binary, program, untraced, wait_until};

/// A scenario of which each command says its id in a file, and waits.
fn scenario(heard: &Path) -> String {
    format!(
        r#"
title = "waiting"
published = "never"
measure = "compare"

[output]
to = "nothing"

[[run]]
name = "waits"
command = ["sh", "-c", "echo $$ > {0}.new; mv {0}.new {0}; exec sleep 100"]
"#,
        heard.display()
    )
}

#[test]
fn nothing_goes_on_when_the_runs_are_killed() {
    for signal in [Signal::TERM, Signal::KILL] {
        let dir = tempdir().expect("a directory");
        let [scenarios, scratch, heard] = ["scenarios", "scratch", "heard"].map(|name| dir.path().join(name));
        fs::create_dir(&scenarios).and_then(|()| fs::create_dir(&scratch)).expect("ours");
        fs::write(scenarios.join("waiting.toml"), scenario(&heard)).expect("ours");
        let programs = binary().parent().expect("a directory").to_owned();
        let runs = program(env!("CARGO_BIN_EXE_runs")).arg("--programs").arg(programs).arg("--scratch").arg(&scratch);
        let runs = untraced(&runs.arg("reference").arg("--scenarios").arg(&scenarios)).start();
        wait_until("it measures", || heard.exists());
        let pid = fs::read_to_string(&heard).expect("it said so");
        runs.signal(signal);
        assert_eq!(runs.wait(), None, "killed");
        wait_until("the command is gone", || !Path::new("/proc").join(pid.trim()).exists());
    }
}
