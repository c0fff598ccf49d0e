//! Figures of transfers, and how much of them the report does not prove.

use std::collections::BTreeSet;

use crate::{
    expect::{
        ast::Figure,
        callers,
        facts::{self, ChosenProcesses, MeasuredFigure, sum_known, why_inexact},
        known::{Amount, Inferred, KnownFigure},
        pattern::{EndPattern, Match},
    },
    figures::list::FigureField,
    report::{Api, Certainty, DestinationTotals, End, Process, Report, Transfer},
    trace::{FileKind, Loss},
    units::short_bytes,
};

/// A figure of all transfers between two ends.
pub(super) fn measure(
    figure: &Figure,
    ends: [&EndPattern; 2],
    report: &Report,
    inferred: Inferred,
) -> MeasuredFigure {
    let (processes, all, open) = match ChosenProcesses::of_figure(figure, report) {
        ChosenProcesses::None(why) => return MeasuredFigure::plain(KnownFigure::Missing(why)),
        ChosenProcesses::Unknown(why) => return MeasuredFigure::unknown(why),
        // A transfer through several processes belongs to none of them alone.
        ChosenProcesses::Chosen(chosen, open) => {
            let within = chosen.iter().flat_map(|process| &process.transfers);
            let all = within
                .filter_map(|&index| Some((index, report.transfers.get(index)?)))
                .collect();
            (chosen, all, open)
        }
        ChosenProcesses::All => (
            report.processes.iter().collect(),
            report.transfers.iter().enumerate().collect::<Vec<_>>(),
            None,
        ),
    };
    let (chosen, has_maybe) = choose(&all, ends);
    let chosen = without_hops(&chosen);
    let open = open
        .or_else(|| why_open(report))
        .or_else(|| has_maybe.then(|| "not all of their ends are known".to_owned()));
    let all: Vec<&Transfer> = all.into_iter().map(|(_, transfer)| transfer).collect();
    let facts = facts::facts_of_transfers(
        if chosen.is_empty() { &all } else { &chosen },
        !chosen.is_empty(),
    );
    let unproven = match inferred {
        Inferred::Accept => Unproven::NONE,
        Inferred::Inconclusive => Unproven::of_transfers(&chosen, ends, &processes, report),
    };
    if figure.field == FigureField::Via {
        return measure_via(&chosen, open, unproven, facts, report);
    }
    let known = known(figure, &chosen, open.is_some(), unproven);
    let is_exact = matches!(known, KnownFigure::Between(low, Some(high)) if low == high);
    let is_sure = is_exact
        || matches!(
            known,
            KnownFigure::Missing(_) | KnownFigure::Words { are_all: true, .. }
        );
    let own = matches!(&known, KnownFigure::Between(..) | KnownFigure::Unknown)
        .then(|| "not all of it is known of each transfer".to_owned());
    MeasuredFigure {
        reason: open.or_else(|| unproven.why()).or(own).filter(|_| !is_sure),
        known,
        facts,
    }
}

/// The library functions that made transfers.
fn measure_via(
    chosen: &[&Transfer],
    open: Option<String>,
    unproven: Unproven,
    facts: Vec<String>,
    report: &Report,
) -> MeasuredFigure {
    let sure: Vec<&Transfer> = chosen
        .iter()
        .copied()
        .filter(|transfer| unproven.is_sure_of(transfer))
        .collect();
    let is_open = open.is_some() || unproven.may_hide_transfers() || sure.len() < chosen.len();
    if sure.is_empty() && !is_open {
        return MeasuredFigure {
            facts,
            ..MeasuredFigure::plain(KnownFigure::Missing(NONE.to_owned()))
        };
    }
    let (known, unclear) = callers::via(&sure, is_open, report);
    let reason = unclear
        .or(open)
        .or_else(|| unproven.why())
        .filter(|_| !matches!(known, KnownFigure::Words { are_all: true, .. }));
    let facts = facts
        .into_iter()
        .chain(callers::facts_of_via(chosen, report))
        .collect();
    MeasuredFigure {
        known,
        reason,
        facts,
    }
}

/// A transfer, and its index in the report.
type Indexed<'a> = (usize, &'a Transfer);

/// Leaves out transfers that are hops of another one, so that no byte is counted twice.
fn without_hops<'a>(chosen: &[Indexed<'a>]) -> Vec<&'a Transfer> {
    let indices: BTreeSet<usize> = chosen.iter().map(|(index, _)| *index).collect();
    let is_hop = |transfer: &Transfer| transfer.part_of.iter().any(|way| indices.contains(way));
    chosen
        .iter()
        .map(|(_, transfer)| *transfer)
        .filter(|transfer| !is_hop(transfer))
        .collect()
}

