//! Figures of transfers.

use super::{Measured, Processes, processes, unproven::Unproven, why_inexact};
use crate::{
    expect::{
        Inferred,
        ast::Figure,
        facts,
        field::Field,
        known::{Amount, Completeness, Known},
        pattern::{EndPattern, Match},
    },
    report::{Process, Report, Transfer},
};

/// A figure of all transfers between two ends.
pub(super) fn measure(figure: &Figure, ends: [&EndPattern; 2], report: &Report, inferred: Inferred) -> Measured {
    let (within, across, open) = match processes(figure, report) {
        Processes::None(why) => return Measured::plain(Known::Missing(why)),
        Processes::Unknown(why) => return Measured::unknown(why),
        // A transfer through several processes is none of one of them.
        Processes::Chosen(chosen, open) => (chosen, [].as_slice(), open),
        Processes::All => (report.processes.iter().collect(), report.transfers.as_slice(), None),
    };
    let all = transfers_of(&within, across);
    let (chosen, has_maybe) = choose(&all, ends);
    let chosen = without_hops(&chosen);
    let open = open.or_else(|| why_open(report)).or_else(|| has_maybe.then(|| "not all of their ends are known".to_owned()));
    let all: Vec<&Transfer> = all.into_iter().map(|(_, transfer)| transfer).collect();
    let facts = facts::of_transfers(if chosen.is_empty() { &all } else { &chosen }, !chosen.is_empty());
    let unproven = match inferred {
        Inferred::Accept => Unproven::NONE,
        Inferred::Inconclusive => Unproven::of(&chosen, ends[1], &within, report),
    };
    let known = known(figure, &chosen, open.is_some(), unproven);
    let is_exact = matches!(known, Known::Between(low, Some(high)) if low == high);
    let is_sure = is_exact || matches!(known, Known::Missing(_) | Known::Apis(_, Completeness::All));
    let own = matches!(&known, Known::Between(..) | Known::Unknown).then(|| "not all of it is known of each transfer".to_owned());
    Measured { reason: open.or_else(|| unproven.why()).or(own).filter(|_| !is_sure), known, facts }
}

/// A transfer, and the process that it is within.
type Within<'a> = (Option<u32>, &'a Transfer);

fn transfers_of<'a>(processes: &[&'a Process], across: &'a [Transfer]) -> Vec<Within<'a>> {
    let within = processes.iter().flat_map(|process| process.transfers.iter().map(|transfer| (Some(process.pid), transfer)));
    within.chain(across.iter().map(|transfer| (None, transfer))).collect()
}

/// Without those that are hops of another of them: no byte is counted twice.
fn without_hops<'a>(chosen: &[Within<'a>]) -> Vec<&'a Transfer> {
    let ways: Vec<&Transfer> = chosen.iter().filter(|(pid, _)| pid.is_none()).map(|(_, way)| *way).collect();
    let is_hop = |pid: u32, transfer: &Transfer| ways.iter().any(|way| transfer.is_hop_of(pid, way));
    let own = chosen.iter().filter(|(pid, transfer)| !pid.is_some_and(|pid| is_hop(pid, transfer)));
    own.map(|(_, transfer)| *transfer).collect()
}

