//! Figures of transfers.

use super::{Measured, Processes, processes, why_inexact};
use crate::{
    expect::{
        ast::Figure,
        facts,
        field::Field,
        known::{Amount, Completeness, Known},
        pattern::{EndPattern, Match},
    },
    report::{Process, Report, Transfer},
};

/// A figure of all transfers between two ends.
pub(super) fn measure(figure: &Figure, ends: [&EndPattern; 2], report: &Report) -> Measured {
    let (all, open) = match processes(figure, report) {
        Processes::None(why) => return Measured::plain(Known::Missing(why)),
        Processes::Unknown(why) => return Measured::unknown(why),
        // A transfer through several processes is none of one of them.
        Processes::Chosen(chosen, open) => (transfers_of(chosen.into_iter()), open),
        Processes::All => (transfers_of(report.processes.iter()).into_iter().chain(&report.transfers).collect(), None),
    };
    let (chosen, has_maybe) = choose(&all, ends);
    let open = open.or_else(|| why_open(report)).or_else(|| has_maybe.then(|| "not all of their ends are known".to_owned()));
    let facts = facts::of_transfers(if chosen.is_empty() { &all } else { &chosen }, !chosen.is_empty());
    let known = known(figure, &chosen, open.is_some());
    let is_exact = matches!(known, Known::Between(low, Some(high)) if low == high);
    let own = matches!(&known, Known::Between(..) | Known::Unknown).then(|| "not all of it is known of each transfer".to_owned());
    Measured { reason: open.or(own).filter(|_| !is_exact && !matches!(known, Known::Missing(_))), known, facts }
}

fn transfers_of<'a>(processes: impl Iterator<Item = &'a Process>) -> Vec<&'a Transfer> {
    processes.flat_map(|process| &process.transfers).collect()
}

/// Those between these ends, and whether others may be, too.
fn choose<'a>(all: &[&'a Transfer], [from, to]: [&EndPattern; 2]) -> (Vec<&'a Transfer>, bool) {
    let matched: Vec<(Match, &Transfer)> =
        all.iter().map(|&transfer| (from.matches(&transfer.from).min(to.matches(&transfer.to)), transfer)).collect();
    let has_maybe = matched.iter().any(|(matched, _)| *matched == Match::Maybe);
    (matched.into_iter().filter(|(matched, _)| *matched == Match::Yes).map(|(_, transfer)| transfer).collect(), has_maybe)
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

fn known(figure: &Figure, chosen: &[&Transfer], is_open: bool) -> Known {
    let sum = |part: &dyn Fn(&Transfer) -> Option<u64>| {
        let (low, all_known) = super::sum(chosen.iter().map(|transfer| part(transfer)));
        Known::Between(low.into(), (all_known && !is_open).then(|| low.into()))
    };
    match figure.field {
        Field::Count => sum(&|_| Some(1)),
        Field::Api => apis(chosen, is_open),
        _ if chosen.is_empty() && is_open => Known::Unknown,
        _ if chosen.is_empty() => Known::Missing(NONE.to_owned()),
        Field::Bytes => sum(&|transfer| transfer.bytes),
        Field::AvgSize => mean(chosen, is_open),
        Field::Attempts => sum(&|transfer| Some(attempts(transfer, figure.errno.as_deref()))),
        Field::Crossings => sum(&|transfer| transfer.crossings),
        Field::UserMemory => sum(&|transfer| transfer.user_memory_bytes),
        Field::Total => sum(&|transfer| transfer.total_ns),
        // The parser lets no other figure through.
        _ => sum(&|transfer| Some(transfer.calls)),
    }
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