/// The transfers between these ends, and whether there may be more.
fn choose<'a>(all: &[Indexed<'a>], [from, to]: [&EndPattern; 2]) -> (Vec<Indexed<'a>>, bool) {
    let is_meant = |transfer: &Transfer| from.matches(&transfer.from).min(to.matches(&transfer.to));
    let matched: Vec<(Match, Indexed<'a>)> =
        all.iter().map(|&one| (is_meant(one.1), one)).collect();
    let has_maybe = matched.iter().any(|(matched, _)| *matched == Match::Maybe);
    (
        matched
            .into_iter()
            .filter(|(matched, _)| *matched == Match::Yes)
            .map(|(_, one)| one)
            .collect(),
        has_maybe,
    )
}

/// Why there may be more transfers than the report has.
fn why_open(report: &Report) -> Option<String> {
    let is_unidentified = |process: &Process| {
        let reads = process.sources.iter();
        let writes = process.destinations.iter();
        reads
            .clone()
            .any(|one| one.file.is_none() && one.read_bytes != Some(0))
            || writes
                .clone()
                .any(|one| one.file.is_none() && one.written_bytes != Some(0))
    };
    match why_inexact(report) {
        Some(why) => Some(why),
        None if report.calls_without_files > 0 => Some(format!(
            "the files of {} calls were not kept",
            report.calls_without_files
        )),
        None if report.processes_left_out() > 0 => Some(facts::not_listed(report)),
        None if report.processes.iter().any(is_unidentified) => {
            Some("not all files that bytes came from or went to are known".to_owned())
        }
        None => None,
    }
}

fn known(figure: &Figure, chosen: &[&Transfer], is_open: bool, unproven: Unproven) -> KnownFigure {
    // An inferred transfer may not exist.
    let sure: Vec<&Transfer> = chosen
        .iter()
        .copied()
        .filter(|transfer| unproven.is_sure_of(transfer))
        .collect();
    let may_be_more = is_open || unproven.may_hide_transfers();
    let sum = |may_be_more: bool, part: &dyn Fn(&Transfer) -> Option<u64>| {
        let (low, all_known) = sum_known(sure.iter().map(|transfer| part(transfer)));
        let is_all = all_known && sure.len() == chosen.len() && !may_be_more;
        KnownFigure::Between(low.into(), is_all.then(|| low.into()))
    };
    match figure.field {
        FigureField::Count => sum(may_be_more, &|_| Some(1)),
        FigureField::Api => apis(&sure, may_be_more || sure.len() < chosen.len()),
        _ if sure.is_empty() && (may_be_more || !chosen.is_empty()) => KnownFigure::Unknown,
        _ if sure.is_empty() => KnownFigure::Missing(NONE.to_owned()),
        FigureField::Bytes => bytes(&sure, is_open, unproven),
        FigureField::AvgSize => mean(&sure, is_open || sure.len() < chosen.len()),
        FigureField::Attempts => sum(is_open, &|transfer| {
            Some(attempts(transfer, figure.errno.as_deref()))
        }),
        FigureField::Crossings => sum(may_be_more, &|transfer| transfer.crossings),
        FigureField::UserMemory => sum(may_be_more, &|transfer| transfer.user_memory_bytes),
        FigureField::Total => sum(may_be_more, &|transfer| transfer.total_ns),
        // The parser lets no other figure through.
        _ => sum(may_be_more, &|transfer| transfer.calls),
    }
}

/// At least what was observed; at most this and all bytes that may have come from there, too.
fn bytes(sure: &[&Transfer], is_open: bool, unproven: Unproven) -> KnownFigure {
    let of = |transfer: &&Transfer| transfer.bytes;
    let low = sure.iter().filter_map(of).fold(0, u64::saturating_add);
    let all_known = sure.iter().all(|transfer| of(transfer).is_some());
    let high = unproven.bytes.and_then(|more| low.checked_add(more));
    KnownFigure::Between(
        low.into(),
        high.filter(|_| all_known && !is_open).map(Amount::from),
    )
}

const NONE: &str = "there is no such transfer";

fn apis(chosen: &[&Transfer], is_open: bool) -> KnownFigure {
    let apis: BTreeSet<Api> = chosen.iter().map(|transfer| transfer.api).collect();
    if apis.is_empty() && !is_open {
        return KnownFigure::Missing(NONE.to_owned());
    }
    KnownFigure::words(apis.into_iter().map(|api| api.name().to_owned()), !is_open)
}

/// The mean of several transfers together lies between those of the transfers, which the report has
/// in whole bytes.
fn mean(chosen: &[&Transfer], is_open: bool) -> KnownFigure {
    let moving = chosen.iter().filter(|transfer| transfer.bytes != Some(0));
    let means: Option<Vec<u64>> = moving.map(|transfer| transfer.mean_bytes).collect();
    let Some(means) = means.filter(|_| !is_open) else {
        return KnownFigure::Unknown;
    };
    match (means.iter().min(), means.iter().max()) {
        (Some(low), Some(high)) => KnownFigure::Between((*low).into(), Some((*high).into())),
        _ => KnownFigure::Missing("no call to average".to_owned()),
    }
}

fn attempts(transfer: &Transfer, errno: Option<&str>) -> u64 {
    transfer
        .attempts
        .iter()
        .filter(|attempt| errno.is_none_or(|errno| attempt.errno == errno))
        .map(|attempt| attempt.calls)
        .sum()
}

/// What was not observed about the transfers of an expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unproven {
    /// Whether inferred transfers count as facts.
    accepts: bool,
    /// Whether some are inferred.
    has_inferred: bool,
    /// Bytes that were written to their destinations and may have come from their sources, although
    /// that was not observed; `None`: unknown.
    bytes: Option<u64>,
}

