//! The figures of a report compared with the kernel's own counters of the same work.

use serde_json::Value;

use crate::harness::{Program, TestDir, program, python, zctrace};

/// A number that a workload states.
#[track_caller]
fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("not a number: {value}"))
}

/// Makes calls of all kinds that `/proc/self/io` counts, and prints by how much that grew. Of the two
/// looks at it, the growth has the first one's own read, which is on no file of the calls.
const IO: &str = r#"
import json, os
def look():
    io = os.open("/proc/self/io", os.O_RDONLY)
    text = os.read(io, 4096)
    return {name: int(value) for name, value in (line.split(": ") for line in text.decode().splitlines())}, len(text)
data, out = os.open("in", os.O_RDONLY), os.open("out", os.O_RDWR | os.O_CREAT)
first, length = look()
for size in range(1, 500):
    os.read(data, size)
    os.pread(data, size, 7)
    os.readv(data, [bytearray(size), bytearray(3)])
    os.write(out, bytes(size))
    os.pwrite(out, bytes(size), 5)
    os.writev(out, [bytes(size), b"abc"])
    os.sendfile(out, data, 0, size)
    os.copy_file_range(data, out, size, 0)
last, _ = look()
growth = {name: last[name] - first[name] for name in ["syscr", "syscw", "rchar", "wchar"]}
growth["syscr"] -= 1
growth["rchar"] -= length
print(json.dumps(growth))
"#;

#[test]
fn calls_and_bytes_of_files_equal_those_in_proc_self_io() {
    let dir = TestDir::with_input(1_000_000);
    let run = zctrace()
        .option("--files")
        .dir(dir.path())
        .run_exactly(&python(IO));
    let growth = run.finished.json();
    let file = |name: &str| {
        let mut files = run.report.files.iter();
        let file = files.find(|file| file.file.path.as_deref() == Some(name));
        file.unwrap_or_else(|| panic!("no {name}"))
    };
    let [input, output] = ["in", "out"].map(file);
    for (counter, calls, bytes) in [
        ("r", input.reads, input.bytes_read),
        ("w", output.writes, output.bytes_written),
    ] {
        let [counted_calls, counted_bytes] =
            [format!("sysc{counter}"), format!("{counter}char")].map(|name| number(&growth[&name]));
        assert_eq!(
            (calls, bytes),
            (counted_calls, Some(counted_bytes)),
            "{counter}"
        );
    }
}

/// A child that touches 1000 pages, waits 200 times for its parent, and uses 50 ms of CPU time. The
/// parent prints what `wait4` says about it.
const RUSAGE: &str = r#"
import json, mmap, os, time
commands, to_child = os.pipe()
answers, to_parent = os.pipe()
child = os.fork()
if child == 0:
    memory = mmap.mmap(-1, 1000 * mmap.PAGESIZE)
    for start in range(0, len(memory), mmap.PAGESIZE):
        memory[start] = 1
    for _ in range(200):
        os.read(commands, 1)
        os.write(to_parent, b".")
    while time.process_time() < 0.05:
        pass
    os._exit(0)
for _ in range(200):
    # The child switches only if it has to wait, so the byte must not be there before.
    while not open(f"/proc/{child}/syscall").read().startswith("READ "):
        pass
    os.write(to_child, b"!")
    os.read(answers, 1)
_, status, usage = os.wait4(child, 0)
assert status == 0
names = ["ru_minflt", "ru_majflt", "ru_nvcsw", "ru_nivcsw"]
rusage = {name: getattr(usage, name) for name in names}
rusage |= {name + "_us": round(getattr(usage, name) * 1e6) for name in ["ru_utime", "ru_stime"]}
print(json.dumps({"calls": {}, "pid": child, "rusage": rusage}))
"#;

/// That program. It has to know the number of `read`.
pub fn rusage() -> Program {
    python(&RUSAGE.replace("READ", &libc::SYS_read.to_string()))
}

