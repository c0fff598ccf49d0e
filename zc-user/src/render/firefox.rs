//! A profile for the Firefox Profiler (<https://profiler.firefox.com>): each sampled call as a
//! sample with its stack, and as a marker with its time, its bytes and its files.
//!
//! The format is that of version 55 of firefox-devtools/profiler, `src/types/profile.js`: a thread
//! has tables, a table has columns, and what a cell names is a place in another table.

use std::{
    collections::HashMap,
    hash::Hash,
    time::{Duration, UNIX_EPOCH},
};

use indexmap::IndexSet;
use serde_json::{Value, json};
use zctrace_core::errno;

use super::{
    caller_lines::name_of_frame,
    part::sum_of_calls,
    text::{file_name, plural},
};
use crate::{
    report::{Frame, Report, Stack},
    syscalls::Returned,
    trace::{Ends, File, FileId, Loss, Thread, TimedCall, Trace},
};

/// What profiles say of the samples.
const WHAT_IS_SAMPLED: &str = "calls 1, 2, 4, 8, ... of each thread, call and files, or every call with --callers=all. Nothing is \
    extrapolated: the calls in between are not in this profile.";
/// The categories of frames. The profiler needs the first one.
const CATEGORIES: [(&str, &str); 4] = [
    ("Other", "grey"),
    ("Code", "yellow"),
    ("Calls that move data", "green"),
    ("Other calls", "orange"),
];
const CODE: usize = 1;
const MOVES_DATA: usize = 2;
const OTHER_CALL: usize = 3;
/// The type of a resource that is a library (`resourceTypes.library` of
/// `src/profile-logic/data-structures.js`).
const LIBRARY: u32 = 1;
const FRAME_COLUMNS: [&str; 9] = [
    "func",
    "line",
    "inlineDepth",
    "category",
    "subcategory",
    "address",
    "innerWindowID",
    "nativeSymbol",
    "column",
];
const FUNCTION_COLUMNS: [&str; 7] = [
    "name",
    "fileName",
    "resource",
    "isJS",
    "relevantForJS",
    "lineNumber",
    "columnNumber",
];
/// The phases of a marker.
const INSTANT: u32 = 0;
const INTERVAL: u32 = 1;

/// The profile, in JSON. Its times count from the start of the first thread.
pub(super) fn profile(report: &Report, trace: &Trace) -> String {
    let threads = || trace.processes.iter().flat_map(|one| &one.threads);
    let starts = threads().filter_map(|thread| thread.started_ns);
    let clock = ProfileClock(starts.min().unwrap_or(0));
    let stacks = report.stacks.as_deref().unwrap_or_default();
    let (mut pids, mut tids) = (Ids::default(), Ids::default());
    let mut libraries = IndexSet::default();
    let mut shown = Vec::new();
    for process in &trace.processes {
        let pid = pids.unique(process.pid);
        let ends = process.threads.iter().map(|thread| thread.ended_ns);
        let ended_ns = ends.collect::<Option<Vec<u64>>>();
        let ended_ns = ended_ns.and_then(|ends| ends.into_iter().max());
        let name = process
            .name()
            .map_or_else(|| process.pid.to_string(), str::to_owned);
        for (index, thread) in process.threads.iter().enumerate() {
            let mut tables = ProfileTables::new(&mut libraries);
            let mut shown_thread =
                calls_of_thread(thread, stacks, &trace.files, clock, &mut tables);
            tables.write_to(&mut shown_thread);
            shown_thread["name"] = json!(thread.comm.as_ref().unwrap_or(&name));
            shown_thread["processName"] = json!(name);
            shown_thread["isMainThread"] = json!(index == 0);
            shown_thread["pid"] = json!(pid);
            shown_thread["tid"] = json!(tids.unique(thread.tid));
            shown_thread["processStartupTime"] =
                json!(clock.start_ms(process.threads[0].started_ns));
            shown_thread["processShutdownTime"] = json!(ended_ns.map(|ns| clock.ms(ns)));
            shown.push(shown_thread);
        }
    }
    let samples = threads().map(|thread| thread.timed_calls.len()).sum();
    let started_at = trace
        .started_at
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let profile = json!({
        "meta": meta(report, started_at.unwrap_or_default(), samples),
        "libs": libraries.iter().map(|path| library(path)).collect::<Vec<_>>(),
        "threads": shown,
        "pages": [],
        "counters": [],
        "profilerOverhead": [],
    });
    format!("{profile}\n")
}

/// The time from which those of a profile count: `CLOCK_MONOTONIC`, in nanoseconds.
#[derive(Clone, Copy)]
struct ProfileClock(u64);

