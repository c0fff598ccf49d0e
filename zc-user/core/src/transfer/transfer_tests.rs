//! The analysis as a whole, on made-up traces: golden files with cases for each group of rules.
//! What is observed by call and buffer, and that every byte has one source, is also checked by the
//! random programs of `zc-tests`, which know every address.

use super::*;
use crate::{
    ends::End,
    golden::{GoldenCase, check_golden, known_text},
    report::sample::files::{Scene, scene},
    units::UNKNOWN,
};

/// Checks a golden file. A case is what [`Scene::read`] takes.
#[track_caller]
fn check_scenes(file: &str, describe: fn(&Scene) -> Vec<String>) {
    check_golden(
        format!("transfer/tests/{file}"),
        GoldenCase::Lines,
        |case| {
            let lines = describe(&Scene::read(case));
            if lines.is_empty() {
                "nothing".to_owned()
            } else {
                lines.join("\n")
            }
        },
    );
}

#[test]
fn transfers_are_found_as_the_golden_files_say() {
    for file in ["calls", "memory", "totals", "pipes", "chains"] {
        check_scenes(&format!("{file}.txt"), transfer_lines);
    }
}

#[test]
fn what_is_in_no_transfer_is_told_as_the_golden_file_says() {
    check_scenes("rest.txt", rest_lines);
}

#[test]
fn reasons_and_hints_are_given_as_the_golden_files_say() {
    check_scenes("reasons.txt", reason_lines);
    check_scenes("hints.txt", hint_lines);
}

/// All transfers, each with its place, its figures and its verdict.
fn transfer_lines(scene: &Scene) -> Vec<String> {
    let report = scene.report();
    let mut lines = Vec::new();
    for (place, one) in report.transfers.iter().enumerate() {
        let short = short_line(one);
        let (evidence, certainty) = (one.evidence.name(), one.certainty.name());
        let observed = match (one.certainty, one.observed_bytes) {
            (Certainty::Inferred, Some(observed @ 1..)) => format!(" ({observed} observed)"),
            _ => String::new(),
        };
        lines.push(format!(
            "{place}: {short}, {evidence}, {certainty}{observed}"
        ));
        lines.push(format!("  {}", figures_text(one)));
        lines.push(format!("  {}", one.verdict));
        let within = report.processes.iter();
        let within = within.filter(|process| process.transfers.contains(&place));
        let within: Vec<u32> = within.map(|process| process.pid).collect();
        if one.crosses_processes() {
            lines.push(format!("  by {:?}", one.pids));
        } else {
            assert_eq!(within, one.pids);
        }
        if !one.part_of.is_empty() {
            lines.push(format!("  by {within:?}, part of {:?}", one.part_of));
        }
        for hop in &one.hops {
            let ends = end_names([&hop.from, &hop.to]);
            let (api, bytes, evidence) =
                (hop.api.name(), known_text(hop.bytes), hop.evidence.name());
            lines.push(format!(
                "  by {}: {ends} {api} {bytes}, {evidence}",
                hop.pid
            ));
        }
    }
    lines
}

/// `in -> out sendfile 100`.
fn short_line(transfer: &Transfer) -> String {
    let ends = end_names([&transfer.from, &transfer.to]);
    let (api, bytes) = (transfer.api.name(), known_text(transfer.bytes));
    format!("{ends} {api} {bytes}")
}

fn end_names(ends: [&End; 2]) -> String {
    let name = |end: &End| end.path.clone().or(end.kind.clone());
    ends.map(|end| name(end).unwrap_or_default()).join(" -> ")
}

fn figures_text(one: &Transfer) -> String {
    let by_name = one.calls_by_syscall.iter();
    let by_name: Vec<String> = by_name
        .map(|(name, calls)| format!("{name} {calls}"))
        .collect();
    let [calls, crossings, mean] = [one.calls, one.crossings, one.mean_bytes].map(known_text);
    let [memory, ns] = [one.user_memory_bytes, one.total_ns].map(known_text);
    format!(
        "calls {calls} ({}), of 0 bytes {}, crossings {crossings}, mean {mean}, user memory {memory}, ns {ns}",
        by_name.join(", "),
        one.zero_calls
    )
}