impl Unproven {
    /// Everything that the report says counts as a fact.
    const NONE: Self = Self {
        accepts: true,
        has_inferred: false,
        bytes: Some(0),
    };

    /// For the chosen transfers, and what else these processes wrote to the same destination.
    fn of_transfers(
        chosen: &[&Transfer],
        ends: [&EndPattern; 2],
        processes: &[&Process],
        report: &Report,
    ) -> Self {
        let has_inferred = chosen
            .iter()
            .any(|transfer| transfer.certainty == Certainty::Inferred);
        Self {
            accepts: false,
            has_inferred,
            bytes: unproven_bytes(chosen, ends, processes, report),
        }
    }

    /// Whether this transfer is a fact.
    fn is_sure_of(self, transfer: &Transfer) -> bool {
        self.accepts || transfer.certainty == Certainty::Observed
    }

    /// Whether there may be transfers that the report does not have.
    fn may_hide_transfers(self) -> bool {
        self.bytes != Some(0)
    }

    /// Why a figure is not known for sure, if it is not.
    fn why(self) -> Option<String> {
        match self.bytes {
            _ if self.has_inferred => {
                Some("inferred, not observed; inferred = \"accept\" accepts it".to_owned())
            }
            Some(0) => None,
            Some(bytes) => Some(format!(
                "{} that were written there may have come from there",
                short_bytes(bytes)
            )),
            None => Some("the bytes that were written there are unknown".to_owned()),
        }
    }
}

/// Bytes that arrived at such a destination and may have come from such a source, although no
/// transfer was observed; `None`: unknown.
fn unproven_bytes(
    chosen: &[&Transfer],
    [from, to]: [&EndPattern; 2],
    processes: &[&Process],
    report: &Report,
) -> Option<u64> {
    let is_meant = |file: Option<&End>| match file {
        Some(end) => carries_bytes(end) && to.matches(end) != Match::No,
        None => true,
    };
    // What is the program's own may still be what it changed in a buffer of the source. Without
    // addresses, or if buffers were forgotten, it may be anything.
    let knows_buffers =
        report.sees_memory && !report.losses.contains_key(Loss::ForgottenBuffers.name());
    let rest = |one: &DestinationTotals| {
        if !knows_buffers {
            return one.own_memory_bytes;
        }
        let changed = one
            .changed
            .iter()
            .filter(|changed| from.matches(&changed.from) != Match::No)
            .map(|changed| changed.bytes);
        Some(changed.fold(0, u64::saturating_add))
    };
    let rests = processes
        .iter()
        .flat_map(|process| &process.destinations)
        .filter(|one| is_meant(one.file.as_ref()))
        .map(rest);
    let transfers: Vec<&Transfer> = processes
        .iter()
        .flat_map(|process| report.transfers_of(process))
        .filter(|transfer| is_meant(Some(&transfer.to)))
        .collect();
    let inferred = transfers
        .iter()
        .filter(|transfer| transfer.certainty == Certainty::Inferred)
        .map(|transfer| transfer.bytes);
    // Bytes from a pipe or a connection that another process of the trace wrote to come from the
    // source of that process.
    let is_told = |transfer: &Transfer| {
        let passes = |way: &Transfer| {
            way.hops
                .iter()
                .any(|hop| hop.to == transfer.to && hop.from == transfer.from)
        };
        chosen
            .iter()
            .any(|way| std::ptr::eq(*way, transfer) || passes(way))
    };
    let fed = transfers
        .iter()
        .filter(|transfer| {
            transfer.certainty == Certainty::Observed
                && !is_told(transfer)
                && is_fed(&transfer.from, report)
        })
        .map(|transfer| transfer.bytes);
    rests
        .chain(inferred)
        .chain(fed)
        .try_fold(0_u64, |sum, bytes| sum.checked_add(bytes?))
}

/// Whether a process of the trace wrote to the other side of this end.
fn is_fed(end: &End, report: &Report) -> bool {
    let is = |kind: FileKind| end.kind.as_deref() == Some(kind.name());
    let unix = [
        FileKind::UnixStream,
        FileKind::UnixSeqpacket,
        FileKind::UnixDatagram,
    ];
    let mut written = report
        .processes
        .iter()
        .flat_map(|process| &process.destinations)
        .filter_map(|one| one.file.as_ref());
    if is(FileKind::Pipe) {
        written.any(|file| file == end)
    } else if is(FileKind::Tcp) {
        written.any(|file| file.local == end.peer && file.peer == end.local)
    } else {
        unix.into_iter().any(is) && written.any(|file| file.kind == end.kind && file != end)
    }
}

fn carries_bytes(end: &End) -> bool {
    end.kind
        .as_deref()
        .and_then(FileKind::from_name)
        .is_none_or(FileKind::carries_bytes)
}
