//! A profile for the Firefox Profiler (<https://profiler.firefox.com>): each sampled call as a
//! sample with its stack, and as a marker with its time, its bytes and its files.

mod complete;

use std::time::{SystemTime, UNIX_EPOCH};

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CategoryPairHandle, CpuDelta, Frame as ProfileFrame, FrameFlags,
    FrameInfo, MarkerFieldFlags, MarkerFieldFormat, MarkerTiming, ProcessHandle, Profile,
    ReferenceTimestamp, SamplingInterval, StaticSchemaMarker, StaticSchemaMarkerField,
    StringHandle, ThreadHandle, Timestamp,
};

use super::{callers::name_of_frame, section::plural};
use crate::report::{Report, Stack, TimedCall, TimedThread};
use complete::Details;

/// What profiles say of the samples.
const WHAT_IS_SAMPLED: &str = "calls 1, 2, 4, 8, ... of each thread, call and files, or every call with --callers=all. Nothing is \
    extrapolated: the calls in between are not in this profile.";

/// The profile, in JSON.
pub(super) fn profile(report: &Report) -> String {
    let mut writer = Writer::new(report);
    let threads = report
        .timeline
        .as_ref()
        .map(|timeline| timeline.threads.as_slice())
        .unwrap_or_default();
    let mut at = 0;
    while let Some(first) = threads.get(at) {
        let of_process = threads[at + 1..]
            .iter()
            .take_while(|thread| !thread.is_first)
            .count()
            + 1;
        writer.add_process(first, &threads[at..at + of_process]);
        at += of_process;
    }
    let mut text = complete::json(
        &writer.profile,
        &writer.details,
        &about(report, writer.samples),
    );
    text.push('\n');
    text
}

/// What the profile's information panel shows: labels and values.
fn about(report: &Report, samples: u64) -> Vec<(&'static str, String)> {
    let calls: u64 = report
        .totals
        .syscalls
        .iter()
        .map(|syscall| syscall.calls)
        .sum();
    let share = format!(
        "{} of {}: {WHAT_IS_SAMPLED}",
        plural(samples, "call", "calls"),
        plural(calls, "counted call", "counted calls")
    );
    let losses = report
        .losses
        .iter()
        .map(|(name, count)| ("Loss", format!("{name}: {count}")));
    [
        (
            "Recorded by",
            format!("{} {}", report.tool.name, report.tool.version),
        ),
        ("Command", report.command.join(" ")),
        ("Samples", share),
    ]
    .into_iter()
    .chain(report.notes.iter().map(|note| ("Note", note.clone())))
    .chain(losses)
    .collect()
}

/// What is written so far.
struct Writer<'a> {
    profile: Profile,
    stacks: &'a [Stack],
    details: Details,
    code: CategoryHandle,
    moves_data: CategoryHandle,
    other_calls: CategoryHandle,
    samples: u64,
}

impl<'a> Writer<'a> {
    fn new(report: &'a Report) -> Self {
        let started_at = report
            .timeline
            .as_ref()
            .and_then(|timeline| timeline.started_at)
            .unwrap_or(UNIX_EPOCH);
        let program = report
            .command
            .first()
            .map_or("command", |word| word.rsplit('/').next().unwrap_or(word));
        let product = format!("{program}, sampled system calls");
        let mut profile = Profile::new(
            &product,
            reference(started_at),
            SamplingInterval::from_millis(1),
        );
        profile.set_symbolicated(true);
        profile.set_os_name(&format!(
            "Linux {}",
            report.kernel.as_deref().unwrap_or_default()
        ));
        Self {
            code: profile.add_category("Code", CategoryColor::Yellow),
            moves_data: profile.add_category("Calls that move data", CategoryColor::Green),
            other_calls: profile.add_category("Other calls", CategoryColor::Orange),
            stacks: report.stacks.as_deref().unwrap_or_default(),
            details: Details::default(),
            samples: 0,
            profile,
        }
    }

    /// Adds a process with its threads.
    fn add_process(&mut self, first: &TimedThread, threads: &[TimedThread]) {
        let name = first
            .process
            .clone()
            .unwrap_or_else(|| first.pid.to_string());
        let process = self
            .profile
            .add_process(&name, first.pid, since_start(first.started_ns));
        if let Some(ended) = threads
            .iter()
            .map(|thread| thread.ended_ns)
            .collect::<Option<Vec<_>>>()
        {
            self.profile
                .set_process_end_time(process, since_start(ended.into_iter().max()));
        }
        for thread in threads {
            self.add_thread(process, thread);
        }
    }

    fn add_thread(&mut self, process: ProcessHandle, of: &TimedThread) {
        let thread =
            self.profile
                .add_thread(process, of.tid, since_start(of.started_ns), of.is_first);
        if let Some(name) = &of.name {
            self.profile.set_thread_name(thread, name);
        }
        if of.ended_ns.is_some() {
            self.profile
                .set_thread_end_time(thread, since_start(of.ended_ns));
        }
        for call in &of.calls {
            self.add_call(thread, call);
        }
    }

