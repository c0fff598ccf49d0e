//! `cargo xtask bench`: what tracing costs. The figures are printed and never asserted.

mod load_once;
mod measure;
mod works;

use std::{
    env,
    fmt::Write as _,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};
use clap::Args;
use measure::{BenchSamples, BenchSubject, interleaved, words};

use crate::{
    command::{cargo, check, is_root, release_dir},
    setup::{self, Purpose},
    toolchain::on_path,
};

/// How many calls the worst case makes, half of them read and half write.
const WORST_CASE_BLOCKS: u32 = 400_000;

/// How often the start-up is measured.
const START_UP_ROUNDS: u32 = 20;

/// What to measure.
#[derive(Args)]
pub(crate) struct BenchOptions {
    /// How often the worst case is run with each of the quick tools
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Also run the worst case under strace, which takes most of a minute
    #[arg(long)]
    slow: bool,
    /// Skip the build
    #[arg(long, hide = true)]
    built: bool,
}

/// Measures and prints.
pub(crate) fn run(options: &BenchOptions) -> Result<ExitCode> {
    if !options.built {
        setup::install(Purpose::Building)?;
        check(&mut cargo(
            "build --release --workspace --bins --example floor",
        ))?;
    }
    if !is_root() {
        // xtask runs again under sudo as a whole: the time of sudo itself must not be measured.
        let mut again = Command::new("sudo");
        again
            .arg("-E")
            .arg(env::current_exe()?)
            .args(env::args_os().skip(1));
        let error = again.arg("--built").exec();
        return Err(error).context("measuring needs root, and sudo does not start");
    }
    measure_worst_case(options)?;
    works::measure(options.rounds)?;
    measure_start_up()?;
    load_once::measure(options.rounds)?;
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

/// strace and perf, with their tables sent to `/dev/null`.
const STRACE: &str = "strace -c -f -o /dev/null --";
const PERF: &str = "perf trace -s -o /dev/null --";

/// (a) The added cost of the cheapest calls under each tool, and of each part of the work of
/// zctrace.
fn measure_worst_case(options: &BenchOptions) -> Result<()> {
    let command = copy_blocks(WORST_CASE_BLOCKS);
    let subject = |name, prefix| BenchSubject::new(name, options.rounds, prefix, &command);
    let mut subjects = vec![
        subject("untraced", vec![]),
        subject("two empty tp_btf programs", floor("")?),
        subject("two that read the clock", floor("--clocks")?),
    ];
    let mut recorded = Vec::new();
    for (step, more) in LADDER {
        recorded.push(more);
        subjects.push(subject(
            step,
            zctrace(&format!("--recorded {}", recorded.join(",")))?,
        ));
    }
    subjects.push(subject("zctrace --callers", zctrace("--callers")?));
    if on_path("perf").is_some() {
        subjects.push(BenchSubject::new("perf trace -s", 1, words(PERF), &command));
    }
    if options.slow && on_path("strace").is_some() {
        subjects.push(BenchSubject::new(
            "strace -c -f",
            1,
            words(STRACE),
            &command,
        ));
    }
    let title = format!("Worst case: {}", command.join(" "));
    print(&title, &interleaved(&subjects)?, 2 * WORST_CASE_BLOCKS);
    Ok(())
}

/// (c) The time of a command that does nothing.
fn measure_start_up() -> Result<()> {
    let command = words("true");
    let subject = |name, prefix| BenchSubject::new(name, START_UP_ROUNDS, prefix, &command);
    let mut subjects = vec![
        subject("untraced", vec![]),
        subject("two empty tp_btf programs", floor("")?),
        subject("zctrace", zctrace("")?),
        subject("zctrace --callers", zctrace("--callers")?),
    ];
    if on_path("strace").is_some() {
        subjects.push(subject("strace -c -f", words(STRACE)));
    }
    print("Start-up and teardown: true", &interleaved(&subjects)?, 0);
    Ok(())
}

/// Two calls for each block, which move next to nothing.
fn copy_blocks(blocks: u32) -> Vec<String> {
    words(&format!(
        "dd if=/dev/zero of=/dev/null bs=4k count={blocks}"
    ))
}

/// zctrace with these options, and its report sent to `/dev/null`.
fn zctrace(options: &str) -> Result<Vec<String>> {
    let mut argv = vec![release_dir()?.join("zctrace").display().to_string()];
    argv.extend(words(&format!("--backend ebpf -o /dev/null {options} --")));
    Ok(argv)
}

/// The least that any design with tracepoints costs: programs that do nothing, or what the options
/// say.
fn floor(options: &str) -> Result<Vec<String>> {
    let mut argv = vec![release_dir()?.join("examples/floor").display().to_string()];
    argv.extend(words(&format!("{options} --")));
    Ok(argv)
}

/// Prints the times of all subjects of a work.
fn print(title: &str, rows: &[BenchSamples], calls: u32) {
    println!("## {title}\n\n{}", table(rows, calls));
}

/// Medians; what is added over the first row, by call as well (if their number is known), and its
/// ratio to that of the second row, the floor.
fn table(rows: &[BenchSamples], calls: u32) -> String {
    let [wall, cpu] = [BenchSamples::wall, BenchSamples::cpu]
        .map(|time| move |row: &BenchSamples| time(row).as_secs_f64());
    let mut table = String::from(
        "| | rounds | median, s | least, s | CPU, s | added, s | ns a call | added / floor's | CPU, added / floor's | / untraced | CPU / untraced | resident, MB |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        let added = |time: &dyn Fn(&BenchSamples) -> f64, row| time(row) - time(&rows[0]);
        let to_floor = |time| added(time, row) / added(time, &rows[1]);
        let figures = [
            (wall(row), 4),
            (row.least_wall().as_secs_f64(), 4),
            (cpu(row), 4),
            (added(&wall, row), 4),
            (added(&wall, row) * 1e9 / f64::from(calls), 0),
            (to_floor(&wall), 2),
            (to_floor(&cpu), 2),
            (wall(row) / wall(&rows[0]), 2),
            (cpu(row) / cpu(&rows[0]), 2),
        ];
        let _ = write!(table, "| {} | {} |", row.name, row.samples.len());
        for (figure, digits) in figures {
            // The first row has no ratios to the floor, and some works no number of calls.
            let text = format!("{figure:.digits$}");
            let _ = write!(table, " {} |", if figure.is_finite() { &text } else { "" });
        }
        let _ = writeln!(table, " {} |", row.resident_kib() / 1000);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{measure::BenchSample, *};

    #[test]
    fn added_time_is_over_the_first_row_and_ratios_are_of_added_times() {
        let rows = [("untraced", 400, 7), ("floor", 600, 7), ("zctrace", 900, 5)];
        let rows = rows.map(|(name, ms, rounds)| {
            let sample = BenchSample {
                wall: Duration::from_millis(ms),
                cpu: Duration::from_millis(2 * ms),
                max_rss_kib: 20_000,
            };
            let samples = vec![sample; rounds];
            BenchSamples { name, samples }
        });
        let line = "| zctrace | 5 | 0.9000 | 0.9000 | 1.8000 | 0.5000 | 625 | 2.50 | 2.50 | 2.25 | 2.25 | 20 |\n";
        assert!(table(&rows, 800_000).ends_with(line));
    }
}
