//! The part of transfers: what went from where to where, by which interface, what was tried first,
//! and why. It comes before the tables because it answers most questions.

mod ends;
mod file_sums;
mod groups;
mod rest;

use std::collections::BTreeMap;

pub(super) use ends::end_kind;
pub(crate) use ends::end_label;
pub(super) use file_sums::ShownFileSums;
use groups::{AlikeTransfers, GroupMember, ShownTexts, grouped};

use super::{
    losses::unknown_origins,
    page::{Options, Style, TextLine, list, words},
    part::DocumentPart,
};
use crate::report::{End, Process, Report, Transfer};

/// How many transfers, or groups of them, are shown without `--all`.
const MAX_TRANSFERS: usize = 10;
/// A transfer is only summed if it has fewer bytes than this, and less than this fraction of the
/// largest: a message beside a copy.
const MIN_BYTES: u64 = 4096;
const MIN_FRACTION: u64 = 1000;

/// The largest transfers, the sum of the others, and what is in no transfer, if there is anything
/// to show.
pub(super) fn part(report: &Report, options: &Options) -> Option<DocumentPart> {
    let (shown, others) = select(members(report), options);
    let mut shown_texts = ShownTexts::default();
    let mut items: Vec<Vec<TextLine>> = shown
        .iter()
        .map(|group| group.item(report, &mut shown_texts))
        .collect();
    let first = shown.first().zip(items.first());
    let answer = first.map_or_else(Vec::new, |(group, item)| group.answer(item));
    if !others.0.is_empty() {
        let (count, amount) = (others.count(), others.amount());
        let more = format!("and {count} more with {amount}: --all shows them");
        items.push(vec![words(&more, Style::Plain)]);
    }
    items.extend(rest::items(report, !items.is_empty()));
    (!items.is_empty()).then(|| DocumentPart {
        heading: heading(report),
        is_of_transfers: true,
        items,
        answer,
        remarks: unknown_origins(report).into_iter().collect(),
        ..DocumentPart::default()
    })
}

/// The bytes of a transfer, or of several that are shown as one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TransferredBytes {
    /// `None`: no call told any.
    pub(super) all: Option<u64>,
    /// Those that came from files, and those that went to files.
    pub(super) of_files: [u64; 2],
}

/// The bytes of the largest one.
pub(super) fn largest(report: &Report) -> TransferredBytes {
    let groups = grouped(members(report));
    let Some(largest) = groups.first() else {
        return TransferredBytes::default();
    };
    let transfers = largest.transfers();
    let bytes = |end: fn(&Transfer) -> &End| {
        let of_files = transfers.iter().filter(|one| is_file(end(one)));
        let bytes = of_files.filter_map(|one| one.bytes);
        bytes.fold(0, u64::saturating_add)
    };
    TransferredBytes {
        all: largest.bytes(),
        of_files: [bytes(|one| &one.from), bytes(|one| &one.to)],
    }
}

/// Whether it is a file or device that stores bytes.
pub(super) fn is_file(end: &End) -> bool {
    matches!(end.kind.as_deref(), Some("regular" | "block"))
}

/// The transfers in the order of the report. A hop of another transfer is shown with that one.
fn members(report: &Report) -> Vec<GroupMember<'_>> {
    let mut processes: BTreeMap<usize, &Process> = BTreeMap::new();
    let mut hops: BTreeMap<usize, Vec<(&Process, &Transfer)>> = BTreeMap::new();
    for process in &report.processes {
        for (&index, transfer) in process.transfers.iter().zip(report.transfers_of(process)) {
            processes.insert(index, process);
            for &way in &transfer.part_of {
                hops.entry(way).or_default().push((process, transfer));
            }
        }
    }
    shown(report)
        .map(|(order, transfer)| GroupMember {
            process: processes.get(&order).copied(),
            transfer,
            order,
            hops: hops.remove(&order).unwrap_or_default(),
        })
        .collect()
}

/// The transfers that are not hops of another one, each with its index.
fn shown(report: &Report) -> impl Iterator<Item = (usize, &Transfer)> {
    report
        .transfers
        .iter()
        .enumerate()
        .filter(|(_, transfer)| transfer.part_of.is_empty())
}

/// Splits the transfers into the groups to show and those that are only summed.
fn select<'a>(
    members: Vec<GroupMember<'a>>,
    options: &Options,
) -> (Vec<AlikeTransfers<'a>>, AlikeTransfers<'a>) {
    if options.all {
        let single = members
            .into_iter()
            .map(|member| AlikeTransfers(vec![member]));
        return (single.collect(), AlikeTransfers(Vec::new()));
    }
    let groups = grouped(members);
    let least = (groups.first().map_or(0, AlikeTransfers::weight) / MIN_FRACTION).min(MIN_BYTES);
    // An attempt that moved nothing may explain the others.
    let is_worth = |group: &AlikeTransfers<'_>| group.weight() >= least || group.weight() == 0;
    let (mut shown, mut others) = (Vec::new(), Vec::new());
    for group in groups {
        if shown.len() < MAX_TRANSFERS && is_worth(&group) {
            shown.push(group);
        } else {
            others.extend(group.0);
        }
    }
    (shown, AlikeTransfers(others))
}

/// `TRANSFERS, 3`; without any, what is below it.
fn heading(report: &Report) -> TextLine {
    let count: u64 = shown(report).map(|(_, one)| one.transfer_count()).sum();
    let mut heading = vec!["TRANSFERS".to_owned(), count.to_string()];
    if count == 0 {
        heading = vec!["READ AND WRITTEN".to_owned()];
    }
    if report.calls_without_files > 0 || !report.knows_origins() {
        heading.push("a lower bound".to_owned());
    }
    list(&heading, Style::Heading)
}
