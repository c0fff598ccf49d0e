//! Runs a command while two empty programs are attached to every system call: the lowest cost that
//! a tracer of this kind can have. With `--clocks` both read the clock. `cargo xtask bench`
//! compares zctrace with it.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, ensure};
use aya::{Btf, EbpfLoader, programs::BtfTracePoint};

/// Where the build script puts the object, if it builds the eBPF side.
const OBJECT: &str = concat!(env!("OUT_DIR"), "/floor-bpf");

/// Programs and their tracepoints: those that do nothing, and those that read the clock.
const EMPTY: [(&str, &str); 2] = [("sys_enter", "sys_enter"), ("sys_exit", "sys_exit")];
const CLOCKS: [(&str, &str); 2] = [
    ("clock_at_enter", "sys_enter"),
    ("clock_at_exit", "sys_exit"),
];

fn main() -> anyhow::Result<ExitCode> {
    let mut words: Vec<_> = std::env::args_os().skip(1).collect();
    let command = words
        .iter()
        .position(|word| word == "--")
        .map(|end| words.split_off(end + 1))
        .unwrap_or_default();
    ensure!(!command.is_empty(), "usage: floor [--clocks] -- CMD...");
    let programs = if words.iter().any(|word| word == "--clocks") {
        CLOCKS
    } else {
        EMPTY
    };
    let types = Btf::from_sys_fs()?;
    let mut ebpf = EbpfLoader::new().load_file(OBJECT)?;
    for (program, tracepoint) in programs {
        let program: &mut BtfTracePoint = ebpf
            .program_mut(program)
            .context("the object lacks a program")?
            .try_into()?;
        program.load(tracepoint, &types)?;
        program.attach()?;
    }
    let status = Command::new(&command[0]).args(&command[1..]).status()?;
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code)?))
}
