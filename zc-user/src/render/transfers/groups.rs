//! Transfers of the same shape as one item: 300 downloads of a file are one thing that happened,
//! not 300.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{Band, Line, ShownTexts, Side, end_kind, end_pieces};
use crate::{
    render::{
        callers,
        page::{Piece, Style, list, words},
        section::{plural, process_name},
        text,
    },
    report::{Api, Callers, Certainty, End, Process, Transfer},
    units,
};

/// So many transfers of one shape are shown as one.
const LEAST_ALIKE: u64 = 4;

/// An item of the section.
#[derive(Debug)]
pub(super) enum Entry<'a> {
    One(Line<'a>),
    /// At least [`LEAST_ALIKE`] transfers of the same shape, the largest first; of some, only sums
    /// are known.
    Alike(Vec<Line<'a>>),
}

impl<'a> Entry<'a> {
    /// The bytes by which entries are ordered.
    pub(super) fn weight(&self) -> u64 {
        self.lines()
            .iter()
            .fold(0, |sum, line| sum.saturating_add(line.transfer.weight()))
    }

    /// What a picture shows of it.
    pub(super) fn band(&self) -> Band<'a> {
        let transfers: Vec<&'a Transfer> = self.lines().iter().map(|line| line.transfer).collect();
        let side = |end: fn(&'a Transfer) -> &'a End| {
            let all: BTreeSet<&End> = transfers.iter().map(|transfer| end(transfer)).collect();
            Side {
                label: ends(&transfers, end, ""),
                ends: all,
            }
        };
        let known = transfers.iter().filter_map(|transfer| transfer.bytes);
        Band {
            sides: [
                side(|transfer| &transfer.from),
                side(|transfer| &transfer.to),
            ],
            api: transfers[0].api,
            bytes: known.reduce(u64::saturating_add),
            certainty: certainty(&transfers),
            amount: amount(&transfers),
        }
    }

    pub(super) fn lines(&self) -> &[Line<'a>] {
        match self {
            Self::One(line) => std::slice::from_ref(line),
            Self::Alike(lines) => lines,
        }
    }
}

/// What transfers have in common that are shown as one.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape<'a> {
    /// `None`: of several processes, or unknown.
    program: Option<&'a str>,
    api: Api,
    kinds: [&'a str; 2],
    /// Number of hops and of processes.
    way: [usize; 2],
    /// The call and the errno of each failed attempt.
    attempts: Vec<[&'a str; 2]>,
}

impl<'a> Shape<'a> {
    fn of_line(line: &Line<'a>) -> Self {
        let transfer = line.transfer;
        Self {
            program: program(line),
            api: transfer.api,
            kinds: [end_kind(&transfer.from), end_kind(&transfer.to)],
            way: [transfer.hops.len(), transfer.pids.len()],
            attempts: transfer
                .attempts
                .iter()
                .map(|attempt| [attempt.syscall.as_str(), attempt.errno.as_str()])
                .collect(),
        }
    }
}

/// The name of the process that it lies within.
fn program<'a>(line: &Line<'a>) -> Option<&'a str> {
    match line
        .transfer
        .merged
        .as_ref()
        .map(|merged| merged.programs.as_slice())
    {
        Some([program]) => program.as_deref(),
        Some(_) => None,
        None => line.process.and_then(Process::name),
    }
}

/// How many transfers these are.
fn count(transfers: &[&Transfer]) -> u64 {
    transfers.iter().map(|transfer| transfer.count()).sum()
}

/// Whether some of them are sums, so that not every single transfer is known.
fn has_sums(transfers: &[&Transfer]) -> bool {
    transfers.iter().any(|transfer| transfer.count() > 1)
}

/// Groups the lines, which are in order of size; so are the entries.
pub(super) fn group(lines: Vec<Line<'_>>) -> Vec<Entry<'_>> {
    let mut shapes: BTreeMap<Shape<'_>, Vec<Line<'_>>> = BTreeMap::new();
    for line in lines {
        shapes.entry(Shape::of_line(&line)).or_default().push(line);
    }
    let is_many = |lines: &Vec<Line<'_>>| {
        lines.iter().map(|line| line.transfer.count()).sum::<u64>() >= LEAST_ALIKE
    };
    let (alike, few): (Vec<_>, Vec<_>) = shapes.into_values().partition(is_many);
    let single = few.into_iter().flatten().map(Entry::One);
    let mut entries: Vec<Entry<'_>> = alike.into_iter().map(Entry::Alike).chain(single).collect();
    // At equal size, those across processes come first, as without groups.
    entries.sort_by_key(|entry| {
        (
            Reverse(entry.weight()),
            !entry.lines()[0].transfer.crosses_processes(),
            entry.lines()[0].order,
        )
    });
    entries
}

