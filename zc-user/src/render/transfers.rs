//! The section of transfers: what went from where to where, by which interface, what was tried
//! first, and why. It comes before the tables because it answers most questions.

mod groups;
mod rest;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use groups::Entry;

use super::{
    callers,
    page::{Options, Page, Piece, Style, list, words},
    section::{INDENT, plural, process_name},
    text,
};
use crate::{
    report::{Api, Attempt, Certainty, End, Process, Report, Transfer},
    units,
};

/// How many transfers, or groups of them, are shown without `--all`.
const MOST_TRANSFERS: usize = 10;
/// A transfer is only summed if it has fewer bytes than this, and less than this fraction of the
/// largest: a message beside a copy.
const LEAST_BYTES: u64 = 4096;
const LEAST_FRACTION: u64 = 1000;
/// How many groups are named in the sum of the others.
const MOST_GROUPS: usize = 4;
/// How many of the files and pipes on the way are named.
const MOST_HOPS: usize = 8;

/// A transfer, and its process if it is within one that the report has.
#[derive(Debug, Clone)]
struct Line<'a> {
    process: Option<&'a Process>,
    transfer: &'a Transfer,
    /// Its place in the report.
    order: usize,
    /// The transfers within processes that are parts of this one.
    hops: Vec<(&'a Process, &'a Transfer)>,
}

/// Writes the section, if there is anything to show.
pub(super) fn write(page: &mut Page, report: &Report, options: &Options) {
    let items = items(report, options);
    if items.is_empty() {
        return;
    }
    page.gap();
    page.flow(0, &heading(report));
    for item in items {
        for (index, line) in item.iter().enumerate() {
            page.flow(if index == 0 { INDENT } else { INDENT * 2 }, line);
        }
    }
}

/// The largest transfers, the sum of the others, and what is in no transfer: several
/// lines each, the first is its title.
pub(super) fn items(report: &Report, options: &Options) -> Vec<Vec<Vec<Piece>>> {
    let (shown, others) = select(lines(report), options);
    let mut shown_texts = ShownTexts::default();
    let of_many = report.totals.processes > 1;
    let mut items = Vec::new();
    for entry in &shown {
        items.push(match entry {
            Entry::One(line) => item(line, of_many, report.directory.as_deref(), &mut shown_texts),
            Entry::Alike(lines) => groups::item(
                lines,
                of_many,
                report.directory.as_deref(),
                &mut shown_texts,
            ),
        });
    }
    if !others.is_empty() {
        items.push(vec![other_transfers(&others)]);
    }
    let rest = rest::item(report);
    if !rest.is_empty() {
        items.push(rest);
    }
    items
}

/// A transfer, or several of the same shape, for a picture.
#[derive(Debug)]
pub(super) struct Band<'a> {
    /// Where the bytes came from, and where they went.
    pub(super) sides: [Side<'a>; 2],
    pub(super) api: Api,
    /// The bytes as far as they are known. `None`: no call told any.
    pub(super) bytes: Option<u64>,
    /// That of the least certain one.
    pub(super) certainty: Certainty,
    /// The bytes in words.
    pub(super) amount: String,
}

/// One side of a [`Band`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Side<'a> {
    ends: BTreeSet<&'a End>,
    /// The name of the one end, or what the ends have in common.
    pub(super) label: Vec<Piece>,
}

/// The transfers of the first items, in the same order.
pub(super) fn bands<'a>(report: &'a Report, options: &Options) -> Vec<Band<'a>> {
    select(lines(report), options)
        .0
        .iter()
        .map(Entry::band)
        .collect()
}