/// What each process wrote and read of what is in transfers, and what of the rest.
fn rest_lines(scene: &Scene) -> Vec<String> {
    let report = scene.report();
    let mut lines = Vec::new();
    for process in &report.processes {
        for one in &process.destinations {
            lines.push(format!(
                "{} has {} bytes in {} calls from transfers, {} in {} from memory",
                end_name(one.file.as_ref()),
                one.transferred_bytes,
                one.transferred_calls,
                known_text(one.own_memory_bytes),
                one.own_memory_calls
            ));
            for buffers in &one.buffers {
                lines.push(format!(
                    "  from buffers of {}: same {}, changed {}, other use {}, not compared {}, in {} calls",
                    end_name(Some(&buffers.from)),
                    buffers.same_bytes,
                    buffers.changed_bytes,
                    buffers.other_use_bytes,
                    buffers.uncompared_bytes,
                    buffers.calls
                ));
            }
        }
        for one in &process.sources {
            let name = end_name(one.file.as_ref());
            let [read, kept] = [one.read_bytes, one.kept_bytes].map(known_text);
            lines.push(format!("of {name} {read} bytes were read, {kept} kept"));
        }
    }
    lines
}

fn end_name(end: Option<&End>) -> &str {
    end.and_then(End::name).unwrap_or(UNKNOWN)
}

/// The verdicts, each with the one on an unknown program that does the same, if that differs.
fn reason_lines(scene: &Scene) -> Vec<String> {
    let found = analyse_trace(&scene.trace).transfers;
    let mut unknown = scene.clone();
    for process in &mut unknown.trace.processes {
        (process.comm, process.exe) = (Some("unknown".into()), None);
        process.toolchain = None;
    }
    let of_unknown = analyse_trace(&unknown.trace).transfers;
    let mut lines = Vec::new();
    for (one, of_unknown) in found.iter().zip(&of_unknown) {
        let mut reasons = one.reason.iter();
        assert!(reasons.all(|reason| !reason.source.is_empty()), "{one:?}");
        lines.push(one.verdict.clone());
        if one.verdict != of_unknown.verdict {
            lines.push(format!("  of an unknown program: {}", of_unknown.verdict));
        }
    }
    lines
}

fn hint_lines(scene: &Scene) -> Vec<String> {
    let found = analyse_trace(&scene.trace).transfers;
    let hints = found.into_iter().map(|one| one.hint);
    hints
        .map(|hint| hint.unwrap_or("no hint".to_owned()))
        .collect()
}

/// Processes that write what they read to two pipes, which the next process joins again, in so many
/// layers.
fn scene_of_layers(layers: usize) -> Scene {
    let mut scene = scene("first: read in 1 9000, write in>pipe0 1 9000");
    let mut bytes = 9000_u64;
    for layer in 0..layers {
        let (one, other, next) = (1000 + 2 * layer, 1001 + 2 * layer, layer + 1);
        scene.run(&format!(
            "divide: read pipe{layer} 1 {bytes}, write pipe{layer}>pipe{one} 1 {bytes}, \
             write pipe{layer}>pipe{other} 1 {bytes}; \
             join: read pipe{one} 1 {bytes}, read pipe{other} 1 {bytes}, \
             write pipe{one}>pipe{next} 1 {bytes}, write pipe{other}>pipe{next} 1 {bytes}"
        ));
        bytes *= 2;
    }
    scene.run(&format!(
        "last: read pipe{layers} 1 {bytes}, write pipe{layers}>out 1 {bytes}"
    ));
    scene
}

#[test]
fn of_paths_that_double_with_each_layer_only_some_are_chains() {
    for (count, paths, has_more) in [
        (0, 1, false),
        (3, 8, false),
        (8, 256, false),
        (40, 256, true),
    ] {
        let found = analyse_trace(&scene_of_layers(count).trace);
        let chains = found.transfers.iter().filter(|one| one.crosses_processes());
        assert_eq!(chains.clone().count(), paths, "{count} layers");
        assert!(chains.clone().all(|chain| chain.bytes == Some(9000)));
        assert_eq!(found.lacks_chains, has_more, "{count} layers");
    }
}

#[test]
fn it_is_known_whether_memory_was_seen() {
    let mut trace = crate::report::sample::copier();
    assert!(sees_memory(&trace));
    trace.counted = Some("write".parse().expect("a call"));
    assert!(!sees_memory(&trace), "reads were not counted");
    trace.counted = None;
    assert!(!sees_memory(&trace), "nobody knows");
}
