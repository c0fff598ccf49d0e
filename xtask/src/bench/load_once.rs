//! What many short traces take that follow each other: only the first one has to load.

use std::{fs, path::Path};

use anyhow::Result;

use super::{
    measure::{BenchSubject, interleaved, words},
    print,
};
use crate::command::{cargo, check, debug_dir, in_scratch, release_dir};

/// (d) Checks of `true`, and traces in a process that is built for debugging, as tests are.
pub(super) fn measure(rounds: u32) -> Result<()> {
    in_scratch(|directory| measure_checks(directory, rounds))?;
    check(&mut cargo("build --package zctrace --example many_traces"))?;
    let program = debug_dir()?.join("examples/many_traces");
    let program = vec![program.display().to_string()];
    let subject =
        |name, arguments| BenchSubject::new(name, rounds, program.clone(), &words(arguments));
    let subjects = [
        subject("1 closure", "closures 1"),
        subject("50 closures", "closures 50"),
        subject("1 command", "commands 1"),
        subject("20 commands", "commands 20"),
    ];
    print("Traces in one process", &interleaved(&subjects)?, 0);
    Ok(())
}

fn measure_checks(directory: &Path, rounds: u32) -> Result<()> {
    let zctrace = release_dir()?.join("zctrace").display().to_string();
    let subject = |name, count: u32| -> Result<BenchSubject> {
        let file = directory.join(format!("{count}.toml"));
        let check = |number| {
            format!(
                "[[check]]\nname = \"{number}\"\ncommand = [\"true\"]\nexpect = [\"exit.code == 0\"]\n"
            )
        };
        fs::write(&file, (0..count).map(check).collect::<String>())?;
        let command = [zctrace.clone(), "check".into(), file.display().to_string()];
        Ok(BenchSubject::new(name, rounds, vec![], &command))
    };
    let subjects = [
        subject("1 check", 1)?,
        subject("10 checks", 10)?,
        subject("100 checks", 100)?,
    ];
    print("Checks of true", &interleaved(&subjects)?, 0);
    Ok(())
}
