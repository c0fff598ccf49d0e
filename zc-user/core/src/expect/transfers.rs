//! Figures of transfers, and how much of them the report does not prove.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    expect::{
        ast::FigureExpr,
        by_caller,
        facts::{
            ChosenProcesses, MeasuredFigure, facts_of_transfers, partial_sum, why_inexact,
            why_not_listed, why_without_files,
        },
        known::{Inferred, KnownFigure},
        pattern::{EndPattern, Match},
    },
    figures::list::FigureField,
    report::{
        Api, Certainty, DestinationTotals, End, Hop, Process, Report, SourceTotals, Transfer,
    },
    trace::{FileKind, Loss},
    units::{short_bytes, sum_all},
};

/// A figure of all transfers between two ends.
pub(super) fn measure_transfers(
    figure: &FigureExpr,
    ends: [&EndPattern; 2],
    report: &Report,
    inferred: Inferred,
) -> MeasuredFigure {
    let processes = ChosenProcesses::of_figure(figure, report);
    let all = meant_transfers(&processes, report);
    let (chosen, has_maybe) = transfers_between(ends, &all);
    let open = processes
        .open
        .or(why_open(report))
        .or(has_maybe.then_some("not all of their ends are known".to_owned()));
    let accepts = inferred == Inferred::Accept;
    let mut sure = chosen.clone();
    sure.retain(|one| accepts || observed_bytes(one) != Some(0));
    let observed = ObservedTransfers {
        has_inferred: sure.len() < chosen.len(),
        accepts,
        sure,
        other_bytes: if accepts {
            Some(0)
        } else {
            unproven_bytes(&chosen, ends, &processes.processes, report)
        },
    };
    let (known, unclear) = observed.measure_field(figure, open.is_some(), report);
    let own = Some("some figures of the transfers are unknown".to_owned());
    let reason = unclear.or(open).or(observed.why_unsure()).or(own);
    let all: Vec<&Transfer> = all.into_values().collect();
    let mut facts = facts_of_transfers(&chosen, &all);
    if figure.field == FigureField::Via && !matches!(known, KnownFigure::Missing(_)) {
        facts.extend(by_caller::facts_of_via(&chosen, report));
    }
    MeasuredFigure {
        reason: reason.filter(|_| !known.is_exact()),
        known,
        facts,
    }
}

/// The transfers of these processes by their index. One through several processes belongs to none of
/// them alone.
fn meant_transfers<'a>(
    chosen: &ChosenProcesses<'_>,
    report: &'a Report,
) -> BTreeMap<usize, &'a Transfer> {
    let within: BTreeSet<&usize> = chosen
        .processes
        .iter()
        .flat_map(|one| &one.transfers)
        .collect();
    let mut meant = BTreeMap::new();
    for (index, transfer) in report.transfers.iter().enumerate() {
        let is_meant = !chosen.are_by_name || within.contains(&index);
        if is_meant && transfer.is_transfer() {
            meant.insert(index, transfer);
        }
    }
    meant
}

/// The transfers between these ends, and whether there may be more. Those that are hops of another
/// one are left out, so that no byte is counted twice.
fn transfers_between<'a>(
    [from, to]: [&EndPattern; 2],
    all: &BTreeMap<usize, &'a Transfer>,
) -> (Vec<&'a Transfer>, bool) {
    let (mut chosen, mut has_maybe) = (all.clone(), false);
    chosen.retain(|_, one| {
        let matched = from.matches_end(&one.from).min(to.matches_end(&one.to));
        has_maybe |= matched == Match::Maybe;
        matched == Match::Yes
    });
    let mut whole: Vec<&Transfer> = chosen.values().copied().collect();
    whole.retain(|one| !one.part_of.iter().any(|way| chosen.contains_key(way)));
    (whole, has_maybe)
}

/// Why there may be more transfers than the report has.
fn why_open(report: &Report) -> Option<String> {
    let unidentified = "not all files that bytes came from or went to are known".to_owned();
    let has_unidentified = report.processes.iter().any(moves_unidentified_bytes);
    why_inexact(report)
        .or(why_without_files(report))
        .or(why_not_listed(report))
        .or(has_unidentified.then_some(unidentified))
}

/// Whether a process moved bytes from or to a file that is not known.
fn moves_unidentified_bytes(process: &Process) -> bool {
    let mut reads = process.sources.iter();
    let mut writes = process.destinations.iter();
    reads.any(|one| one.file.is_none() && one.read_bytes != Some(0))
        || writes.any(|one| one.file.is_none() && one.written_bytes != Some(0))
}

