//! What a trace has, as text for snapshots and golden files.

use crate::{
    syscalls::Abi,
    trace::{Ends, FailedPath, File, FileId, FileKind, Input, Process, Row, Trace},
};

/// All that is in a trace, and the lines of the log that were not understood.
pub(super) fn summary(trace: &Trace, unparsed: &[String]) -> String {
    let started = optional(trace.started_at.is_some().then_some("known"));
    let mut lines = vec![
        format!("command {:?}", trace.command),
        format!("started {started}"),
        format!("wall {}", optional(trace.wall_ns)),
        format!("exit {:?}", trace.exit),
    ];
    let losses = trace.losses.iter();
    lines.extend(losses.map(|(loss, count)| format!("lost {} {count}", loss.name())));
    lines.extend(trace.notes.iter().map(|note| format!("note {note}")));
    lines.extend(unparsed.iter().map(|line| format!("unparsed {line:?}")));
    let files = trace.files.iter();
    lines.extend(files.map(|file| format!("file {}", describe_file(file))));
    let failed = trace.failed_paths.iter();
    let paths = failed.flat_map(|failed| {
        assert_eq!(failed.left_out, 0);
        &failed.calls
    });
    let paths = paths.map(|(path, calls)| (describe_path(path), calls.calls));
    lines.extend(paths.map(|(path, calls)| format!("{path} calls {calls}")));
    for process in &trace.processes {
        add_process(process, &trace.files, &mut lines);
    }
    lines.join("\n")
}

fn add_process(process: &Process, files: &[File], lines: &mut Vec<String>) {
    let Process { pid, state, .. } = process;
    let (creator, exe) = (optional(process.ppid), optional(process.exe.as_ref()));
    let comm = optional(process.comm.as_ref());
    let earlier = match process.earlier.as_slice() {
        [] => String::new(),
        earlier => format!(" after {earlier:?}"),
    };
    lines.push(String::new());
    lines.push(format!(
        "process {pid} of {creator} comm {comm} {state:?}{earlier}"
    ));
    lines.push(format!("  exe {exe} command {:?}", process.command));
    for thread in &process.threads {
        lines.push(format!("  thread {}", thread.tid));
        let rows = thread.rows.iter();
        lines.extend(rows.map(|row| format!("    {}", describe_row(row, files))));
    }
}

fn describe_path(failed: &FailedPath) -> String {
    let FailedPath { call, errno, paths } = failed;
    let shown = paths.each_ref().map(|path| {
        let Some(path) = path else {
            return "?".to_owned();
        };
        let cut = if path.is_cut { " (cut)" } else { "" };
        let below = ["", " below a descriptor"][usize::from(path.is_below_descriptor)];
        format!("{:?}{cut}{below}", path.text)
    });
    let [path, second] = shown;
    let second = Some(second).filter(|second| second != "?");
    let second = second.map(|second| format!(" and {second}"));
    format!(
        "failed {} errno {errno} path {path}{}",
        call.name,
        second.unwrap_or_default()
    )
}

pub(super) fn describe_file(file: &File) -> String {
    let device = file.identity.map_or(0, |identity| identity.device);
    assert_eq!((file.size_bytes, device), (None, 0), "a log has neither");
    let number = |inode: u64| inode.to_string();
    let parts = [
        ("on", file.filesystem.clone()),
        ("path", file.path.clone()),
        (
            "inode",
            file.identity.map(|identity| number(identity.inode)),
        ),
        ("peer", file.peer_inode.map(number)),
        ("local", file.local.clone()),
        ("peer", file.peer.clone()),
    ];
    let known = parts
        .into_iter()
        .filter_map(|(name, value)| Some(format!(" {name} {}", value?.escape_debug())));
    optional(file.kind.map(FileKind::name)) + &known.collect::<String>()
}

/// A short name of a file.
fn name(id: FileId, files: &[File]) -> String {
    let file = &files[usize::try_from(id.0).expect("fits")];
    let kind = optional(file.kind.map(FileKind::name));
    let path = file.path.as_deref();
    path.map(|path| path.escape_debug().to_string())
        .or_else(|| Some(format!("{kind}:{}", file.identity?.inode)))
        .or_else(|| file.local.clone())
        .unwrap_or(kind)
}

fn describe_ends(ends: Ends, files: &[File]) -> String {
    let input = match ends.input {
        None => String::new(),
        Some(Input::Named(file)) => format!(" from {}", name(file, files)),
        Some(Input::Sequence(file)) => format!(" after {}", name(file, files)),
        Some(_) => panic!("a log does not show this"),
    };
    let output = ends.output.map(|file| format!(" to {}", name(file, files)));
    input + &output.unwrap_or_default()
}

fn describe_row(row: &Row, files: &[File]) -> String {
    let (call, calls) = (&row.call, row.calls);
    let ends = describe_ends(row.ends, files);
    let abi = recorded_as(call.abi);
    let mut words = vec![format!("{} {abi}{ends} calls {calls}", call.name)];
    if row.errors > 0 {
        words.push(format!("errors {} {:?}", row.errors, row.errnos));
    }
    if row.unfinished > 0 {
        words.push(format!("unfinished {}", row.unfinished));
    }
    let (bytes, requested) = (optional(row.bytes), optional(row.requested_bytes));
    words.push(format!("bytes {bytes} requested {requested}"));
    let is_paired = matches!(row.ends.input, Some(Input::Sequence(_)));
    let counts = [
        ("paired", if is_paired { row.sourced.bytes } else { 0 }),
        ("zero", row.zero_calls),
        ("short", row.short_calls),
    ];
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    words.extend(counts.map(|(name, count)| format!("{name} {count}")));
    if let Some(times) = &row.times {
        assert_eq!(times.histogram.count(), row.calls, "every call was timed");
        let (total, min, max) = (optional(row.total_ns), times.min_ns, times.max_ns);
        words.push(format!("ns {total} {min}..{max}"));
    }
    words.join(" ")
}

/// All logs were recorded on `x86_64`, but on another machine its own tables stand for those of the
/// log.
pub(super) fn recorded_as(abi: Abi) -> &'static str {
    match abi {
        Abi::NATIVE => Abi::X86_64.name(),
        Abi::COMPAT => Abi::I386.name(),
        other => other.name(),
    }
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| value.to_string())
}
