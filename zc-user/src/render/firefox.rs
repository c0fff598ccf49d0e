//! A profile for the Firefox Profiler (<https://profiler.firefox.com>): each sampled call as a
//! sample with its stack, and as a marker with its time, its bytes and its files.
//!
//! The format is that of version 55 of firefox-devtools/profiler, `src/types/profile.js`: a thread
//! has tables, a table has columns, and what a cell names is a place in another table.

use std::{collections::HashMap, hash::Hash, time::UNIX_EPOCH};

use indexmap::IndexSet;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    callers::name_of_frame,
    part::sum_of_calls,
    text::{file_name, plural},
};
use crate::{
    report::{Frame, Report, Stack, TimedCall, TimedThread},
    trace::Loss,
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
/// The phases of a marker.
const INSTANT: u32 = 0;
const INTERVAL: u32 = 1;

/// The profile, in JSON.
pub(super) fn profile(report: &Report) -> String {
    let timeline = report.timeline.as_ref();
    let threads = timeline.map_or([].as_slice(), |timeline| &timeline.threads);
    let stacks = report.stacks.as_deref().unwrap_or_default();
    let (mut pids, mut tids) = (Ids::default(), Ids::default());
    let mut libraries = IndexSet::default();
    let mut shown = Vec::new();
    for process in threads.chunk_by(|_, next| !next.is_first) {
        let pid = pids.unique(process[0].pid);
        let ends: Option<Vec<u64>> = process.iter().map(|thread| thread.ended_ns).collect();
        let ended_ns = ends.and_then(|ends| ends.into_iter().max());
        for thread in process {
            let mut shown_thread = show_thread(thread, stacks, &mut libraries);
            shown_thread["pid"] = json!(pid);
            shown_thread["tid"] = json!(tids.unique(thread.tid));
            shown_thread["processStartupTime"] = json!(ms(process[0].started_ns.unwrap_or(0)));
            shown_thread["processShutdownTime"] = json!(ended_ns.map(ms));
            shown.push(shown_thread);
        }
    }
    let samples = threads.iter().map(|thread| thread.calls.len()).sum();
    let profile = json!({
        "meta": meta(report, samples),
        "libs": column(&libraries, |path| library(path)),
        "threads": shown,
        "pages": [],
        "counters": [],
        "profilerOverhead": [],
    });
    format!("{profile}\n")
}

/// What the profile is about, and how its markers are shown.
fn meta(report: &Report, samples: usize) -> Value {
    let started_at = report
        .timeline
        .as_ref()
        .and_then(|timeline| timeline.started_at?.duration_since(UNIX_EPOCH).ok())
        .unwrap_or_default();
    let program = report.command.first();
    let program = program.map_or("command", |path| file_name(path));
    let kernel = report.kernel.as_deref().unwrap_or_default();
    let entries = about(report, samples);
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
        "categories": column(&CATEGORIES, |(name, color)| {
            json!({"name": name, "color": color, "subcategories": ["Other"]})
        }),
        "extra": [{"label": "System calls", "entries": column(&entries, |(label, value)| {
            json!({"label": label, "format": "string", "value": value})
        })}],
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

/// What the profile's information panel shows: labels and values.
fn about(report: &Report, samples: usize) -> Vec<(&'static str, String)> {
    let calls = sum_of_calls(&report.totals.syscalls);
    let share = format!(
        "{} of {}: {WHAT_IS_SAMPLED}",
        plural(samples as u64, "call", "calls"),
        plural(calls, "counted call", "counted calls")
    );
    let tool = format!("{} {}", report.tool.name, report.tool.version);
    let mut about = vec![
        ("Recorded by", tool),
        ("Command", report.command.join(" ")),
        ("Samples", share),
    ];
    about.extend(report.notes.iter().map(|note| ("Note", note.clone())));
    for (name, &count) in &report.losses {
        about.push(("Loss", Loss::explain_named(name, count)));
    }
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

/// A thread with its tables. What it says of its process is added later.
fn show_thread<'a>(
    thread: &'a TimedThread,
    stacks: &'a [Stack],
    libraries: &mut IndexSet<&'a str>,
) -> Value {
    let mut tables = Tables::new(libraries);
    let calls = &thread.calls;
    let stack_of_each = column(calls, |call| tables.stack_of(call, stacks));
    let name_of_each = column(calls, |call| {
        place(&mut tables.strings, call.syscall.to_string())
    });
    let data: Vec<Value> = calls
        .iter()
        .zip(&stack_of_each)
        .map(|(call, stack)| tables.marker(call, *stack))
        .collect();
    let process = thread.process.clone();
    let process = process.unwrap_or_else(|| thread.pid.to_string());
    let start = |call: &TimedCall| ms(call.at_ns.unwrap_or(0));
    let mut last = 0.0;
    let time_deltas = column(calls, |call| {
        start(call) - std::mem::replace(&mut last, start(call))
    });
    let mut shown = json!({
        "name": thread.name.as_ref().unwrap_or(&process),
        "processName": process,
        "processType": "default",
        "isMainThread": thread.is_first,
        "showMarkersInTimeline": false,
        "registerTime": ms(thread.started_ns.unwrap_or(0)),
        "unregisterTime": thread.ended_ns.map(ms),
        "pausedRanges": [],
        "samples": {
            "length": calls.len(),
            "stack": stack_of_each,
            "timeDeltas": time_deltas,
            "weight": vec![1; calls.len()],
            "weightType": "samples",
        },
        "markers": {
            "length": calls.len(),
            "name": name_of_each,
            "startTime": column(calls, start),
            "endTime": column(calls, |call| {
                call.duration_ns.map(|ns| ms(call.at_ns.unwrap_or(0).saturating_add(ns)))
            }),
            "phase": column(calls, |call| {
                if call.duration_ns.is_some() { INTERVAL } else { INSTANT }
            }),
            "category": column(calls, category),
            "data": data,
        },
    });
    tables.write_to(&mut shown);
    shown
}

fn category(call: &TimedCall) -> usize {
    if call.moves_data {
        MOVES_DATA
    } else {
        OTHER_CALL
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "no trace takes 2^53 ns, 104 days"
)]
fn ms(ns: u64) -> f64 {
    ns as f64 / 1_000_000.0
}

/// A column of a table.
fn column<'a, T: 'a, V: Serialize>(
    rows: impl IntoIterator<Item = &'a T>,
    cell: impl FnMut(&T) -> V,
) -> Vec<V> {
    rows.into_iter().map(cell).collect()
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

/// A function: the places of its name, of its source file, and of its library.
#[derive(PartialEq, Eq, Hash)]
struct FunctionRow {
    name: usize,
    file: Option<usize>,
    resource: Option<usize>,
}

/// A place in a function.
#[derive(PartialEq, Eq, Hash)]
struct FrameRow {
    function: usize,
    line: Option<u32>,
    /// How many functions are inlined into each other, from the one that has code of its own to
    /// this one.
    inlined: u32,
    category: usize,
}

/// The tables of a thread.
struct Tables<'a, 'b> {
    libraries: &'b mut IndexSet<&'a str>,
    strings: IndexSet<String>,
    functions: IndexSet<FunctionRow>,
    /// The place of a library, and that of its name.
    resources: IndexSet<(usize, usize)>,
    frames: IndexSet<FrameRow>,
    /// The stack below the frame, and the frame.
    stacks: IndexSet<(Option<usize>, usize)>,
}

impl<'a, 'b> Tables<'a, 'b> {
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
        if let Some(stack) = stacks.get(call.stack) {
            if let Some(why) = &stack.incomplete_because {
                below = Some(self.push_label(below, format!("[incomplete: {why}]"), CODE));
            }
            let mut inlined = 0;
            for frame in stack.frames.iter().rev() {
                inlined = if frame.inlined { inlined + 1 } else { 0 };
                below = Some(self.push_frame(below, frame, inlined));
            }
        }
        self.push_label(below, call.syscall.to_string(), category(call))
    }

    fn push_frame(&mut self, below: Option<usize>, frame: &'a Frame, inlined: u32) -> usize {
        let name = place(&mut self.strings, name_of_frame(frame));
        let file = frame.file.as_ref();
        let file = file.map(|file| place(&mut self.strings, file.clone()));
        let resource = frame.module.as_deref().map(|path| {
            let name = place(&mut self.strings, file_name(path).to_owned());
            place(&mut self.resources, (place(self.libraries, path), name))
        });
        let function = FunctionRow {
            name,
            file,
            resource,
        };
        self.push(below, function, (frame.line, inlined), CODE)
    }

    /// Adds what is no function.
    fn push_label(&mut self, below: Option<usize>, label: String, category: usize) -> usize {
        let label = FunctionRow {
            name: place(&mut self.strings, label),
            file: None,
            resource: None,
        };
        self.push(below, label, (None, 0), category)
    }

    /// Adds a function, with its line and how deep it is inlined.
    fn push(
        &mut self,
        below: Option<usize>,
        function: FunctionRow,
        (line, inlined): (Option<u32>, u32),
        category: usize,
    ) -> usize {
        let frame = FrameRow {
            function: place(&mut self.functions, function),
            line,
            inlined,
            category,
        };
        let frame = place(&mut self.frames, frame);
        place(&mut self.stacks, (below, frame))
    }

    /// What a marker says of a call. Unknown bytes are `null`.
    fn marker(&mut self, call: &TimedCall, stack: usize) -> Value {
        let mut text =
            |text: &Option<String>| place(&mut self.strings, text.clone().unwrap_or_default());
        json!({
            "type": "Syscall",
            "bytes": call.bytes,
            "error": text(&call.error),
            "files": text(&call.files),
            "cause": {"stack": stack},
        })
    }

    fn write_to(self, thread: &mut Value) {
        let (functions, resources) = (&self.functions, &self.resources);
        let (frames, stacks) = (&self.frames, &self.stacks);
        thread["stackTable"] = json!({
            "length": stacks.len(),
            "prefix": column(stacks, |(below, _)| *below),
            "frame": column(stacks, |(_, frame)| *frame),
        });
        thread["frameTable"] = json!({
            "length": frames.len(),
            "func": column(frames, |frame| frame.function),
            "line": column(frames, |frame| frame.line),
            "inlineDepth": column(frames, |frame| frame.inlined),
            "category": column(frames, |frame| frame.category),
            "subcategory": vec![0; frames.len()],
            "address": vec![-1; frames.len()],
            "innerWindowID": vec![0; frames.len()],
            "nativeSymbol": vec![Value::Null; frames.len()],
            "column": vec![Value::Null; frames.len()],
        });
        thread["funcTable"] = json!({
            "length": functions.len(),
            "name": column(functions, |function| function.name),
            "fileName": column(functions, |function| function.file),
            // -1: no resource.
            "resource": column(functions, |function| {
                function.resource.map_or(json!(-1), |place| json!(place))
            }),
            "isJS": vec![false; functions.len()],
            "relevantForJS": vec![false; functions.len()],
            "lineNumber": vec![Value::Null; functions.len()],
            "columnNumber": vec![Value::Null; functions.len()],
        });
        thread["resourceTable"] = json!({
            "length": resources.len(),
            "lib": column(resources, |(library, _)| *library),
            "name": column(resources, |(_, name)| *name),
            "host": vec![Value::Null; resources.len()],
            "type": vec![LIBRARY; resources.len()],
        });
        thread["nativeSymbols"] =
            json!({"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []});
        thread["stringArray"] = json!(column(&self.strings, String::clone));
    }
}
