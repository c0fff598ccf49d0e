//! Runs a command while two empty programs are attached to every system call: the lowest cost that a tracer of this kind can have.
//! `cargo xtask bench` compares zctrace with it.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, ensure};
use aya::{Btf, EbpfLoader, programs::BtfTracePoint};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/floor-bpf"));

fn main() -> anyhow::Result<ExitCode> {
    let command: Vec<_> = std::env::args_os().skip(1).skip_while(|word| word == "--").collect();
    ensure!(!command.is_empty(), "usage: floor -- CMD...");
    ensure!(!OBJECT.is_empty(), "built without eBPF: run `cargo xtask setup`");
    let types = Btf::from_sys_fs()?;
    let mut ebpf = EbpfLoader::new().load(OBJECT)?;
    for tracepoint in ["sys_enter", "sys_exit"] {
        let program: &mut BtfTracePoint = ebpf.program_mut(tracepoint).context("the object lacks a program")?.try_into()?;
        program.load(tracepoint, &types)?;
        program.attach()?;
    }
    let status = Command::new(&command[0]).args(&command[1..]).status()?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code)?))
}
