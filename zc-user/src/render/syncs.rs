//! Which files were changed, and whether they were synced in order.

use super::{
    page::{Options, Style, TextLine, words},
    part::{DocumentPart, more, split},
    table::{STAYS, ShownTable},
    text::{self, known, plural},
};
use crate::{
    durable::{FileChange, FileSyncs, ProgramSyncs, SyncMoment, SyncSums, SyncVerdict, Syncs},
    report::Report,
    units::{self, UNKNOWN},
};

/// How many files are shown without `--all`.
const MAX_FILES: usize = 20;
/// How many programs are named.
const MAX_PROGRAMS: usize = 5;

const COLUMNS: [(&str, u8); 6] = [
    ("file", STAYS),
    ("verdict", STAYS),
    ("unsynced change", 4),
    ("before the end", 3),
    ("syncs", 2),
    ("not needed", 1),
];

/// The answer in one line: `syncs: 3 changed files, 1 synced in order, 2 not; 5 syncs took 12.0 ms`.
pub(super) fn line(report: &Report) -> TextLine {
    let Some(syncs) = &report.syncs else {
        return TextLine::new();
    };
    let style = if syncs.in_order == syncs.changed {
        Style::Plain
    } else {
        Style::Warning
    };
    let figures = format!("{}; {}", files(syncs), sums(&syncs.sums));
    words(&format!("syncs{}: {figures}", as_seen(report)), style)
}

/// Calls that are missing may be changes or syncs.
fn as_seen(report: &Report) -> &'static str {
    if report.exact { "" } else { ", as far as seen" }
}

/// `3 changed files, 1 synced in order, 1 not, 1 unknown`.
fn files(syncs: &Syncs) -> String {
    let not = syncs.changed - syncs.in_order.min(syncs.changed);
    let not = not.saturating_sub(syncs.unknown);
    let mut parts = vec![format!("{} synced in order", syncs.in_order)];
    if not > 0 {
        parts.push(format!("{not} not"));
    }
    if syncs.unknown > 0 {
        parts.push(format!("{} unknown", syncs.unknown));
    }
    match syncs.changed {
        0 if !syncs.doubts.is_empty() => "no change of a file seen".to_owned(),
        0 => "no file changed".to_owned(),
        count => {
            let changed = plural(count, "changed file", "changed files");
            format!("{changed}, {}", parts.join(", "))
        }
    }
}

/// `5 syncs took 12.0 ms, 2 of them not needed`.
fn sums(sums: &SyncSums) -> String {
    let took = sums.ns.filter(|_| sums.count > 0);
    let took = took.map(|ns| format!(" took {}", units::duration(ns)));
    let count = plural(sums.count, "sync", "syncs");
    let mut parts = vec![count + &took.unwrap_or_default()];
    for (count, what) in [(sums.wasted, "not needed"), (sums.failed, "failed")] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    parts.join(", ")
}

/// The files, those first that were not synced in order; and the syncs of each program.
pub(super) fn part(report: &Report, options: &Options) -> Option<DocumentPart> {
    let syncs = report.syncs.as_ref()?;
    let is_shown = |file: &&FileSyncs| file.changed || file.syncs.wasted > 0;
    let all: Vec<&FileSyncs> = syncs.files.iter().filter(is_shown).collect();
    let (shown, hidden) = split(&all, MAX_FILES, options);
    let heading = format!("SYNCS{}, {}", as_seen(report), files(syncs));
    let calls = hidden.iter().map(|file| file.syncs.count).sum();
    let figures = plural(calls, "sync", "syncs");
    let table = ShownTable::new(COLUMNS, shown.iter().map(|file| row(file)));
    let mut part =
        DocumentPart::listing(&heading, table, more(hidden, ["file", "files"], &figures));
    if all.is_empty() {
        part.table = None;
    }
    let sentences = shown.iter().filter_map(|file| reason(file));
    let sentences = sentences.chain(syncs.doubts.iter().map(|why| format!("unknown: {why}")));
    let sentences = sentences.chain(syncs.marks.iter().map(mark));
    let sentences = sentences.chain(programs(&syncs.programs));
    let lines = sentences.map(|sentence| words(&sentence, Style::Plain));
    part.remarks.extend(lines);
    Some(part)
}

fn row(file: &FileSyncs) -> Vec<String> {
    let path = match file.path.as_str() {
        "" => "all filesystems".to_owned(),
        path => text::escape(path),
    };
    let verdict = if file.changed {
        file.verdict.name()
    } else {
        "not changed"
    };
    let change = file.unsynced_change.as_ref();
    let age = change.and_then(|change| change.age_ns);
    let age = age.filter(|_| file.verdict != SyncVerdict::InOrder);
    vec![
        path,
        verdict.to_owned(),
        known(change, unsynced_change),
        known(age, units::duration),
        file.syncs.count.to_string(),
        file.syncs.wasted.to_string(),
    ]
}

/// `data/a: it was not synced after write`.
fn reason(file: &FileSyncs) -> Option<String> {
    let why = text::escape(file.why.as_deref()?);
    Some(format!("{}: {why}", text::escape(&file.path)))
}

/// `mark "commit", 3 times: all changed files were synced in order`.
fn mark(mark: &SyncMoment) -> String {
    let times = plural(mark.count, "time", "times");
    let count = mark.files.len() as u64 + mark.left_out;
    let what = match mark.files.first() {
        None => "all changed files were synced in order".to_owned(),
        Some(first) => {
            let files = plural(count, "file was", "files were");
            let why = format!(
                "{}: {}",
                text::escape(&first.path),
                text::escape(&first.why)
            );
            format!("{files} not synced in order, or it is unknown; {why}")
        }
    };
    format!("mark \"{}\", {times}: {what}", text::escape(&mark.name))
}

/// `write by dd`, with `--callers` `write by server in save`.
fn unsynced_change(change: &FileChange) -> String {
    let call = text::escape(&change.call);
    let program = change.program.as_deref().map(text::escape);
    let by = program.map_or(call.clone(), |program| format!("{call} by {program}"));
    match &*change.functions {
        [] => by,
        [only] => format!("{by} in {}", text::escape(only)),
        [first, others @ ..] => {
            let others = plural(others.len() as u64, "other", "others");
            format!("{by} in {} or {others}", text::escape(first))
        }
    }
}

/// `by program: python3 10 syncs took 12.0 ms, 2 not needed; dd 1 sync`.
fn programs(programs: &[ProgramSyncs]) -> Option<String> {
    let one = |program: &ProgramSyncs| {
        let name = match program.program.as_str() {
            "" => UNKNOWN.to_owned(),
            name => text::escape(name),
        };
        format!("{name}: {}", sums(&program.syncs))
    };
    let shown: Vec<String> = programs.iter().take(MAX_PROGRAMS).map(one).collect();
    let rest = programs.len().saturating_sub(MAX_PROGRAMS) as u64;
    let rest = match rest {
        0 => String::new(),
        rest => format!("; {}", plural(rest, "more program", "more programs")),
    };
    (!shown.is_empty()).then(|| format!("syncs by program: {}{rest}", shown.join("; ")))
}