/// What was observed of the transfers that an expectation is about.
struct ObservedTransfers<'a> {
    /// Those that are facts.
    sure: Vec<&'a Transfer>,
    /// Whether what is inferred of them is a fact, too.
    accepts: bool,
    /// Whether there are others, which are inferred and may not exist.
    has_inferred: bool,
    /// Bytes that these processes wrote to their destinations and that may have come from their
    /// sources, although that was not observed; `None`: unknown.
    other_bytes: Option<u64>,
}

impl ObservedTransfers<'_> {
    /// Why a figure is not known for sure, if it is not.
    fn why_unsure(&self) -> Option<String> {
        match self.other_bytes {
            _ if self.has_inferred || self.has_inferred_parts() => {
                Some("inferred, not observed; inferred = \"accept\" accepts it".to_owned())
            }
            Some(0) => None,
            Some(bytes) => Some(format!(
                "{} written to the destination may have come from the source",
                short_bytes(bytes)
            )),
            None => Some("the number of bytes written to the destination is unknown".to_owned()),
        }
    }

    /// A figure of them, and why samples of callers do not tell it.
    fn measure_field(
        &self,
        figure: &FigureExpr,
        is_open: bool,
        report: &Report,
    ) -> (KnownFigure, Option<String>) {
        let may_hide_some = is_open || self.has_inferred || self.other_bytes != Some(0);
        let is_missing = self.sure.is_empty() && figure.field != FigureField::Count;
        let is_of_words = matches!(figure.field, FigureField::Api | FigureField::Via);
        let known = match figure.field {
            _ if is_missing && !may_hide_some => {
                KnownFigure::Missing("there is no such transfer".to_owned())
            }
            _ if is_missing && !is_of_words => KnownFigure::Unknown,
            FigureField::Via => return by_caller::libraries_of(&self.sure, may_hide_some, report),
            FigureField::Api => self.apis_used(!may_hide_some),
            FigureField::Bytes => self.byte_range(is_open),
            FigureField::AvgSize => self.mean_bytes(is_open),
            // What was tried is known of each transfer, whatever else was written.
            FigureField::Attempts => {
                let errno = figure.errno.as_deref();
                self.sum_parts(!is_open, |one| Some(failed_attempts(one, errno)))
            }
            FigureField::Count => self.sum_parts(!may_hide_some, |_| Some(1)),
            // Which of the calls moved what is only inferred is not known.
            _ if self.has_inferred_parts() => KnownFigure::Unknown,
            FigureField::Crossings => self.sum_parts(!may_hide_some, |one| one.crossings),
            FigureField::UserMemory => self.sum_parts(!may_hide_some, |one| one.user_memory_bytes),
            FigureField::Total => self.sum_parts(!may_hide_some, |one| one.total_ns),
            // The parser lets no other figure through.
            _ => self.sum_parts(!may_hide_some, |one| one.calls),
        };
        (known, None)
    }

    /// Whether some bytes of them are only inferred.
    fn has_inferred_parts(&self) -> bool {
        let mut sure = self.sure.iter();
        !self.accepts && sure.any(|one| one.certainty != Certainty::Observed)
    }

    fn sum_parts(&self, is_all: bool, part: impl Fn(&Transfer) -> Option<u64>) -> KnownFigure {
        let (low, all_known) = partial_sum(self.sure.iter().map(|one| part(one)));
        KnownFigure::at_least(low, all_known && is_all && !self.has_inferred)
    }

    /// At least what was observed; at most this and all bytes that may have come from there, too.
    fn byte_range(&self, is_open: bool) -> KnownFigure {
        let sure = self.sure.iter().copied();
        let (all, all_known) = partial_sum(sure.clone().map(|one| one.bytes));
        let low = if self.accepts {
            all
        } else {
            partial_sum(sure.map(observed_bytes)).0
        };
        let high = match self.other_bytes {
            Some(more) if all_known && !is_open => all.checked_add(more),
            _ => None,
        };
        KnownFigure::Between(low.into(), high.map(Into::into))
    }

    fn apis_used(&self, are_all: bool) -> KnownFigure {
        let apis: BTreeSet<Api> = self.sure.iter().map(|transfer| transfer.api).collect();
        let words = apis.into_iter().map(Api::name);
        let words = words.map(str::to_owned).collect();
        KnownFigure::Words { words, are_all }
    }

    /// The mean of several transfers together lies between those of the transfers, which the report
    /// has in whole bytes.
    fn mean_bytes(&self, is_open: bool) -> KnownFigure {
        let moving = self.sure.iter().filter(|one| one.bytes != Some(0));
        let means: Option<BTreeSet<u64>> = moving.map(|one| one.mean_bytes).collect();
        let means = match means {
            Some(means) if !is_open && !self.has_inferred => means,
            _ => return KnownFigure::Unknown,
        };
        match (means.first(), means.last()) {
            (Some(&low), Some(&high)) => KnownFigure::Between(low.into(), Some(high.into())),
            _ => KnownFigure::Missing("no call to average".to_owned()),
        }
    }
}

