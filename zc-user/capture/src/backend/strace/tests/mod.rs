//! Tests of the whole parser with real, made-up and damaged logs.

mod files;
mod properties;
mod rules;

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use super::{Collector, Log, read_log, read_logs, tid_of_file};
use crate::{
    backend::Until,
    syscall::{Abi, Selection},
    trace::{Ends, File, FileId, FileKind, Input, Loss, Process, Row, Trace},
};

/// The directory of the real logs.
fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/strace")
}

/// The real logs, in the order of their names: files, and directories of the files of `-ff`.
fn logs() -> Vec<PathBuf> {
    let entries = fs::read_dir(corpus())
        .expect("the corpus is there")
        .map(|entry| entry.expect("can be listed").path());
    let is_log = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "log" || extension == "ff")
    };
    let mut logs: Vec<PathBuf> = entries.filter(is_log).collect();
    logs.sort();
    assert!(logs.len() > 30, "the corpus is complete");
    logs
}

/// The files of a log, with their thread ids.
fn files(log: &Path) -> Vec<Log<&'static [u8]>> {
    let open = |path: &Path, tid| Log {
        reader: &*fs::read(path).expect("can be read").leak(),
        tid,
    };
    if log.is_file() {
        return vec![open(log, None)];
    }
    let mut paths: Vec<PathBuf> = fs::read_dir(log)
        .expect("can be listed")
        .map(|entry| entry.expect("can be listed").path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| open(path, tid_of_file(&path.to_string_lossy())))
        .collect()
}

/// Reads a log; also returns the lines that were not understood.
fn read(log: &Path) -> (Trace, Vec<String>) {
    let mut unparsed = Vec::new();
    let trace = read_logs(files(log), &Selection::All, &mut |line| {
        unparsed.push(line.to_owned())
    })
    .expect("memory can be read");
    (trace, unparsed)
}

/// Reads a made-up log.
fn read_text(text: &str) -> Trace {
    read_until(text, Until::AllEnd)
}

fn read_until(text: &str, until: Until) -> Trace {
    let mut ignore = |_: &str| {};
    let mut collector = Collector::new(&Selection::All, until, &mut ignore);
    read_log(
        Log {
            reader: text.as_bytes(),
            tid: None,
        },
        &mut collector,
    )
    .expect("memory can be read");
    collector.finish()
}

/// All rows of a trace.
fn rows(trace: &Trace) -> impl Iterator<Item = &Row> {
    trace
        .processes
        .iter()
        .flat_map(|process| &process.threads)
        .flat_map(|thread| &thread.rows)
}

/// The only row of this call.
fn row<'a>(trace: &'a Trace, name: &str) -> &'a Row {
    let mut named = rows(trace).filter(|row| row.call.name == name);
    let row = named
        .next()
        .unwrap_or_else(|| panic!("no row of {name} in {trace:?}"));
    assert!(named.next().is_none(), "one row of {name}");
    row
}

/// How many of this loss there are.
fn lost(trace: &Trace, loss: Loss) -> u64 {
    trace.losses.get(&loss).copied().unwrap_or(0)
}

#[test]
fn real_logs_are_read_as_the_snapshots_say() {
    for log in logs() {
        let (trace, unparsed) = read(&log);
        let name = log.file_stem().expect("has a name").to_string_lossy();
        // Beside the log.
        insta::with_settings!({ snapshot_path => corpus(), prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name.as_ref(), summary(&trace, &unparsed));
        });
    }
}

fn summary(trace: &Trace, unparsed: &[String]) -> String {
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes all");
    line(format!("command {:?}", trace.command));
    line(format!(
        "started {}",
        optional(trace.started_at.is_some().then_some("known"))
    ));
    line(format!("wall {}", optional(trace.wall_ns)));
    line(format!("exit {:?}", trace.exit));
    for (loss, count) in &trace.losses {
        line(format!("lost {} {count}", loss.name()));
    }
    for note in &trace.notes {
        line(format!("note {note}"));
    }
    for unparsed in unparsed {
        line(format!("unparsed {unparsed:?}"));
    }
    for file in &trace.files {
        line(format!("file {}", describe_file(file)));
    }
    for process in &trace.processes {
        add_process(process, &trace.files, &mut line);
    }
    text
}

fn add_process(process: &Process, files: &[File], line: &mut impl FnMut(String)) {
    let Process {
        pid,
        ppid,
        comm,
        exe,
        command,
        state,
        ..
    } = process;
    line(String::new());
    line(format!(
        "process {pid} of {} comm {} {state:?}",
        optional(*ppid),
        optional(comm.as_ref())
    ));
    line(format!(
        "  exe {} command {command:?}",
        optional(exe.as_ref())
    ));
    for thread in &process.threads {
        line(format!("  thread {}", thread.tid));
        thread
            .rows
            .iter()
            .for_each(|row| line(format!("    {}", describe(row, files))));
    }
}

