//! `cargo xtask bench`: what tracing costs. The figures are printed and never asserted.

mod bystander;
mod measure;
mod plot;
mod soak;
mod works;

use std::{
    env,
    fmt::Write as _,
    fs,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::Args;
use measure::{Sample, Subject, interleaved, median, milliseconds, start, words};

use crate::{
    command::{cargo, check, is_root, release_dir},
    run,
    toolchain::on_path,
};

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
    /// Also draw the worst case, as an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Also run the worst case under strace, which takes most of a minute
    #[arg(long)]
    slow: bool,
    /// Measure only the memory during a mixed load that runs for so long
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..))]
    soak: Option<u64>,
    /// Skip the build
    #[arg(long, hide = true)]
    built: bool,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if !options.built {
        run::build(&["zctrace", "zc-tests"])?;
        check(cargo().args([
            "build",
            "--release",
            "--package",
            "zctrace-capture",
            "--example",
            "floor",
        ]))?;
    }
    if !is_root() {
        // xtask runs again under sudo as a whole: the time of sudo itself must not be measured.
        let error = Command::new("sudo")
            .arg("-E")
            .arg(env::current_exe()?)
            .args(env::args_os().skip(1))
            .arg("--built")
            .exec();
        return Err(error).context("measuring needs root, and sudo does not start");
    }
    if let Some(minutes) = options.soak {
        soak::measure(minutes)?;
        return Ok(ExitCode::SUCCESS);
    }
    measure_worst_case(options)?;
    works::measure(options.rounds)?;
    measure_start_up()?;
    measure_growth()?;
    bystander::measure(options.rounds)?;
    Ok(ExitCode::SUCCESS)
}

/// The steps of the work of zctrace, and what each records in addition to those before it. With the
/// last one it is zctrace as users run it.
const LADDER: [(&str, &str); 7] = [
    ("look-up of the task", "none"),
    ("+ rows", "rows"),
    ("+ times", "times"),
    ("+ histograms", "histograms"),
    ("+ other calls", "others"),
    ("+ files", "files"),
    ("+ pairing: zctrace", "pairing"),
];

