//! `zctrace report`: shows a saved JSON report, or makes a report from strace logs.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    os::{fd::AsFd as _, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, anyhow, ensure};
use zctrace::{
    backend::{
        Recorded,
        strace::{Log, LogError, read_logs, tid_of_file},
    },
    render::{self, Format},
    report::{Detail, Process, Report},
    trace::Trace,
};

use super::{Outputs, is_for_people, log_if, report_of, say_what_bencher_lacks, show};
use crate::{
    cli::{DisplayArgs, ReportArgs, nanoseconds},
    output::ReportOutput,
};

/// Shows a saved report or strace logs.
pub fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    ensure!(
        args.display.format != Format::Firefox,
        "a saved report lacks the times of sampled calls: run the command again with --callers=firefox"
    );
    let outputs = Outputs::open(&args.display, ReportOutput::Stdout)?;
    log_if(args.verbose)?;
    let mut reports = read_input(args)?;
    match (reports.pop(), reports.is_empty()) {
        (Some(report), true) => show(report, None, &args.display, &outputs)?,
        (last, _) => {
            reports.extend(last);
            show_series(&reports, args, &outputs)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows several reports together.
fn show_series(reports: &[Report], args: &ReportArgs, outputs: &Outputs) -> anyhow::Result<()> {
    let format = args.display.format;
    let reports: Vec<&Report> = reports.iter().collect();
    let text = render::render_series(&reports, format);
    let text = text.filter(|_| outputs.page.is_none()).context(
        "several reports need --format ndjson or bencher; for other formats, show one at a time",
    )?;
    say_what_bencher_lacks(&reports, format);
    outputs.report.write_once(&text)
}

/// Groups a saved report as `--by` asks, as far as it was saved with so much detail.
fn regroup(report: &mut Report, display: &DisplayArgs) -> anyhow::Result<()> {
    let has_threads = |process: &Process| process.threads < 2 || !process.by_thread.is_empty();
    match display.by {
        Some(Detail::Total) if is_for_people(display.format) => {}
        Some(Detail::Total) => {
            report.processes.clear();
            report.programs.clear();
        }
        Some(Detail::Thread) => ensure!(
            report.processes.iter().all(has_threads),
            "this report was saved without its threads: save it with --by thread"
        ),
        Some(Detail::Process) => ensure!(
            report.processes_left_out() == 0,
            "this report was saved without {} of its processes: save it with --by process",
            report.processes_left_out()
        ),
        Some(Detail::Program) | None => {}
    }
    Ok(())
}

/// Reads reports, or makes one of strace logs. The first character tells which of them it is.
fn read_input(args: &ReportArgs) -> anyhow::Result<Vec<Report>> {
    let paths = &args.inputs;
    read_stdin_once(paths)?;
    let mut readers = paths
        .iter()
        .map(|path| reader(path))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let json = readers
        .iter_mut()
        .map(is_json)
        .collect::<Result<Vec<_>, _>>()?;
    if json.iter().all(|is_json| *is_json) {
        let files = readers.iter_mut().zip(paths);
        return files
            .map(|(reader, path)| saved_report(reader, path, args))
            .collect();
    }
    ensure!(
        !json.contains(&true),
        "some of these files are logs of strace, others JSON reports; show them separately"
    );
    Ok(vec![report_of(
        &read_trace(readers, paths, args)?,
        &args.display,
    )])
}

/// Reads a JSON report, and shows it as the command line asks.
fn saved_report(
    reader: &mut BufReader<File>,
    path: &Path,
    args: &ReportArgs,
) -> anyhow::Result<Report> {
    ensure!(
        args.display.paths.is_empty(),
        "a saved report has sums over all paths: run the command again with -P"
    );
    let mut report = read_report(reader, path)?;
    ensure!(
        !args.syncs || report.syncs.is_some(),
        "{} was saved without the order of syncs: run the command again with --syncs",
        named(path)
    );
    ensure!(
        !args.touched || report.touched.is_some(),
        "{} was saved without the paths that were touched: run the command again with --paths",
        named(path)
    );
    ensure!(
        !args.fds || report.left_open.is_some(),
        "{} was saved without the descriptors that were left open: run the command again with --fds",
        named(path)
    );
    let limit_ns = report.slow_calls.as_ref().map(|slow| slow.slower_than_ns);
    let asked_ns = args.slower_than.map(nanoseconds);
    ensure!(
        asked_ns.is_none() || asked_ns == limit_ns,
        "{} was saved without the calls that took longer than that: run the command again with --slower-than",
        named(path)
    );
    report.sort(args.display.sort);
    report.labels.extend(args.display.label.iter().cloned());
    regroup(&mut report, &args.display)?;
    Ok(report)
}

/// Reads a JSON report to compare with another one.
pub fn open_report(path: &Path) -> anyhow::Result<Box<Report>> {
    let report = read_report(&mut reader(path)?, path)?;
    ensure!(
        report.paths.is_empty(),
        "{} has only the calls on some paths: save a report without -P",
        named(path)
    );
    Ok(Box::new(report))
}

/// Refuses to read stdin twice.
pub(super) fn read_stdin_once<P: AsRef<Path>>(paths: &[P]) -> anyhow::Result<()> {
    let count = paths.iter().filter(|path| is_stdin(path.as_ref())).count();
    ensure!(count <= 1, "stdin can be read only once; give '-' once");
    Ok(())
}

/// Refuses to count a log twice.
fn refuse_same_file_twice(paths: &[PathBuf]) -> anyhow::Result<()> {
    let mut seen = HashSet::new();
    for path in paths {
        let file = path.metadata().map(|file| (file.dev(), file.ino()));
        let is_new = file.map_or(true, |file| seen.insert(file));
        ensure!(is_new, "{} is given twice", named(path));
    }
    Ok(())
}

/// Whether the path stands for stdin. A file of that name is `./-`.
fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// The path in messages.
fn named(path: &Path) -> String {
    if is_stdin(path) {
        "stdin".to_owned()
    } else {
        format!("'{}'", path.display())
    }
}

fn reader(path: &Path) -> anyhow::Result<BufReader<File>> {
    let file = if is_stdin(path) {
        io::stdin().as_fd().try_clone_to_owned().map(File::from)
    } else {
        File::open(path)
    };
    let file = file.with_context(|| format!("cannot open {}", named(path)))?;
    ensure!(
        !file.metadata()?.is_dir(),
        "cannot read {}: it is a directory",
        named(path)
    );
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mark = byte_order_mark(reader.fill_buf()?).with_context(|| {
        let name = named(path);
        format!("{name} is in UTF-16: iconv -f UTF-16 -t UTF-8 {name} | zctrace report -")
    })?;
    reader.consume(mark);
    Ok(reader)
}

/// How many bytes of this beginning of a file are a byte order mark. `None`: it is in UTF-16, with a
/// mark or without.
fn byte_order_mark(beginning: &[u8]) -> Option<usize> {
    match beginning {
        [0xfe, 0xff, ..] | [0xff, 0xfe, ..] | [0, 1..=0xff, ..] | [1..=0xff, 0, ..] => None,
        [0xef, 0xbb, 0xbf, ..] => Some(3),
        _ => Some(0),
    }
}

fn is_json(reader: &mut BufReader<File>) -> io::Result<bool> {
    Ok(reader
        .fill_buf()?
        .iter()
        .find(|byte| !byte.is_ascii_whitespace())
        == Some(&b'{'))
}

fn read_report(reader: &mut BufReader<File>, path: &Path) -> anyhow::Result<Report> {
    let mut bytes = Vec::new();
    let cannot_read = || format!("cannot read {}", named(path));
    reader.read_to_end(&mut bytes).with_context(cannot_read)?;
    let text =
        String::from_utf8(bytes).map_err(|_| anyhow!("it is not a report of zctrace: not text"));
    let text = text.with_context(cannot_read)?;
    Report::from_json(&text).with_context(cannot_read)
}

fn read_trace(
    readers: Vec<BufReader<File>>,
    paths: &[PathBuf],
    args: &ReportArgs,
) -> anyhow::Result<Trace> {
    refuse_same_file_twice(paths)?;
    let is_one_of_many = paths.len() > 1;
    let logs = readers
        .into_iter()
        .zip(paths)
        .map(|(reader, path)| Log {
            reader,
            tid: is_one_of_many
                .then(|| tid_of_file(&path.to_string_lossy()))
                .flatten(),
        })
        .collect();
    let mut show = |line: &str| log::warn!(target: "zctrace::strace", "cannot parse: {line}");
    let recorded = Recorded::default()
        .with_paths(!args.display.paths.is_empty())
        .with_syncs(args.syncs)
        .with_sizes(args.display.histogram)
        .with_descriptors(args.fds)
        .with_touches(args.touched)
        .with_slower_than(args.slower_than.map(nanoseconds));
    let read = read_logs(logs, &args.syscalls, recorded, &mut show);
    read.map_err(|error| match error {
        error if is_one_of_many => error.into(),
        LogError::Compressed(command) => {
            let path = paths[0].display();
            anyhow!("the log is compressed: {command} '{path}' | zctrace report -")
        }
        error => anyhow::Error::new(error).context(format!("cannot read {}", named(&paths[0]))),
    })
}
