//! Transfers of the same shape as one item: 300 downloads of a file are one thing that happened,
//! not 300. A transfer that is shown by itself is a group of one.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    ends::{end_kind, end_label, ends_pieces, has_sums},
    rest::rest_of,
};
use crate::{
    render::{
        caller_lines,
        calls::process_name,
        page::{Piece, Style, TextLine, list, words},
        text::{self, known, plural},
    },
    report::{
        Api, Attempt, Callers, Certainty, DestinationTotals, End, Process, Report, SourceTotals,
        Transfer,
    },
    units::{self, UNKNOWN, sum_all},
};

/// So many transfers of one shape are shown as one.
const MIN_ALIKE: u64 = 4;
/// How many of the files and pipes on the way are named.
const MAX_HOPS: usize = 8;

/// A transfer, and its process if it is within one that the report has.
#[derive(Debug, Clone)]
pub(super) struct GroupMember<'a> {
    pub(super) process: Option<&'a Process>,
    pub(super) transfer: &'a Transfer,
    /// Its place in the report.
    pub(super) order: usize,
    /// The transfers within processes that are parts of this one.
    pub(super) hops: Vec<(&'a Process, &'a Transfer)>,
}

/// A transfer, or several of the same shape, the largest first; of some, only sums are known.
#[derive(Debug, Clone)]
pub(super) struct AlikeTransfers<'a>(pub(super) Vec<GroupMember<'a>>);

/// What transfers have in common that are shown as one.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct AlikeShape<'a> {
    /// `None`: of several processes, or unknown.
    program: Option<&'a str>,
    api: Api,
    is_transfer: bool,
    kinds: [&'a str; 2],
    /// Number of hops and of processes.
    way: [usize; 2],
    /// The call and the errno of each failed attempt.
    attempts: Vec<[&'a str; 2]>,
}

impl<'a> GroupMember<'a> {
    fn shape(&self) -> AlikeShape<'a> {
        let transfer = self.transfer;
        let attempts = transfer.attempts.iter();
        AlikeShape {
            program: self.program(),
            api: transfer.api,
            is_transfer: transfer.is_transfer(),
            kinds: [end_kind(&transfer.from), end_kind(&transfer.to)],
            way: [transfer.hops.len(), transfer.pids.len()],
            attempts: attempts
                .map(|attempt| [attempt.syscall.as_str(), attempt.errno.as_str()])
                .collect(),
        }
    }

    /// Whether more bytes than are known may have gone from its source to its destination: the process
    /// wrote some there from its own memory, and buffers of the source were forgotten.
    fn may_lack_bytes(&self) -> bool {
        let Self { transfer, .. } = self;
        self.process.is_some_and(|process| {
            let mut sources = process.sources.iter();
            let is_from =
                |file: &Option<End>| file.as_ref().is_none_or(|file| *file == transfer.from);
            let mut destinations = process.destinations.iter();
            let is_to = |one: &DestinationTotals| one.file.as_ref() == Some(&transfer.to);
            let is_lost = |one: &SourceTotals| one.forgotten_buffers > 0 || one.may_be_mapped;
            sources.any(|one| is_lost(one) && is_from(&one.file))
                && destinations.any(|one| is_to(one) && one.own_memory_bytes != Some(0))
        })
    }

    /// All that the process wrote to the destination, if one notices that this is more.
    fn larger_written(&self) -> Option<u64> {
        let mut destinations = self.process?.destinations.iter();
        let to = destinations.find(|one| one.file.as_ref() == Some(&self.transfer.to))?;
        rest_of(to, &[self.transfer])?;
        to.written_bytes
    }

    /// The name of the process that it lies within.
    fn program(&self) -> Option<&'a str> {
        let merged = self.transfer.merged.as_ref();
        match merged.map(|merged| merged.programs.as_slice()) {
            Some([program]) => program.as_deref(),
            Some(_) => None,
            None => self.process.and_then(Process::name),
        }
    }
}

