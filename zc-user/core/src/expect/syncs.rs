//! Figures of syncs, and of files that were not synced in order.

use super::{
    ast::SyncPoint,
    facts::{MeasuredFigure, partial_sum, shorten_lines, why_inexact},
    known::{Amount, KnownFigure},
    pattern::{Glob, Match},
};
use crate::{
    durable::{FileSyncs, SyncSums, SyncVerdict, Syncs},
    figures::list::FigureField,
    report::Report,
    text::plural,
};

/// Why nothing is known.
const NOT_RECORDED: &str =
    "the report does not say what was synced: run the command again with --syncs";

/// Reads a figure of the syncs of these files.
pub(super) fn measure_syncs(field: FigureField, glob: &Glob, report: &Report) -> MeasuredFigure {
    let Some(syncs) = &report.syncs else {
        return MeasuredFigure::unknown_because(NOT_RECORDED);
    };
    let (mut figures, mut facts, mut unsure) = (Vec::new(), Vec::new(), 0);
    for file in syncs.files.iter().filter(|file| file.syncs.count > 0) {
        match glob.matches_path(&file.path) {
            Match::Yes => {
                figures.push(figure_of_syncs(field, &file.syncs));
                facts.push(fact_of_syncs(file));
            }
            Match::Maybe => unsure += 1,
            Match::No => {}
        }
    }
    let (sum, is_all) = partial_sum(figures.into_iter());
    let open = why_open(syncs, report);
    // What was not seen may have been a change, so that a sync was needed.
    let may_be_needed = field == FigureField::Wasted && open.is_some();
    let low = if may_be_needed { 0 } else { sum };
    let reason = open
        .or((!is_all).then_some("the times of some syncs are unknown".to_owned()))
        .or((unsure > 0).then_some(why_unsure(glob, unsure)));
    MeasuredFigure {
        known: KnownFigure::Between(low.into(), reason.is_none().then_some(sum.into())),
        facts: shorten_lines(facts),
        reason,
    }
}

fn figure_of_syncs(field: FigureField, sums: &SyncSums) -> Option<u64> {
    match field {
        FigureField::Wasted => Some(sums.wasted),
        FigureField::Failed => Some(sums.failed),
        FigureField::SyncNs => sums.ns,
        _ => Some(sums.count),
    }
}

fn fact_of_syncs(file: &FileSyncs) -> String {
    let count = plural(file.syncs.count, "sync", "syncs");
    let (wasted, failed) = (file.syncs.wasted, file.syncs.failed);
    format!(
        "{}: {count}, {wasted} not needed, {failed} failed",
        file.path
    )
}

/// Those files that were not synced in order, or of which that is unknown; `Err`: why they are unknown.
fn open_files<'a>(syncs: &'a Syncs, point: &SyncPoint) -> Result<Vec<UnsyncedFile<'a>>, String> {
    let (moments, name, why_none) = match point {
        SyncPoint::End => return Ok(open_at_end(syncs)),
        SyncPoint::Mark(name) => {
            let why = format!("the program made no mark \"{name}\"");
            (&syncs.marks, name.as_str(), why)
        }
        SyncPoint::Told(to) => {
            let why = format!("the program wrote nothing to {to}");
            (&syncs.told, *to, why)
        }
    };
    match moments.iter().find(|moment| moment.name == name) {
        None => Err(why_none),
        Some(moment) if moment.left_out > 0 => Err("not all files were kept".to_owned()),
        Some(moment) => {
            let files = moment.files.iter();
            let files = files.map(|file| (file.path.as_str(), file.verdict, file.why.as_str()));
            Ok(files.collect())
        }
    }
}

fn open_at_end(syncs: &Syncs) -> Vec<UnsyncedFile<'_>> {
    let mut open = Vec::new();
    for file in &syncs.files {
        if file.changed && file.verdict != SyncVerdict::InOrder {
            let why = file.why.as_deref().unwrap_or_default();
            open.push((file.path.as_str(), file.verdict, why));
        }
    }
    open
}

/// A path, the verdict on it and the reason.
type UnsyncedFile<'a> = (&'a str, SyncVerdict, &'a str);

/// How many of these files were changed and not synced in order.
pub(super) fn measure_unsynced(glob: &Glob, point: &SyncPoint, report: &Report) -> MeasuredFigure {
    let Some(syncs) = &report.syncs else {
        return MeasuredFigure::unknown_because(NOT_RECORDED);
    };
    let files = match open_files(syncs, point) {
        Ok(files) => files,
        Err(why) => return MeasuredFigure::unknown_because(why),
    };
    let (mut counts, mut facts) = ([0, 0], Vec::new());
    for (path, verdict, why) in files {
        let matched = glob.matches_path(path);
        if matched != Match::No {
            let is_certain = verdict != SyncVerdict::Unknown && matched == Match::Yes;
            counts[usize::from(!is_certain)] += 1;
            facts.push(format!("{path}: {}: {why}", verdict.name()));
        }
    }
    let open = why_open(syncs, report);
    if open.is_some() {
        // A sync may have followed that was not seen.
        counts[0] = 0;
    }
    let why_unsure = format!("of {} it is unknown", plural(counts[1], "file", "files"));
    MeasuredFigure::count_of_things(counts, open, why_unsure, facts)
}

/// Why more may have been changed and synced than the report has.
fn why_open(syncs: &Syncs, report: &Report) -> Option<String> {
    why_inexact(report).or(syncs.doubts.first().cloned())
}

fn why_unsure(glob: &Glob, count: u64) -> String {
    let files = plural(count, "file", "files");
    format!("'{}' may be the path of {files}", glob.text())
}

/// What was found of files that must have been synced in order, as a clause.
pub(super) fn describe_syncs(text: &str, known: &KnownFigure) -> String {
    let what = match known {
        KnownFigure::Between(low, high) => {
            match (
                low.whole_number().unwrap_or_default(),
                high.and_then(Amount::whole_number),
            ) {
                (0, Some(0)) => "each changed file was synced in order".to_owned(),
                (0, Some(high)) => {
                    let files = plural(high, "file", "files");
                    format!("{files} may not have been synced in order")
                }
                (0, None) => "it is unknown whether all were synced in order".to_owned(),
                (1, _) => "1 file was not synced in order".to_owned(),
                (low, _) => format!("{low} files were not synced in order"),
            }
        }
        _ => "it is unknown whether they were synced in order".to_owned(),
    };
    format!("{text}: {what}")
}
