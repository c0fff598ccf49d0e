//! Profiles for the Firefox Profiler. The file is checked against the format's description (firefox-devtools/profiler,
//! `docs-developer/processed-profile-format.md` and `src/types/profile.js`): each table's columns
//! have its length, and each index is in range.

use serde_json::Value;

use crate::{
    copiers::{Scene, Side, copy, in_rust},
    harness::{Program, TestDir, Zctrace, workload, zctrace},
};

/// The profile of a run.
#[track_caller]
fn profile(zctrace: Zctrace, program: &Program) -> Value {
    let dir = TestDir::new();
    zctrace
        .option("-o")
        .option(dir.join("profile.json"))
        .show(program)
        .successful();
    let profile = serde_json::from_str(&dir.read("profile.json")).expect("it is JSON");
    assert_consistent(&profile);
    profile
}

fn items(value: &Value) -> &[Value] {
    value
        .as_array()
        .unwrap_or_else(|| panic!("no array: {value}"))
}

/// Asserts that all columns of a table are as long as it says.
#[track_caller]
fn length(table: &Value) -> usize {
    let length = table["length"]
        .as_u64()
        .unwrap_or_else(|| panic!("no length: {table}"));
    let length = usize::try_from(length).expect("it is small");
    for (name, column) in table
        .as_object()
        .expect("a table")
        .iter()
        .filter(|(_, column)| column.is_array())
    {
        assert_eq!(items(column).len(), length, "{name}");
    }
    length
}

/// Asserts that these are places in something of this length, or none where the format allows it.
#[track_caller]
fn assert_places(column: &Value, length: usize) {
    let is_place = |value: &Value| {
        value.is_null() || value == -1 || value.as_u64().is_some_and(|place| place < length as u64)
    };
    assert!(
        items(column).iter().all(is_place),
        "not all below {length}: {column}"
    );
}

/// Asserts what the format demands of every profile.
#[track_caller]
fn assert_consistent(profile: &Value) {
    assert_eq!(profile["meta"]["preprocessedProfileVersion"], 55);
    let (categories, libraries) = (
        items(&profile["meta"]["categories"]).len(),
        items(&profile["libs"]).len(),
    );
    for thread in items(&profile["threads"]) {
        let strings = items(&thread["stringArray"]).len();
        let functions = length(&thread["funcTable"]);
        let frames = length(&thread["frameTable"]);
        let stacks = length(&thread["stackTable"]);
        let resources = length(&thread["resourceTable"]);
        for (table, column, of) in [
            ("funcTable", "name", strings),
            ("funcTable", "fileName", strings),
            ("funcTable", "resource", resources),
            ("resourceTable", "name", strings),
            ("resourceTable", "lib", libraries),
            ("frameTable", "func", functions),
            ("frameTable", "category", categories),
            ("stackTable", "frame", frames),
            ("samples", "stack", stacks),
            ("markers", "name", strings),
            ("markers", "category", categories),
        ] {
            assert_places(&thread[table][column], of);
        }
        for (place, prefix) in items(&thread["stackTable"]["prefix"]).iter().enumerate() {
            assert!(
                prefix.is_null() || prefix.as_u64().is_some_and(|prefix| prefix < place as u64),
                "a stack before its prefix"
            );
        }
        assert_eq!(
            length(&thread["samples"]),
            length(&thread["markers"]),
            "each call is both"
        );
        for marker in items(&thread["markers"]["data"]) {
            assert!(
                ["error", "files"].iter().all(|key| marker[key]
                    .as_u64()
                    .is_some_and(|place| place < strings as u64)),
                "{marker}"
            );
        }
    }
}

/// A frame in a profile.
#[derive(Debug)]
struct Frame<'a> {
    function: &'a str,
    file: Option<&'a str>,
    line: Option<u64>,
    library: Option<&'a str>,
}

/// The frames of each sample of a thread, from the call to the start of the thread. Each sample
/// weighs 1.
fn samples(thread: &Value) -> Vec<Vec<Frame<'_>>> {
    let at = |column: &Value, place: &Value| {
        column[usize::try_from(place.as_u64()?).ok()?]
            .clone()
            .into()
    };
    let number = |column: &Value, place: &Value| -> Option<u64> {
        Option::<Value>::and_then(at(column, place), |value| value.as_u64())
    };
    let string = |place: Option<u64>| thread["stringArray"][usize::try_from(place?).ok()?].as_str();
    let frame = |stack: u64| {
        let frame = &thread["stackTable"]["frame"][usize::try_from(stack).expect("small")];
        let function: Value = number(&thread["frameTable"]["func"], frame).into();
        let functions = &thread["funcTable"];
        let resource: Value = number(&functions["resource"], &function).into();
        Frame {
            function: string(number(&functions["name"], &function)).expect("each has a name"),
            file: string(number(&functions["fileName"], &function)),
            line: number(&thread["frameTable"]["line"], frame),
            library: string(number(&thread["resourceTable"]["name"], &resource)),
        }
    };
    let sample = |(stack, weight): (&Value, &Value)| {
        let next = |stack: &u64| {
            thread["stackTable"]["prefix"][usize::try_from(*stack).expect("small")].as_u64()
        };
        assert_eq!(weight, 1);
        std::iter::successors(stack.as_u64(), next)
            .map(frame)
            .collect()
    };
    items(&thread["samples"]["stack"])
        .iter()
        .zip(items(&thread["samples"]["weight"]))
        .map(sample)
        .collect()
}