/// The transfers in the order of the report. A hop of another transfer is shown with that one.
fn lines(report: &Report) -> Vec<Line<'_>> {
    let mut processes: BTreeMap<usize, &Process> = BTreeMap::new();
    let mut hops: BTreeMap<usize, Vec<(&Process, &Transfer)>> = BTreeMap::new();
    for process in &report.processes {
        for (&index, transfer) in process.transfers.iter().zip(report.transfers_of(process)) {
            processes.insert(index, process);
            transfer
                .part_of
                .iter()
                .for_each(|&way| hops.entry(way).or_default().push((process, transfer)));
        }
    }
    shown(report)
        .map(|(order, transfer)| Line {
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

/// Splits the transfers into the entries to show and those that are only summed.
fn select<'a>(lines: Vec<Line<'a>>, options: &Options) -> (Vec<Entry<'a>>, Vec<Line<'a>>) {
    if options.all_transfers {
        return (lines.into_iter().map(Entry::One).collect(), Vec::new());
    }
    let mut entries = groups::group(lines);
    let least = (entries.first().map_or(0, Entry::weight) / LEAST_FRACTION).min(LEAST_BYTES);
    let worth = entries
        .iter()
        .take(MOST_TRANSFERS)
        .take_while(|entry| entry.weight() >= least)
        .count();
    let others = entries
        .split_off(worth)
        .iter()
        .flat_map(|entry| entry.lines().to_vec())
        .collect();
    (entries, others)
}

/// `TRANSFERS, 3`.
pub(super) fn heading(report: &Report) -> Vec<Piece> {
    let mut heading = vec!["TRANSFERS".to_owned()];
    heading.push(
        match shown(report)
            .map(|(_, transfer)| transfer.count())
            .sum::<u64>()
        {
            0 => "none recognised".to_owned(),
            count => count.to_string(),
        },
    );
    if report.calls_without_files > 0 {
        heading.push("a lower bound".to_owned());
    }
    list(&heading, Style::Heading)
}

fn sum_bytes(lines: &[Line<'_>]) -> u64 {
    lines.iter().fold(0, |sum, line| {
        sum.saturating_add(line.transfer.bytes.unwrap_or(0))
    })
}

/// Reasons, meanings of errors and hints that were already shown. Each is shown once: a thousand
/// files copied in the same way share one.
#[derive(Debug, Default)]
struct ShownTexts<'a>(BTreeSet<&'a str>);

impl<'a> ShownTexts<'a> {
    /// The text, unless it was shown before.
    fn once(&mut self, text: &'a str) -> Option<&'a str> {
        self.0.insert(text).then_some(text)
    }

    fn hint(&mut self, transfer: &'a Transfer) -> Option<&'a str> {
        transfer.hint.as_deref().and_then(|hint| self.once(hint))
    }

    /// `why: cp uses copy_file_range if the files cannot share blocks`.
    fn why(&mut self, transfer: &'a Transfer) -> Option<Vec<Piece>> {
        let why = transfer
            .verdict_parts()
            .why
            .and_then(|why| self.once(why))?;
        Some(words(&format!("why: {}", text::escape(why)), Style::Plain))
    }

    /// `tried first: ioctl(FICLONE), EOPNOTSUPP: the filesystem cannot share blocks between files`.
    fn tried_first(&mut self, attempts: &[Attempt]) -> Option<Vec<Piece>> {
        let mut show = |attempt: &Attempt| {
            let times = if attempt.calls > 1 {
                format!(", {} times", attempt.calls)
            } else {
                String::new()
            };
            let meaning = attempt
                .meaning()
                .and_then(|meaning| self.once(meaning))
                .map(|meaning| format!(": {meaning}"));
            let (syscall, errno) = (text::escape(&attempt.syscall), text::escape(&attempt.errno));
            format!("{syscall}, {errno}{times}{}", meaning.unwrap_or_default())
        };
        let shown: Vec<String> = attempts.iter().map(&mut show).collect();
        (!shown.is_empty()).then(|| {
            words(
                &format!("tried first: {}", shown.join("; then ")),
                Style::Plain,
            )
        })
    }
}

/// The lines of one transfer.
fn item<'a>(
    line: &Line<'a>,
    of_many: bool,
    directory: Option<&str>,
    shown_texts: &mut ShownTexts<'a>,
) -> Vec<Vec<Piece>> {
    let transfer = line.transfer;
    let mut amount = transfer
        .amount()
        .unwrap_or_else(|| units::UNKNOWN.to_owned());
    if let Some(who) = by_whom(line).filter(|_| of_many) {
        amount = format!("{amount} by {who}");
    }
    let mut pieces = end_pieces(&transfer.from, "");
    pieces.push(Piece::new("->", Style::Plain));
    pieces.extend(end_pieces(&transfer.to, ":"));
    pieces.extend(words(&amount, Style::Plain));
    let parts = transfer.verdict_parts();
    let work = words(&text::escape(parts.work), Style::Plain);
    let reasons = [
        shown_texts.tried_first(parts.attempts),
        shown_texts.why(transfer),
    ];
    let hint = |whose: &str, hint: &str| {
        words(&format!("hint{whose}: {}", text::escape(hint)), Style::Good)
    };
    let own_hint = shown_texts.hint(transfer).map(|text| hint("", text));
    let mut hints: Vec<_> = own_hint.into_iter().collect();
    for (process, hop) in &line.hops {
        let whose = format!(" for {}", process_name(process));
        hints.extend(shown_texts.hint(hop).map(|text| hint(&whose, text)));
    }
    let cost = list(&cost(transfer), Style::Faint);
    let callers = callers::sites(transfer.callers.as_ref(), directory);
    [pieces, work]
        .into_iter()
        .chain(way(transfer))
        .chain(callers)
        .chain(reasons.into_iter().flatten())
        .chain([cost])
        .chain(hints)
        .collect()
}

/// The process that it lies within, `cp (123)`; only its id if the report does not list it. The
/// name of those that were merged.
fn by_whom(line: &Line<'_>) -> Option<String> {
    if let Some(merged) = &line.transfer.merged {
        let [program] = merged.programs.as_slice() else {
            return None;
        };
        return program
            .as_deref()
            .map(|name| format!("processes called {}", text::escape(name)));
    }
    match (line.process, line.transfer.pids.as_slice()) {
        (Some(process), _) => Some(process_name(process)),
        (None, [pid]) => Some(format!("process {pid}")),
        (None, _) => None,
    }
}

/// `by way of a pipe, a pipe and 98 more`.
fn way(transfer: &Transfer) -> Option<Vec<Piece>> {
    let between = transfer.hops.split_last()?.1;
    let mut stops: Vec<String> = between
        .iter()
        .take(MOST_HOPS)
        .map(|hop| end_label(&hop.to))
        .collect();
    if let Some(more @ 1..) = between.len().checked_sub(MOST_HOPS) {
        stops.push(format!("{more} more"));
    }
    Some(words(
        &format!("by way of {}", stops.join(", ")),
        Style::Plain,
    ))
}

/// `in (regular, ext4)`.
fn end_pieces(end: &End, suffix: &str) -> Vec<Piece> {
    let (label, nature) = (end_label(end), end_nature(end));
    if nature.is_empty() {
        return vec![Piece::new(format!("{label}{suffix}"), Style::Heading)];
    }
    vec![
        Piece::new(label, Style::Heading),
        Piece::new(format!("{nature}{suffix}"), Style::Plain),
    ]
}

/// The path or address of an end; if it has none, its kind.
pub(super) fn end_label(end: &End) -> String {
    let name = end
        .path
        .as_deref()
        .filter(|path| !path.is_empty())
        .or(end.peer.as_deref())
        .or(end.local.as_deref());
    text::escape(name.unwrap_or_else(|| end_kind(end)))
}

/// The kind and filesystem of an end, unless the label says them: `(regular, ext4)`.
fn end_nature(end: &End) -> String {
    let kind = end.kind.as_deref().filter(|kind| end_label(end) != *kind);
    // The pseudo filesystem of a pipe or a socket adds nothing.
    let has_files = matches!(end.kind.as_deref(), Some("regular" | "directory" | "block"));
    let filesystem = end.fs.as_deref().filter(|_| has_files);
    let parts: Vec<String> = kind
        .into_iter()
        .chain(filesystem)
        .map(text::escape)
        .collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!("({})", parts.join(", "))
    }
}

/// The kind of an end.
pub(super) fn end_kind(end: &End) -> &str {
    end.kind.as_deref().unwrap_or("unknown file")
}

/// What the transfer cost.
fn cost(transfer: &Transfer) -> Vec<String> {
    costs(
        transfer.crossings,
        transfer.user_memory_bytes,
        transfer.total_ns,
        transfer.short_calls,
    )
}

/// What one or several transfers cost.
fn costs(
    crossings: Option<u64>,
    user_memory_bytes: Option<u64>,
    total_ns: Option<u64>,
    short_calls: u64,
) -> Vec<String> {
    let memory = match user_memory_bytes {
        Some(0) => "nothing through user memory".to_owned(),
        Some(bytes) => format!("{} through user memory", units::bytes(bytes)),
        None => "user memory: unknown".to_owned(),
    };
    let crossings = crossings.map(|crossings| {
        plural(
            crossings,
            "crossing into the kernel",
            "crossings into the kernel",
        )
    });
    let mut cost: Vec<String> = crossings.into_iter().chain([memory]).collect();
    if let Some(ns) = total_ns {
        cost.push(format!("{} in these calls", units::duration(ns)));
    }
    // A single short call is nearly always the end of the source.
    if short_calls > 1 {
        cost.push(plural(short_calls, "short call", "short calls"));
    }
    cost
}

/// `and 9990 more with 39.0 MiB: 9990 by copy_file_range (regular -> regular); --all shows them`.
fn other_transfers(others: &[Line<'_>]) -> Vec<Piece> {
    let mut groups: BTreeMap<(Api, &str, &str), u64> = BTreeMap::new();
    for Line { transfer, .. } in others {
        *groups
            .entry((
                transfer.api,
                end_kind(&transfer.from),
                end_kind(&transfer.to),
            ))
            .or_default() += transfer.count();
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|&(_, count)| Reverse(count));
    let more = groups.len() > MOST_GROUPS;
    let mut shown: Vec<String> = groups
        .iter()
        .take(MOST_GROUPS)
        .map(|((api, from, to), count)| {
            format!(
                "{count} by {} ({} -> {})",
                api.name(),
                text::escape(from),
                text::escape(to)
            )
        })
        .collect();
    if more {
        shown.push("others".to_owned());
    }
    let certainty = others
        .iter()
        .map(|line| line.transfer.certainty)
        .max()
        .unwrap_or(Certainty::Observed);
    let count: u64 = others.iter().map(|line| line.transfer.count()).sum();
    let what = format!(
        "and {count} more with {}: ",
        certainty.amount(sum_bytes(others))
    );
    words(
        &format!("{what}{}; --all shows them", shown.join(", ")),
        Style::Plain,
    )
}