/// Groups the members, which are in order of size; so are the groups.
pub(super) fn grouped(members: Vec<GroupMember<'_>>) -> Vec<AlikeTransfers<'_>> {
    let mut shapes: BTreeMap<AlikeShape<'_>, Vec<GroupMember<'_>>> = BTreeMap::new();
    for member in members {
        shapes.entry(member.shape()).or_default().push(member);
    }
    let (alike, few): (Vec<AlikeTransfers<'_>>, Vec<AlikeTransfers<'_>>) = shapes
        .into_values()
        .map(AlikeTransfers)
        .partition(|group| group.count() >= MIN_ALIKE);
    let single = few.into_iter().flat_map(|group| group.0);
    let single = single.map(|member| AlikeTransfers(vec![member]));
    let mut groups: Vec<AlikeTransfers<'_>> = alike.into_iter().chain(single).collect();
    // At equal size, those across processes come first, as without groups.
    groups.sort_by_key(|group| {
        let first = &group.0[0];
        let within = !first.transfer.crosses_processes();
        (Reverse(group.weight()), within, first.order)
    });
    groups
}

impl<'a> AlikeTransfers<'a> {
    /// Its transfers.
    pub(super) fn transfers(&self) -> Vec<&'a Transfer> {
        self.0.iter().map(|member| member.transfer).collect()
    }

    /// The bytes by which groups are ordered.
    pub(super) fn weight(&self) -> u64 {
        let weights = self.0.iter().map(|member| member.transfer.weight_bytes());
        weights.fold(0, u64::saturating_add)
    }

    /// How many transfers these are.
    pub(super) fn count(&self) -> u64 {
        self.0
            .iter()
            .map(|member| member.transfer.transfer_count())
            .sum()
    }

    /// The sum of the bytes as far as they are known. `None`: no call told any.
    pub(super) fn bytes(&self) -> Option<u64> {
        let bytes = self.0.iter().filter_map(|member| member.transfer.bytes);
        bytes.reduce(u64::saturating_add)
    }

    /// That of the least certain one.
    pub(super) fn certainty(&self) -> Certainty {
        let certainties = self.0.iter().map(|member| member.transfer.certainty);
        certainties.max().unwrap_or(Certainty::Observed)
    }

    /// The sum of their bytes: `858.3 MiB`, `probably 858.2 MiB`, or `976.6 KiB, 244.1 KiB of it
    /// probably`; where no call told any, `-, at least partly inferred` if that is so.
    pub(super) fn amount(&self) -> String {
        let observed = self.0.iter().map(|member| member.transfer.observed_bytes);
        let observed = sum_all(observed).unwrap_or(0);
        match (self.bytes(), self.certainty()) {
            (Some(bytes), certainty) => certainty.bytes_text(bytes, observed),
            (None, Certainty::Inferred) => format!("{UNKNOWN}, at least partly inferred"),
            (None, Certainty::Observed | Certainty::Changed) => UNKNOWN.to_owned(),
        }
    }

    /// `; 3.0 MiB were written there in all` or `; the source had 57.2 MiB`, if a single transfer moved less
    /// than was written, or than was there.
    fn larger_whole(&self) -> String {
        let [member] = self.0.as_slice() else {
            return String::new();
        };
        let transfer = member.transfer;
        let size = transfer
            .from
            .size
            .filter(|_| transfer.transfer_count() == 1);
        let size = size.filter(|&size| transfer.bytes.is_some_and(|bytes| bytes < size));
        match (member.larger_written(), size) {
            (Some(all), _) => format!("; {} were written there in all", units::bytes(all)),
            (None, Some(size)) => format!("; the source had {}", units::bytes(size)),
            (None, None) => String::new(),
        }
    }

    /// The lines that say what it did.
    pub(super) fn item(
        &self,
        report: &'a Report,
        shown_texts: &mut ShownTexts<'a>,
    ) -> Vec<TextLine> {
        let transfers = self.transfers();
        let of_many = report.totals.processes > 1;
        let by = self.by_whom().filter(|_| of_many);
        let by = by.map_or_else(String::new, |who| format!(" by {who}"));
        let mut title = ends_pieces(&transfers, |transfer| &transfer.from, "");
        title.push(Piece::new("->", Style::Plain));
        title.extend(ends_pieces(&transfers, |transfer| &transfer.to, ":"));
        let at_least = if self.0.iter().any(GroupMember::may_lack_bytes) {
            "at least "
        } else {
            ""
        };
        let amount = format!("{at_least}{}{by}{}", self.amount(), self.larger_whole());
        title.extend(words(&amount, Style::Plain));

        let mut item = vec![title, words(&self.work(), Style::Plain)];
        item.extend(self.way().map(|way| words(&way, Style::Plain)));
        let callers = transfers
            .iter()
            .filter_map(|transfer| transfer.callers.as_ref());
        let directory = report.directory.as_deref();
        item.extend(caller_lines::sites(
            Callers::sum_callers(callers).as_ref(),
            directory,
        ));
        item.extend(shown_texts.tried_first("", &attempts(&transfers)));
        // The reason of the largest; those of the others differ only if they say more than that.
        item.extend(shown_texts.why("", transfers[0]));
        for (process, step) in self.steps() {
            let by = format!(" by {}", process_name(process));
            item.extend(shown_texts.tried_first(&by, step.verdict_parts().1));
            item.extend(shown_texts.why(&by, step));
        }
        item.push(list(&cost(&transfers), Style::Faint));
        item.extend(self.hints(shown_texts));
        item
    }

    /// The first two lines of its [`item`](Self::item), and the time in its calls.
    pub(super) fn answer(&self, item: &[TextLine]) -> Vec<TextLine> {
        let mut lines: Vec<TextLine> = item.iter().take(2).cloned().collect();
        let ns = sum(&self.transfers(), |transfer| transfer.total_ns);
        if let (Some(ns), [_, work]) = (ns, lines.as_mut_slice()) {
            if let Some(last) = work.last_mut() {
                last.text.push(',');
            }
            let time = format!("{} in these calls", units::duration(ns));
            work.push(Piece::new(time, Style::Plain));
        }
        lines
    }

    /// The transfers within processes that are its parts, if it is a single one.
    fn steps(&self) -> &[(&'a Process, &'a Transfer)] {
        match self.0.as_slice() {
            [one] if self.count() == 1 => &one.hops,
            _ => &[],
        }
    }

    /// The process that it lies within, `cp (123)`, or `20 x cp`; only its id if the report does not
    /// list it. The name of those that were merged.
    fn by_whom(&self) -> Option<String> {
        let first = &self.0[0];
        if self.0.iter().any(|member| member.transfer.merged.is_some()) {
            let name = first.program();
            return name.map(|name| format!("processes called {}", text::escape(name)));
        }
        let processes = self.0.iter().filter_map(|member| member.process);
        let pids: BTreeSet<u32> = processes.map(|process| process.pid).collect();
        match (first.process, first.transfer.pids.as_slice()) {
            (Some(process), _) if pids.len() == 1 => Some(process_name(process)),
            (Some(process), _) => {
                let name = known(process.name(), text::escape);
                Some(format!("{} x {name}", pids.len()))
            }
            (None, [pid]) if self.0.len() == 1 => Some(format!("process {pid}")),
            (None, _) => None,
        }
    }

    /// What moved the bytes: of one, as its verdict says it; of several, `300 transfers of 2.9 MiB
    /// each: read + write, 64 KiB at a time on average`. The crossings in the line of costs tell the
    /// calls, with those that only read.
    fn work(&self) -> String {
        let transfers = self.transfers();
        if self.count() == 1 {
            return text::escape(transfers[0].verdict_parts().0);
        }
        let are_known = !has_sums(&transfers);
        let bytes = |transfer: &&Transfer| transfer.bytes.filter(|_| are_known);
        let of_each = match range(transfers.iter().map(bytes)) {
            Some((least, most)) if least == most => format!(" of {} each", units::bytes(most)),
            Some((least, most)) => {
                format!(" of {} to {}", units::bytes(least), units::bytes(most))
            }
            None => String::new(),
        };
        let sizes = transfers.iter().map(|transfer| transfer.mean_bytes);
        let sizes = range(sizes).map(|(least, most)| {
            let [least, most] = [least, most].map(units::short_bytes);
            let size = if least == most {
                most
            } else {
                format!("{least} to {most}")
            };
            format!(", {size} at a time on average")
        });
        format!(
            "{} transfers{of_each}: {}{}",
            self.count(),
            transfers[0].api.in_words(),
            sizes.unwrap_or_default()
        )
    }

    /// `by way of a pipe, a pipe and 98 more`.
    fn way(&self) -> Option<String> {
        let (_, between) = self.0[0].transfer.hops.split_last()?;
        if self.count() > 1 {
            let stops = plural(between.len() as u64, "stop", "stops");
            return (!between.is_empty())
                .then(|| format!("each by way of {stops}: --all shows them"));
        }
        let stops = between.iter().take(MAX_HOPS);
        let mut stops: Vec<String> = stops.map(|hop| end_label(&hop.to)).collect();
        if let Some(more @ 1..) = between.len().checked_sub(MAX_HOPS) {
            stops.push(format!("{more} more"));
        }
        Some(format!("by way of {}", stops.join(", ")))
    }

    /// What would be cheaper. Several of one shape mostly share a hint.
    fn hints(&self, shown_texts: &mut ShownTexts<'a>) -> Vec<TextLine> {
        let is_one = self.count() == 1;
        let whose = if is_one { "" } else { ", for one of them" };
        let mut own = self.0.iter().map(|member| member.transfer);
        let own = own.find_map(|transfer| shown_texts.hint(transfer));
        let mut hints: Vec<(String, &str)> = own
            .map(|hint| (whose.to_owned(), hint))
            .into_iter()
            .collect();
        for (process, step) in self.steps() {
            let hint = shown_texts.hint(step);
            hints.extend(hint.map(|hint| (format!(" for {}", process_name(process)), hint)));
        }
        hints
            .iter()
            .map(|(whose, hint)| format!("hint{whose}: {}", text::escape(hint)))
            .map(|hint| words(&hint, Style::Good))
            .collect()
    }
}

