//! What tracing adds to the cheapest calls, under zctrace and under other tools.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

use super::{
    FLOOR, floor,
    measure::{BenchSample, BenchSubject, interleaved, start, words},
    print, zctrace,
};
use crate::{command::end_with_us, toolchain::on_path};

/// How many blocks dd copies, with two calls for each, which move next to nothing.
const BLOCKS: u32 = 400_000;

/// Tools that stop or wake something at each call copy only this many blocks.
const FEW_BLOCKS: u32 = BLOCKS / 10;

/// zctrace, from where it records least. The fourth only lacks which writes belong to which reads.
const OURS: [&str; 6] = [
    "zctrace --recorded none",
    "zctrace --counts-only --no-files",
    "zctrace --no-files",
    "zctrace --recorded rows,times,histograms,others,files",
    "zctrace",
    "zctrace --callers",
];

/// Tools that are not ours: the name in the table, words, and a script. If the words end with `--`,
/// the tool starts dd. The others trace the whole machine, and are started next to dd.
const PEERS: [(&str, &str, &str); 6] = [
    ("syscount", "/usr/sbin/syscount", ""),
    ("syscount -L", "/usr/sbin/syscount -L", ""),
    ("bpftrace: calls", "bpftrace -e", BPFTRACE_CALLS),
    (
        "bpftrace: calls, times, bytes, histograms",
        "bpftrace -e",
        BPFTRACE_ALL,
    ),
    ("perf trace -s", "perf trace -s -o /dev/null --", ""),
    ("strace -c", "strace -c -o /dev/null --", ""),
];

const BPFTRACE_CALLS: &str = r#"BEGIN { printf("attached\n") }
    tracepoint:raw_syscalls:sys_exit { @c[pid, args->id] = count(); }"#;

const BPFTRACE_ALL: &str = r#"BEGIN { printf("attached\n") }
    tracepoint:raw_syscalls:sys_enter { @s[tid] = nsecs; }
    tracepoint:raw_syscalls:sys_exit /@s[tid]/ {
        $d = nsecs - @s[tid]; delete(@s[tid]);
        @n[pid, args->id] = count(); @t[pid, args->id] = sum($d);
        @m[pid, args->id] = max($d); @h[pid, args->id] = hist($d);
        if (args->ret > 0) { @b[pid, args->id] = sum(args->ret); }
    }"#;

/// The lines of [`PEERS`] that say that all is attached. syscount prints it after that. bpftrace
/// runs BEGIN before, but reads what programs have printed only after it has attached the last one.
const ATTACHED: [&str; 2] = ["Tracing syscalls", "attached"];

/// The time that dd takes by its own account, so the start and the end of tools are left out.
pub(super) fn measure(rounds: u32) -> Result<()> {
    let subject =
        |name, prefix: Vec<String>| BenchSubject::new(name, rounds, move || copy(&prefix, BLOCKS));
    let mut subjects = vec![
        subject("untraced", vec![]),
        subject(FLOOR, floor("")?),
        subject("two that read the clock", floor("--clocks")?),
    ];
    for line in OURS {
        let options = line.trim_start_matches("zctrace");
        subjects.push(subject(line, zctrace(options)?));
    }
    let mut missing = Vec::new();
    for (name, line, script) in PEERS {
        let mut tool = words(line);
        if on_path(&tool[0]).is_none() {
            missing.push(name);
            continue;
        }
        tool.extend((!script.is_empty()).then(|| script.to_owned()));
        let (run, rounds, blocks): (fn(&[String], u32) -> _, _, _) = if line.ends_with("--") {
            (copy, 1, FEW_BLOCKS)
        } else {
            (copy_beside, rounds, BLOCKS)
        };
        match run(&tool, 1) {
            Ok(_) => subjects.push(BenchSubject::new(name, rounds, move || run(&tool, blocks))),
            Err(error) => println!("does not run here: {name}: {error:#}\n"),
        }
    }
    let rows = interleaved(&subjects)?;
    print("A call: dd of 4 KiB blocks", &rows, 2 * BLOCKS);
    if !missing.is_empty() {
        println!("not installed: {}\n", missing.join(", "));
    }
    Ok(())
}

/// Runs dd while a tool traces the whole machine. The sample is that of dd alone.
fn copy_beside(tool: &[String], blocks: u32) -> Result<BenchSample> {
    // Into a pipe, programs write lines only when there are many.
    let mut command = Command::new("stdbuf");
    command.arg("-oL").args(tool).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut tool = end_with_us(&mut command).spawn()?;
    let stdout = tool.stdout.take().context("it has no stdout")?;
    let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let is_attached = lines.any(|line| ATTACHED.iter().any(|start| line.starts_with(start)));
    ensure!(is_attached, "it ends before it is attached: try it by hand");
    let sample = copy(&[], blocks);
    let pid = libc::pid_t::try_from(tool.id())?;
    // SAFETY: plain numbers.
    unsafe { libc::kill(pid, libc::SIGINT) };
    // It prints what it has counted.
    lines.for_each(drop);
    tool.wait()?;
    sample
}

/// Runs dd under a tool; the wall time is what [`BLOCKS`] blocks take by dd's own account.
fn copy(prefix: &[String], blocks: u32) -> Result<BenchSample> {
    let dd = format!("dd if=/dev/zero of=/dev/null bs=4k count={blocks}");
    let (mut sample, printed) = start(&[prefix, &words(&dd)].concat())?;
    let seconds = seconds(&printed).with_context(|| format!("dd prints no time: {printed}"))?;
    sample.wall = Duration::from_secs_f64(seconds) * (BLOCKS / blocks);
    Ok(sample)
}

/// How long dd took, from what it prints.
fn seconds(printed: &str) -> Option<f64> {
    let (_, rest) = printed.split_once("copied, ")?;
    rest.split_once(" s")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dd_says_how_long_it_took() {
        let records = "1+0 records in\n1+0 records out\n";
        let line = "4096 bytes (4.1 kB, 4.0 KiB) copied, 8.4e-05 s, 48.8 MB/s\n";
        assert_eq!(seconds(&format!("{records}{line}")), Some(0.000_084));
        assert_eq!(seconds(records), None);
    }
}