impl ProfileClock {
    #[expect(
        clippy::cast_precision_loss,
        reason = "no trace takes 2^53 ns, 104 days"
    )]
    fn ms(self, ns: u64) -> f64 {
        ns.saturating_sub(self.0) as f64 / 1_000_000.0
    }

    /// When something began; at the start if that is unknown.
    fn start_ms(self, ns: Option<u64>) -> f64 {
        self.ms(ns.unwrap_or(0))
    }
}

/// What the profile is about, and how its markers are shown.
fn meta(report: &Report, started_at: Duration, samples: usize) -> Value {
    let program = report.command.first();
    let program = program.map_or("command", |path| file_name(path));
    let kernel = report.kernel.as_deref().unwrap_or_default();
    json!({
        "product": format!("{program}, sampled system calls"),
        "oscpu": format!("Linux {kernel}"),
        "startTime": started_at.as_secs_f64() * 1000.0,
        "interval": 1,
        "version": 24,
        "preprocessedProfileVersion": 55,
        "processType": 0,
        "debug": false,
        "symbolicated": true,
        "sourceCodeIsNotOnSearchfox": true,
        "usesOnlyOneStackType": true,
        "pausedRanges": [],
        "extensions": {"length": 0, "id": [], "name": [], "baseURL": []},
        "categories": CATEGORIES.map(|(name, color)| {
            json!({"name": name, "color": color, "subcategories": ["Other"]})
        }),
        "extra": [{"label": "System calls", "entries": about(report, samples)}],
        "markerSchema": [{
            "name": "Syscall",
            "description": "A sampled system call, from its entry to its return",
            "display": ["marker-chart", "marker-table"],
            "tableLabel": "{marker.data.bytes} {marker.data.error} {marker.data.files}",
            "tooltipLabel": "{marker.name}",
            "fields": [
                {"key": "bytes", "label": "Bytes moved", "format": "bytes"},
                {"key": "error", "label": "Error", "format": "unique-string", "searchable": true},
                {"key": "files", "label": "Files", "format": "unique-string", "searchable": true},
            ],
        }],
    })
}

/// What the profile's information panel shows.
fn about(report: &Report, samples: usize) -> Vec<Value> {
    let calls = sum_of_calls(&report.totals.syscalls).calls;
    let share = format!(
        "{} of {}: {WHAT_IS_SAMPLED}",
        plural(samples as u64, "call", "calls"),
        plural(calls, "counted call", "counted calls")
    );
    let entry =
        |label: &str, value: &str| json!({"label": label, "format": "string", "value": value});
    let mut about = vec![
        entry(
            "Recorded by",
            &format!("{} {}", report.tool.name, report.tool.version),
        ),
        entry("Command", &report.command.join(" ")),
        entry("Samples", &share),
    ];
    about.extend(report.notes.iter().map(|note| entry("Note", note)));
    let losses = report.losses.iter();
    about.extend(losses.map(|(name, &count)| entry("Loss", &Loss::explain_named(name, count))));
    about
}

fn library(path: &str) -> Value {
    let name = file_name(path);
    json!({
        "name": name, "path": path, "debugName": name, "debugPath": path,
        // Nobody is to look for symbols: the profile has them.
        "breakpadId": "0".repeat(33), "codeId": null, "arch": null,
    })
}

/// The samples and markers of a thread, in the order of their times.
fn calls_of_thread<'a>(
    thread: &Thread,
    stacks: &'a [Stack],
    files: &[File],
    clock: ProfileClock,
    tables: &mut ProfileTables<'a, '_>,
) -> Value {
    let mut calls: Vec<&TimedCall> = thread.timed_calls.iter().collect();
    calls.sort_by_key(|call| call.entered_ns);
    let (mut samples, mut markers, mut last_ms) = (Vec::new(), Vec::new(), 0.0);
    for call in calls {
        let stack = tables.stack_of(call, stacks);
        let start_ms = clock.start_ms(call.entered_ns);
        samples.push(json!([stack, start_ms - last_ms, 1]));
        last_ms = start_ms;
        let entered_ns = call.entered_ns.unwrap_or(0);
        let end_ns = call.duration_ns.map(|ns| entered_ns.saturating_add(ns));
        let phase = if end_ns.is_some() { INTERVAL } else { INSTANT };
        markers.push(json!([
            place(&mut tables.strings, call.call.name.to_string()),
            start_ms,
            end_ns.map(|ns| clock.ms(ns)),
            phase,
            category(call),
            tables.marker(call, stack, files),
        ]));
    }
    let mut samples = table(&["stack", "timeDeltas", "weight"], &samples);
    samples["weightType"] = json!("samples");
    json!({
        "processType": "default",
        "showMarkersInTimeline": false,
        "registerTime": clock.start_ms(thread.started_ns),
        "unregisterTime": thread.ended_ns.map(|ns| clock.ms(ns)),
        "pausedRanges": [],
        "samples": samples,
        "markers": table(&["name", "startTime", "endTime", "phase", "category", "data"], &markers),
    })
}