/// The lines of a group.
pub(super) fn item<'a>(
    lines: &[Line<'a>],
    of_many: bool,
    directory: Option<&str>,
    shown_texts: &mut ShownTexts<'a>,
) -> Vec<Vec<Piece>> {
    let transfers: Vec<&'a Transfer> = lines.iter().map(|line| line.transfer).collect();
    let mut title = ends(&transfers, |transfer| &transfer.from, "");
    title.push(Piece::new("->", Style::Plain));
    title.extend(ends(&transfers, |transfer| &transfer.to, ":"));
    let by = by_whom(lines)
        .filter(|_| of_many)
        .map(|who| format!(" by {who}"))
        .unwrap_or_default();
    title.extend(words(
        &format!("{}{by}{}", amount(&transfers), doubt(&transfers)),
        Style::Plain,
    ));
    let mut item = vec![title, words(&work(&transfers), Style::Plain)];
    if let Some(stops @ 1..) = transfers[0].hops.len().checked_sub(1) {
        item.push(words(
            &format!(
                "each by way of {}: --all shows them",
                plural(stops as u64, "stop", "stops")
            ),
            Style::Plain,
        ));
    }
    item.extend(callers::sites(
        Callers::sum(transfers.iter().filter_map(|of| of.callers.as_ref())).as_ref(),
        directory,
    ));
    item.extend(shown_texts.tried_first(&attempts(&transfers)));
    // The reason of the largest; those of the others differ only if they say more than that.
    item.extend(shown_texts.why(transfers[0]));
    item.push(list(&cost(&transfers), Style::Faint));
    let hint = transfers
        .iter()
        .find_map(|&transfer| shown_texts.hint(transfer));
    item.extend(hint.map(|hint| {
        words(
            &format!("hint, for one of them: {}", text::escape(hint)),
            Style::Good,
        )
    }));
    item
}

/// The one end that all have, or their number: `in (regular, ext4)`, `300 tcp connections`, `9990
/// files in src/`. Sums do not tell how many they are: `many files`.
fn ends<'a>(
    transfers: &[&'a Transfer],
    end: fn(&'a Transfer) -> &'a End,
    suffix: &str,
) -> Vec<Piece> {
    let all: BTreeSet<&End> = transfers.iter().map(|transfer| end(transfer)).collect();
    let Some(&first) = all.first() else {
        return Vec::new();
    };
    let are_unnamed =
        |transfer: &&&'a Transfer| transfer.count() > 1 && end(transfer).path.is_none();
    let some_unnamed = transfers.iter().any(|transfer| are_unnamed(&transfer));
    if all.len() == 1 && !some_unnamed {
        return end_pieces(first, suffix);
    }
    let folder = common_folder(&all)
        .map(|folder| format!(" in {}", text::escape(folder)))
        .unwrap_or_default();
    let name = match end_kind(first) {
        "regular" => "files".to_owned(),
        kind @ ("tcp" | "unix-stream") => format!("{kind} connections"),
        kind @ ("pipe" | "directory" | "socket") => {
            format!("{kind}s").replace("directorys", "directories")
        }
        kind => format!("{} ends", text::escape(kind)),
    };
    let number = if has_sums(transfers) {
        "many".to_owned()
    } else {
        all.len().to_string()
    };
    vec![Piece::new(
        format!("{number} {name}{folder}{suffix}"),
        Style::Heading,
    )]
}

/// The folder that all paths lie in, with a slash at its end, if it is not the root.
fn common_folder<'a>(ends: &BTreeSet<&'a End>) -> Option<&'a str> {
    let mut ends = ends.iter().copied();
    let mut common = folder(ends.next()?)?;
    for end in ends {
        let other = folder(end)?;
        while !other.starts_with(common) {
            let above = common.trim_end_matches('/').rfind('/')?;
            common = &common[..=above];
        }
    }
    (common != "/").then_some(common)
}

/// The folder of a path, with the slash at its end.
fn folder(end: &End) -> Option<&str> {
    let path = end.path.as_deref()?;
    Some(&path[..=path.rfind('/')?])
}

