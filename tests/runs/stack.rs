//! `cargo xtask stack`: how much of the kernel's stack each eBPF program takes, and the chain of
//! calls that takes it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use zc_tests::bpf::{Chain, Function, LIMIT_BYTES, Object, Rows, deepest_chain, rounded};
use zctrace::backend::ebpf::embedded_object;

/// Options.
#[derive(Args)]
pub struct Options {
    /// Record the verifiers' figures in this table, from the output of tests on stdin
    #[arg(long, value_name = "TABLE")]
    record: Option<PathBuf>,
}

pub fn run(options: &Options) -> Result<()> {
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
    let found = Rows::parse(&output);
    ensure!(!found.is_empty(), "no figures of a verifier on stdin");
    let name = || path.display().to_string();
    let mut table = Rows::parse(&fs::read_to_string(path).with_context(name)?);
    table.record(found);
    fs::write(path, table.to_string()).with_context(name)
}

fn show_all() -> Result<()> {
    let object = Object::parse(embedded_object())?;
    let mut above = Vec::new();
    for program in object.programs() {
        let chain = deepest_chain(&object, program);
        show(&object, &chain);
        if chain.bytes > LIMIT_BYTES {
            above.push(object.functions[program].name.as_str());
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
fn show(object: &Object, chain: &Chain) {
    let functions = || chain.functions.iter().map(|&one| &object.functions[one]);
    let program = functions().next().map_or("", |program| &program.name);
    let (bytes, count) = (chain.bytes, chain.functions.len());
    println!("{program}: {bytes} bytes of stack in {count} functions");
    for Function {
        stack_bytes, name, ..
    } in functions()
    {
        let frame = rounded(*stack_bytes);
        println!("  {frame:4}  ({stack_bytes:3} used)  {name}");
    }
}
