//! `cargo xtask stack`: how much of the kernel's stack each eBPF program takes, and the chain of
//! calls that takes it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use zc_tests::bpf::{
    Chain, Function, LIMIT_BYTES, ProgramRows, deepest_chain, programs_of, rounded,
};
use zctrace::backend::ebpf::embedded_object;

/// Options.
#[derive(Args)]
pub struct StackOptions {
    /// Record the verifiers' figures in this table, from the output of tests on stdin
    #[arg(long, value_name = "TABLE")]
    record: Option<PathBuf>,
}

pub fn run(options: &StackOptions) -> Result<()> {
    match &options.record {
        Some(table) => record(table),
        None => show_all(),
    }
}

/// Records the figures on stdin in a table, and passes all lines on to stdout.
fn record(path: &Path) -> Result<()> {
    let mut output = String::new();
    for line in io::stdin().lines() {
        let line = line? + "\n";
        print!("{line}");
        output += &line;
    }
    let found = ProgramRows::parse(&output);
    ensure!(!found.is_empty(), "no figures of a verifier on stdin");
    let name = || path.display().to_string();
    let mut table = ProgramRows::parse(&fs::read_to_string(path).with_context(name)?);
    table.record(found);
    fs::write(path, table.to_string()).with_context(name)
}

fn show_all() -> Result<()> {
    let programs = programs_of(embedded_object())?;
    let mut above = Vec::new();
    for program in &programs {
        let chain = deepest_chain(program);
        show(program, &chain);
        if chain.bytes > LIMIT_BYTES {
            above.push(program[0].name.as_str());
        }
    }
    if !above.is_empty() {
        bail!(
            "more than {LIMIT_BYTES} bytes of stack: {}",
            above.join(", ")
        );
    }
    Ok(())
}

/// Prints one line for the program, and one for each function of its chain.
fn show(program: &[Function], chain: &Chain) {
    let (bytes, count) = (chain.bytes, chain.functions.len());
    let name = &program[0].name;
    println!("{name}: {bytes} bytes of stack in {count} functions");
    for &function in &chain.functions {
        let Function {
            stack_bytes, name, ..
        } = &program[function];
        let frame = rounded(*stack_bytes);
        println!("  {frame:4}  ({stack_bytes:3} used)  {name}");
    }
}