fn failed_attempts(transfer: &Transfer, errno: Option<&str>) -> u64 {
    let mut calls = 0;
    for attempt in &transfer.attempts {
        if errno.is_none_or(|errno| attempt.errno == errno) {
            calls += attempt.calls;
        }
    }
    calls
}

/// Bytes that arrived at such a destination and may have come from such a source, although no
/// transfer was observed; `None`: unknown.
fn unproven_bytes(
    chosen: &[&Transfer],
    [from, to]: [&EndPattern; 2],
    processes: &[&Process],
    report: &Report,
) -> Option<u64> {
    let is_meant = |end: &End| carries_bytes(end) && to.matches_end(end) != Match::No;
    let mut parts = Vec::new();
    for process in processes {
        let knows_buffers = knows_buffers(process, from, report);
        for one in &process.destinations {
            if one.file.as_ref().is_none_or(is_meant) {
                parts.push(rest_of_destination(one, from, knows_buffers));
            }
        }
        // Bytes from a pipe or a connection that another process of the trace wrote to come from the
        // source of that process, unless one of the chosen transfers goes on from there.
        for one in report.transfers_of(process) {
            let is_unproven = observed_bytes(one) == Some(0)
                || (!is_told(one, chosen) && is_fed(&one.from, report));
            if is_unproven && one.is_transfer() && is_meant(&one.to) {
                parts.push(one.bytes);
            }
        }
    }
    sum_all(parts)
}

/// Whether it is known what a process wrote from memory that such a source had filled. What is the
/// program's own may still have come from a buffer of the source: without addresses, or if buffers
/// were forgotten that may have been of the source.
fn knows_buffers(process: &Process, from: &EndPattern, report: &Report) -> bool {
    let may_match = |file: &Option<End>| match file {
        Some(file) => from.matches_end(file) != Match::No,
        None => true,
    };
    let is_lost = |one: &SourceTotals| {
        (one.forgotten_buffers > 0 || one.may_be_mapped) && may_match(&one.file)
    };
    report.sees_memory
        && !report.losses.contains_key(Loss::UnknownOrigins.name())
        && !process.sources.iter().any(is_lost)
}

/// Bytes in no transfer that were written there, and may have come from such a source.
fn rest_of_destination(
    one: &DestinationTotals,
    from: &EndPattern,
    knows_buffers: bool,
) -> Option<u64> {
    if !knows_buffers {
        return one.own_memory_bytes;
    }
    let mut bytes: u64 = 0;
    for buffer in &one.buffers {
        if from.matches_end(&buffer.from) != Match::No {
            bytes = bytes.saturating_add(buffer.bytes);
        }
    }
    Some(bytes)
}

/// Whether a transfer is one of the chosen ones, or a hop of one.
fn is_told(transfer: &Transfer, chosen: &[&Transfer]) -> bool {
    let is_same = |hop: &Hop| hop.to == transfer.to && hop.from == transfer.from;
    chosen
        .iter()
        .any(|way| std::ptr::eq(*way, transfer) || way.hops.iter().any(is_same))
}

/// How many bytes of a transfer were observed. `None`: the calls do not say how many these are.
fn observed_bytes(transfer: &Transfer) -> Option<u64> {
    match transfer.certainty {
        Certainty::Observed => transfer.bytes,
        _ => Some(transfer.observed_bytes.unwrap_or(0)),
    }
}

/// Whether a process of the trace wrote to the other side of this end.
fn is_fed(end: &End, report: &Report) -> bool {
    let destinations = report.processes.iter().flat_map(|one| &one.destinations);
    let mut written = destinations.filter_map(|one| one.file.as_ref());
    match kind_of(end) {
        Some(FileKind::Pipe) => written.any(|file| file == end),
        Some(FileKind::Tcp) => written.any(|file| file.local == end.peer && file.peer == end.local),
        Some(FileKind::UnixStream | FileKind::UnixSeqpacket | FileKind::UnixDatagram) => {
            written.any(|file| file.kind == end.kind && file != end)
        }
        _ => false,
    }
}

fn kind_of(end: &End) -> Option<FileKind> {
    FileKind::from_name(end.kind.as_deref()?)
}

fn carries_bytes(end: &End) -> bool {
    kind_of(end).is_none_or(FileKind::carries_bytes)
}