/// Those between these ends, and whether others may be, too.
fn choose<'a>(all: &[Within<'a>], [from, to]: [&EndPattern; 2]) -> (Vec<Within<'a>>, bool) {
    let is_meant = |transfer: &Transfer| from.matches(&transfer.from).min(to.matches(&transfer.to));
    let matched: Vec<(Match, Within<'a>)> = all.iter().map(|&within| (is_meant(within.1), within)).collect();
    let has_maybe = matched.iter().any(|(matched, _)| *matched == Match::Maybe);
    (matched.into_iter().filter(|(matched, _)| *matched == Match::Yes).map(|(_, within)| within).collect(), has_maybe)
}

/// Why there may be more transfers than the report has.
fn why_open(report: &Report) -> Option<String> {
    let sides = || report.processes.iter().flat_map(|process| [&process.unattributed.read, &process.unattributed.written]);
    let is_unidentified = || sides().flatten().any(|share| share.file.is_none() && share.bytes != Some(0));
    match why_inexact(report) {
        Some(why) => Some(why),
        None if report.calls_without_files > 0 => {
            Some(format!("the files of {} calls were not kept", report.calls_without_files))
        }
        None if report.processes.is_empty() => Some("the report has sums only, no processes".to_owned()),
        None if is_unidentified() => Some("not all files that bytes came from or went to are known".to_owned()),
        None => None,
    }
}

fn known(figure: &Figure, chosen: &[&Transfer], is_open: bool, unproven: Unproven) -> Known {
    // What is inferred is there, or not.
    let sure: Vec<&Transfer> = chosen.iter().copied().filter(|transfer| unproven.is_sure_of(transfer)).collect();
    let may_be_more = is_open || unproven.may_hide_transfers();
    let sum = |may_be_more: bool, part: &dyn Fn(&Transfer) -> Option<u64>| {
        let (low, all_known) = super::sum(sure.iter().map(|transfer| part(transfer)));
        let is_all = all_known && sure.len() == chosen.len() && !may_be_more;
        Known::Between(low.into(), is_all.then(|| low.into()))
    };
    match figure.field {
        Field::Count => sum(may_be_more, &|_| Some(1)),
        Field::Api => apis(&sure, may_be_more || sure.len() < chosen.len()),
        _ if sure.is_empty() && (may_be_more || !chosen.is_empty()) => Known::Unknown,
        _ if sure.is_empty() => Known::Missing(NONE.to_owned()),
        Field::Bytes => bytes(&sure, is_open, unproven),
        Field::AvgSize => mean(&sure, is_open || sure.len() < chosen.len()),
        Field::Attempts => sum(is_open, &|transfer| Some(attempts(transfer, figure.errno.as_deref()))),
        Field::Crossings => sum(may_be_more, &|transfer| transfer.crossings),
        Field::UserMemory => sum(may_be_more, &|transfer| transfer.user_memory_bytes),
        Field::Total => sum(may_be_more, &|transfer| transfer.total_ns),
        // The parser lets no other figure through.
        _ => sum(may_be_more, &|transfer| Some(transfer.calls)),
    }
}

/// At least what is proven; at most that and all that was written there from nobody knows where.
fn bytes(sure: &[&Transfer], is_open: bool, unproven: Unproven) -> Known {
    let of = |transfer: &&Transfer| unproven.bytes_of(transfer);
    let low = sure.iter().filter_map(of).fold(0, u64::saturating_add);
    let all_known = sure.iter().all(|transfer| of(transfer).is_some());
    let high = unproven.more_bytes().and_then(|more| low.checked_add(more));
    Known::Between(low.into(), high.filter(|_| all_known && !is_open).map(Amount::from))
}

const NONE: &str = "there is no such transfer";

fn apis(chosen: &[&Transfer], is_open: bool) -> Known {
    let mut apis: Vec<_> = chosen.iter().map(|transfer| transfer.api).collect();
    apis.sort_unstable();
    apis.dedup();
    if apis.is_empty() && !is_open {
        return Known::Missing(NONE.to_owned());
    }
    let completeness = if is_open { Completeness::AtLeast } else { Completeness::All };
    Known::Apis(apis.into_iter().map(crate::report::Api::name).collect(), completeness)
}

/// Of several transfers together, the mean lies between theirs.
fn mean(chosen: &[&Transfer], is_open: bool) -> Known {
    let moving = || chosen.iter().filter(|transfer| transfer.bytes != Some(0));
    let means: Option<Vec<(Amount, Amount)>> =
        moving().map(|transfer| mean_range(transfer.bytes?, transfer.mean_bytes?)).collect();
    let Some(means) = means.filter(|_| !is_open) else { return Known::Unknown };
    match (means.iter().map(|(low, _)| *low).min(), means.iter().map(|(_, high)| *high).max()) {
        (Some(low), Some(high)) => Known::Between(low, Some(high)),
        _ => Known::Missing("no call to average".to_owned()),
    }
}

/// Where a mean lies of which the report has the whole bytes: at that of as many calls as it can have been.
fn mean_range(bytes: u64, whole: u64) -> Option<(Amount, Amount)> {
    let fewest = bytes / whole.checked_add(1)? + 1;
    let high = Amount::mean(bytes, fewest)?;
    Some((bytes.checked_div(whole).map_or(Some(0.into()), |most| Amount::mean(bytes, most))?, high))
}

fn attempts(transfer: &Transfer, errno: Option<&str>) -> u64 {
    transfer.attempts.iter().filter(|attempt| errno.is_none_or(|errno| attempt.errno == errno)).map(|attempt| attempt.calls).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_no_whole_number() {
        let range = |bytes, whole| mean_range(bytes, whole).expect("of some calls");
        let mean = |bytes, calls| Amount::mean(bytes, calls).expect("of some calls");
        assert_eq!(range(2001, 1000), (mean(2001, 2), mean(2001, 2)));
        // Of 9 to 12 calls.
        assert_eq!(range(25, 2), (mean(25, 12), mean(25, 9)));
        assert_eq!(range(3, 0), (0.into(), mean(3, 4)));
    }
}