/// The least and the most of these figures. `None` if one is unknown.
fn range(figures: impl Iterator<Item = Option<u64>>) -> Option<(u64, u64)> {
    let figures = figures.collect::<Option<Vec<u64>>>()?;
    Some((*figures.iter().min()?, *figures.iter().max()?))
}

/// The sum of a figure. `None` if that of one is unknown.
fn sum(transfers: &[&Transfer], figure: fn(&Transfer) -> Option<u64>) -> Option<u64> {
    sum_all(transfers.iter().map(|transfer| figure(transfer)))
}

/// The failed attempts of all, each call and errno once.
fn attempts(transfers: &[&Transfer]) -> Vec<Attempt> {
    let mut sums = transfers[0].verdict_parts().1.to_vec();
    for sum in &mut sums {
        let same = transfers[1..]
            .iter()
            .flat_map(|transfer| &transfer.attempts)
            .filter(|attempt| attempt.syscall == sum.syscall && attempt.errno == sum.errno);
        sum.calls = same.fold(sum.calls, |calls, attempt| {
            calls.saturating_add(attempt.calls)
        });
    }
    sums
}

/// What they cost together.
fn cost(transfers: &[&Transfer]) -> Vec<String> {
    let crossings = sum(transfers, |transfer| transfer.crossings).map(|crossings| {
        plural(
            crossings,
            "crossing into the kernel",
            "crossings into the kernel",
        )
    });
    let memory = match sum(transfers, |transfer| transfer.user_memory_bytes) {
        Some(0) => "nothing through user memory".to_owned(),
        Some(bytes) => format!("{} through user memory", units::bytes(bytes)),
        None => "user memory: unknown".to_owned(),
    };
    let mut cost: Vec<String> = crossings.into_iter().chain([memory]).collect();
    if let Some(ns) = sum(transfers, |transfer| transfer.total_ns) {
        cost.push(format!("{} in these calls", units::duration(ns)));
    }
    let short_calls = transfers.iter().map(|transfer| transfer.short_calls);
    let short_calls = short_calls.fold(0, u64::saturating_add);
    // A single short call is nearly always the end of the source.
    if short_calls > 1 {
        cost.push(plural(short_calls, "short call", "short calls"));
    }
    cost
}