fn category(call: &TimedCall) -> usize {
    if call.call.spec().moves_data() {
        MOVES_DATA
    } else {
        OTHER_CALL
    }
}

/// The paths of these files, `in` or `in -> out`; of a file without a path what it is.
fn names_of_files(ends: Ends, files: &[File]) -> String {
    let name = |id: FileId| {
        let file = id.in_files(files)?;
        let mut names = [&file.path, &file.peer, &file.local].into_iter().flatten();
        let kind = || file.kind.map(|kind| format!("({})", kind.name()));
        names.next().cloned().or_else(kind)
    };
    let from = ends.input.and_then(|input| name(input.file()));
    let names = from.into_iter().chain(ends.output.and_then(name));
    names.collect::<Vec<_>>().join(" -> ")
}

/// A table of these columns; a row has a cell for each.
fn table<'a>(columns: &[&str], rows: impl IntoIterator<Item = &'a Value>) -> Value {
    let rows: Vec<&Value> = rows.into_iter().collect();
    let mut table = json!({"length": rows.len()});
    for (index, column) in columns.iter().enumerate() {
        table[*column] = rows.iter().map(|row| row[index].clone()).collect();
    }
    table
}

/// Ids that are used once each: one that comes again gets a number.
#[derive(Default)]
struct Ids(HashMap<u32, u32>);

impl Ids {
    fn unique(&mut self, id: u32) -> String {
        let uses = self.0.entry(id).or_default();
        *uses += 1;
        match *uses {
            1 => id.to_string(),
            uses => format!("{id}.{}", uses - 1),
        }
    }
}

/// The place of a value in a list that has each value once.
fn place<T: Eq + Hash>(list: &mut IndexSet<T>, value: T) -> usize {
    list.insert_full(value).0
}

/// The tables of a thread.
struct ProfileTables<'a, 'b> {
    libraries: &'b mut IndexSet<&'a str>,
    strings: IndexSet<String>,
    functions: IndexSet<Value>,
    resources: IndexSet<Value>,
    frames: IndexSet<Value>,
    stacks: IndexSet<Value>,
}

impl<'a, 'b> ProfileTables<'a, 'b> {
    fn new(libraries: &'b mut IndexSet<&'a str>) -> Self {
        Self {
            libraries,
            strings: IndexSet::default(),
            functions: IndexSet::default(),
            resources: IndexSet::default(),
            frames: IndexSet::default(),
            stacks: IndexSet::default(),
        }
    }

    /// The stack of a call, from the function that the thread began with to the call itself.
    fn stack_of(&mut self, call: &TimedCall, stacks: &'a [Stack]) -> usize {
        let mut below = None;
        let index = usize::try_from(call.stack.0).unwrap_or(usize::MAX);
        if let Some(stack) = stacks.get(index) {
            if let Some(why) = &stack.incomplete_because {
                below = Some(self.push_label(below, format!("[incomplete: {why}]"), CODE));
            }
            let mut inlined = 0;
            for frame in stack.frames.iter().rev() {
                inlined = if frame.inlined { inlined + 1 } else { 0 };
                below = Some(self.push_frame(below, frame, inlined));
            }
        }
        self.push_label(below, call.call.name.to_string(), category(call))
    }

    fn push_frame(&mut self, below: Option<usize>, frame: &'a Frame, inlined: u32) -> usize {
        let name = place(&mut self.strings, name_of_frame(frame));
        let file = frame.file.as_ref();
        let file = file.map(|file| place(&mut self.strings, file.clone()));
        let resource = frame.module.as_deref().map(|path| {
            let name = place(&mut self.strings, file_name(path).to_owned());
            let library = place(self.libraries, path);
            place(&mut self.resources, json!([library, name, null, LIBRARY]))
        });
        // -1: no resource.
        let resource = resource.map_or(json!(-1), |place| json!(place));
        let function = json!([name, file, resource, false, false, null, null]);
        self.push(below, function, (frame.line, inlined), CODE)
    }

    /// Adds what is no function.
    fn push_label(&mut self, below: Option<usize>, label: String, category: usize) -> usize {
        let name = place(&mut self.strings, label);
        let label = json!([name, null, -1, false, false, null, null]);
        self.push(below, label, (None, 0), category)
    }

    /// Adds a function, with its line and how many functions are inlined into each other, from the
    /// one that has code of its own to this one.
    fn push(
        &mut self,
        below: Option<usize>,
        function: Value,
        (line, inlined): (Option<u32>, u32),
        category: usize,
    ) -> usize {
        let function = place(&mut self.functions, function);
        let frame = json!([function, line, inlined, category, 0, -1, 0, null, null]);
        let frame = place(&mut self.frames, frame);
        place(&mut self.stacks, json!([below, frame]))
    }

