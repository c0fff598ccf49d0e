//! What a start costs, and what many traces cost that follow each other: only the first one loads.

use std::{fs, path::Path};

use anyhow::Result;

use super::{
    FLOOR, STRACE, floor,
    measure::{BenchSubject, interleaved, words},
    print, zctrace,
};
use crate::{
    command::{cargo, check, debug_dir, in_scratch, release_dir},
    toolchain::on_path,
};

/// `true` by itself, checks of it, and traces in a process that is built for debugging, as tests
/// are.
pub(super) fn measure(rounds: u32) -> Result<()> {
    check(&mut cargo("build --package zctrace --example many_traces"))?;
    in_scratch(|directory| measure_in(directory, rounds))
}

fn measure_in(directory: &Path, rounds: u32) -> Result<()> {
    let subject = |name, prefix, line| BenchSubject::command(name, rounds, prefix, &words(line));
    let checks = |name, count| -> Result<BenchSubject> {
        let file = directory.join(format!("{count}.toml"));
        let rest = "command = [\"true\"]\nexpect = [\"exit.code == 0\"]\n";
        let check = |number| format!("[[check]]\nname = \"{number}\"\n{rest}");
        fs::write(&file, (0..count).map(check).collect::<String>())?;
        let zctrace = release_dir()?.join("zctrace").display().to_string();
        let file = file.display().to_string();
        Ok(subject(name, vec![zctrace, "check".into(), file], ""))
    };
    let traces = debug_dir()?.join("examples/many_traces");
    let traces = vec![traces.display().to_string()];
    let mut subjects = vec![
        subject("untraced", vec![], "true"),
        subject(FLOOR, floor("")?, "true"),
        subject("zctrace", zctrace("")?, "true"),
        subject("zctrace --callers", zctrace("--callers")?, "true"),
        checks("10 checks", 10)?,
        checks("100 checks", 100)?,
        subject("1 closure in a debug build", traces.clone(), "closures 1"),
        subject("50 closures", traces, "closures 50"),
    ];
    if on_path("strace").is_some() {
        subjects.push(subject("strace -c -f", words(STRACE), "true"));
    }
    print("A start: true", &interleaved(&subjects)?, 0);
    Ok(())
}
