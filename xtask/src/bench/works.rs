//! What zctrace adds to several kinds of work, beside what two empty programs add.

use anyhow::Result;

use super::{
    FLOOR, floor,
    measure::{BenchSubject, interleaved},
    print, zctrace,
};
use crate::command::{in_scratch, release_dir};

/// A name, how many parts it has, and a line for sh, whose `$0` is our test program.
const WORKS: [(&str, u32, &str); 4] = [
    ("2,000 x true", 2_000, "seq 2000 | xargs -n1 true"),
    ("20,000 forks", 20_000, "$0 fork-storm 20000"),
    ("2 x 200,000 writes", 400_000, "$0 thread-storm 2 200000"),
    ("50,000 files, one write each", 50_000, WRITE_FILES),
];

/// It appends: for a file that is truncated, some file systems wait for the disk.
const WRITE_FILES: &str = "cd $1; i=0; while [ $i -lt 50000 ]; do i=$((i + 1)); echo >>$i; done";

/// Work of several kinds: untraced, under two empty programs, under zctrace, under zctrace without
/// times, and with samples of callers.
pub(super) fn measure(rounds: u32) -> Result<()> {
    let program = release_dir()?.join("workload").display().to_string();
    in_scratch(|directory| {
        let directory = directory.display().to_string();
        for (name, parts, line) in WORKS {
            let command = ["sh", "-c", line, &program, &directory].map(str::to_owned);
            let subject = |tool, prefix| BenchSubject::command(tool, rounds, prefix, &command);
            let subjects = [
                subject("untraced", vec![]),
                subject(FLOOR, floor("")?),
                subject("zctrace", zctrace("")?),
                subject("zctrace --counts-only", zctrace("--counts-only")?),
                subject("zctrace --callers", zctrace("--callers")?),
            ];
            print(name, &interleaved(&subjects)?, parts);
        }
        Ok(())
    })
}
