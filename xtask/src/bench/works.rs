//! What zctrace adds to several kinds of work, beside what two empty programs add.

use std::{fs::File, io::Write as _};

use anyhow::{Context as _, Result};

use super::{
    floor,
    measure::{BenchSubject, interleaved, words},
    print, zctrace,
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
    for (name, command) in works(file)? {
        let subject = |tool, prefix| BenchSubject::new(tool, rounds, prefix, &command);
        let subjects = [
            subject("untraced", vec![]),
            subject("two empty tp_btf programs", floor("")?),
            subject("zctrace", zctrace("")?),
            subject("zctrace --counts-only", zctrace("--counts-only")?),
            subject("zctrace --callers", zctrace("--callers")?),
        ];
        print(name, &interleaved(&subjects)?, 0);
    }
    Ok(())
}

/// A name and a command line for each kind of work.
fn works(file: &str) -> Result<[(&'static str, Vec<String>); 5]> {
    let program = release_dir()?.join("workload").display().to_string();
    let workload = |line: &str| [vec![program.clone()], words(line)].concat();
    let forks = ["sh", "-c", "seq 2000 | xargs -n1 true"].map(str::to_owned);
    Ok([
        (
            "copy of 1 GiB in memory, 4 KiB",
            words(&format!("dd if={file} of={} bs=4k", copy_of(file))),
        ),
        (
            "2 threads, 200,000 writes each",
            workload("thread-storm 2 200000"),
        ),
        (
            "64 threads, 6,000 writes each",
            workload("thread-storm 64 6000"),
        ),
        ("2,000 x true", forks.to_vec()),
        ("20,000 forks", workload("fork-storm 20000")),
    ])
}
