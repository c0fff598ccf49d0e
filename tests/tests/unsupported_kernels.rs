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
    harness::{Run, TestDir, Zctrace, fifo, program, shell, workload, zctrace},
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
    let at: Vec<usize> = blob
        .windows(string.len())
        .enumerate()
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
fn with_btf(path: &Path) -> Zctrace {
    zctrace().ebpf().env("ZCTRACE_BTF", path)
}

#[test]
fn a_kernel_without_btf_is_refused() {
    let refusal = with_btf(Path::new("/nonexistent"))
        .refuses()
        .with_status(125);
    refusal
        .saying("/nonexistent")
        .saying("No such file or directory")
        .saying("CONFIG_DEBUG_INFO_BTF");
    with_btf(Path::new("/etc"))
        .refuses()
        .with_status(125)
        .saying("Is a directory");
}

#[test]
fn without_btf_strace_takes_over_by_default() {
    let run = zctrace()
        .env("ZCTRACE_BTF", "/nonexistent")
        .run_with_any_backend(&workload("write").args(&["50", "10"]));
    run.finished.successful();
    assert_eq!(run.report.backend, "strace");
    assert!(
        run.report
            .notes
            .iter()
            .any(|note| note.contains("/nonexistent")),
        "it says why: {:?}",
        run.report.notes
    );
    assert_eq!(run.totals().row("write").calls, 50);
}

#[test]
fn a_file_that_is_not_btf_is_refused() {
    for content in [
        b"".as_slice(),
        b"\x9f",
        b"not BTF at all",
        &[0; 4096],
        &[0xff; 4096],
    ] {
        with_btf(file(content).path())
            .refuses()
            .with_status(125)
            .saying("it is not BTF");
    }
}

#[test]
fn damaged_btf_is_refused() {
    let real = real();
    for length in [8, 24, 25, 1000, real.len() / 2, real.len() - 1] {
        with_btf(file(&real[..length]).path())
            .refuses()
            .with_status(125);
    }
    // Types of an unknown kind.
    let mut damaged = real.clone();
    damaged[24 + 7] = 0x1f;
    with_btf(file(&damaged).path())
        .refuses()
        .with_status(125)
        .saying("it is damaged");
}

#[test]
fn flipped_bits_in_btf_never_cause_a_panic() {
    // The result may be a refusal in one line or a report.
    let real = real();
    let types = usize::try_from(u32::from_ne_bytes(
        real[12..16].try_into().expect("4 bytes"),
    ))
    .expect("fits");
    for round in 1_usize..=12 {
        let mut damaged = real.clone();
        for step in 0..20 {
            damaged[24 + (round * 7_919_317 + step * 104_729 * 37) % types] ^=
                1 << ((round + step) % 8);
        }
        let finished = with_btf(file(&damaged).path()).show(&program("true"));
        let is_refusal = finished.code == Some(125) && finished.stderr.lines().count() == 1;
        assert!(
            is_refusal || finished.code == Some(0),
            "round {round}: {:?} {}",
            finished.code,
            finished.stderr
        );
        assert!(
            !finished.stderr.contains("panicked"),
            "round {round}: {}",
            finished.stderr
        );
    }
}

#[test]
fn a_kernel_without_a_required_field_is_refused() {
    for (name, field) in [
        ("thread_pid", "task_struct.thread_pid"),
        ("group_leader", "task_struct.group_leader"),
    ] {
        with_btf(without(name).path())
            .refuses()
            .with_status(125)
            .saying(field);
    }
    for structure in ["task_struct", "upid"] {
        with_btf(without(structure).path())
            .refuses()
            .with_status(125)
            .saying(structure);
    }
}

/// Whether the running kernel may preempt programs on tracepoints, so that zctrace attaches most of
/// them to perf events instead.
fn attaches_to_events() -> bool {
    let major = release()
        .split('.')
        .next()
        .and_then(|major| major.parse().ok());
    major.is_some_and(|major: u32| major >= 7)
}

#[test]
fn a_kernel_without_a_required_tracepoint_is_refused() {
    let tracepoints = if attaches_to_events() {
        ["sched_switch", "sched_wakeup_new"]
    } else {
        ["sys_enter", "sched_process_exit"]
    };
    for tracepoint in tracepoints {
        with_btf(without(&format!("btf_trace_{tracepoint}")).path())
            .refuses()
            .with_status(125)
            .saying(tracepoint);
    }
}

/// Makes sure that `--backend=ebpf` refuses to run with this sentence, that `doctor` says it, and
/// that `--backend=auto` uses strace and notes it.
#[track_caller]
fn assert_reported_everywhere(zctrace: &Zctrace, sentence: &str) {
    zctrace
        .clone()
        .ebpf()
        .refuses()
        .with_status(125)
        .saying(sentence);
    let doctor = zctrace.clone().launch_with(&["doctor"]).finish();
    assert!(doctor.text().contains(sentence), "{}", doctor.text());
    let run = zctrace
        .clone()
        .run_with_any_backend(&workload("write").args(&["50", "10"]));
    run.finished.successful();
    assert_eq!(run.report.backend, "strace");
    assert!(
        run.report.notes[0].ends_with(sentence),
        "{:?}",
        run.report.notes
    );
    assert_eq!(run.totals().row("write").calls, 50);
}

fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .expect("/proc")
        .trim_end()
        .to_owned()
}