fn describe_file(file: &File) -> String {
    let File {
        kind,
        identity,
        filesystem,
        path,
        size_bytes,
        local,
        peer,
        peer_inode,
    } = file;
    assert_eq!(
        (*size_bytes, identity.map_or(0, |identity| identity.device)),
        (None, 0),
        "a log has neither"
    );
    let mut text = optional(kind.map(FileKind::name));
    let inodes = [identity.map(|identity| identity.inode), *peer_inode]
        .map(|inode| inode.map(|inode| inode.to_string()));
    let [inode, peer_inode] = &inodes;
    let parts = [
        ("on", filesystem),
        ("path", path),
        ("inode", inode),
        ("peer", peer_inode),
        ("local", local),
        ("peer", peer),
    ];
    for (name, value) in parts
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_ref()?)))
    {
        write!(text, " {name} {}", value.escape_debug()).expect("a string takes all");
    }
    text
}

/// A short name of a file.
fn name(id: FileId, files: &[File]) -> String {
    let file = &files[usize::try_from(id.0).expect("fits")];
    let inode = || {
        file.identity.map(|identity| {
            format!(
                "{}:{}",
                optional(file.kind.map(FileKind::name)),
                identity.inode
            )
        })
    };
    file.path
        .as_deref()
        .map(|path| path.escape_debug().to_string())
        .or_else(inode)
        .or_else(|| file.local.clone())
        .unwrap_or_else(|| optional(file.kind.map(FileKind::name)))
}

fn describe_ends(ends: Ends, files: &[File]) -> String {
    let input = match ends.input {
        None => String::new(),
        Some(Input::Named(file)) => format!(" from {}", name(file, files)),
        Some(Input::Sequence(file)) => format!(" after {}", name(file, files)),
        Some(_) => panic!("a log does not show this"),
    };
    input
        + &ends
            .output
            .map_or_else(String::new, |file| format!(" to {}", name(file, files)))
}

fn describe(row: &Row, files: &[File]) -> String {
    let Row {
        call,
        ends,
        calls,
        errnos,
        errors,
        unfinished,
        bytes,
        requested_bytes,
        times,
        ..
    } = row;
    let Row {
        input_bytes,
        zero_calls,
        short_calls,
        ..
    } = row;
    let is_paired = matches!(ends.input, Some(Input::Sequence(_)));
    let paired_bytes = if is_paired { *input_bytes } else { 0 };
    let mut text = format!(
        "{} {}{} calls {calls}",
        call.name,
        recorded_as(call.abi),
        describe_ends(*ends, files)
    );
    if *errors > 0 {
        write!(text, " errors {errors} {errnos:?}").expect("a string takes all");
    }
    if *unfinished > 0 {
        write!(text, " unfinished {unfinished}").expect("a string takes all");
    }
    write!(
        text,
        " bytes {} requested {}",
        optional(*bytes),
        optional(*requested_bytes)
    )
    .expect("a string takes all");
    for (name, count) in [
        ("paired", &paired_bytes),
        ("zero", zero_calls),
        ("short", short_calls),
    ] {
        if *count > 0 {
            write!(text, " {name} {count}").expect("a string takes all");
        }
    }
    if let Some(times) = times {
        assert_eq!(times.histogram.count(), *calls, "every call was timed");
        write!(
            text,
            " ns {} {}..{}",
            times.total_ns, times.min_ns, times.max_ns
        )
        .expect("a string takes all");
    }
    text
}

/// All logs were recorded on `x86_64`, but on another machine its own tables stand for those of the
/// log.
fn recorded_as(abi: Abi) -> &'static str {
    match abi {
        Abi::NATIVE => Abi::X86_64.name(),
        Abi::COMPAT => Abi::I386.name(),
        other => other.name(),
    }
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "?".to_owned(), |value| value.to_string())
}

/// Calls and errors.
type Counts = BTreeMap<String, (u64, u64)>;

#[test]
fn the_sums_are_those_of_the_table_that_strace_prints() {
    let mut compared = 0;
    for log in logs().iter().filter(|log| log.is_file()) {
        let text = String::from_utf8_lossy(&fs::read(log).expect("can be read")).into_owned();
        let table = table(&text);
        if table.is_empty() {
            continue;
        }
        let mut sums = Counts::new();
        for row in rows(&read(log).0).filter(|row| row.calls > 0) {
            let name = row.call.name.split('(').next().unwrap_or_default();
            let sum = sums.entry(name.to_owned()).or_default();
            *sum = (sum.0 + row.calls, sum.1 + row.errors);
        }
        assert_eq!(sums, table, "{}", log.display());
        compared += 1;
    }
    assert!(compared >= 3, "the corpus has tables");
}

/// `% time     seconds  usecs/call     calls    errors syscall`
fn table(text: &str) -> Counts {
    let lines = text.lines().skip_while(|line| !line.starts_with("% time"));
    lines
        .filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let (name, numbers) = columns.split_last()?;
            let calls = numbers.get(3)?.parse().ok()?;
            let errors = numbers
                .get(4)
                .map_or(Some(0), |errors| errors.parse().ok())?;
            (*name != "total").then(|| ((*name).to_owned(), (calls, errors)))
        })
        .collect()
}