#[test]
fn faults_switches_and_cpu_time_equal_those_of_wait4() {
    let run = zctrace().run_exactly(&rusage());
    let stated = run.stated();
    let wait4 = |field: &str| number(&stated.facts["rusage"][field]);
    let process = run.process(stated.pid.expect("it names its child"));
    assert_eq!(process.threads, 1);
    let usage = process.usage;

    assert!(wait4("ru_minflt") >= 1000, "the child touches 1000 pages");
    assert_eq!(usage.page_faults.minor, Some(wait4("ru_minflt")));
    assert_eq!(usage.page_faults.major, Some(wait4("ru_majflt")));

    // The last switch of the process may be in one of them and not in the other.
    assert!(wait4("ru_nvcsw") >= 150, "the child waits 200 times");
    let switches = usage.context_switches;
    assert_near(switches.voluntary, wait4("ru_nvcsw"), 1);
    assert_near(switches.involuntary, wait4("ru_nivcsw"), 1);

    let (user_us, system_us) = (wait4("ru_utime_us"), wait4("ru_stime_us"));
    assert!(user_us + system_us >= 50_000, "the child burns 50 ms");
    assert_near(usage.user_ns.map(|ns| ns / 1000), user_us, 2_000);
    assert_near(usage.system_ns.map(|ns| ns / 1000), system_us, 2_000);
}

#[test]
fn a_single_thread_has_no_more_cpu_time_than_wall_time() {
    // The kernel gives the memory back after the thread has begun to exit.
    let with_memory = python("bytearray(300 << 20)");
    for command in [with_memory, program("true")] {
        let report = zctrace().run_exactly(&command).report;
        let usage = report.totals.usage;
        let cpu_ns = usage
            .user_ns
            .zip(usage.system_ns)
            .map(|(user, system)| user + system);
        let (cpu_ns, wall_ns) = (cpu_ns.expect("known"), report.wall_ns.expect("known"));
        // The clock of the scheduler and the monotonic clock differ by little.
        assert!(
            cpu_ns <= wall_ns + wall_ns / 50 + 200_000,
            "{cpu_ns} of {wall_ns}"
        );
        let exit_ns = report.exit_ns.expect("it calls exit_group");
        assert!((1..wall_ns).contains(&exit_ns), "{exit_ns} of {wall_ns}");
    }
}

#[test]
fn a_size_counts_up_to_what_a_call_can_move() {
    const READ: &str = "import ctypes; ctypes.CDLL(None).read(0, ctypes.create_string_buffer(8), ctypes.c_size_t(1 << 62))";
    let read = python(READ);
    for backend in ["ebpf", "strace"] {
        let run = zctrace().backend(backend).syscalls("read").run(&read);
        let rows = run.report.totals.syscalls.iter();
        let requested = rows.filter_map(|row| row.requested_bytes).sum::<u64>();
        let most = zc_ebpf::MAX_BYTES;
        assert!(
            (most..most + (1 << 30)).contains(&requested),
            "{backend}: {requested}"
        );
    }
}

#[track_caller]
fn assert_near(found: Option<u64>, expected: u64, tolerance: u64) {
    let is_near = found.is_some_and(|found| found.abs_diff(expected) <= tolerance);
    assert!(is_near, "expected {expected}, found {found:?}");
}

/// Two processes that use the same CPU for a while each; the first one prints how long it waited for
/// the CPU meanwhile, ns, by its `schedstat`.
const SHARED_CPU: &str = r#"
import os, time
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
def waited():
    with open("/proc/self/schedstat") as figures:
        return int(figures.read().split()[1])
def work():
    end = time.process_time() + 0.1
    while time.process_time() < end: pass
before = waited()
child = os.fork()
work()
if child == 0: os._exit(0)
os.waitpid(child, 0)
print(waited() - before)
"#;

#[test]
fn waits_for_a_cpu_are_those_of_the_kernel() {
    let run = zctrace().ebpf().run_exactly(&python(SHARED_CPU));
    let stated = number(&run.finished.json());
    let root = run.root().usage.run_delay_ns.expect("is measured");
    let wall = run.report.wall_ns.expect("is known");
    assert!(
        (stated..=wall).contains(&root),
        "{stated} <= {root} <= {wall}"
    );
    // One of the two waited while the other one ran.
    let all = run.report.totals.usage.run_delay_ns.expect("is measured");
    assert!(all > 50_000_000 && all >= root, "{all}");
}
