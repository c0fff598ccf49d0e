//! What was saved: JSON reports and strace logs.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use zctrace::{
    backend::strace::{Log, read_logs, tid_of_file},
    report::{Report, SCHEMA},
    syscall::Selection,
    trace::Trace,
};

/// What a saved file holds.
pub enum Saved {
    /// A report.
    Report(Box<Report>),
    /// The trace of a log.
    Trace(Box<Trace>),
}

/// Opens a report, or reads a log: which of them it is, the first character tells.
pub fn open(paths: &[PathBuf], selection: &Selection) -> anyhow::Result<Saved> {
    let mut readers = paths.iter().map(|path| reader(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let json = readers.iter_mut().map(is_json).collect::<Result<Vec<_>, _>>()?;
    match (json.as_slice(), readers.as_mut_slice()) {
        ([true], [reader]) => read_report(reader, &paths[0]).map(|report| Saved::Report(Box::new(report))),
        _ if json.contains(&true) => {
            bail!("several files at a time must be the logs of one `strace -ff`; reports are shown one by one")
        }
        _ => read_trace(readers, paths, selection).map(|trace| Saved::Trace(Box::new(trace))),
    }
}

/// Opens a report, and nothing else.
pub fn open_report(path: &Path) -> anyhow::Result<Box<Report>> {
    read_report(&mut reader(path)?, path).map(Box::new)
}

fn reader(path: &Path) -> anyhow::Result<BufReader<File>> {
    let file = File::open(path).with_context(|| format!("cannot open '{}'", path.display()))?;
    ensure!(!file.metadata()?.is_dir(), "cannot read '{}': it is a directory", path.display());
    Ok(BufReader::with_capacity(1 << 16, file))
}

fn is_json(reader: &mut BufReader<File>) -> std::io::Result<bool> {
    Ok(reader.fill_buf()?.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{'))
}

fn read_report(reader: &mut BufReader<File>, path: &Path) -> anyhow::Result<Report> {
    /// The one field that tells whether the others can be understood.
    #[derive(serde::Deserialize)]
    struct Head {
        schema: u32,
    }
    let mut text = String::new();
    reader.read_to_string(&mut text).with_context(|| format!("cannot read '{}'", path.display()))?;
    let no_report = || format!("'{}' is no report of zctrace", path.display());
    let Head { schema } = serde_json::from_str(&text).with_context(no_report)?;
    ensure!(schema == SCHEMA, "'{}' has schema {schema}, this zctrace reads schema {SCHEMA}", path.display());
    let report: Report = serde_json::from_str(&text).with_context(no_report)?;
    Ok(report.brought_up_to_date())
}

fn read_trace(readers: Vec<BufReader<File>>, paths: &[PathBuf], selection: &Selection) -> anyhow::Result<Trace> {
    let is_one_of_many = paths.len() > 1;
    let logs = readers
        .into_iter()
        .zip(paths)
        .map(|(reader, path)| Log { reader, tid: is_one_of_many.then(|| tid_of_file(&path.to_string_lossy())).flatten() })
        .collect();
    let mut show = |line: &str| log::warn!(target: "zctrace::strace", "not understood: {line}");
    let trace = read_logs(logs, selection, &mut show).context("cannot read the log")?;
    ensure!(!trace.processes.is_empty(), "'{}' holds no line of strace", paths[0].display());
    Ok(trace)
}
