//! Kernels that zctrace does not support, or only in part. They are simulated by changing the
//! running kernel's type information (BTF).

use std::{fs, io::Write as _, path::Path};

use nix::sys::{
    personality::{self, Persona},
    utsname::uname,
};
use tempfile::NamedTempFile;

use crate::{
    copiers::{copy, in_rust},
    harness::{Run, TestDir, Zctrace, fifo, shell, workload, zctrace},
};

/// The running kernel's BTF.
fn real() -> Vec<u8> {
    fs::read("/sys/kernel/btf/vmlinux").expect("this kernel has BTF")
}

/// A file with this content.
fn file(content: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(content).expect("room for it");
    file
}

/// The offset of a name in BTF.
fn offset_of(name: &str, blob: &[u8]) -> usize {
    let string = format!("\0{name}\0").into_bytes();
    let windows = blob.windows(string.len()).enumerate();
    let at: Vec<usize> = windows
        .filter(|(_, part)| *part == string)
        .map(|(at, _)| at)
        .collect();
    assert_eq!(at.len(), 1, "how often the name {name:?} is there");
    at[0] + 1
}

/// The BTF of a kernel that does not have this name: its last letter is replaced by `~`.
fn without(name: &str) -> NamedTempFile {
    let mut blob = real();
    let at = offset_of(name, &blob);
    blob[at + name.len() - 1] = b'~';
    file(&blob)
}

/// The BTF of a kernel in which these two names are swapped.
fn with_swapped(one: &str, other: &str) -> NamedTempFile {
    assert_eq!(one.len(), other.len(), "the lengths of the names");
    let mut blob = real();
    let [at_one, at_other] = [one, other].map(|name| offset_of(name, &blob));
    blob[at_one..][..one.len()].copy_from_slice(other.as_bytes());
    blob[at_other..][..other.len()].copy_from_slice(one.as_bytes());
    file(&blob)
}

/// A zctrace that reads this file instead of the kernel's BTF.
fn with_btf(path: &impl AsRef<Path>) -> Zctrace {
    zctrace().ebpf().env("ZCTRACE_BTF", path.as_ref())
}

/// Makes sure that zctrace refuses this BTF with these words.
#[track_caller]
fn assert_refused(path: impl AsRef<Path>, words: &[&str]) {
    with_btf(&path).refuses().exits(125).says_all(words);
}

/// A program that makes 50 writes of 10 bytes.
fn fifty_writes(zctrace: Zctrace) -> Run {
    let run = zctrace.run_with_any_backend(&workload("write").args(&["50", "10"]));
    run.finished.successful();
    run.assert_exact();
    assert_eq!(run.totals().row("write").calls, 50);
    run
}

/// Makes sure that strace takes over by default, and that the report says why.
#[track_caller]
fn assert_strace_takes_over(zctrace: Zctrace, why: &str) {
    let report = fifty_writes(zctrace).report;
    assert_eq!(report.backend, "strace");
    assert!(report.notes[0].contains(why), "{:?}", report.notes);
}

#[test]
fn btf_that_is_missing_damaged_or_something_else_is_refused() {
    let missing = "/nonexistent";
    let said = [
        "No such file or directory",
        "ZCTRACE_BTF names this file: unset it",
    ];
    assert_refused(missing, &[missing, said[0], said[1]]);
    assert_refused("/etc", &["Is a directory"]);
    let dir = TestDir::new();
    for path in [fifo(dir.join("fifo")), "/dev/zero".into()] {
        assert_refused(path, &["it is not a regular file"]);
    }
    let (zeros, ones) = ([0; 4096], [0xff; 4096]);
    for content in [&b""[..], b"\x9f", b"not BTF at all", &zeros, &ones] {
        assert_refused(file(content), &["it is not BTF"]);
    }
    let mut real = real();
    assert_refused(file(&real[..real.len() - 1]), &[]);
    // Types of an unknown kind.
    real[24 + 7] = 0x1f;
    assert_refused(file(&real), &["it is damaged"]);
    assert_strace_takes_over(zctrace().env("ZCTRACE_BTF", missing), missing);
}

#[test]
fn flipped_bits_in_btf_never_cause_a_panic() {
    // The result may be a refusal in one line or a report.
    let real = real();
    let types = u32::from_ne_bytes(real[12..16].try_into().expect("4 bytes"));
    let types = usize::try_from(types).expect("fits");
    for round in 1_usize..=12 {
        println!("round {round}");
        let mut damaged = real.clone();
        for step in 0..20 {
            let at = (round * 7_919_317 + step * 104_729 * 37) % types;
            damaged[24 + at] ^= 1 << ((round + step) % 8);
        }
        let finished = with_btf(&file(&damaged)).show(&shell("exit 0"));
        finished.never_says("panicked");
        if finished.code != Some(0) {
            finished.exits(125).in_one_line();
        }
    }
}

/// The running kernel's release.
fn release() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc");
    release.trim_end().to_owned()
}

/// Whether the running kernel may preempt programs on tracepoints, so that zctrace attaches most of
/// them to perf events instead.
fn attaches_to_events() -> bool {
    let release = release();
    let (major, _) = release.split_once('.').expect("a version");
    major.parse().is_ok_and(|major: u32| major >= 7)
}

