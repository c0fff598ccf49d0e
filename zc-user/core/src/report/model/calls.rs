//! The figures of calls in a report, as JSON has them.

use std::collections::BTreeMap;

use derive_more::{Deref, DerefMut};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{callers::Callers, sizes::Sizes};
use crate::{
    counts::Counts,
    ends::End,
    histogram::{BUCKETS, Histogram, bucket_range},
    syscalls::ring_operation,
    trace::OtherCalls,
};

/// The sums of one call and ABI.
#[derive(Debug, Clone, Default, PartialEq, Deref, DerefMut, Serialize, Deserialize, JsonSchema)]
pub struct Syscall {
    /// Its name; `io_uring:NAME` for an operation of io_uring.
    pub name: String,
    /// `x86_64`, `i386`, `x32`, `aarch64` or `arm`.
    pub abi: String,
    /// Its figures.
    #[deref]
    #[deref_mut]
    #[serde(flatten)]
    pub counts: Counts<String>,
    /// Shortest time.
    pub min_ns: Option<u64>,
    /// Longest time.
    pub max_ns: Option<u64>,
    /// Mean of the timed calls, rounded down.
    pub mean_ns: Option<u64>,
    /// Median, at most 6.25 % off. `None`: also from 4.6 hours on.
    pub p50_ns: Option<u64>,
    /// 90th percentile, likewise.
    pub p90_ns: Option<u64>,
    /// 99th percentile, likewise.
    pub p99_ns: Option<u64>,
    /// The timed calls by time, without empty intervals. Only `totals` has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<Bucket>,
    /// With `--histogram`: how many bytes each call moved. Only `totals` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
    /// With `--callers`: who made the sampled calls; only in processes and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callers: Option<Callers>,
}

/// An interval of times, and the calls in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket {
    /// The shortest time in it.
    pub from_ns: u64,
    /// The shortest time above it. `None`: no upper end.
    pub below_ns: Option<u64>,
    /// The calls.
    pub calls: u64,
}

impl Bucket {
    /// The intervals of a histogram that are not empty.
    pub(in crate::report) fn all_of(histogram: &Histogram) -> Vec<Self> {
        let mut buckets = Vec::new();
        for (index, calls) in histogram.buckets() {
            let (from_ns, width) = bucket_range(index);
            buckets.push(Self {
                from_ns,
                below_ns: (index + 1 < BUCKETS).then_some(from_ns + width),
                calls,
            });
        }
        buckets
    }
}

impl Syscall {
    /// The name of the operation of `io_uring`; `None` if it is a system call.
    pub fn as_ring_operation(&self) -> Option<&str> {
        ring_operation(&self.name)
    }
}

/// One of the calls that have no rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherSyscall {
    /// Its name.
    pub name: String,
    /// As [`Syscall::abi`].
    pub abi: String,
    /// Its sums.
    #[serde(flatten)]
    pub sums: OtherCalls,
}

/// Calls that read or map shared libraries and the loader's cache, which other figures include.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loading {
    /// How many returned.
    pub calls: u64,
    /// Sum of their times. `None`: unknown.
    pub total_ns: Option<u64>,
}

/// What was done with one file, for `--files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileTotals {
    /// The file.
    #[serde(flatten)]
    pub file: End,
    /// Calls that read from it, without failed ones; 0 if none were counted.
    pub reads: u64,
    /// Calls that wrote to it, as for `reads`.
    pub writes: u64,
    /// Successful calls that move no bytes (`fstat`, `mmap`).
    pub other_calls: u64,
    /// Those of `other_calls` that mapped it. Loads are unseen.
    #[serde(default)]
    pub maps: u64,
    /// Shared and writable ones of `maps`. Stores there are unseen.
    #[serde(default)]
    pub writable_maps: u64,
    /// Bytes read from it. `None`: unknown for one call, or none were counted.
    pub bytes_read: Option<u64>,
    /// Bytes written to it. `None`: as for `bytes_read`.
    pub bytes_written: Option<u64>,
    /// Calls on it that failed.
    pub errors: u64,
    /// The failed calls by errno. Their sum is less than `errors` only if errnos were lost.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errnos: BTreeMap<String, u64>,
    /// Time in calls on it. `None`: one was not timed.
    pub total_ns: Option<u64>,
}

impl FileTotals {
    /// [`reads`](Self::reads). `None`: no calls that could read were counted.
    pub fn counted_reads(&self) -> Option<u64> {
        known_calls(self.reads, self.bytes_read)
    }

    /// [`writes`](Self::writes). `None`: no calls that could write were counted.
    pub fn counted_writes(&self) -> Option<u64> {
        known_calls(self.writes, self.bytes_written)
    }
}

/// The calls that moved these bytes. Without any, unknown bytes mean that such calls were not counted.
fn known_calls(calls: u64, bytes: Option<u64>) -> Option<u64> {
    (calls > 0 || bytes.is_some()).then_some(calls)
}

/// The calls of a process on the same files. Without a file: none, or unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileCalls {
    /// The file that bytes came from, or the file of a call without bytes (`fstat`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<End>,
    /// The file that bytes went to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<End>,
    /// The calls.
    pub syscalls: Vec<Syscall>,
}
