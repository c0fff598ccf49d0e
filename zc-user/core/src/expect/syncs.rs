//! Figures of syncs, and of files that were not synced in order.

use super::{
    ast::SyncPoint,
    facts::{MeasuredFigure, partial_sum, shorten, why_inexact},
    known::{Amount, KnownFigure},
    pattern::{Glob, Match},
};
use crate::{
    durable::{FileSyncs, SyncMoment, SyncVerdict, Syncs},
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
        return MeasuredFigure::unknown(NOT_RECORDED);
    };
    let is_synced = |file: &&FileSyncs| file.syncs.count > 0;
    let matching = |wanted: Match| {
        let files = syncs.files.iter().filter(is_synced);
        files.filter(move |file| glob.matches_path(&file.path) == wanted)
    };
    let figure = |file: &FileSyncs| match field {
        FigureField::Wasted => Some(file.syncs.wasted),
        FigureField::Failed => Some(file.syncs.failed),
        FigureField::SyncNs => file.syncs.ns,
        _ => Some(file.syncs.count),
    };
    let (sum, is_all) = partial_sum(matching(Match::Yes).map(figure));
    let unsure = matching(Match::Maybe).count() as u64;
    let reason = why_open(syncs, report)
        .or_else(|| (!is_all).then(|| "the times of some syncs are unknown".to_owned()))
        .or_else(|| (unsure > 0).then(|| why_unsure(glob, unsure)));
    // What was not seen may have been a change, so that a sync was needed.
    let low = if field == FigureField::Wasted && why_open(syncs, report).is_some() {
        0
    } else {
        sum
    };
    let facts = matching(Match::Yes).map(|file| {
        let sums = &file.syncs;
        let count = plural(sums.count, "sync", "syncs");
        let (wasted, failed) = (sums.wasted, sums.failed);
        format!(
            "{}: {count}, {wasted} not needed, {failed} failed",
            file.path
        )
    });
    MeasuredFigure {
        known: KnownFigure::Between(low.into(), reason.is_none().then(|| sum.into())),
        facts: shorten(facts.collect()),
        reason,
    }
}

/// A file that was not synced in order, or of which that is unknown.
struct UnsyncedFile<'a> {
    path: &'a str,
    verdict: SyncVerdict,
    why: &'a str,
}

/// Those files; `Err`: why they are unknown.
fn open_files<'a>(syncs: &'a Syncs, point: &SyncPoint) -> Result<Vec<UnsyncedFile<'a>>, String> {
    let moment = |moments: &'a [SyncMoment], name: &str| {
        let moment = moments.iter().find(|moment| moment.name == name)?;
        let files = moment.files.iter().map(|file| UnsyncedFile {
            path: &file.path,
            verdict: file.verdict,
            why: &file.why,
        });
        Some((moment.left_out == 0).then(|| files.collect()))
    };
    let (found, why) = match point {
        SyncPoint::End => {
            let changed = syncs.files.iter().filter(|file| file.changed);
            let files = changed.map(|file| UnsyncedFile {
                path: &file.path,
                verdict: file.verdict,
                why: file.why.as_deref().unwrap_or_default(),
            });
            let is_open = |file: &UnsyncedFile<'_>| file.verdict != SyncVerdict::InOrder;
            return Ok(files.filter(is_open).collect());
        }
        SyncPoint::Mark(name) => (
            moment(&syncs.marks, name),
            format!("the program made no mark \"{name}\""),
        ),
        SyncPoint::Told(to) => (
            moment(&syncs.told, to),
            format!("the program wrote nothing to {to}"),
        ),
    };
    match found {
        Some(Some(files)) => Ok(files),
        Some(None) => Err("not all files were kept".to_owned()),
        None => Err(why),
    }
}

/// How many of these files were changed and not synced in order.
pub(super) fn measure_unsynced(glob: &Glob, point: &SyncPoint, report: &Report) -> MeasuredFigure {
    let Some(syncs) = &report.syncs else {
        return MeasuredFigure::unknown(NOT_RECORDED);
    };
    let mut files = match open_files(syncs, point) {
        Ok(files) => files,
        Err(why) => return MeasuredFigure::unknown(why),
    };
    files.retain(|file| glob.matches_path(file.path) != Match::No);
    let is_certain = |file: &&UnsyncedFile<'_>| {
        file.verdict != SyncVerdict::Unknown && glob.matches_path(file.path) == Match::Yes
    };
    let certain = files.iter().filter(is_certain).count() as u64;
    let open = why_open(syncs, report);
    // A sync may have followed that was not seen.
    let sure = if open.is_some() { 0 } else { certain };
    let unsure = files.len() as u64 - certain;
    let why_unsure = |count| format!("of {} it is unknown", plural(count, "file", "files"));
    let facts = files.iter().map(|file| {
        let verdict = file.verdict.name();
        format!("{}: {verdict}: {}", file.path, file.why)
    });
    MeasuredFigure::counted([sure, unsure], open, why_unsure, facts.collect())
}

/// Why more may have been changed and synced than the report has.
fn why_open(syncs: &Syncs, report: &Report) -> Option<String> {
    why_inexact(report).or_else(|| syncs.doubts.first().cloned())
}

fn why_unsure(glob: &Glob, count: u64) -> String {
    let files = plural(count, "file", "files");
    format!("'{}' may be the path of {files}", glob.text())
}

/// What was found of files that must have been synced in order, as a clause.
pub(super) fn describe(text: &str, known: &KnownFigure) -> String {
    let what = match known {
        KnownFigure::Between(low, high) => {
            match (
                low.whole().unwrap_or_default(),
                high.and_then(Amount::whole),
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
