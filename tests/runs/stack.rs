//! `cargo xtask stack`: what each eBPF program takes of the kernel's stack, and the chain of calls that takes it.

use anyhow::{Result, bail};
use zc_tests::bpf::{Chain, LIMIT_BYTES, Object, deepest_chain, rounded};
use zctrace::backend::ebpf::embedded_object;

pub fn run() -> Result<()> {
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
        text += &format!("  {reckoned:4}  ({:3} used)  {}\n", function.stack_bytes, function.name);
    }
    text
}