    /// Adds a call as a sample and as a marker.
    fn add_call(&mut self, thread: ThreadHandle, call: &TimedCall) {
        let category = if call.moves_data {
            self.moves_data
        } else {
            self.other_calls
        };
        let frames = self.frames(call, category);
        let stack = self.profile.intern_stack_frames(thread, frames.into_iter());
        let at = since_start(call.at_ns);
        self.profile
            .add_sample(thread, at, stack, CpuDelta::ZERO, 1);
        let timing = match call.duration_ns {
            Some(ns) => {
                MarkerTiming::Interval(at, since_start(call.at_ns.map(|at| at.saturating_add(ns))))
            }
            None => MarkerTiming::Instant(at),
        };
        let mut text = |text: Option<&str>| self.profile.intern_string(text.unwrap_or_default());
        let (name, error, files) = (
            text(Some(&call.syscall)),
            text(call.error.as_deref()),
            text(call.files.as_deref()),
        );
        let bytes = call.bytes.map_or(f64::NAN, |bytes| as_number(Some(bytes)));
        let marker = self.profile.add_marker(
            thread,
            timing,
            CallMarker {
                name,
                category,
                bytes,
                error,
                files,
            },
        );
        self.profile.set_marker_stack(thread, marker, stack);
        self.samples += 1;
    }

    /// The frames of a call, from the function that the thread began with to the call itself.
    fn frames(&mut self, call: &TimedCall, category: CategoryHandle) -> Vec<FrameInfo> {
        let mut labels = Vec::new();
        let stacks = self.stacks;
        if let Some(stack) = stacks.get(call.stack) {
            labels.extend(
                stack
                    .incomplete_because
                    .as_ref()
                    .map(|why| self.details.label(format!("[incomplete: {why}]"))),
            );
            let mut inlined = 0;
            let labels_of_frames = stack.frames.iter().rev().map(|frame| {
                inlined = if frame.inlined { inlined + 1 } else { 0 };
                self.details.frame(name_of_frame(frame), frame, inlined)
            });
            labels.extend(labels_of_frames);
        }
        let code: CategoryPairHandle = self.code.into();
        let mut with_category: Vec<_> = labels.into_iter().map(|label| (label, code)).collect();
        with_category.push((
            self.details.label(call.syscall.clone().into_owned()),
            category.into(),
        ));
        let frame = |(label, category_pair): (String, CategoryPairHandle)| FrameInfo {
            frame: ProfileFrame::Label(self.profile.intern_string(&label)),
            category_pair,
            flags: FrameFlags::empty(),
        };
        with_category.into_iter().map(frame).collect()
    }
}

fn reference(time: SystemTime) -> ReferenceTimestamp {
    ReferenceTimestamp::from_duration_since_unix_epoch(
        time.duration_since(UNIX_EPOCH).unwrap_or_default(),
    )
}

fn since_start(ns: Option<u64>) -> Timestamp {
    Timestamp::from_nanos_since_reference(ns.unwrap_or(0))
}

/// As JSON's numbers are; 0 if it is unknown.
#[expect(
    clippy::cast_precision_loss,
    reason = "no call moves 2^53 bytes or takes as many ns"
)]
fn as_number(value: Option<u64>) -> f64 {
    value.unwrap_or(0) as f64
}

/// A call as a marker.
struct CallMarker {
    name: StringHandle,
    category: CategoryHandle,
    /// `NaN`, which JSON shows as `null`: unknown.
    bytes: f64,
    error: StringHandle,
    files: StringHandle,
}

