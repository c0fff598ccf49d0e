//! `proc-io`: the kernel's own counters of reads and writes, to compare a tracer with.
//!
//! `/proc/self/io` counts a read after it has been made. So the growth between the first look and the last holds the first look's
//! own read (one call, as many bytes as the file then had) and not the last look's: the thread's reads are one more than the
//! growth of `syscr`. `not_in_growth` says by how much they differ.

use std::fs::File;

use anyhow::{Context, Result};
use rustix::io::{read, write};
use serde_json::json;
use zc_tests::{Tally, print_expectation, with_bare_thread};

use crate::parameters::Parameters;

/// More than `/proc/self/io` ever has.
const ROOM: usize = 1024;

/// One look at `/proc/self/io`.
struct Look {
    file: File,
    text: [u8; ROOM],
    len: usize,
}

/// Reads from `/dev/zero` and writes to `/dev/null` between two looks, on a bare thread, and prints what the kernel counted.
pub(crate) fn run(mut parameters: Parameters) -> Result<()> {
    let (reads, writes, size) = (parameters.count(1000)?, parameters.count(500)?, parameters.count(100)?);
    parameters.end()?;
    let (zero, null) = (File::open("/dev/zero")?, File::options().write(true).open("/dev/null")?);
    let (mut first, mut last) = (Look::new()?, Look::new()?);
    let mut buffer = vec![0; size];
    let mut tally = Tally::default();
    let calls = || {
        first.take(&mut tally);
        for _ in 0..reads {
            tally.moved("read", size, Ok(size), read(&zero, &mut buffer[..]));
        }
        for _ in 0..writes {
            tally.moved("write", size, Ok(size), write(&null, &buffer));
        }
        last.take(&mut tally);
    };
    with_bare_thread(c"zc-proc-io", calls, |_| ())?;
    let growth = |name| Ok::<_, anyhow::Error>(last.value(name)? - first.value(name)?);
    let facts = json!({
        "thread": "zc-proc-io",
        "growth": {
            "syscr": growth("syscr")?, "syscw": growth("syscw")?, "rchar": growth("rchar")?, "wchar": growth("wchar")?,
        },
        "not_in_growth": { "read": { "calls": 1, "bytes": last.len } },
    });
    print_expectation("proc-io", &tally.figures()?, facts)
}

impl Look {
    /// Opens the file; each look has its own, at its start.
    fn new() -> Result<Self> {
        Ok(Self { file: File::open("/proc/self/io")?, text: [0; ROOM], len: 0 })
    }

    /// Reads the file with one call.
    fn take(&mut self, tally: &mut Tally) {
        let got = read(&self.file, &mut self.text);
        self.len = got.unwrap_or(0);
        tally.moved("read", ROOM, got, got);
    }

    /// One of the counters.
    fn value(&self, name: &str) -> Result<u64> {
        let text = str::from_utf8(&self.text[..self.len])?;
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        values.next().and_then(|value| value.parse().ok()).with_context(|| format!("no {name} in /proc/self/io: {text:?}"))
    }
}