/// (a) The added cost of the cheapest calls under each tool, and of each part of the work of
/// zctrace.
fn measure_worst_case(options: &Options) -> Result<()> {
    let command = copy_blocks(WORST_CASE_BLOCKS);
    let mut subjects = vec![
        Subject::new("untraced", options.rounds, vec![], &command),
        Subject::new(
            "two empty tp_btf programs",
            options.rounds,
            floor(&[])?,
            &command,
        ),
        Subject::new(
            "two that read the clock",
            options.rounds,
            floor(&["--clocks"])?,
            &command,
        ),
    ];
    let mut recorded = Vec::new();
    for (step, more) in LADDER {
        recorded.push(more);
        subjects.push(Subject::new(
            step,
            options.rounds,
            zctrace_with(&["--recorded", &recorded.join(",")])?,
            &command,
        ));
    }
    subjects.push(Subject::new(
        "zctrace --callers",
        options.rounds,
        zctrace_with(&["--callers"])?,
        &command,
    ));
    for (tool, rounds, prefix) in others(options.slow) {
        if on_path(prefix[0]).is_some() {
            subjects.push(Subject::new(tool, rounds, words(&prefix), &command));
        }
    }
    let samples = interleaved(&subjects)?;
    let row = |(subject, samples): (&Subject, &Vec<Sample>)| Row {
        name: subject.name,
        wall: median(samples, |sample| sample.wall),
        cpu: median(samples, |sample| sample.cpu),
        rounds: samples.len(),
    };
    let rows: Vec<Row> = subjects.iter().zip(&samples).map(row).collect();
    println!(
        "## Worst case: {}\n\n{}",
        command.join(" "),
        worst_case(&rows)
    );
    if let Some(path) = &options.plot {
        fs::write(path, plot::bars(&per_call(&rows)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// (c) The time of a command that does nothing.
fn measure_start_up() -> Result<()> {
    let command = words(&["true"]);
    let mut subjects = vec![
        Subject::new("untraced", START_UP_ROUNDS, vec![], &command),
        Subject::new(
            "two empty tp_btf programs",
            START_UP_ROUNDS,
            floor(&[])?,
            &command,
        ),
        Subject::new("zctrace", START_UP_ROUNDS, zctrace()?, &command),
        Subject::new(
            "zctrace --callers",
            START_UP_ROUNDS,
            zctrace_with(&["--callers"])?,
            &command,
        ),
    ];
    if on_path("strace").is_some() {
        subjects.push(Subject::new(
            "strace -c -f",
            START_UP_ROUNDS,
            words(&STRACE),
            &command,
        ));
    }
    let samples = interleaved(&subjects)?;
    println!(
        "## Start-up and teardown: true, {START_UP_ROUNDS} rounds\n\n| | median, ms | least, ms | CPU, ms |\n|---|--:|--:|--:|"
    );
    for (subject, samples) in subjects.iter().zip(&samples) {
        let least = samples
            .iter()
            .map(|sample| sample.wall)
            .min()
            .unwrap_or_default();
        let [wall, cpu] = [
            median(samples, |sample| sample.wall),
            median(samples, |sample| sample.cpu),
        ];
        println!(
            "| {} | {} | {} | {} |",
            subject.name,
            milliseconds(wall),
            milliseconds(least),
            milliseconds(cpu)
        );
    }
    println!();
    Ok(())
}

/// (d) The memory for ten times as many calls.
fn measure_growth() -> Result<()> {
    let rows = [WORST_CASE_BLOCKS / 10, WORST_CASE_BLOCKS].map(|blocks| {
        let argv = [zctrace()?, copy_blocks(blocks)].concat();
        Ok((2 * blocks, start(&argv)?))
    });
    let rows = rows.into_iter().collect::<Result<Vec<(u32, Sample)>>>()?;
    println!("## Memory of zctrace\n\n{}", growth(&rows));
    Ok(())
}

/// Two calls for each block, which move next to nothing.
fn copy_blocks(blocks: u32) -> Vec<String> {
    words(&[
        "dd",
        "if=/dev/zero",
        "of=/dev/null",
        "bs=4k",
        &format!("count={blocks}"),
    ])
}

/// zctrace, with its report sent to `/dev/null`.
fn zctrace() -> Result<Vec<String>> {
    zctrace_with(&[])
}

/// The same with these options.
fn zctrace_with(options: &[&str]) -> Result<Vec<String>> {
    zctrace_reporting_to("/dev/null", options)
}

/// zctrace with these options, and its report sent to this file.
fn zctrace_reporting_to(file: &str, options: &[&str]) -> Result<Vec<String>> {
    let program = vec![release_dir()?.join("zctrace").display().to_string()];
    Ok([
        program,
        words(&["--backend", "ebpf", "-o", file]),
        words(options),
        words(&["--"]),
    ]
    .concat())
}

/// The least that any design with tracepoints costs: programs that do nothing, or what the options
/// say.
fn floor(options: &[&str]) -> Result<Vec<String>> {
    Ok([
        vec![release_dir()?.join("examples/floor").display().to_string()],
        words(options),
        words(&["--"]),
    ]
    .concat())
}

/// strace, with its table sent to `/dev/null`.
const STRACE: [&str; 6] = ["strace", "-c", "-f", "-o", "/dev/null", "--"];

/// Other tools, compared if they are installed: name, rounds, words before the command.
fn others(slow: bool) -> Vec<(&'static str, u32, Vec<&'static str>)> {
    let mut others = vec![
        (
            "perf trace -s",
            1,
            vec!["perf", "trace", "-s", "-o", "/dev/null", "--"],
        ),
        (
            "bpftrace, counts and times",
            1,
            vec!["bpftrace", "-o", "/dev/null", "-e", BPFTRACE, "-c"],
        ),
    ];
    if slow {
        others.push(("strace -c -f", 1, STRACE.to_vec()));
    }
    others
}

/// Calls and time per call number of the command's own process.
const BPFTRACE: &str = "tracepoint:raw_syscalls:sys_enter /pid == cpid/ { @start[tid] = nsecs; @calls[args->id] = count(); } \
                        tracepoint:raw_syscalls:sys_exit /@start[tid]/ { @ns[args->id] = sum(nsecs - @start[tid]); delete(@start[tid]); }";

/// One tool in the worst case.
struct Row {
    name: &'static str,
    /// The median of its wall times.
    wall: Duration,
    /// The median of its CPU times.
    cpu: Duration,
    rounds: usize,
}

/// Added time over the first row, by call as well, and its ratio to that of the second row (the
/// floor) and of perf, if it is there.
fn worst_case(rows: &[Row]) -> String {
    let added = |row: &Row| row.wall.as_secs_f64() - rows[0].wall.as_secs_f64();
    let added_cpu = |row: &Row| row.cpu.as_secs_f64() - rows[0].cpu.as_secs_f64();
    let [floor, floor_cpu] = [added(&rows[1]), added_cpu(&rows[1])];
    let perf = rows
        .iter()
        .find(|row| row.name.starts_with("perf"))
        .map(added);
    let mut table = String::from(
        "| | rounds | median, s | added, s | ns a call | added / floor's | CPU, added / floor's | added / perf's |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for (index, (row, (_, ns))) in rows.iter().zip(per_call(rows)).enumerate() {
        let figures = match index {
            0 => ["", "", "", "", ""].map(str::to_owned),
            _ => [
                format!("{:+.3}", added(row)),
                format!("{ns:.0}"),
                format!("{:.2}", added(row) / floor),
                format!("{:.2}", added_cpu(row) / floor_cpu),
                perf.map(|perf| format!("1/{:.1}", perf / added(row)))
                    .unwrap_or_default(),
            ],
        };
        let _ = writeln!(
            table,
            "| {} | {} | {:.3} | {} |",
            row.name,
            row.rounds,
            row.wall.as_secs_f64(),
            figures.join(" | ")
        );
    }
    table
}

/// What each row adds to a call over the first row, ns.
fn per_call(rows: &[Row]) -> Vec<(&'static str, f64)> {
    let calls = f64::from(2 * WORST_CASE_BLOCKS);
    let added = |row: &Row| (row.wall.as_secs_f64() - rows[0].wall.as_secs_f64()) * 1e9 / calls;
    rows.iter().map(|row| (row.name, added(row))).collect()
}

/// Memory for each number of calls.
fn growth(rows: &[(u32, Sample)]) -> String {
    let mut table = String::from("| calls | largest resident set, KiB |\n|--:|--:|\n");
    for (calls, sample) in rows {
        let _ = writeln!(table, "| {calls} | {} |", sample.max_rss_kib);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_time_is_over_the_first_row_and_ratios_are_of_added_times() {
        let rows = [
            ("untraced", 400, 7),
            ("floor", 600, 7),
            ("zctrace", 900, 7),
            ("perf trace -s", 10_400, 1),
        ];
        let row = |(name, ms, rounds)| Row {
            name,
            wall: Duration::from_millis(ms),
            cpu: Duration::from_millis(2 * ms),
            rounds,
        };
        let table = worst_case(&rows.map(row));
        let line = table.lines().find(|line| line.contains("zctrace")).unwrap();
        assert_eq!(
            line,
            "| zctrace | 7 | 0.900 | +0.500 | 625 | 2.50 | 2.50 | 1/20.0 |"
        );
    }
}
