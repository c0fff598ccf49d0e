//! What is written from memory, as far as the random programs do not do it: they neither shorten a
//! mapped file nor run out of room, and no signal interrupts their calls.

use zctrace::report::{End, Evidence};

use super::{file, input, odd, traced};
use crate::harness::{Run, TestDir, Transfers as _, each_backend, python, workload, zctrace};

/// Writes two pages of a mapping of `mapped.so` to `out`, shortens the file to a page and four bytes,
/// and writes the same memory again.
const MAPPING_SHORTENED: &str = r#"
import mmap, os
buffer, mapped = bytearray(8192), os.open("mapped.so", os.O_CREAT | os.O_RDWR)
os.readv(os.open("in", os.O_RDONLY), [buffer])
os.write(mapped, buffer)
memory = mmap.mmap(mapped, 8192, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
out = os.open("out", os.O_CREAT | os.O_WRONLY)
os.write(out, memory)
os.truncate(mapped, 4100)
os.write(out, memory)
"#;

#[test]
fn a_mapping_of_a_shortened_file_is_that_file_up_to_its_new_end() {
    let run = traced(&input(), &python(MAPPING_SHORTENED));
    let found = [("in", "mapped.so"), ("mapped.so", "out")].map(|(from, to)| {
        let transfer = run.report.transfer(from, to);
        (transfer.evidence, transfer.bytes)
    });
    let written = [Some(8192), Some(8192 + 4100)];
    assert_eq!(
        found,
        [
            (Evidence::Buffer, written[0]),
            (Evidence::Mapping, written[1])
        ]
    );
    let own = run.root().destinations.iter().map(|to| to.own_memory_bytes);
    assert_eq!(own.flatten().sum::<u64>(), 4092);
}

/// Reads `in` into a mapping, gives advice that changes nothing, makes the mapping larger, which moves
/// it, and writes it to `moved`. Reads it again, reads over its beginning what is not counted, and
/// writes it to `cut`. Reads it again, moves other memory into its second half, and writes it to
/// `replaced`.
const MOVED: &str = r#"
import ctypes, os
libc, half = ctypes.CDLL(None), 1 << 16
for call in libc.mmap, libc.mremap:
    call.restype = ctypes.c_void_p
pointer, size = ctypes.c_void_p, ctypes.c_size_t
def mapped(bytes):
    return libc.mmap(None, size(bytes), 3, 0x22, -1, size(0))
def read(to):
    assert libc.read(os.open("in", os.O_RDONLY), pointer(to), size(2 * half)) == 2 * half
def write(name):
    assert libc.write(os.open(name, os.O_CREAT | os.O_WRONLY), pointer(new), size(2 * half)) == 2 * half
old, behind = mapped(2 * half), mapped(4096)
read(old)
assert libc.madvise(pointer(old), size(2 * half), 15) == 0
new = libc.mremap(pointer(old), size(2 * half), size(64 * half), 1)
write("moved")
read(new)
assert libc.pread64(os.open("in", os.O_RDONLY), pointer(new), size(100), size(half)) == 100
write("cut")
read(new)
other, middle = mapped(half), new + half
assert libc.mremap(pointer(other), size(half), size(half), 3, pointer(middle)) == middle
write("replaced")
"#;

#[test]
fn memory_that_is_moved_has_its_bytes_and_what_takes_its_place_has_not() {
    let dir = TestDir::with("in", vec![7; 2 << 16]);
    let tracer = zctrace().ebpf().dir(dir.path()).syscalls("read,write");
    let report = tracer.run(&python(MOVED)).report;
    let observed = ["moved", "cut", "replaced"].map(|to| {
        let found = report.transfers.iter().filter(|transfer| {
            transfer.evidence == Evidence::Buffer && transfer.to.path.as_deref() == Some(to)
        });
        found.filter_map(|transfer| transfer.bytes).sum::<u64>()
    });
    assert_eq!(observed, [2 << 16, (2 << 16) - 100, 1 << 16]);
}

/// Maps `stored` shared and writable and stores a byte there, and maps a private copy of `in`.
const STORED: &str = r#"
import mmap, os
stored = os.open("stored", os.O_CREAT | os.O_RDWR)
os.truncate(stored, 8192)
mmap.mmap(stored, 8192)[0] = 1
mmap.mmap(-1, 4096)
mmap.mmap(os.open("in", os.O_RDONLY), 8192, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
"#;

#[test]
fn a_file_that_is_mapped_shared_and_writable_is_named_since_stores_are_not_seen() {
    for zctrace in each_backend() {
        let dir = input();
        let report = zctrace
            .dir(dir.path())
            .option("--files")
            .run(&python(STORED))
            .report;
        let notes: Vec<_> = report
            .notes
            .iter()
            .filter(|note| note.contains("mapped shared"))
            .collect();
        assert!(
            notes.len() == 1 && notes[0].contains("/stored was mapped shared"),
            "{notes:?}"
        );
        let maps = ["in", "stored"].map(|name| {
            let file = file(&report, name);
            (file.maps, file.writable_maps, file.bytes_written)
        });
        assert_eq!(maps, [(1, 0, Some(0)), (1, 1, Some(0))]);
        assert!(
            report
                .transfers
                .iter()
                .all(|transfer| transfer.bytes != Some(8192))
        );
    }
}

#[test]
fn bytes_of_several_files_for_which_there_is_no_room_are_said_to_be_missing() {
    // Eight files in a buffer that is written ten times: 70 pairs of files beside the rows, of
    // which there are fewer.
    let missing = |rows: u32| {
        let dir = input();
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
    let is_pipe = |end: &Option<End>| {
        end.as_ref()
            .is_some_and(|end| end.kind.as_deref() == Some("pipe"))
    };
    for run in assert_interrupted("denied-in-handler", "zc-reading", "read") {
        let calls = run.root().file_calls.iter().flatten();
        let from_pipe = calls.filter(|calls| is_pipe(&calls.from));
        let rows = from_pipe.flat_map(|calls| &calls.syscalls);
        let reads = rows.filter(|row| row.name == "read").map(|row| row.calls);
        assert_eq!(reads.sum::<u64>(), run.stated().calls["read"].calls);
    }
}
