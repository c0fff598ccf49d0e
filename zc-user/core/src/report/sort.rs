//! The order of the calls in a report.

use std::cmp::{Ordering, Reverse};

use super::{Report, Syscall};
use crate::words::words;

words! {
    /// What the calls of a table are sorted by: figures from high to low with the unknown ones
    /// last, names from A to Z.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SortKey {
        /// Total time.
        Time = "time",
        /// Number of calls.
        Calls = "calls",
        /// Number of errors.
        Errors = "errors",
        /// Bytes moved.
        Bytes = "bytes",
        /// Mean time of a call.
        Avg = "avg",
        /// Longest time of a call.
        Max = "max",
        /// 99th percentile of the times.
        P99 = "p99",
        /// Name.
        Name = "name",
    }
}

impl SortKey {
    /// Sorts the calls of a table. Ties are broken by calls, then by name, so that the order is
    /// unique.
    pub fn sort(self, syscalls: &mut [Syscall]) {
        syscalls.sort_by(|a, b| {
            self.compare_calls(a, b)
                .then_with(|| by_calls_and_name(a, b))
        });
    }

    fn compare_calls(self, a: &Syscall, b: &Syscall) -> Ordering {
        // `None` is less than any `Some`. In descending order it comes last.
        match self {
            Self::Time => b.total_ns.cmp(&a.total_ns),
            Self::Calls => b.calls.cmp(&a.calls),
            Self::Errors => b.errors.cmp(&a.errors),
            Self::Bytes => b.bytes.cmp(&a.bytes),
            Self::Avg => b.mean_ns.cmp(&a.mean_ns),
            Self::Max => b.max_ns.cmp(&a.max_ns),
            Self::P99 => b.p99_ns.cmp(&a.p99_ns),
            Self::Name => (&a.name, &a.abi).cmp(&(&b.name, &b.abi)),
        }
    }
}

fn by_calls_and_name(a: &Syscall, b: &Syscall) -> Ordering {
    (Reverse(a.calls), &a.name, &a.abi).cmp(&(Reverse(b.calls), &b.name, &b.abi))
}

impl Report {
    /// Sorts the calls in all its tables, for a report that was saved in another order.
    pub fn sort(&mut self, key: SortKey) {
        key.sort(&mut self.totals.syscalls);
        for program in &mut self.programs {
            key.sort(&mut program.syscalls);
            key.sort(&mut program.io_uring);
        }
        for process in &mut self.processes {
            key.sort(&mut process.syscalls);
            key.sort(&mut process.io_uring);
            for calls in process.file_calls.iter_mut().flatten() {
                key.sort(&mut calls.syscalls);
            }
            for thread in &mut process.by_thread {
                key.sort(&mut thread.syscalls);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Files, Options, sample};

    #[test]
    fn figures_are_sorted_from_high_to_low_with_unknown_ones_last() {
        let options = Options {
            file_calls: Files::Listed,
            ..Options::default()
        };
        let mut report = Report::from_trace(&sample::copier(), &options);
        report.processes[0].io_uring = report.processes[0].syscalls.clone();
        let by_name = ["exit_group", "mmap", "read", "write"];
        for (key, expected) in [
            (SortKey::Time, ["read", "write", "mmap", "exit_group"]),
            (SortKey::Bytes, ["write", "read", "mmap", "exit_group"]),
            (SortKey::Errors, ["write", "read", "mmap", "exit_group"]),
            (SortKey::Name, by_name),
        ] {
            report.sort(key);
            let process = &report.processes[0];
            let of_files = process.file_calls.iter().flatten();
            let tables = of_files.map(|calls| &calls.syscalls).chain([
                &report.totals.syscalls,
                &process.syscalls,
                &process.io_uring,
            ]);
            for table in tables {
                let names: Vec<&str> = table.iter().map(|call| call.name.as_str()).collect();
                assert_eq!(names, expected);
            }
        }
    }
}
