//! What `zctrace compare` runs, in which order and how often; and its figures for commands whose
//! figures are known.

use serde_json::{Value, json};

use super::{compare, compared, line, writes};
use crate::harness::{TestDir, program, words, zctrace};

#[track_caller]
fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// The runs of the first command.
fn runs(compared: &Value) -> &[Value] {
    compared["commands"][0]["runs"].as_array().expect("runs")
}

#[test]
fn calls_and_bytes_are_those_of_one_run_and_what_differs_is_beside_them() {
    for backend in ["ebpf", "strace"] {
        let options = "-N --runs=2 --warmup=1 --syscalls=write --backend";
        let options = [words(options), vec![backend]].concat();
        let commands = [writes(300, 7), writes(20, 4096), writes(300, 7)];
        let found = compared(&options, &commands.each_ref().map(String::as_str));
        for (command, (calls, bytes)) in [(300, 2100), (20, 81_920)].into_iter().enumerate() {
            let traced = &found["commands"][command]["traced"];
            assert_eq!(traced["syscalls"], calls, "{backend}");
            // Reads were not counted, so nobody knows whether the writes belong to a copy.
            assert_eq!(traced["bytes_per_call"], Value::Null, "{backend}");
            assert_eq!(traced["apis"], Value::Null, "{backend}");
            let about = (&traced["backend"], &traced["exact"]);
            assert_eq!(about, (&json!(backend), &json!(true)));
            assert_eq!(traced["totals"]["syscalls"][0]["bytes"], bytes);
        }
        let changes = [0, 1, 2].map(|command| found["commands"][command]["changes"].clone());
        assert_eq!(changes[0], Value::Null, "{backend}");
        assert_eq!(changes[2]["outcome"], "same", "{backend}");
        let figures = changes[1]["figures"].as_array().expect("a list");
        let differs = |metric: &str, sides: [u64; 2]| {
            let mut figures = figures.iter();
            let found = figures
                .find(|figure| figure["metric"] == metric)
                .expect(metric);
            assert_eq!(
                [&found["baseline"], &found["now"]],
                sides.map(|side| json!(side)).each_ref()
            );
        };
        differs("write.calls", [300, 20]);
        differs("write.bytes", [2100, 81_920]);
    }
}

#[test]
fn a_difference_in_time_is_explained_and_counts_are_those_of_a_run() {
    let commands = ["sleep 0.3", "sleep 0.01"];
    let found = compared(&["--runs=3"], &commands);
    let run = zctrace().run(&program("sleep").arg("0.01"));
    let rows = run.report.totals.syscalls.iter();
    let calls: u64 = rows.map(|call| call.calls).sum();
    assert_eq!(found["commands"][1]["traced"]["syscalls"], calls);
    let changes = &found["commands"][1]["changes"];
    assert_eq!(changes["outcome"], "same", "{changes}");
    let slow = &changes["call_times"][0];
    assert_eq!(slow["syscall"], "clock_nanosleep", "{changes}");
    assert_eq!(slow["calls"], json!([1, 1]));
    let page = compare(&["--runs=3"]).finish_with(&commands);
    page.exits(0).prints_all(&[
        "'sleep 0.01' ran",
        "from 'sleep 0.3' to 'sleep 0.01': the same calls (",
        "\n  time: clock_nanosleep 30",
    ]);
}

#[test]
fn files_that_were_opened_otherwise_are_named_with_their_flags() {
    let dir = TestDir::new();
    let plain = "dd if=/dev/zero of=out bs=4k count=9";
    let commands = [plain, &format!("{plain} oflag=dsync")];
    let found = compare(&["-N", "--runs=2", "--format=json"])
        .dir(dir.path())
        .finish_with(&commands);
    let changes = &found.exits(0).json()["commands"][1]["changes"];
    assert_eq!(
        changes["descriptor_flags"],
        json!([{ "path": "out", "open_flags": [[], ["O_DSYNC"]] }])
    );
    let page = compare(&["-N", "--runs=2"])
        .dir(dir.path())
        .finish_with(&commands);
    page.exits(0)
        .prints_all(&["\n  open flags of out: none against O_DSYNC\n"]);
}

#[test]
fn measured_time_includes_sleep_and_runs_are_repeated_for_three_seconds() {
    let few = compared(&["--runs=3"], &["sleep 0.2"]);
    assert_eq!(runs(&few).len(), 3);
    let many = compared(&["-N"], &["sleep 0.25"]);
    assert!((10..=12).contains(&runs(&many).len()), "{many}");
    for run in runs(&few).iter().chain(runs(&many)) {
        let time = number(&run["time_s"]);
        let cpu = number(&run["user_s"]) + number(&run["system_s"]);
        assert!(time >= 0.2 && cpu < time, "{run}");
        assert!(
            run["voluntary_switches"].as_u64() >= Some(1),
            "it waits: {run}"
        );
    }
    let times = &few["commands"][0]["time_s"];
    assert!(number(&times["mean"]) >= number(&times["min"]));
}

#[test]
fn peak_memory_and_page_faults_are_the_commands_own() {
    const MIB: u64 = 1 << 20;
    let large = "dd if=/dev/zero of=/dev/null bs=64M count=1";
    let small = ["if=/dev/zero", "of=/dev/null", "count=1"];
    let small = program("dd").args(&small);
    let found = compared(&["-N", "--runs=5"], &[&line(&small), large]);
    let peak = |place: usize| found["commands"][place]["peak_memory_bytes"].as_u64();
    let is_large = |bytes| (64 * MIB..80 * MIB).contains(&bytes);
    assert!(peak(1).is_some_and(is_large), "{:?}", peak(1));
    // The memory of zctrace before its exec is not the command's. So the figure is small, or
    // unknown.
    assert!(peak(0).is_none_or(|bytes| bytes < 3 * MIB), "{:?}", peak(0));
    let usage = zctrace().run(&small).root().usage;
    let expected = usage.page_faults.minor.expect("is known");
    for run in runs(&found) {
        let faults = run["minor_faults"].as_u64().expect("a count");
        // The addresses that the kernel chooses cost a few pages more or less.
        let is_near = faults.abs_diff(expected) <= 15;
        assert!(is_near, "{faults}, not about {expected}");
    }
}

#[test]
fn commands_run_in_turn_after_their_preparations_and_are_traced_last() {
    const A: &str = "echo a >> log";
    const B: &str = "echo b >> log";
    const P: &str = "--prepare=echo p >> log; true";
    for (options, commands, expected) in [
        (&["--runs=3"][..], &[A, B][..], "a b a b a b a b"),
        (&["--runs=2", "--warmup=1"], &[A, B], "a b a b a b a b"),
        (&["--runs=2", "--warmup=1", P], &[A], "p a p a p a p a"),
        (
            &["--runs=1", P, "--prepare=echo q >> log"],
            &[A, B],
            "p a q b p a q b",
        ),
        // Preparations run in a shell even if commands do not.
        (&["-N", "--runs=1", P], &["true"], "p p"),
    ] {
        let dir = TestDir::new();
        let finished = compare(options).dir(dir.path()).finish_with(commands);
        finished.exits(0);
        assert_eq!(dir.read("log").trim_end().replace('\n', " "), expected);
    }
}