/// Reasons, meanings of errors and hints that were already shown. Each is shown once: a thousand
/// files copied in the same way share one.
#[derive(Debug, Default)]
pub(super) struct ShownTexts<'a>(BTreeSet<&'a str>);

impl<'a> ShownTexts<'a> {
    /// The text, unless it was shown before.
    fn once(&mut self, text: &'a str) -> Option<&'a str> {
        self.0.insert(text).then_some(text)
    }

    fn hint(&mut self, transfer: &'a Transfer) -> Option<&'a str> {
        transfer.hint.as_deref().and_then(|hint| self.once(hint))
    }

    /// `why: cp uses copy_file_range if the files cannot share blocks`; of a step ` by` a process.
    fn why(&mut self, by: &str, transfer: &'a Transfer) -> Option<TextLine> {
        let reason = transfer.reason.as_ref();
        let why = reason.and_then(|reason| self.once(&reason.text))?;
        let line = format!("why{by}: {}", text::escape(why));
        Some(words(&line, Style::Plain))
    }

    /// `tried first: ioctl(FICLONE), EOPNOTSUPP: the filesystem cannot share blocks between files`.
    fn tried_first(&mut self, by: &str, attempts: &[Attempt]) -> Option<TextLine> {
        let mut shown = Vec::new();
        for attempt in attempts {
            let times = if attempt.calls > 1 {
                format!(", {} times", attempt.calls)
            } else {
                String::new()
            };
            let meaning = attempt.meaning().and_then(|meaning| self.once(meaning));
            let meaning = meaning.map(|meaning| format!(": {meaning}"));
            let (syscall, errno) = (text::escape(&attempt.syscall), text::escape(&attempt.errno));
            shown.push(format!(
                "{syscall}, {errno}{times}{}",
                meaning.unwrap_or_default()
            ));
        }
        let tried = format!("tried first{by}: {}", shown.join("; then "));
        (!shown.is_empty()).then(|| words(&tried, Style::Plain))
    }
}
