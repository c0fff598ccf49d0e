//! The section of transfers: what went from where to where, and the verdict. It stands first: it is what a person came for.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    Options, end,
    page::{Page, Piece, Style, list, words},
    section::{INDENT, plural, process_name},
    text, units,
};
use crate::report::{Api, Certainty, End, Process, Report, Share, Transfer};

/// How many transfers are shown without `--all-transfers`.
const MOST_TRANSFERS: usize = 10;
/// One with fewer bytes than these, and than this part of the bytes of the largest, is not shown for itself: a message beside a copy.
const LEAST_BYTES: u64 = 4096;
const LEAST_PART: u64 = 1000;
/// How many groups sum up the others.
const MOST_GROUPS: usize = 4;
/// Fewer bytes that nothing explains are not worth a line, nor are those less than half as many as were explained: a program reads
/// its libraries and writes its messages.
const LEAST_UNATTRIBUTED_BYTES: u64 = 64 << 10;

/// A transfer, and the process that it is within.
#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    process: Option<&'a Process>,
    transfer: &'a Transfer,
}

/// Writes the section; nothing, if there is nothing to say.
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

/// The transfers that are worth to be shown, what there is beside them, and what was moved without a transfer: each some lines of which
/// the first says what it is.
pub(super) fn items(report: &Report, options: &Options) -> Vec<Vec<Vec<Piece>>> {
    let (shown, others) = select(lines(report), options);
    let mut told = Told::default();
    let mut items: Vec<_> = shown.iter().map(|line| item(line, report.processes.len() > 1, &mut told)).collect();
    if !others.is_empty() {
        items.push(vec![rest(&others)]);
    }
    items.extend(Some(unattributed(report)).filter(|sides| !sides.is_empty()).map(|sides| vec![sides]));
    items
}

/// All transfers, those with the most bytes first; of as many, those over several processes.
fn lines(report: &Report) -> Vec<Line<'_>> {
    let across = report.transfers.iter().map(|transfer| Line { process: None, transfer });
    let within = report
        .processes
        .iter()
        .flat_map(|process| process.transfers.iter().map(move |transfer| Line { process: Some(process), transfer }));
    let mut lines: Vec<Line> = across.chain(within).collect();
    lines.sort_by_key(|line| Reverse(weight(line)));
    lines
}

/// The bytes by which transfers are compared; those of a reflink are its source's length.
fn weight(line: &Line<'_>) -> u64 {
    line.transfer.bytes.or(line.transfer.from.size).unwrap_or(0)
}

fn select<'a>(mut lines: Vec<Line<'a>>, options: &Options) -> (Vec<Line<'a>>, Vec<Line<'a>>) {
    if options.all_transfers {
        return (lines, Vec::new());
    }
    let least = (lines.first().map_or(0, weight) / LEAST_PART).min(LEAST_BYTES);
    let worth = lines.iter().take(MOST_TRANSFERS).take_while(|line| weight(line) >= least).count();
    let others = lines.split_off(worth);
    (lines, others)
}

/// `TRANSFERS, 3`.
pub(super) fn heading(report: &Report) -> Vec<Piece> {
    let mut heading = vec!["TRANSFERS".to_owned()];
    heading.push(match lines(report).len() {
        0 => "none recognised".to_owned(),
        count => count.to_string(),
    });
    if report.calls_without_files > 0 {
        heading.push("a lower bound".to_owned());
    }
    list(&heading, Style::Heading)
}

fn sum_bytes(lines: &[Line<'_>]) -> u64 {
    lines.iter().fold(0, |sum, line| sum.saturating_add(line.transfer.bytes.unwrap_or(0)))
}

/// Reasons and hints that are on the page already: of a thousand files copied alike, one tells it for all.
#[derive(Debug, Default)]
struct Told<'a> {
    reasons: BTreeSet<&'a str>,
    hints: BTreeSet<&'a str>,
}