#[test]
fn a_profile_has_each_call_with_its_stack_and_its_bytes() {
    let scene = Scene::new(1 << 20);
    let sink = Side::sink(&scene.spec("unix:", "socket"));
    let zctrace = zctrace().options(&["--callers=all", "--format=firefox"]);
    let profile = profile(
        zctrace,
        &copy(&in_rust(), "std-io-copy", &scene.spec("", "in"), &sink.spec),
    );
    sink.last_line();
    let [thread] = items(&profile["threads"]) else {
        panic!("one thread: {}", profile["threads"])
    };
    assert_eq!(
        (
            thread["name"].as_str(),
            thread["samples"]["weightType"].as_str()
        ),
        (Some("copier"), Some("samples"))
    );
    let samples = samples(thread);
    let of = |call: &str| {
        samples
            .iter()
            .zip(items(&thread["markers"]["data"]))
            .filter(|(frames, _)| frames[0].function == call)
            .collect::<Vec<_>>()
    };
    let bytes = |(_, marker): &(_, &Value)| marker["bytes"].as_f64().expect("is known");
    let sent: f64 = of("sendto").iter().map(bytes).sum();
    assert!((sent - f64::from(1 << 20)).abs() < 0.5, "{sent} of 1 MiB");
    let frames = of("sendto")[0].0;
    let copier = frames
        .iter()
        .find(|frame| frame.function == "copier::library_copies::io_copy")
        .expect("it made the call");
    assert!(
        copier
            .file
            .is_some_and(|file| file.ends_with("library_copies.rs"))
            && copier.line.is_some(),
        "{copier:?}"
    );
    assert_eq!(copier.library, Some("copier"));
    assert!(
        frames
            .iter()
            .any(|frame| frame.function.starts_with("std::io::copy::copy")),
        "{frames:?}"
    );
    assert_eq!(frames.last().map(|frame| frame.function), Some("_start"));
}

#[test]
fn times_lie_between_the_start_and_the_end_of_the_process() {
    let profile = profile(
        zctrace().option("--callers=firefox"),
        &workload("write").args(&["100", "10"]),
    );
    let thread = &profile["threads"][0];
    let ms = |value: &Value| value.as_f64().expect("a number");
    let (start, end) = (
        ms(&thread["processStartupTime"]),
        ms(&thread["processShutdownTime"]),
    );
    let markers = &thread["markers"];
    for (from, to) in items(&markers["startTime"])
        .iter()
        .zip(items(&markers["endTime"]))
    {
        assert!(
            start <= ms(from) && ms(from) < ms(to) && ms(to) <= end,
            "{from} to {to} in {start} to {end}"
        );
    }
}

#[test]
fn each_thread_of_the_trace_is_one_of_the_profile() {
    let profile = profile(
        zctrace().option("--callers=firefox"),
        &workload("thread-storm").args(&["8", "100"]),
    );
    let threads = items(&profile["threads"]);
    let pid = &threads[0]["pid"];
    assert!(
        threads.len() == 9 && threads.iter().all(|thread| &thread["pid"] == pid),
        "{} threads",
        threads.len()
    );
    assert_eq!(
        threads
            .iter()
            .filter(|thread| thread["isMainThread"] == true)
            .count(),
        1
    );
    assert_eq!(threads[0]["tid"], *pid, "the first thread");
}

#[test]
fn a_profile_says_what_is_sampled() {
    let profile = profile(
        zctrace().option("--callers=firefox"),
        &workload("write").args(&["100", "10"]),
    );
    let about = profile["meta"]["extra"].to_string();
    assert!(
        about.contains("Nothing is extrapolated") && about.contains("calls 1, 2, 4, 8, ..."),
        "{about}"
    );
    let writes = samples(&profile["threads"][0])
        .iter()
        .filter(|frames| frames[0].function == "write")
        .count();
    assert_eq!(writes, 7, "1, 2, 4, 8, 16, 32, 64");
}

#[test]
fn what_was_not_recorded_is_refused_before_the_command_runs() {
    zctrace()
        .option("--format=firefox")
        .refuses()
        .saying("add --callers");
    zctrace()
        .options(&["--callers=firefox", "--counts-only"])
        .refuses()
        .saying("leave out --counts-only");
}

#[test]
fn a_saved_report_cannot_become_a_profile() {
    let dir = TestDir::new();
    zctrace()
        .option("--callers")
        .json_to(dir.join("r.json"))
        .show(&workload("write").args(&["8", "10"]))
        .successful();
    let finished = zctrace()
        .launch_with(&[
            "report",
            "--format=firefox",
            dir.join("r.json").to_str().expect("plain"),
        ])
        .finish();
    assert!(
        finished
            .stderr
            .contains("run the command again with --callers=firefox"),
        "{}",
        finished.stderr
    );
}
