//! The kernel's own counters, with which a tracer can be compared: `/proc/self/io` of a thread.
//!
//! `/proc/self/io` counts a read after it has been made. So the difference between the first look
//! and the last one includes the first look's own read, but not that of the last look: the thread
//! made one read more than `syscr` grew by. `not_in_growth` has that read and its bytes.

use std::fs::File;

use anyhow::{Context, Result};
use rustix::io::read;
use serde_json::json;
use zc_tests::{PlannedCall, Tally, descriptor, print_expectation, with_bare_thread};

use crate::Parameters;

/// More than the length of `/proc/self/io`.
const ROOM: usize = 1024;

/// One look at `/proc/self/io`.
struct Look {
    file: File,
    text: [u8; ROOM],
    len: usize,
}

/// Reads from `/dev/zero` and writes to `/dev/null` between two looks, on a bare thread, and prints
/// what the kernel counted.
pub(crate) fn proc_io(mut parameters: Parameters) -> Result<()> {
    let (reads, writes, size) = (
        parameters.count(1000)?,
        parameters.count(500)?,
        parameters.count(100)?,
    );
    let zero = descriptor(File::open("/dev/zero")?);
    let null = descriptor(File::options().write(true).open("/dev/null")?);
    let (mut first, mut last) = (Look::new()?, Look::new()?);
    let mut buffer = vec![0_u8; size];
    let buffer = buffer.as_mut_ptr().expose_provenance();
    let planned = [
        PlannedCall::full("read", &[zero, buffer, size], size).times(reads),
        PlannedCall::full("write", &[null, buffer, size], size).times(writes),
    ];
    let mut tally = Tally::default();
    let calls = || {
        first.take(&mut tally);
        // SAFETY: they name the buffer, which lives longer.
        unsafe { tally.make(&planned) };
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
    /// Opens the file. Each look has a descriptor of its own, which is at the start of the file.
    fn new() -> Result<Self> {
        Ok(Self {
            file: File::open("/proc/self/io")?,
            text: [0; ROOM],
            len: 0,
        })
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
        let mut values = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        values
            .next()
            .and_then(|value| value.parse().ok())
            .with_context(|| format!("no {name} in /proc/self/io: {text:?}"))
    }
}