/// `cp (123)`, or `20 x cp`. How many were merged is only known of the programs.
fn by_whom(lines: &[Line<'_>]) -> Option<String> {
    if lines.iter().any(|line| line.transfer.merged.is_some()) {
        return program(&lines[0]).map(|name| format!("processes called {}", text::escape(name)));
    }
    let first = lines[0].process?;
    let pids: BTreeSet<u32> = lines
        .iter()
        .filter_map(|line| Some(line.process?.pid))
        .collect();
    let name = || {
        first
            .name()
            .map_or_else(|| units::UNKNOWN.to_owned(), text::escape)
    };
    Some(if pids.len() == 1 {
        process_name(first)
    } else {
        format!("{} x {}", pids.len(), name())
    })
}

/// That of the least certain one.
fn certainty(transfers: &[&Transfer]) -> Certainty {
    transfers
        .iter()
        .map(|transfer| transfer.certainty)
        .max()
        .unwrap_or(Certainty::Observed)
}

/// The sum of their bytes: `858.3 MiB`, `probably 858.2 MiB`.
fn amount(transfers: &[&Transfer]) -> String {
    let sum = transfers
        .iter()
        .filter_map(|transfer| transfer.bytes)
        .reduce(u64::saturating_add);
    sum.map_or_else(
        || units::UNKNOWN.to_owned(),
        |sum| certainty(transfers).amount(sum),
    )
}

/// `, 12 of 300 inferred`; empty if all or none are.
fn doubt(transfers: &[&Transfer]) -> String {
    let inferred = transfers
        .iter()
        .filter(|transfer| transfer.certainty == Certainty::Inferred);
    let inferred: u64 = inferred.map(|transfer| transfer.count()).sum();
    let all = count(transfers);
    if inferred == 0 || inferred == all {
        return String::new();
    }
    format!(", {inferred} of {all} inferred")
}

/// `300 transfers of 2.9 MiB each: read + write, 13800 calls of 64 KiB on average`.
fn work(transfers: &[&Transfer]) -> String {
    let range = |figures: Option<Vec<u64>>| {
        let figures = figures?;
        Some((*figures.iter().min()?, *figures.iter().max()?))
    };
    let are_known = !has_sums(transfers);
    let bytes = range(
        transfers
            .iter()
            .map(|transfer| transfer.bytes.filter(|_| are_known))
            .collect(),
    );
    let of_each = match bytes {
        Some((least, most)) if least == most => format!(" of {} each", units::bytes(most)),
        Some((least, most)) => format!(" of {} to {}", units::bytes(least), units::bytes(most)),
        None => String::new(),
    };
    let calls = transfers
        .iter()
        .try_fold(0_u64, |sum, transfer| sum.checked_add(transfer.calls?));
    let calls = calls.map(|calls| format!(", {}", plural(calls, "call", "calls")));
    let pieces = match range(
        transfers
            .iter()
            .map(|transfer| transfer.mean_bytes)
            .collect(),
    ) {
        Some((least, most)) if least == most => {
            format!(", {} at a time on average", units::short_bytes(most))
        }
        Some((least, most)) => {
            format!(
                ", {} to {} at a time on average",
                units::short_bytes(least),
                units::short_bytes(most)
            )
        }
        None => String::new(),
    };
    let api = transfers[0].api.in_words();
    format!(
        "{} transfers{of_each}: {api}{}{pieces}",
        count(transfers),
        calls.unwrap_or_default()
    )
}

/// The failed attempts of all, each call and errno once.
fn attempts(transfers: &[&Transfer]) -> Vec<crate::report::Attempt> {
    let mut sums = transfers[0].verdict_parts().attempts.to_vec();
    for sum in &mut sums {
        let same = transfers[1..]
            .iter()
            .flat_map(|transfer| &transfer.attempts);
        let same =
            same.filter(|attempt| attempt.syscall == sum.syscall && attempt.errno == sum.errno);
        sum.calls = same.fold(sum.calls, |calls, attempt| {
            calls.saturating_add(attempt.calls)
        });
    }
    sums
}

/// What they cost together.
fn cost(transfers: &[&Transfer]) -> Vec<String> {
    let sum = |figure: fn(&Transfer) -> Option<u64>| {
        transfers
            .iter()
            .try_fold(0_u64, |sum, transfer| sum.checked_add(figure(transfer)?))
    };
    super::costs(
        sum(|transfer| transfer.crossings),
        sum(|transfer| transfer.user_memory_bytes),
        sum(|transfer| transfer.total_ns),
        transfers
            .iter()
            .map(|transfer| transfer.short_calls)
            .fold(0, u64::saturating_add),
    )
}