impl<'a> Told<'a> {
    /// The verdict; without its reason, if that was told before.
    fn verdict(&mut self, transfer: &'a Transfer) -> &'a str {
        let reason = transfer.reason.as_ref().map(|reason| reason.text.as_str());
        let told = reason.filter(|reason| !self.reasons.insert(reason));
        let facts = told.and_then(|reason| transfer.verdict.strip_suffix(reason)?.strip_suffix(": "));
        facts.unwrap_or(&transfer.verdict)
    }

    fn hint(&mut self, transfer: &'a Transfer) -> Option<&'a str> {
        transfer.hint.as_deref().filter(|hint| self.hints.insert(hint))
    }
}

fn item<'a>(line: &Line<'a>, of_many: bool, told: &mut Told<'a>) -> Vec<Vec<Piece>> {
    let transfer = line.transfer;
    let bytes = transfer.amount().unwrap_or_else(|| units::UNKNOWN.to_owned());
    let mut pieces = end_of(&transfer.from, "");
    pieces.push(Piece::new("->", Style::Plain));
    pieces.extend(end_of(&transfer.to, ":"));
    pieces.extend(words(&bytes, Style::Plain));
    if let Some(process) = line.process.filter(|_| of_many) {
        pieces.push(Piece::new(format!("by {}", process_name(process)), Style::Plain));
    }
    let verdict = words(&text::escape(told.verdict(transfer)), Style::Plain);
    let hint = told.hint(transfer).map(|hint| words(&format!("hint: {}", text::escape(hint)), Style::Good));
    [pieces, verdict, list(&cost(transfer), Style::Faint)].into_iter().chain(hint).collect()
}

/// A sum of bytes: `4.7 MiB`; if some of it is inferred, `at least 4.7 MiB`.
fn amount(bytes: u64, certainty: Certainty) -> String {
    match certainty {
        Certainty::Exact => units::bytes(bytes),
        Certainty::Inferred => format!("at least {}", units::least_bytes(bytes)),
    }
}

/// `in (regular, ext4)`.
fn end_of(end: &End, suffix: &str) -> Vec<Piece> {
    let (label, nature) = (end::label(end), end::nature(end));
    if nature.is_empty() {
        return vec![Piece::new(format!("{label}{suffix}"), Style::Heading)];
    }
    vec![Piece::new(label, Style::Heading), Piece::new(format!("{nature}{suffix}"), Style::Plain)]
}

/// What it cost besides its time.
fn cost(transfer: &Transfer) -> Vec<String> {
    let memory = match transfer.user_memory_bytes {
        Some(0) => "nothing through user memory".to_owned(),
        Some(bytes) => format!("{} through user memory", units::bytes(bytes)),
        None => "user memory: unknown".to_owned(),
    };
    let crossings =
        transfer.crossings.map(|crossings| plural(crossings, "crossing into the kernel", "crossings into the kernel"));
    let mut cost: Vec<String> = crossings.into_iter().chain([memory]).collect();
    if let Some(ns) = transfer.total_ns {
        cost.push(format!("{} in these calls", units::seconds(ns)));
    }
    // One is the end of the source, nearly always.
    if transfer.short_calls > 1 {
        cost.push(plural(transfer.short_calls, "short call", "short calls"));
    }
    cost
}

/// `and 9990 more with 39.0 MiB: 9990 by copy_file_range (regular -> regular); --all-transfers shows them`.
fn rest(others: &[Line<'_>]) -> Vec<Piece> {
    let mut groups: BTreeMap<(Api, &str, &str), u64> = BTreeMap::new();
    for Line { transfer, .. } in others {
        *groups.entry((transfer.api, end::kind(&transfer.from), end::kind(&transfer.to))).or_default() += 1;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|&(_, count)| Reverse(count));
    let more = groups.len() > MOST_GROUPS;
    let mut shown: Vec<String> = groups
        .iter()
        .take(MOST_GROUPS)
        .map(|((api, from, to), count)| format!("{count} by {} ({} -> {})", api.name(), text::escape(from), text::escape(to)))
        .collect();
    if more {
        shown.push("others".to_owned());
    }
    // Sums with an inferred part are inferred.
    let certainty = others.iter().map(|line| line.transfer.certainty).max().unwrap_or_default();
    let what = format!("and {} more with {}: ", others.len(), amount(sum_bytes(others), certainty));
    words(&format!("{what}{}; --all-transfers shows them", shown.join(", ")), Style::Plain)
}

/// `unattributed: 1.0 MiB read, most of it from in (regular, ext4); 10.0 MiB written, 1.0 MiB of it to out (regular, ext4), no more to
/// any of 9 others`.
fn unattributed(report: &Report) -> Vec<Piece> {
    let within: Vec<Line> = lines(report).into_iter().filter(|line| line.process.is_some()).collect();
    let explained = sum_bytes(&within);
    let side = |shares: fn(&Process) -> &[Share], verb: &str, way: &str| {
        let all: Vec<&Share> = report.processes.iter().flat_map(shares).collect();
        let sum = all.iter().fold(0_u64, |sum, share| sum.saturating_add(share.bytes.unwrap_or(0)));
        let of = largest(&all, sum, way)?;
        (sum >= LEAST_UNATTRIBUTED_BYTES && sum >= explained / 2).then(|| format!("{} {verb}, {of}", units::bytes(sum)))
    };
    let read = side(|process| &process.unattributed.read, "read", "from");
    let written = side(|process| &process.unattributed.written, "written", "to");
    let sides: Vec<String> = read.into_iter().chain(written).collect();
    if sides.is_empty() { Vec::new() } else { words(&format!("unattributed: {}", sides.join("; ")), Style::Plain) }
}

/// The file with the most of these bytes, whichever processes moved them. Where no file is known at all, as of a log without
/// descriptors' paths, there is nothing to say that the tables do not.
fn largest(shares: &[&Share], sum: u64, way: &str) -> Option<String> {
    let mut files: BTreeMap<&End, u64> = BTreeMap::new();
    for (file, bytes) in shares.iter().filter_map(|share| Some((share.file.as_ref()?, share.bytes?))) {
        *files.entry(file).or_default() += bytes;
    }
    let (file, bytes) = files.iter().max_by_key(|&(file, bytes)| (bytes, Reverse(file)))?;
    let name = format!("{} {}", end::label(file), end::nature(file));
    let name = name.trim_end();
    let others = u64::try_from(files.len() - 1).unwrap_or(u64::MAX);
    Some(match others {
        _ if *bytes > sum / 2 => format!("most of it {way} {name}"),
        0 => format!("{} of it {way} {name}", units::bytes(*bytes)),
        _ => format!("{} of it {way} {name}, no more {way} any of {}", units::bytes(*bytes), plural(others, "other", "others")),
    })
}
