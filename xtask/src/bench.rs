//! `cargo xtask bench`: what tracing costs, printed and never asserted.

mod measure;
mod table;

use std::{
    env, fs,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};
use clap::Args;

use crate::{
    command::{cargo, check, is_root, release_dir},
    run,
    toolchain::on_path,
};
use measure::{Sample, Subject, interleaved, median, start};
use table::{growth, milliseconds, worst_case};

/// How many calls the worst case makes, half of them read and half write.
const WORST_CASE_BLOCKS: u32 = 400_000;

/// How often the start-up is measured.
const START_UP_ROUNDS: u32 = 20;

/// What to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// How often the worst case is run with each of the quick tools
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Also run the worst case under strace, which takes most of a minute
    #[arg(long)]
    slow: bool,
    /// Everything is built already
    #[arg(long, hide = true)]
    built: bool,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if !options.built {
        run::build(&["zctrace"])?;
        check(cargo().args(["build", "--release", "--package", "zctrace-capture", "--example", "floor"]))?;
    }
    if !is_root() {
        // All of it at once: sudo's own time must not be in the measurements.
        let error = Command::new("sudo").arg("-E").arg(env::current_exe()?).args(env::args_os().skip(1)).arg("--built").exec();
        return Err(error).context("measuring needs root, and sudo does not start");
    }
    measure_worst_case(options)?;
    measure_start_up()?;
    measure_growth()?;
    Ok(ExitCode::SUCCESS)
}

/// (a) What the cheapest of calls cost more under each tool.
fn measure_worst_case(options: &Options) -> Result<()> {
    let command = copy_blocks(WORST_CASE_BLOCKS);
    let mut subjects = vec![
        Subject::new("untraced", options.rounds, vec![], &command),
        Subject::new("two empty tp_btf programs", options.rounds, floor()?, &command),
        Subject::new("zctrace without files", options.rounds, [without_files()?, zctrace()?].concat(), &command),
        Subject::new("zctrace", options.rounds, zctrace()?, &command),
    ];
    for (tool, rounds, prefix) in others(options.slow) {
        if on_path(prefix[0]).is_some() {
            subjects.push(Subject::new(tool, rounds, words(&prefix), &command));
        }
    }
    let samples = interleaved(&subjects)?;
    let rows = subjects.iter().zip(&samples).map(|(subject, samples)| (subject.name, median(samples), samples.len()));
    println!("## Worst case: {}\n\n{}", command.join(" "), worst_case(&rows.collect::<Vec<_>>()));
    Ok(())
}

/// (b) What a command that does nothing takes.
fn measure_start_up() -> Result<()> {
    let command = words(&["true"]);
    let subjects = [
        Subject::new("untraced", START_UP_ROUNDS, vec![], &command),
        Subject::new("zctrace", START_UP_ROUNDS, zctrace()?, &command),
    ];
    let samples = interleaved(&subjects)?;
    println!("## Start-up and teardown: true, {START_UP_ROUNDS} rounds\n\n| | median, ms | least, ms |\n|---|--:|--:|");
    for (subject, samples) in subjects.iter().zip(&samples) {
        let least = samples.iter().map(|sample| sample.wall).min().unwrap_or_default();
        println!("| {} | {} | {} |", subject.name, milliseconds(median(samples)), milliseconds(least));
    }
    println!();
    Ok(())
}

/// (c) What ten times as many calls change.
fn measure_growth() -> Result<()> {
    let rows = [WORST_CASE_BLOCKS / 10, WORST_CASE_BLOCKS].map(|blocks| {
        let argv = [zctrace()?, copy_blocks(blocks)].concat();
        Ok((2 * blocks, start(&argv)?))
    });
    let rows = rows.into_iter().collect::<Result<Vec<(u32, Sample)>>>()?;
    println!("## Memory of zctrace\n\n{}", growth(&rows));
    Ok(())
}

/// The command of FACTS: two calls a block that move nothing.
fn copy_blocks(blocks: u32) -> Vec<String> {
    words(&["dd", "if=/dev/zero", "of=/dev/null", "bs=4k", &format!("count={blocks}")])
}

/// zctrace, with a report that goes nowhere.
fn zctrace() -> Result<Vec<String>> {
    Ok([vec![release_dir()?.join("zctrace").display().to_string()], words(&["-o", "/dev/null", "--"])].concat())
}

/// What turns off that zctrace finds the files of calls: type information of the running kernel in which a struct on the way has
/// another name.
fn without_files() -> Result<Vec<String>> {
    const KERNEL: &str = "/sys/kernel/btf/vmlinux";
    const NAME: &[u8] = b"\0files_struct\0";
    let mut types = fs::read(KERNEL).with_context(|| format!("cannot read {KERNEL}"))?;
    let at = types.windows(NAME.len()).position(|window| window == NAME).context("this kernel has no files_struct")?;
    types[at + 1] = b'F';
    let path = release_dir()?.join("without-files.btf");
    fs::write(&path, types).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(vec!["env".to_owned(), format!("ZCTRACE_BTF={}", path.display())])
}

/// The floor of every design on tracepoints: programs that do nothing.
fn floor() -> Result<Vec<String>> {
    Ok([vec![release_dir()?.join("examples/floor").display().to_string()], words(&["--"])].concat())
}

/// Tools that are compared where they are installed: name, rounds, what comes before the command.
fn others(slow: bool) -> Vec<(&'static str, u32, Vec<&'static str>)> {
    let mut others = vec![
        ("perf trace -s", 1, vec!["perf", "trace", "-s", "-o", "/dev/null", "--"]),
        ("bpftrace, counts and times", 1, vec!["bpftrace", "-o", "/dev/null", "-e", BPFTRACE, "-c"]),
    ];
    if slow {
        others.push(("strace -c -f", 1, vec!["strace", "-c", "-f", "-o", "/dev/null", "--"]));
    }
    others
}

/// Calls and time per call number of the command's own process.
const BPFTRACE: &str = "tracepoint:raw_syscalls:sys_enter /pid == cpid/ { @start[tid] = nsecs; @calls[args->id] = count(); } \
                        tracepoint:raw_syscalls:sys_exit /@start[tid]/ { @ns[args->id] = sum(nsecs - @start[tid]); delete(@start[tid]); }";

/// Owned words of a command line.
fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
