//! What is written from memory: the true value of each case of `odd-files`, in one table. What the
//! random programs cover is not repeated here.

use zc_tests::truth::Rng;
use zctrace::report::{DestinationTotals, End, Evidence, Evidence::*};

use super::{odd, traced};
use crate::harness::{Run, TestDir, Transfers as _, workload, zctrace};

/// The length of `in`, which is not a multiple of any program's buffer.
const ALL: u64 = 3_000_001;

/// Those of its bytes that are whole pieces of 60,000 or 50,000 bytes.
const WHOLE: u64 = 3_000_000;

/// The length of the header that some programs write.
const HEADER: u64 = 19;

/// A case of `odd-files` and what is true about it.
struct MemoryCase {
    name: &'static str,
    /// All transfers to files: source, destination, evidence and bytes.
    transfers: &'static [(&'static str, &'static str, Evidence, u64)],
    /// What else is written, by destination: from the program's own memory.
    own: &'static [(&'static str, u64)],
}

const CASES: &[MemoryCase] = &[
    MemoryCase {
        name: "two-loops",
        transfers: &[("in", "large", Buffer, ALL), ("in", "small", Buffer, ALL)],
        own: &[],
    },
    MemoryCase {
        name: "header-and-buffer",
        transfers: &[("in", "out", Buffer, ALL)],
        own: &[("out", HEADER)],
    },
    MemoryCase {
        name: "header-and-mapping",
        transfers: &[("in", "out", Mapping, ALL)],
        own: &[("out", HEADER)],
    },
    MemoryCase {
        name: "mapping-shortened",
        transfers: &[
            ("in", "mapped", Buffer, 8192),
            ("mapped", "out", Mapping, 8192 + 4100),
        ],
        own: &[("out", 4092)],
    },
    MemoryCase {
        name: "filled-by-another-thread",
        transfers: &[("in", "out", Buffer, ALL)],
        own: &[],
    },
    MemoryCase {
        // Where `recvmmsg` puts its messages is not looked at.
        name: "refilled-by-messages",
        transfers: &[],
        own: &[("out", WHOLE)],
    },
    MemoryCase {
        name: "refilled-with-random",
        transfers: &[],
        own: &[("out", WHOLE)],
    },
    MemoryCase {
        name: "refilled-by-a-ring",
        transfers: &[("in", "out", Buffer, ALL)],
        own: &[],
    },
    MemoryCase {
        name: "ring-vectors",
        transfers: &[("in", "out", Buffer, ALL)],
        own: &[],
    },
    MemoryCase {
        name: "drained-pipe",
        transfers: &[("pipe", "out", Call, WHOLE)],
        own: &[],
    },
    MemoryCase {
        name: "peeked",
        transfers: &[("unix-stream", "out", Buffer, ALL)],
        own: &[],
    },
    MemoryCase {
        name: "copied-by-another-buffer",
        transfers: &[("in", "out", Totals, ALL)],
        own: &[],
    },
];

/// A directory with a file `in` of so many random bytes, always the same.
fn long_input() -> TestDir {
    let mut rng = Rng::new(1);
    let bytes = (0..ALL).map(|_| rng.next().to_le_bytes()[0]);
    TestDir::with("in", bytes.collect::<Vec<_>>())
}

/// The file name of an end, or its kind.
fn name(end: &End) -> &str {
    let path = end.path.as_deref().and_then(|path| path.rsplit('/').next());
    path.filter(|path| !path.is_empty())
        .or(end.kind.as_deref())
        .unwrap_or_default()
}

fn is_file(end: &End) -> bool {
    end.kind.as_deref() == Some("regular")
}

/// What the first process wrote to files.
fn destinations(run: &Run) -> impl Iterator<Item = (&str, &DestinationTotals)> {
    let all = run.root().destinations.iter();
    all.filter_map(|one| Some((name(one.file.as_ref().filter(|end| is_file(end))?), one)))
}

impl MemoryCase {
    /// What is stated otherwise.
    fn difference(&self) -> Option<String> {
        let run = traced(&long_input(), &odd(self.name));
        let to_files = run.root_transfers().into_iter();
        let mut transfers: Vec<_> = to_files
            .filter(|one| is_file(&one.to))
            .map(|one| {
                let bytes = one.bytes.expect("the calls tell");
                (name(&one.from), name(&one.to), one.evidence, bytes)
            })
            .collect();
        transfers.sort_unstable();
        let mut own: Vec<_> = destinations(&run)
            .map(|(name, one)| (name, one.own_memory_bytes.expect("the calls tell")))
            .filter(|(_, bytes)| *bytes > 0)
            .collect();
        own.sort_unstable();
        let Self { name, .. } = self;
        (transfers != self.transfers || own != self.own)
            .then(|| format!("{name}: {transfers:?}, own memory {own:?}"))
    }
}

