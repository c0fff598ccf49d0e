//! Profiles for the Firefox Profiler. The file is checked against the format's description (firefox-devtools/profiler,
//! `docs-developer/processed-profile-format.md` and `src/types/profile.js`): each table's columns
//! have its length, and each index is in range.

use serde_json::Value;

use super::copy_to_a_socket;
use crate::{
    copiers::in_rust,
    harness::{Program, workload, zctrace},
};

/// The profile of a run.
#[track_caller]
fn profile(callers: &str, program: &Program) -> Value {
    let zctrace = zctrace().options(&[callers, "--format=firefox"]);
    let finished = zctrace.show(program);
    let profile = serde_json::from_str(&finished.exits(0).stderr);
    let profile = profile.expect("a profile alone");
    assert_consistent(&profile);
    profile
}

fn items(value: &Value) -> &[Value] {
    let items = value.as_array();
    items.unwrap_or_else(|| panic!("no array: {value}"))
}

/// A number that can be an index.
fn place(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

/// Asserts that all columns of a table are as long as it says.
#[track_caller]
fn length(table: &Value) -> usize {
    let length = place(&table["length"]).expect("a length");
    let columns = table.as_object().expect("a table").iter();
    for (name, column) in columns.filter(|(_, column)| column.is_array()) {
        assert_eq!(items(column).len(), length, "{name}");
    }
    length
}

/// Asserts what the format demands of every profile.
#[track_caller]
fn assert_consistent(profile: &Value) {
    let meta = &profile["meta"];
    assert_eq!(meta["preprocessedProfileVersion"], 55);
    let (categories, libraries) = (
        items(&meta["categories"]).len(),
        items(&profile["libs"]).len(),
    );
    for thread in items(&profile["threads"]) {
        let strings = items(&thread["stringArray"]).len();
        for (column, length) in [
            ("/funcTable/name", strings),
            ("/funcTable/fileName", strings),
            ("/funcTable/resource", length(&thread["resourceTable"])),
            ("/resourceTable/name", strings),
            ("/resourceTable/lib", libraries),
            ("/frameTable/func", length(&thread["funcTable"])),
            ("/frameTable/category", categories),
            ("/stackTable/frame", length(&thread["frameTable"])),
            ("/samples/stack", length(&thread["stackTable"])),
            ("/markers/name", strings),
            ("/markers/category", categories),
        ] {
            let column = thread.pointer(column).expect(column);
            // The format allows null and -1 for "none".
            let is_place = |value: &Value| {
                value.is_null() || value == -1 || place(value).is_some_and(|place| place < length)
            };
            assert!(
                items(column).iter().all(is_place),
                "not all below {length}: {column}"
            );
        }
        for (stack, prefix) in items(&thread["stackTable"]["prefix"]).iter().enumerate() {
            let is_before = prefix.is_null() || place(prefix).is_some_and(|prefix| prefix < stack);
            assert!(is_before, "a stack before its prefix");
        }
        let each_call_is_both = length(&thread["samples"]) == length(&thread["markers"]);
        assert!(each_call_is_both);
        for marker in items(&thread["markers"]["data"]) {
            for key in ["error", "files"] {
                let string = place(&marker[key]);
                assert!(string.is_some_and(|string| string < strings), "{marker}");
            }
        }
    }
}

/// The data of the markers of a thread that have this name.
fn markers<'a>(thread: &'a Value, name: &str) -> Vec<&'a Value> {
    let (strings, markers) = (items(&thread["stringArray"]), &thread["markers"]);
    let is_it = |name_of: &Value| place(name_of).is_some_and(|place| strings[place] == name);
    let all = items(&markers["name"]).iter().zip(items(&markers["data"]));
    all.filter(|(name_of, _)| is_it(name_of))
        .map(|(_, data)| data)
        .collect()
}

#[test]
fn a_profile_has_each_call_with_its_bytes_and_the_functions_that_made_it() {
    let profile = copy_to_a_socket(&in_rust(), "std-io-copy", |copy| {
        profile("--callers=all", copy)
    });
    let [thread] = items(&profile["threads"]) else {
        panic!("one thread: {}", profile["threads"])
    };
    assert_eq!(thread["name"], "copier");
    let sends = markers(thread, "sendto");
    let bytes = sends.iter().map(|data| data["bytes"].as_u64());
    assert_eq!(bytes.sum::<Option<u64>>(), Some(1 << 20));
    let strings = thread["stringArray"].to_string();
    for name in [
        "\"std::io::copy::copy",
        "\"copier::library_copies::io_copy\"",
        "\"_start\"",
        "library_copies.rs\"",
    ] {
        assert!(strings.contains(name), "no {name} in {strings}");
    }
    let mut lines = items(&thread["frameTable"]["line"]).iter();
    assert!(lines.any(Value::is_u64), "there are line tables");
}

#[test]
fn a_profile_says_what_is_sampled_and_times_lie_within_the_process() {
    let profile = profile("--callers", &workload("write").args(&["100", "10"]));
    let about = profile["meta"]["extra"].to_string();
    for said in ["Nothing is extrapolated", "calls 1, 2, 4, 8, ..."] {
        assert!(about.contains(said), "{about}");
    }
    let thread = &profile["threads"][0];
    let writes = markers(thread, "write");
    assert_eq!(writes.len(), 7, "1, 2, 4, 8, 16, 32, 64");
    let ms = |value: &Value| value.as_f64().expect("a number");
    let [start, end] = ["processStartupTime", "processShutdownTime"].map(|name| ms(&thread[name]));
    let [from, to] = ["startTime", "endTime"].map(|name| items(&thread["markers"][name]));
    for (from, to) in from.iter().map(ms).zip(to.iter().map(ms)) {
        let is_within = start <= from && from < to && to <= end;
        assert!(is_within, "{from} to {to} in {start} to {end}");
    }
}
