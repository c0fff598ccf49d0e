//! What `zctrace compare` runs, in which order and how often; and its figures for commands whose
//! figures are known.

use std::{
    fs::{self, File},
    io,
    process::Stdio,
};

use serde_json::{Value, json};

use super::{compare, compared, line};
use crate::harness::{TestDir, c, program, untraced, workload};

/// A command that writes this many bytes this many times.
fn writes(times: u32, bytes: u32) -> String {
    line(
        &workload("write")
            .arg(times.to_string())
            .arg(bytes.to_string()),
    )
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn calls_and_bytes_are_those_of_one_run() {
    for backend in ["ebpf", "strace"] {
        let options = [
            "-N",
            "--runs=2",
            "--warmup=1",
            "--syscalls=write",
            "--backend",
            backend,
        ];
        let found = compared(&options, &[&writes(300, 7), &writes(20, 4096)]);
        for (command, (calls, bytes)) in [(300, 7.0), (20, 4096.0)].into_iter().enumerate() {
            let traced = &found["commands"][command]["traced"];
            assert_eq!(traced["syscalls"], calls, "{backend}");
            // Reads were not counted, so nobody knows whether the writes belong to a copy.
            assert_eq!(traced["bytes_per_call"], Value::Null, "{backend}");
            assert_eq!(traced["apis"], Value::Null, "{backend}");
            assert_eq!(
                (&traced["backend"], &traced["exact"]),
                (&json!(backend), &json!(true))
            );
            assert_eq!(
                traced["totals"]["syscalls"][0]["bytes"],
                number(&json!(calls)) * bytes
            );
        }
    }
}

#[test]
fn what_the_commands_did_differently_is_beside_their_times() {
    for backend in ["ebpf", "strace"] {
        let commands = [writes(300, 7), writes(20, 4096), writes(300, 7)];
        let commands = commands.each_ref().map(String::as_str);
        let options = ["-N", "--runs=1", "--syscalls=write", "--backend", backend];
        let found = compared(&options, &commands);
        let changes = |command: usize| found["commands"][command]["changes"].clone();
        assert_eq!(
            (changes(0), &changes(2)["outcome"]),
            (Value::Null, &json!("same")),
            "{backend}"
        );
        let differs = |metric: &str, [baseline, now]: [u64; 2]| {
            changes(1)["figures"].as_array().is_some_and(|figures| {
                figures.iter().any(|figure| {
                    (&figure["metric"], &figure["baseline"], &figure["now"])
                        == (&json!(metric), &json!(baseline), &json!(now))
                })
            })
        };
        assert!(
            differs("write.calls", [300, 20]) && differs("write.bytes", [2100, 81_920]),
            "{backend}: {}",
            changes(1)
        );
        let options = [&options[..], &["--name", "many", "--name", "few"]].concat();
        let page = compare(&options).launch_with(&commands[..2]).finish();
        assert!(
            page.successful()
                .contains("\nfrom many to few: 2 changes\n"),
            "{}",
            page.text()
        );
    }
}

#[test]
fn each_copier_is_shown_with_its_api() {
    let dir = TestDir::new();
    let input = dir.join("in");
    fs::write(&input, vec![1; 1 << 20]).expect("room");
    let copier = |case: &str| {
        line(
            &c("copier-c")
                .arg(case)
                .arg("--from")
                .arg(&input)
                .arg("--to")
                .arg(dir.join("out")),
        )
    };
    let commands = ["read-write", "sendfile", "copy-file-range"].map(copier);
    let found = compared(
        &["-N", "--runs=1"],
        &commands.each_ref().map(String::as_str),
    );
    let apis = [0, 1, 2].map(|command: usize| found["commands"][command]["traced"]["apis"].clone());
    assert_eq!(
        apis,
        [
            json!(["read+write"]),
            json!(["sendfile"]),
            json!(["copy_file_range"])
        ]
    );
}

#[test]
fn only_transfers_count_as_the_commands_work() {
    let dir = TestDir::new();
    let (input, output) = (dir.join("in"), dir.join("out"));
    // Under strace, few bytes are a copy only if their beginning tells them from others.
    fs::write(&input, "eighteen bytes, so").expect("room");
    let copy = |case| {
        line(
            &c("copier-c")
                .arg(case)
                .arg("--from")
                .arg(&input)
                .arg("--to")
                .arg(&output),
        )
    };
    for backend in ["ebpf", "strace"] {
        let commands = [
            copy("sendfile"),
            copy("read-write"),
            writes(30, 11),
            "true".to_owned(),
        ];
        let commands = commands.each_ref().map(String::as_str);
        let found = compared(&["-N", "--runs=1", "--backend", backend], &commands);
        let work = |command: usize| {
            let traced = &found["commands"][command]["traced"];
            (traced["apis"].clone(), traced["bytes_per_call"].clone())
        };
        assert_eq!(work(0), (json!(["sendfile"]), json!(18.0)), "{backend}");
        assert_eq!(work(1), (json!(["read+write"]), json!(18.0)), "{backend}");
        assert_eq!(work(2), (Value::Null, Value::Null), "{backend}");
        assert_eq!(work(3), (Value::Null, Value::Null), "{backend}");
    }
    let page = compare(&["-N", "--runs=1", "-e", "mmap"])
        .launch_with(&[&copy("sendfile")])
        .finish();
    assert!(
        page.successful().contains(" of the calls of mmap\n"),
        "{}",
        page.text()
    );
    let api = page
        .successful()
        .lines()
        .find_map(|line| line.strip_prefix("API "))
        .map(str::trim);
    assert_eq!(api, Some("-"), "{}", page.text());
}

#[test]
fn measured_time_includes_sleep() {
    for shell in [&["-N"][..], &[]] {
        let found = compared(&[shell, &["--runs=3"]].concat(), &["sleep 0.2"]);
        let command = &found["commands"][0];
        assert_eq!(command["runs"].as_array().map(Vec::len), Some(3));
        for run in command["runs"].as_array().expect("runs") {
            assert!(number(&run["time_s"]) >= 0.2, "{shell:?}: {run}");
            assert!(
                number(&run["user_s"]) + number(&run["system_s"]) < number(&run["time_s"]),
                "{shell:?}: {run}"
            );
            assert!(
                run["voluntary_switches"].as_u64() >= Some(1),
                "it waits: {run}"
            );
        }
        assert!(number(&command["time_s"]["mean"]) >= number(&command["time_s"]["min"]));
    }
}

#[test]
fn peak_memory_is_the_commands_own() {
    const MIB: u64 = 1 << 20;
    let peak = |command: &Value| command["peak_memory_bytes"].as_u64();
    let found = compared(
        &["-N", "--runs=2"],
        &[
            "dd if=/dev/zero of=/dev/null bs=64M count=1",
            "dd if=/dev/zero of=/dev/null count=1",
        ],
    );
    let (large, small) = (peak(&found["commands"][0]), peak(&found["commands"][1]));
    assert!(
        large.is_some_and(|bytes| (64 * MIB..80 * MIB).contains(&bytes)),
        "{large:?}"
    );
    // The memory of zctrace before its exec is not the command's. So the figure is small, or
    // unknown.
    assert!(small.is_none_or(|bytes| bytes < 3 * MIB), "{small:?}");
}

/// The minor faults of a program that std starts, which shares its parent's memory until exec.
#[expect(clippy::zombie_processes, reason = "wait4 below waits for it")]
fn minor_faults(words: &[&str]) -> i64 {
    let null = || {
        Stdio::from(
            File::options()
                .read(true)
                .write(true)
                .open("/dev/null")
                .expect("there is one"),
        )
    };
    let mut command = untraced(&program(words[0]).args(&words[1..])).command();
    let child = command
        .stdin(null())
        .stdout(null())
        .stderr(null())
        .spawn()
        .expect("it is there");
    let id = i32::try_from(child.id()).expect("an id");
    // SAFETY: plain numbers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the child is ours, and so is `usage`.
    let waited = unsafe { libc::wait4(id, std::ptr::null_mut(), 0, &raw mut usage) };
    assert_eq!(waited, id, "{}", io::Error::last_os_error());
    usage.ru_minflt
}

#[test]
fn page_faults_are_the_commands_own() {
    let found = compared(
        &["-N", "--runs=5"],
        &["dd if=/dev/zero of=/dev/null bs=4k count=10"],
    );
    let expected = minor_faults(&["dd", "if=/dev/zero", "of=/dev/null", "bs=4k", "count=10"]);
    for run in found["commands"][0]["runs"].as_array().expect("runs") {
        let faults = run["minor_faults"].as_i64().expect("a count");
        // The addresses that the kernel chooses cost a few pages more or less.
        assert!(
            (faults - expected).abs() <= 15,
            "{faults}, not about {expected}"
        );
    }
}

#[test]
fn a_trace_that_is_not_exact_is_marked() {
    let options = ["-N", "--runs=1", "--max-rows=1", "--backend=ebpf"];
    let found = compared(&options, &[&line(&workload("known"))]);
    assert_eq!(found["commands"][0]["traced"]["exact"], false);
    let page = compare(&options)
        .launch_with(&[&line(&workload("known"))])
        .finish();
    for words in [
        "(backend ebpf, not exact)",
        "≥ ",
        "lower bound: calls not counted: ",
        "--max-rows",
    ] {
        assert!(
            page.successful().contains(words),
            "no {words:?}: {}",
            page.text()
        );
    }
}

/// Compares these commands in a directory, and returns what they wrote to the file `log` there.
#[track_caller]
fn logged(options: &[&str], commands: &[&str]) -> String {
    let dir = TestDir::new();
    compare(options)
        .dir(dir.path())
        .launch_with(commands)
        .finish()
        .successful();
    let log = dir.read("log");
    log.split_whitespace().collect::<Vec<_>>().join(" ")
}

const A: &str = "echo a >> log";
const B: &str = "echo b >> log";

#[test]
fn commands_run_in_turn_and_are_traced_last() {
    assert_eq!(logged(&["--runs=3"], &[A, B]), "a b a b a b a b");
    assert_eq!(
        logged(&["--runs=2", "--warmup=1"], &[A, B]),
        "a b a b a b a b"
    );
}

#[test]
fn prepare_runs_before_every_run() {
    let options = ["--runs=2", "--warmup=1", "--prepare=echo p >> log"];
    assert_eq!(
        logged(&options, &[A]),
        ["p a"; 4].join(" "),
        "a warm-up, two timed runs, a traced one"
    );
}

#[test]
fn each_command_can_have_its_own_preparation() {
    let options = [
        "--runs=1",
        "--prepare=echo p >> log",
        "--prepare=echo q >> log",
    ];
    assert_eq!(logged(&options, &[A, B]), "p a q b p a q b");
}

#[test]
fn preparations_run_in_a_shell_even_if_commands_do_not() {
    assert_eq!(
        logged(
            &["-N", "--runs=1", "--prepare=echo p >> log; true"],
            &["true"]
        ),
        "p p"
    );
}

#[test]
fn options_set_the_number_of_runs() {
    let runs = |options: &[&str]| {
        compared(options, &["true"])["commands"][0]["runs"]
            .as_array()
            .map(Vec::len)
    };
    assert_eq!(runs(&["-N", "-r", "7"]), Some(7));
}

#[test]
fn runs_are_repeated_for_three_seconds() {
    let found = compared(&["-N"], &["sleep 0.25"]);
    let runs = found["commands"][0]["runs"]
        .as_array()
        .map(Vec::len)
        .expect("runs");
    assert!((10..=12).contains(&runs), "{runs}");
}

#[test]
fn the_first_lines_say_which_command_is_faster() {
    let options = ["-N", "--runs=1", "--name=short", "--name=long"];
    let page = compare(&options)
        .launch_with(&["sleep 0.1", "sleep 0.4"])
        .finish();
    let lines: Vec<&str> = page.successful().lines().take(2).collect();
    assert_eq!(lines[0], "short ran");
    assert!(lines[1].ends_with(" times faster than long"), "{lines:?}");
}