#[test]
fn each_byte_comes_from_where_its_address_was_filled_last() {
    let wrong: Vec<String> = CASES.iter().filter_map(MemoryCase::difference).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_loop_over_one_source_has_its_own_calls() {
    let run = traced(&long_input(), &odd("two-loops"));
    for (to, size) in [("small", 4096), ("large", 1 << 20)] {
        let transfer = run.report.transfer("in", to);
        let turns = ALL.div_ceil(size);
        assert_eq!(
            (transfer.calls, transfer.crossings),
            (Some(2 * turns), Some(2 * turns)),
            "{to}"
        );
    }
}

/// Buffers of which only a part was read from the file: how much depends on the C library and on
/// the compiler.
#[test]
fn what_was_copied_to_another_buffer_is_not_more_than_was_written() {
    for (case, to, written) in [
        ("stdio-after-a-header", "out", ALL - 246),
        ("stack-buffers", "out0", ALL),
        ("stack-buffers", "out1", ALL),
    ] {
        let run = traced(&long_input(), &odd(case));
        let (_, one) = destinations(&run)
            .find(|(name, _)| *name == to)
            .expect("it was written");
        let other = run.root_transfers().into_iter();
        let mut other = other.filter(|one| name(&one.to) == to && name(&one.from) != "in");
        assert!(other.next().is_none(), "{case}");
        assert_eq!(one.written_bytes, Some(written), "{case}: {one:?}");
        if case == "stdio-after-a-header" {
            // Whole blocks are written from the program's buffer.
            assert!(one.transferred_bytes > written / 2, "{one:?}");
            assert!(one.own_memory_bytes > Some(0), "{one:?}");
        }
    }
}

#[test]
fn peeked_bytes_are_not_counted() {
    let run = traced(&long_input(), &odd("peeked"));
    assert_eq!(run.totals().row("recvfrom").bytes, Some(ALL));
}

#[test]
fn bytes_of_several_files_for_which_there_is_no_room_are_said_to_be_missing() {
    // Eight files in a buffer that is written ten times: 70 pairs of files beside the rows, of
    // which there are fewer.
    let missing = |rows: u32| {
        let dir = long_input();
        let tracer = zctrace()
            .ebpf()
            .dir(dir.path())
            .option(format!("--max-rows={rows}"));
        let report = tracer.run(&odd("several-to-several")).report;
        assert!(report.exact, "every call is counted");
        let missing = report.losses.get("calls_without_files");
        missing.copied().unwrap_or(0)
    };
    assert_eq!(missing(1000), 0);
    let missing = missing(60);
    assert!((1..=70).contains(&missing), "{missing}");
}

/// Makes sure that the interrupted calls on this thread are counted as the workload states, whether
/// all calls are counted or only these.
fn assert_interrupted(case: &str, thread: &str, call: &str) -> [Run; 2] {
    ["all", call].map(|set| {
        let zctrace = zctrace().ebpf().by_thread().option("--file-calls");
        let run = zctrace.syscalls(set).run_exactly(&workload(case));
        let (found, expected) = (run.thread(thread).row(call), &run.stated().calls[call]);
        assert_eq!(
            (found.calls, &found.errnos),
            (expected.calls, &expected.errnos),
            "{set}"
        );
        run
    })
}

#[test]
fn an_interrupted_call_counts_even_if_seccomp_traps_one_in_the_handler() {
    assert_interrupted("trapped-in-handler", "zc-paused", "ppoll");
}

#[test]
fn an_interrupted_call_keeps_its_file_even_if_seccomp_denies_one_in_the_handler() {
    let is_pipe = |end: &Option<End>| end.as_ref().is_some_and(|end| name(end) == "pipe");
    for run in assert_interrupted("denied-in-handler", "zc-reading", "read") {
        let calls = run.root().file_calls.iter().flatten();
        let from_pipe = calls.filter(|calls| is_pipe(&calls.from));
        let rows = from_pipe.flat_map(|calls| &calls.syscalls);
        let reads = rows.filter(|row| row.name == "read").map(|row| row.calls);
        assert_eq!(reads.sum::<u64>(), run.stated().calls["read"].calls);
    }
}
