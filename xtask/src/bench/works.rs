//! What zctrace adds to several kinds of work, beside what two empty programs add.

use std::{fs::File, io::Write as _, time::Duration};

use anyhow::{Context as _, Result};

use super::{
    floor,
    measure::{Sample, Subject, interleaved, median, words},
    zctrace, zctrace_with,
};
use crate::command::release_dir;

/// Where files are copied without a disk.
const SHARED_MEMORY: &str = "/dev/shm";

/// Size of the file that is copied, in blocks of 1 MiB.
const COPIED_BLOCKS: usize = 1 << 10;

/// (b) Work of several kinds: untraced, under two empty programs, under zctrace, under zctrace
/// without times, and with samples of callers.
pub(super) fn measure(rounds: u32) -> Result<()> {
    let file = format!("{SHARED_MEMORY}/zctrace-bench-{}", std::process::id());
    write_file(&file).with_context(|| format!("cannot write {file}"))?;
    let measured = measure_with(&file, rounds);
    for file in [file.clone(), copy_of(&file)] {
        let _ = std::fs::remove_file(file);
    }
    measured
}

/// Writes the file in blocks: what is resident here counts as resident in what is started from
/// here.
fn write_file(path: &str) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let block = vec![1; 1 << 20];
    (0..COPIED_BLOCKS).try_for_each(|_| file.write_all(&block))
}

fn copy_of(file: &str) -> String {
    format!("{file}.copy")
}

fn measure_with(file: &str, rounds: u32) -> Result<()> {
    println!(
        "## Kinds of work, medians of {rounds} rounds\n\n\
         | | untraced, s | floor adds, s | zctrace adds, s | without times, s | added / floor's | whole / untraced | CPU, added / floor's | CPU / untraced | the same with --callers | resident, MB |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    for (name, command) in works(file)? {
        let subject = |tool, prefix| Subject::new(tool, rounds, prefix, &command);
        let subjects = [
            subject("untraced", vec![]),
            subject("two empty tp_btf programs", floor(&[])?),
            subject("zctrace", zctrace()?),
            subject("zctrace --counts-only", zctrace_with(&["--counts-only"])?),
            subject("zctrace --callers", zctrace_with(&["--callers"])?),
        ];
        println!("{}", line(name, &interleaved(&subjects)?));
    }
    println!();
    Ok(())
}

/// A name and a command line for each kind of work.
fn works(file: &str) -> Result<Vec<(&'static str, Vec<String>)>> {
    let workload = |arguments: &[&str]| -> Result<Vec<String>> {
        let program = release_dir()?.join("workload").display().to_string();
        Ok([vec![program], words(arguments)].concat())
    };
    Ok(vec![
        (
            "copy of 1 GiB in memory, 4 KiB",
            words(&[
                "dd",
                &format!("if={file}"),
                &format!("of={}", copy_of(file)),
                "bs=4k",
            ]),
        ),
        (
            "2 threads, 200,000 writes each",
            workload(&["thread-storm", "2", "200000"])?,
        ),
        (
            "64 threads, 6,000 writes each",
            workload(&["thread-storm", "64", "6000"])?,
        ),
        (
            "2,000 x true",
            words(&["sh", "-c", "seq 2000 | xargs -n1 true"]),
        ),
        ("20,000 forks", workload(&["fork-storm", "20000"])?),
    ])
}

/// A line of the table.
fn line(name: &str, samples: &[Vec<Sample>]) -> String {
    let of = |time: fn(&Sample) -> Duration| {
        [0, 1, 2, 3, 4].map(|index: usize| median(&samples[index], time).as_secs_f64())
    };
    let [untraced, floor, zctrace, counts_only, _] = of(|sample| sample.wall);
    let [cpu, floor_cpu, zctrace_cpu, _, callers_cpu] = of(|sample| sample.cpu);
    let resident_kib = samples[2]
        .iter()
        .map(|sample| sample.max_rss_kib)
        .max()
        .unwrap_or_default();
    format!(
        "| {name} | {untraced:.3} | {:+.3} | {:+.3} | {:+.3} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {} |",
        floor - untraced,
        zctrace - untraced,
        counts_only - untraced,
        (zctrace - untraced) / (floor - untraced),
        zctrace / untraced,
        (zctrace_cpu - cpu) / (floor_cpu - cpu),
        zctrace_cpu / cpu,
        callers_cpu / cpu,
        resident_kib / 1000,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_each_tool_adds_to_the_untraced_median() {
        let sample = |ms| {
            vec![Sample {
                wall: Duration::from_millis(ms),
                cpu: Duration::from_millis(2 * ms),
                max_rss_kib: 20_000,
            }]
        };
        let line = line(
            "work",
            &[
                sample(1000),
                sample(1100),
                sample(1250),
                sample(1150),
                sample(1500),
            ],
        );
        assert_eq!(
            line,
            "| work | 1.000 | +0.100 | +0.250 | +0.150 | 2.50 | 1.25 | 2.50 | 1.25 | 1.50 | 20 |"
        );
    }
}
