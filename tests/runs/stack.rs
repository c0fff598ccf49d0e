//! `cargo xtask stack`: what each eBPF program takes of the kernel's stack, and the chain of calls that takes it.

use std::fmt::Write as _;

use std::{fs, io, path::PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use zc_tests::bpf::{Chain, LIMIT_BYTES, Object, Rows, deepest_chain, rounded};
use zctrace::backend::ebpf::embedded_object;

/// What to do instead.
#[derive(Args)]
pub struct Options {
    /// Take the verifiers' figures from the output of tests on stdin into this table
    #[arg(long, value_name = "TABLE")]
    record: Option<PathBuf>,
}

pub fn run(options: &Options) -> Result<()> {
    options.record.as_ref().map_or_else(show_all, record)
}

/// Takes the figures on stdin into a table; what is not one is passed on.
fn record(path: &PathBuf) -> Result<()> {
    let mut output = String::new();
    for line in io::stdin().lines() {
        let line = line?;
        println!("{line}");
        output += &line;
        output += "\n";
    }
    let found = Rows::parse(&output);
    ensure!(!found.is_empty(), "no figures of a verifier on stdin");
    let mut table = Rows::parse(&fs::read_to_string(path).with_context(|| path.display().to_string())?);
    table.record(found);
    fs::write(path, table.to_string()).with_context(|| path.display().to_string())
}

fn show_all() -> Result<()> {
    let object = Object::parse(embedded_object())?;
    let mut above = Vec::new();
    for program in object.programs() {
        let chain = deepest_chain(&object, program);
        print!("{}", show(&object, &chain));
        if chain.bytes > LIMIT_BYTES {
            above.push(object.functions[program].name.as_str());
        }
    }
    if !above.is_empty() {
        bail!("more than {LIMIT_BYTES} bytes of stack: {}", above.join(", "));
    }
    Ok(())
}

/// One line for the program, and one for each function of its chain.
fn show(object: &Object, chain: &Chain) -> String {
    let functions = || chain.functions.iter().map(|&function| &object.functions[function]);
    let program = functions().next().map_or("", |program| &program.name);
    let mut text = format!("{program}: {} bytes of stack in {} functions\n", chain.bytes, chain.functions.len());
    for function in functions() {
        let reckoned = rounded(function.stack_bytes);
        // A string takes all.
        let _ = writeln!(text, "  {reckoned:4}  ({:3} used)  {}", function.stack_bytes, function.name);
    }
    text
}
