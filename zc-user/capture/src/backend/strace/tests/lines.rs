//! What single lines, arguments and names of files are read as.

use super::{
    GoldenCase, check_golden,
    summary::{describe_file, recorded_as},
};
use crate::{
    backend::strace::{
        args::{Args, NamedDescriptor},
        decode::{
            ArgEnd, child_kind, ends_of_arguments, first_bytes, given_path, ioctl_variant,
            peeks_and_truncates, program, requested_bytes,
        },
        file_name::{self, Devices, ParsedName},
        line::{CallOutcome, Ending, Event, Line, Prefix},
    },
    errno,
    syscalls::{CallEffect, Spec, Variants},
};

#[test]
fn lines_are_read_as_the_golden_file_says() {
    check_golden("rules/lines.txt", GoldenCase::Line, |line| {
        let Line { prefix, event } = Line::parse(line.trim_end_matches('\n').as_bytes());
        format!("{}{}", describe_prefix(&prefix), describe_event(&event))
    });
}

fn describe_prefix(prefix: &Prefix<'_>) -> String {
    let tid = prefix.tid.map(|tid| format!("tid {tid}, "));
    let comm = prefix.comm.map(|comm| format!("name {}, ", text(comm)));
    let stamp = prefix.stamp.map(|stamp| {
        let precision = if stamp.has_fraction {
            ""
        } else {
            " in whole s"
        };
        format!("{:?} {} ns{precision}, ", stamp.clock, stamp.ns)
    });
    [tid, comm, stamp].into_iter().flatten().collect()
}

fn describe_event(event: &Event<'_>) -> String {
    match event {
        Event::Call(call) => {
            let (name, args) = (text(call.name), text(call.args));
            let becomes = call.renamed_to.map(|to| format!(" becomes {to}"));
            let becomes = becomes.unwrap_or_default();
            match (call.begins, &call.outcome) {
                (true, Some(outcome)) => {
                    format!("call {name} [{args}] {}", describe_outcome(outcome))
                }
                (false, Some(outcome)) => {
                    format!("resumed {name} [{args}] {}", describe_outcome(outcome))
                }
                (true, None) => format!("unfinished {name} [{args}]{becomes}"),
                (false, None) => format!("still unfinished {name} [{args}]"),
            }
        }
        Event::Cut {
            name,
            length,
            attached,
        } => format!(
            "cut {} after {length} bytes, attached {attached:?}",
            text(name)
        ),
        Event::Mode { tid, abi } => format!("calls of {tid} are {}", recorded_as(*abi)),
        Event::Signal(None) => "Signal".to_owned(),
        other => format!("{other:?}"),
    }
}

fn describe_outcome(outcome: &CallOutcome<'_>) -> String {
    let result = match outcome.ending {
        Ending::Error(Some(errno)) => format!("error {}", errno::name(errno)),
        other => format!("{other:?}"),
    };
    let duration = outcome.duration_ns.map(|ns| format!(" in {ns} ns"));
    let descriptor = NamedDescriptor::leading(outcome.descriptor)
        .map(|descriptor| format!(" opened {}", describe_descriptor(descriptor)));
    format!(
        "{result}{}{}",
        duration.unwrap_or_default(),
        descriptor.unwrap_or_default()
    )
}

fn describe_descriptor(descriptor: NamedDescriptor<'_>) -> String {
    let NamedDescriptor {
        number,
        text: all,
        name,
    } = descriptor;
    assert!(text(all).contains(text(name)));
    format!("{number} {}", text(name))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("is a piece of a str")
}

#[test]
fn arguments_are_read_as_the_golden_file_says() {
    check_golden("rules/arguments.txt", GoldenCase::Line, |line| {
        let (name, rest) = line.split_once('(').expect("is a call");
        let args = rest.trim_end().strip_suffix(')').expect("is a call");
        describe_args(name, args.as_bytes()).join(", ")
    });
}

/// What the arguments of a call say, as far as they say anything.
fn describe_args(name: &str, args: &[u8]) -> Vec<String> {
    let mut spec = Spec::named(name);
    let mut found = Vec::new();
    if let Some(variant) = ioctl_variant(args).filter(|_| spec.variants == Variants::Command) {
        spec = Spec::named(variant);
        found.push(variant.to_owned());
    }
    let split = Args::new(args);
    let size = requested_bytes(&split, &spec);
    found.push(size.map_or("size unknown".to_owned(), |size| format!("size {size}")));
    let (from, to) = ends_of_arguments(&split, spec.fds);
    let end = |way: &str, end: Option<ArgEnd<'_>>| match end? {
        ArgEnd::Named(descriptor) => Some(format!("{way} {}", describe_descriptor(descriptor))),
        ArgEnd::Number(number) => Some(format!("{way} {number}")),
    };
    found.extend(end("from", from));
    found.extend(end("to", to));
    let first = first_bytes(&split, &spec, 20);
    if !first.is_empty() {
        found.push(format!("first {}", first.escape_ascii()));
    }
    let [peeks, truncates] = peeks_and_truncates(&split, &spec);
    found.extend(peeks.then(|| "only a length".to_owned()));
    found.extend(truncates.then(|| "perhaps discarded".to_owned()));
    if spec.effect == CallEffect::CreatesTask {
        found.push(format!("creates {:?}", child_kind(args)));
    }
    if spec.effect == CallEffect::Executes {
        found.push(format!("{:?}", program(args)));
    }
    let path = spec
        .path
        .and_then(|path| given_path(&split, path, &spec, false));
    found.extend(path.map(|path| format!("{path:?}")));
    found
}

#[test]
fn names_of_files_are_read_as_the_golden_file_says() {
    check_golden("rules/names.txt", GoldenCase::Line, |name| {
        let ParsedName {
            file,
            path,
            is_deleted,
        } = file_name::parse(name.trim_end_matches('\n').as_bytes(), Devices::default());
        let path = path.map(|path| format!(", at {}", path.escape_ascii()));
        let deleted = if is_deleted { ", deleted" } else { "" };
        describe_file(&file) + &path.unwrap_or_default() + deleted
    });
}
