//! `cargo xtask bench`: what tracing costs. The figures are printed and never asserted.

mod build;
mod call;
mod measure;
mod start;
mod works;

use std::{
    env,
    fmt::Write as _,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};
use clap::Args;
use measure::{BenchSamples, words};

use crate::{
    command::{Words as _, cargo, check, is_root, release_dir},
    setup::{self, Purpose},
};

/// The name of what is measured, and what measures it in so many rounds.
type BenchWork = (&'static str, fn(u32) -> Result<()>);

/// What is measured, in this order.
const WORKS: [BenchWork; 4] = [
    ("call", call::measure),
    ("process", works::measure),
    ("start", start::measure),
    ("build", build::measure),
];

/// Other tools find the tracepoints in tracefs. Where it is not mounted, only they see that it is now.
const WITH_TRACEFS: &str = r#"t=/sys/kernel/tracing
    mountpoint -q $t || mount -t tracefs tracefs $t; exec "$0" "$@""#;

/// What to measure.
#[derive(Args)]
pub(crate) struct BenchOptions {
    /// What to measure; without one, all
    #[arg(value_name = "WORK", value_parser = WORKS.map(|(name, _)| name))]
    works: Vec<String>,
    /// How often each work is run under each of the quick tools
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Skip the build
    #[arg(long, hide = true)]
    built: bool,
}

/// Measures and prints.
pub(crate) fn run(options: &BenchOptions) -> Result<ExitCode> {
    if !options.built {
        setup::install(Purpose::Building)?;
        setup::try_to_install(Purpose::Benchmarking);
        check(&mut cargo(
            "build --release --workspace --bins --example floor",
        ))?;
        // xtask runs again as root as a whole: the time of sudo itself must not be measured.
        let unshare = if is_root() {
            "unshare -m"
        } else {
            "sudo -E unshare -m"
        };
        let mut again = Command::new("env");
        again.words(unshare).args(["sh", "-c", WITH_TRACEFS]);
        again.arg(env::current_exe()?).args(env::args_os().skip(1));
        let error = again.arg("--built").exec();
        return Err(error).context("measuring needs root");
    }
    let is_chosen = |name: &str| options.works.iter().any(|work| work == name);
    for (name, measure) in WORKS {
        if options.works.is_empty() || is_chosen(name) {
            measure(options.rounds)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What the floor is called in a table.
const FLOOR: &str = "floor: two empty programs";

const STRACE: &str = "strace -c -f -o /dev/null --";

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

/// Prints the times of all subjects of a work, which has as many calls or other parts, if not 0.
fn print(title: &str, rows: &[BenchSamples], parts: u32) {
    println!("## {title}\n\n{}", table(rows, parts));
}

/// The shortest of all times: other work on the machine disturbs it least. What is added is over
/// the first row, and its ratio is to what the floor adds.
fn table(rows: &[BenchSamples], parts: u32) -> String {
    let mut table = String::from(
        "| | rounds | least, s | median, s | added, s | ns each | floors | / untraced | CPU, s | resident, MB |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let added = |row: &BenchSamples| row.min_wall() - rows[0].min_wall();
    let floor = rows.iter().find(|row| row.name == FLOOR).map(added);
    for row in rows {
        let figures = [
            (row.min_wall(), 4),
            (row.median_wall(), 4),
            (added(row), 4),
            (added(row) * 1e9 / f64::from(parts), 0),
            (added(row) / floor.unwrap_or(f64::NAN), 2),
            (row.min_wall() / rows[0].min_wall(), 2),
            (row.min_cpu(), 4),
        ];
        let _ = write!(table, "| {} | {} |", row.name, row.samples.len());
        for (figure, digits) in figures {
            // Some works have no parts, and some no floor.
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
    fn added_time_is_over_the_first_row_and_floors_are_of_added_times() {
        let rows = [("untraced", 400, 7), (FLOOR, 600, 7), ("zctrace", 900, 5)];
        let rows = rows.map(|(name, ms, rounds)| {
            let sample = |wall| BenchSample {
                wall: Duration::from_millis(wall),
                cpu: Duration::from_millis(2 * wall),
                max_rss_kib: 20_000,
            };
            let mut samples = vec![sample(ms + 100); rounds];
            samples[1] = sample(ms);
            BenchSamples { name, samples }
        });
        let line = "| zctrace | 5 | 0.9000 | 1.0000 | 0.5000 | 625 | 2.50 | 2.25 | 1.8000 | 20 |\n";
        assert!(table(&rows, 800_000).ends_with(line));
        let line = "| untraced | 7 | 0.4000 | 0.5000 | 0.0000 | 0 |  | 1.00 | 0.8000 | 20 |\n";
        assert!(table(&rows[..1], 800_000).ends_with(line));
    }
}