impl StaticSchemaMarker for CallMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "Syscall";
    const DESCRIPTION: Option<&'static str> =
        Some("A sampled system call, from its entry to its return");
    const TABLE_LABEL: Option<&'static str> =
        Some("{marker.data.bytes} {marker.data.error} {marker.data.files}");
    const TOOLTIP_LABEL: Option<&'static str> = Some("{marker.name}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[
        StaticSchemaMarkerField {
            key: "bytes",
            label: "Bytes moved",
            format: MarkerFieldFormat::Bytes,
            flags: MarkerFieldFlags::empty(),
        },
        StaticSchemaMarkerField {
            key: "error",
            label: "Error",
            format: MarkerFieldFormat::String,
            flags: MarkerFieldFlags::SEARCHABLE,
        },
        StaticSchemaMarkerField {
            key: "files",
            label: "Files",
            format: MarkerFieldFormat::String,
            flags: MarkerFieldFlags::SEARCHABLE,
        },
    ];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, field_index: u32) -> StringHandle {
        if field_index == 1 {
            self.error
        } else {
            self.files
        }
    }

    fn number_field_value(&self, _field_index: u32) -> f64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use zctrace_core::report::sample;

    use super::*;
    use crate::report::{self, Frame, Timeline};

    /// A report of one process with two threads. The second one made these calls.
    fn report(calls: Vec<TimedCall>) -> Report {
        let mut report = Report::from_trace(&sample::copier(), &report::Options::default());
        let frame = |function: &str, line, inlined| Frame {
            function: Some(function.into()),
            file: Some("src/run.rs".into()),
            line: Some(line),
            inlined,
            module: Some("/bin/copier".into()),
            ..Frame::default()
        };
        let frames = vec![
            frame("write_all", 9, true),
            frame("run", 41, false),
            frame("main", 7, false),
        ];
        let incomplete = vec![Frame {
            address: 0x1234,
            ..Frame::default()
        }];
        report.stacks = Some(vec![
            Stack {
                frames,
                complete: true,
                incomplete_because: None,
            },
            Stack {
                frames: incomplete,
                complete: false,
                incomplete_because: Some("it is deep".into()),
            },
        ]);
        let first = TimedThread {
            pid: 7,
            tid: 7,
            is_first: true,
            started_ns: Some(0),
            ..TimedThread::default()
        };
        let second = TimedThread {
            tid: 8,
            is_first: false,
            started_ns: Some(500_000),
            name: Some("worker".into()),
            calls,
            ..first.clone()
        };
        report.timeline = Some(Timeline {
            started_at: Some(UNIX_EPOCH),
            threads: vec![first, second],
        });
        report
    }

    fn call(syscall: &'static str, stack: usize, bytes: Option<u64>) -> TimedCall {
        let (error, files) = (None, Some("in -> out".into()));
        let (at_ns, duration_ns) = (Some(1_000_000), Some(2_500));
        TimedCall {
            syscall: syscall.into(),
            moves_data: bytes.is_some(),
            stack,
            bytes,
            error,
            files,
            at_ns,
            duration_ns,
        }
    }

    fn written(report: &Report) -> Value {
        let text = profile(report);
        assert!(text.ends_with("}\n"));
        serde_json::from_str(&text).expect("it is JSON")
    }

    /// The name of each function of the only sample, from the call, with its line and how deep it
    /// is inlined.
    fn frames(thread: &Value) -> Vec<(String, Option<u64>, u64)> {
        let at = |value: &Value| usize::try_from(value.as_u64().expect("a place")).expect("small");
        let (stacks, frames) = (&thread["stackTable"], &thread["frameTable"]);
        let frame = |stack: usize| {
            let frame = at(&stacks["frame"][stack]);
            let name = at(&thread["funcTable"]["name"][at(&frames["func"][frame])]);
            let text = thread["stringArray"][name].as_str().expect("a string");
            (
                text.to_owned(),
                frames["line"][frame].as_u64(),
                frames["inlineDepth"][frame].as_u64().expect("a number"),
            )
        };
        let prefix = |stack: &usize| {
            stacks["prefix"][*stack]
                .as_u64()
                .and_then(|place| usize::try_from(place).ok())
        };
        std::iter::successors(Some(at(&thread["samples"]["stack"][0])), prefix)
            .map(frame)
            .collect()
    }

    #[test]
    fn a_sample_has_its_functions_with_lines_and_the_call_as_its_leaf() {
        let profile = written(&report(vec![call("write", 0, Some(8192))]));
        let thread = &profile["threads"][1];
        assert_eq!(
            (
                thread["name"].as_str(),
                thread["pid"].as_str(),
                thread["tid"].as_str()
            ),
            (Some("worker"), Some("7"), Some("8"))
        );
        let expected = [
            ("write", None, 0),
            ("write_all", Some(9), 1),
            ("run", Some(41), 0),
            ("main", Some(7), 0),
        ];
        assert_eq!(
            frames(thread),
            expected.map(|(name, line, depth)| (name.to_owned(), line, depth))
        );
        assert_eq!(profile["libs"][0]["path"], "/bin/copier");
        assert_eq!(profile["threads"][0]["samples"]["length"], 0);
    }

    #[test]
    fn an_incomplete_stack_says_why_where_functions_are_missing() {
        let profile = written(&report(vec![call("write", 1, None)]));
        let frames = frames(&profile["threads"][1]);
        let names: Vec<&str> = frames.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["write", "0x1234", "[incomplete: it is deep]"]);
    }

    #[test]
    fn a_sample_weighs_one() {
        let profile = written(&report(vec![call("write", 0, Some(1 << 40))]));
        let samples = &profile["threads"][1]["samples"];
        assert_eq!(
            (samples["weightType"].as_str(), &samples["weight"][0]),
            (Some("samples"), &serde_json::json!(1))
        );
    }

    #[test]
    fn unknown_bytes_are_null_in_the_marker() {
        let profile = written(&report(vec![call("mmap", 0, None)]));
        let thread = &profile["threads"][1];
        let markers = &thread["markers"];
        assert_eq!(markers["data"][0]["bytes"], Value::Null);
        assert_eq!(
            (
                markers["startTime"][0].as_f64(),
                markers["endTime"][0].as_f64()
            ),
            (Some(1.0), Some(1.0025))
        );
    }

    #[test]
    fn without_samples_the_profile_is_empty() {
        let empty = Report {
            timeline: None,
            ..report(Vec::new())
        };
        assert_eq!(written(&empty)["threads"], serde_json::json!([]));
    }
}
