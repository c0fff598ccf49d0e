//! `cargo xtask stack`: how much of the kernel's stack each eBPF program takes, and the chain of
//! calls that takes it.

use std::fmt::Write as _;

use std::{fs, io, path::PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use zc_tests::bpf::{Chain, LIMIT_BYTES, Object, Rows, deepest_chain, rounded};
use zctrace::backend::ebpf::embedded_object;

/// Options.
#[derive(Args)]
pub struct Options {
    /// Record the verifiers' figures in this table, from the output of tests on stdin
    #[arg(long, value_name = "TABLE")]
    record: Option<PathBuf>,
}

pub fn run(options: &Options) -> Result<()> {
    options.record.as_ref().map_or_else(show_all, record)
}

/// Records the figures on stdin in a table, and passes all lines on to stdout.
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
    let mut table =
        Rows::parse(&fs::read_to_string(path).with_context(|| path.display().to_string())?);
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
        bail!(
            "more than {LIMIT_BYTES} bytes of stack: {}",
            above.join(", ")
        );
    }
    Ok(())
}

/// One line for the program, and one for each function of its chain.
fn show(object: &Object, chain: &Chain) -> String {
    let functions = || {
        chain
            .functions
            .iter()
            .map(|&function| &object.functions[function])
    };
    let program = functions().next().map_or("", |program| &program.name);
    let mut text = format!(
        "{program}: {} bytes of stack in {} functions\n",
        chain.bytes,
        chain.functions.len()
    );
    for function in functions() {
        let frame = rounded(function.stack_bytes);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "  {frame:4}  ({:3} used)  {}",
            function.stack_bytes, function.name
        );
    }
    text
}
