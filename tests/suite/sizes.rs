//! `--histogram`: how many bytes each call moved, against strace.

use std::collections::BTreeMap;

use zctrace::report::{Report, Sizes};

use crate::harness::{TestDir, each_backend, program, python, zctrace};

/// Reads and writes in sizes that differ, also to a closed descriptor.
const SIZES: &str = "
import os
source = os.open('/dev/zero', os.O_RDONLY)
for size in [1, 7, 8, 9, 100, 4096, 4096, 4097, 70000, 1 << 20]:
    data = os.read(source, size)
    os.write(1, data)
empty = os.open('/dev/null', os.O_RDONLY)
assert os.read(empty, 10) == b''
try: os.read(99, 5)
except OSError: pass
";

fn sizes_of<'a>(report: &'a Report, call: &str) -> &'a Sizes {
    let mut calls = report.totals.syscalls.iter();
    let found = calls.find(|one| one.name == call);
    found.and_then(|one| one.sizes.as_ref()).expect("has sizes")
}

/// The sizes of the calls in a log of strace that did not fail, in ascending order.
fn sizes_in(log: &str, call: &str) -> Vec<u64> {
    let lines = log
        .lines()
        .filter(|line| line.starts_with(&format!("{call}(")));
    let results = lines.filter_map(|line| line.rsplit_once(" = "));
    let mut sizes: Vec<u64> = results.filter_map(|(_, size)| size.parse().ok()).collect();
    sizes.sort_unstable();
    sizes
}

#[track_caller]
fn assert_same(report: &Report, log: &str) {
    for call in ["read", "write"] {
        let (found, expected) = (sizes_of(report, call), sizes_in(log, call));
        let mut counts: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for bytes in &expected {
            let buckets = found.histogram.iter();
            let bucket = buckets
                .map(|bucket| (bucket.from_bytes, bucket.below_bytes))
                .find(|(from, below)| (from..below).contains(&bytes));
            let bucket = bucket.unwrap_or_else(|| panic!("{bytes}: {found:?}"));
            *counts.entry(bucket).or_default() += 1;
        }
        let buckets = found.histogram.iter();
        let buckets = buckets.map(|one| ((one.from_bytes, one.below_bytes), one.calls));
        assert_eq!(buckets.collect::<BTreeMap<_, _>>(), counts, "{call}");
        assert_eq!(found.calls, expected.len() as u64);
        let ends = [expected[0], expected[expected.len() - 1]];
        assert_eq!([found.min_bytes, found.max_bytes], ends);
        let median = expected[(expected.len() - 1) / 2];
        assert!(found.p50_bytes <= median && median - found.p50_bytes <= median / 8);
    }
}

#[test]
fn the_sizes_are_those_that_strace_shows() {
    let dd = program("dd").args(&["if=/dev/zero", "of=/dev/null", "bs=5000", "count=300"]);
    let log = dd.log_in(&TestDir::new(), &[]);
    for zctrace in each_backend() {
        let run = zctrace.option("--histogram").run(&dd);
        assert_same(&run.report, &log);
    }
    zctrace()
        .option("--histogram")
        .show(&dd)
        .says("\nSIZES of the calls that did not fail\n");
}

#[test]
fn a_log_has_the_sizes_of_its_calls() {
    let dir = TestDir::new();
    let log = python(SIZES).log_in(&dir, &[]);
    let report = zctrace().option("--histogram").report_on_log(&dir);
    assert_same(&report, &log);
}

#[test]
fn a_run_without_the_option_has_no_sizes() {
    let run = zctrace().run(&program("true"));
    let calls = &run.report.totals.syscalls;
    assert!(calls.iter().all(|call| call.sizes.is_none()));
    run.finished.never_says("\nSIZES ");
}