    /// What a marker says of a call. Unknown bytes are `null`; a call that failed moved none.
    fn marker(&mut self, call: &TimedCall, stack: usize, files: &[File]) -> Value {
        let returns_bytes = call.call.spec().returned == Returned::Bytes;
        let moved = u64::try_from(call.result);
        let errno = call
            .result
            .checked_neg()
            .and_then(|no| u32::try_from(no).ok());
        let errno = errno.filter(|&errno| errno > 0);
        let mut text = |text: String| place(&mut self.strings, text);
        json!({
            "type": "Syscall",
            "bytes": returns_bytes.then(|| moved.unwrap_or(0)),
            "error": text(errno.map(errno::name).unwrap_or_default()),
            "files": text(names_of_files(call.ends, files)),
            "cause": {"stack": stack},
        })
    }

    fn write_to(self, thread: &mut Value) {
        thread["stackTable"] = table(&["prefix", "frame"], &self.stacks);
        thread["frameTable"] = table(&FRAME_COLUMNS, &self.frames);
        thread["funcTable"] = table(&FUNCTION_COLUMNS, &self.functions);
        thread["resourceTable"] = table(&["lib", "name", "host", "type"], &self.resources);
        thread["nativeSymbols"] =
            json!({"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []});
        thread["stringArray"] = json!(self.strings.iter().collect::<Vec<_>>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::{Options, sample},
        syscalls::Call,
        trace::StackId,
    };

    fn timed(call: &'static str, result: i64, entered_ns: u64) -> TimedCall {
        TimedCall {
            call: Call::native(call),
            ends: Ends::default(),
            stack: StackId(0),
            result,
            entered_ns: Some(entered_ns),
            duration_ns: (entered_ns < 6_000_000).then_some(500_000),
        }
    }

    #[test]
    fn times_count_from_the_first_thread_and_calls_are_in_order() {
        let mut trace = sample::of_threads(vec![vec![], vec![]]);
        trace.stacks = Some(vec![sample::stack("inlined copy@copy.rs:41 | main | ...")]);
        let [first, second] = trace.processes[0].threads.as_mut_slice() else {
            panic!("two threads")
        };
        (first.started_ns, first.ended_ns) = (Some(1_000_000), Some(9_000_000));
        second.started_ns = Some(1_500_000);
        second.timed_calls = vec![
            timed("write", 7, 4_000_000),
            timed("read", 0, 3_000_000),
            timed("write", -32, 5_000_000),
            timed("mmap", 0x7f00_0000_0000, 6_000_000),
        ];
        let report = Report::from_trace(&trace, &Options::default());
        let profile: Value = serde_json::from_str(&profile(&report, &trace)).expect("is JSON");
        let [first, second] = [0, 1].map(|index| &profile["threads"][index]);
        assert_eq!(first["unregisterTime"], 8.0);
        assert_eq!(
            (&second["registerTime"], &second["tid"]),
            (&json!(0.5), &json!("1235"))
        );
        let markers = &second["markers"];
        assert_eq!(markers["startTime"], json!([2.0, 3.0, 4.0, 5.0]));
        // The end of the last one is unknown.
        assert_eq!(markers["endTime"], json!([2.5, 3.5, 4.5, null]));
        assert_eq!(
            markers["phase"],
            json!([INTERVAL, INTERVAL, INTERVAL, INSTANT])
        );
        let category = json!([MOVES_DATA, MOVES_DATA, MOVES_DATA, OTHER_CALL]);
        assert_eq!(markers["category"], category);
        // One that failed moved nothing, and one that returns no number is unknown.
        let strings = &second["stringArray"];
        let said = [0, 1, 2, 3].map(|index| {
            let data = &markers["data"][index];
            let error = data["error"]
                .as_u64()
                .and_then(|place| usize::try_from(place).ok());
            (
                data["bytes"].as_u64(),
                strings[error.expect("a place")].as_str(),
            )
        });
        let expected = [
            (Some(0), Some("")),
            (Some(7), Some("")),
            (Some(0), Some("EPIPE")),
            (None, Some("")),
        ];
        assert_eq!(said, expected);
        // Why it is incomplete, main, copy, and each of the calls.
        let stacks =
            json!({"length": 6, "prefix": [null, 0, 1, 2, 2, 2], "frame": [0, 1, 2, 3, 4, 5]});
        assert_eq!(second["stackTable"], stacks);
        assert_eq!(second["samples"]["stack"], json!([3, 4, 4, 5]));
        assert_eq!(second["frameTable"]["func"], json!([0, 1, 2, 3, 4, 5]));
        assert_eq!(second["frameTable"]["line"][2], 41);
        let begins = strings
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        assert!(
            begins.clone().any(|text| text.starts_with("[incomplete: ")),
            "{strings}"
        );
    }
}