#[test]
fn a_kernel_without_a_required_field_structure_or_tracepoint_is_refused() {
    for (name, field) in [
        ("thread_pid", "task_struct.thread_pid"),
        ("group_leader", "task_struct.group_leader"),
        ("task_struct", "task_struct"),
        ("upid", "upid"),
        ("nvcsw", "task_struct.nvcsw"),
        ("sum_exec_runtime", "task_struct.se.sum_exec_runtime"),
        ("arg_start", "mm_struct.arg_start"),
    ] {
        assert_refused(without(name), &[field]);
    }
    let tracepoints = if attaches_to_events() {
        ["sched_switch", "sched_wakeup_new"]
    } else {
        ["sys_enter", "sched_process_exit"]
    };
    for tracepoint in tracepoints {
        assert_refused(without(&format!("btf_trace_{tracepoint}")), &[tracepoint]);
    }
}

/// Makes sure that `--backend=ebpf` refuses to run with this sentence, that `doctor` says it, and
/// that `--backend=auto` uses strace and notes it.
#[track_caller]
fn assert_reported_everywhere(zctrace: &Zctrace, sentence: &str) {
    zctrace.clone().ebpf().refuses().exits(125).says(sentence);
    zctrace.clone().finish_with(&["doctor"]).prints(sentence);
    assert_strace_takes_over(zctrace.clone(), sentence);
}

#[test]
fn a_program_that_the_verifier_rejects_is_reported_everywhere_with_the_reason() {
    // A program reads a half of the pointer `nsproxy` as a number.
    let btf = with_swapped("__state", "nsproxy");
    let finished = with_btf(&btf).refuses();
    let told = finished.stderr.trim_start_matches("zctrace: ").trim_end();
    let reason = "rejects the eBPF program sched_switch: cannot access ptr member ";
    let start = format!("the verifier of Linux {} {reason}", release());
    let end = " or newer";
    assert!(told.starts_with(&start) && told.ends_with(end), "{told}");
    assert_reported_everywhere(&zctrace().env("ZCTRACE_BTF", btf.path()), told);
}

#[test]
fn a_program_that_is_attached_but_does_not_run_is_an_error_and_no_report() {
    // The other tracepoint fires only if the scheduler's statistics are on, or for a task that
    // hangs for minutes.
    let (tracepoint, other, program) = if attaches_to_events() {
        ("sched_wakeup_new", "sched_stat_sleep", "process_exec")
    } else {
        ("sched_process_exit", "sched_process_hang", "process_exit")
    };
    let [one, two] = [tracepoint, other].map(|name| format!("btf_trace_{name}"));
    let btf = with_swapped(&one, &two);
    let told = format!("the kernel did not run the attached eBPF program {program}, ");
    let finished = with_btf(&btf).show(&shell("exit 0"));
    finished.exits(125).in_one_line().says(&told);
}

#[test]
fn a_kernel_that_is_too_old_is_reported_everywhere_in_the_same_sentence() {
    // For this thread, the kernel reports its release as 2.6.
    let persona = personality::get().expect("a personality");
    // `UNAME26` of the kernel's include/uapi/linux/personality.h, which musl does not name.
    let uname26 = Persona::from_bits_retain(0x002_0000);
    personality::set(persona | uname26).expect("it can be set");
    let system = uname().expect("a name");
    let release = system.release().to_string_lossy();
    assert!(release.starts_with("2.6."), "{release}");
    let remedy = "use Linux 6.1 or newer, or --backend strace";
    let told = format!("Linux {release} is too old for the eBPF programs: {remedy}");
    assert_reported_everywhere(&zctrace(), &told);
}

/// A run on a kernel that lacks this optional field. The report must have a note.
fn run_without(name: &str) -> Run {
    let btf = without(name);
    let run = fifty_writes(with_btf(&btf));
    let notes = &run.report.notes;
    assert!(notes.len() == 1 && notes[0].contains(name), "{notes:?}");
    run
}

#[test]
fn what_a_missing_optional_field_holds_is_unknown_and_noted() {
    // The table of descriptors.
    let run = run_without("files_struct");
    let root = run.root();
    assert!(root.transfers.is_empty() && root.destinations.iter().all(|one| one.file.is_none()));
}

#[test]
fn missing_io_uring_types_make_its_operations_unknown_and_are_noted() {
    let directory = TestDir::with("in", vec![7; 100_000]);
    for name in ["io_kiocb", "btf_trace_io_uring_complete"] {
        let btf = without(name);
        let zctrace = with_btf(&btf).dir(directory.path());
        let run = zctrace.run_exactly(&copy(&in_rust(), "io-uring", "in", "out"));
        let root = run.root();
        assert!(run.totals().row("io_uring_enter").calls > 0);
        assert!(
            root.io_uring.is_empty() && root.transfers.is_empty(),
            "{:?}",
            root.transfers
        );
        run.assert_noted("what io_uring operations move is unknown: this kernel");
    }
}

#[test]
fn a_low_limit_of_descriptors_is_reported_in_one_line() {
    for limit in ["10", "30"] {
        let script = format!(r#"ulimit -n {limit}; exec "$@""#);
        let limited = zctrace().ebpf().by_script(&script);
        limited.refuses().exits(125).says("Too many open files");
    }
}