#[test]
fn a_program_that_the_verifier_rejects_is_reported_everywhere_with_the_reason() {
    // The programs take the number in `flags` for a pointer.
    let btf = with_swapped("files", "flags");
    let refused = with_btf(btf.path()).refuses().with_status(125);
    let told = refused.sentence();
    let start = format!(
        "the verifier of Linux {} refuses the eBPF program sys_enter: access beyond ",
        release()
    );
    assert!(
        told.starts_with(&start) && told.ends_with("or --backend strace, and please report this"),
        "{told}"
    );
    assert_reported_everywhere(&zctrace().env("ZCTRACE_BTF", btf.path()), told);
}

#[test]
fn a_program_that_is_attached_but_does_not_run_is_reported_before_the_command_starts() {
    let (btf, tracepoint) = if attaches_to_events() {
        // The other tracepoint fires only if the scheduler's statistics are on.
        (
            with_swapped("btf_trace_sched_wakeup_new", "btf_trace_sched_stat_sleep"),
            "sched_wakeup_new",
        )
    } else {
        // The other tracepoint fires only for a task that hangs for minutes.
        (
            with_swapped(
                "btf_trace_sched_process_exit",
                "btf_trace_sched_process_hang",
            ),
            "sched_process_exit",
        )
    };
    let told = format!(
        "Linux {} does not run the eBPF program at the tracepoint {tracepoint}, although it is attached; ",
        release()
    );
    with_btf(btf.path())
        .refuses()
        .with_status(125)
        .saying(&told);
    let doctor = zctrace()
        .env("ZCTRACE_BTF", btf.path())
        .launch_with(&["doctor"])
        .finish();
    assert!(doctor.text().contains(&told), "{}", doctor.text());
}

#[test]
fn a_kernel_that_is_too_old_is_reported_everywhere_in_the_same_sentence() {
    // For this thread, the kernel reports its release as 2.6.
    personality::set(personality::get().expect("a personality") | Persona::UNAME26)
        .expect("it can be set");
    let release = uname()
        .expect("a name")
        .release()
        .to_string_lossy()
        .into_owned();
    assert!(release.starts_with("2.6."), "{release}");
    let told = format!(
        "Linux {release} is too old for the eBPF programs: use Linux 6.1 or newer, or --backend strace"
    );
    assert_reported_everywhere(&zctrace(), &told);
}

/// A run on a kernel that lacks this optional field. The report must have a note.
fn run_without(name: &str) -> Run {
    let run = with_btf(without(name).path()).run(&workload("write").args(&["50", "10"]));
    run.finished.successful();
    run.assert_exact();
    assert_eq!(run.totals().row("write").calls, 50);
    assert_eq!(run.report.notes.len(), 1, "{:?}", run.report.notes);
    assert!(run.report.notes[0].contains(name), "{:?}", run.report.notes);
    run
}

#[test]
fn a_missing_counter_field_is_unknown_and_noted() {
    let lacking = |name| run_without(name).root().usage;
    assert_eq!(lacking("nvcsw").context_switches.voluntary, None);
    assert_eq!(lacking("nivcsw").context_switches.involuntary, None);
    assert_eq!(lacking("min_flt").page_faults.minor, None);
    assert_eq!(lacking("maj_flt").page_faults.major, None);
    let usage = lacking("sum_exec_runtime");
    assert_eq!((usage.user_ns, usage.system_ns), (None, None));
}

#[test]
fn a_missing_argument_field_makes_command_lines_unknown_and_is_noted() {
    assert_eq!(run_without("arg_start").root().command, None);
}

#[test]
fn a_missing_descriptor_table_makes_files_unknown_and_is_noted() {
    let run = run_without("files_struct");
    assert!(
        run.root().transfers.is_empty()
            && run.root().destinations.iter().all(|one| one.file.is_none())
    );
}

#[test]
fn missing_io_uring_types_make_its_operations_unknown_and_are_noted() {
    let directory = TestDir::with("in", vec![7; 100_000]);
    for name in ["io_kiocb", "btf_trace_io_uring_complete"] {
        let run = with_btf(without(name).path())
            .dir(directory.path())
            .run(&copy(&in_rust(), "io-uring", "in", "out"));
        run.assert_exact();
        assert!(run.totals().row("io_uring_enter").calls > 0);
        assert!(
            run.root().io_uring.is_empty() && run.root().transfers.is_empty(),
            "{:?}",
            run.root().transfers
        );
        let is_said = |note: &String| {
            note.starts_with("what io_uring operations move is unknown: this kernel")
        };
        assert!(
            run.report.notes.iter().any(is_said),
            "{:?}",
            run.report.notes
        );
    }
}

#[test]
fn the_table_shows_notes_and_marks_unknown_values() {
    let shown = with_btf(without("nvcsw").path()).show(&shell("exit 4"));
    assert_eq!(shown.code, Some(4));
    assert!(
        shown.stderr.contains("note: ") && shown.stderr.contains("task_struct.nvcsw"),
        "{}",
        shown.stderr
    );
    assert!(
        shown.stderr.contains("\"-\": unknown, not 0"),
        "{}",
        shown.stderr
    );
}

#[test]
fn btf_in_a_fifo_or_a_device_is_refused() {
    let dir = TestDir::new();
    for path in [fifo(dir.path()), "/dev/zero".into()] {
        with_btf(&path)
            .refuses()
            .with_status(125)
            .saying("it is not a regular file");
    }
}

#[test]
fn low_limits_of_descriptors_or_memory_are_reported_in_one_line() {
    for limit in ["-n 10", "-n 30", "-v 20000", "-v 23000", "-v 27000"] {
        let limited = zctrace().ebpf().through(&[
            "bash",
            "-c",
            &format!(r#"ulimit {limit}; exec "$@""#),
            "bash",
        ]);
        let what = if limit.starts_with("-n") {
            "Too many open files"
        } else {
            "memory"
        };
        limited.refuses().with_status(125).saying(what);
    }
}
