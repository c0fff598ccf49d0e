//! What is in no transfer: what each process read and kept, and wrote from its own memory.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{file_sums::ShownFileSums, is_file};
use crate::{
    render::{
        calls::process_name,
        page::{Style, TextLine, words},
        text,
    },
    report::{DestinationTotals, Process, Report, SourceTotals, Transfer},
    units,
};
use zctrace_core::text::is_library;

/// Fewer bytes are a message, not data.
const MIN_BYTES: u64 = 4096;
/// What a process read and kept is said if it also wrote from its own memory, or if it is at least
/// this much, and at least half as much as its transfers have.
const MIN_KEPT_BYTES: u64 = 64 << 10;
/// Of a file that has transfers, the rest is said if it is more than this share.
const MIN_PERCENT: u64 = 1;
/// Smaller files beside a large one are what a program reads for itself, such as modules of Python.
const MIN_SHARE_OF_LARGEST: u64 = 10;
/// Processes of one program share a line if there are at least this many.
const MIN_ALIKE: usize = 3;
/// How many processes are shown: those that moved the most.
const MAX_PROCESSES: usize = 8;

/// The lines, below a title if there are transfers; without any, the heading of the part says it.
pub(super) fn items(report: &Report, has_transfers: bool) -> Vec<Vec<TextLine>> {
    let rests: Vec<Rest<'_>> = report
        .processes
        .iter()
        .map(|process| Rest::of_process(process, report))
        .chain(report.merged.iter().map(|merged| {
            let who = text::plural(
                merged.programs,
                "program that had ended",
                "programs that had ended",
            );
            Rest::new(who, &merged.sources, &merged.destinations, &[])
        }))
        .filter(|rest| !rest.is_empty())
        .collect();
    if rests.is_empty() {
        return Vec::new();
    }
    let mut rests = of_alike_programs(rests);
    rests.sort_by_key(|rest| Reverse(rest.bytes()));
    let others = rests.split_off(rests.len().min(MAX_PROCESSES));
    let title = if report.sees_memory {
        "not in transfers:".to_owned()
    } else {
        format!(
            "in no transfer that {} shows:",
            text::escape(&report.backend)
        )
    };
    let of_many = report.totals.processes > 1;
    let mut lines: Vec<String> = rests.iter().map(|rest| rest.sentence(of_many)).collect();
    if !others.is_empty() {
        let bytes = others.iter().map(Rest::bytes).fold(0, u64::saturating_add);
        let (count, bytes) = (others.len(), units::bytes(bytes));
        let more = text::plural(count as u64, "more process", "more processes");
        lines.push(format!("and {bytes} in {more}"));
    }
    let lines = lines.iter().map(|line| words(line, Style::Plain));
    if has_transfers {
        let title = words(&title, Style::Plain);
        vec![std::iter::once(title).chain(lines).collect()]
    } else {
        lines.map(|line| vec![line]).collect()
    }
}

/// Sums up those of programs of the same name, if there are several.
fn of_alike_programs(rests: Vec<Rest<'_>>) -> Vec<Rest<'_>> {
    let mut by_name: BTreeMap<Option<String>, Vec<Rest<'_>>> = BTreeMap::new();
    let mut all = Vec::new();
    for rest in rests {
        match &rest.program {
            Some(_) => by_name.entry(rest.program.clone()).or_default().push(rest),
            None => all.push(rest),
        }
    }
    for mut alike in by_name.into_values() {
        if alike.len() < MIN_ALIKE {
            all.append(&mut alike);
            continue;
        }
        let name = alike[0].program.clone().unwrap_or_default();
        let mut sum = Rest {
            who: format!("{name}, {} processes", alike.len()),
            ..Rest::default()
        };
        for one in alike {
            sum.kept.add_all(one.kept);
            sum.own.add_all(one.own);
            sum.uncompared = sum.uncompared.saturating_add(one.uncompared);
        }
        all.push(sum);
    }
    all
}

/// What matters of one process, or of several that ran programs of the same name.
#[derive(Default)]
struct Rest<'a> {
    who: String,
    /// The name of the program of a single process.
    program: Option<String>,
    /// What it read and kept, by file.
    kept: ShownFileSums<'a>,
    /// What it wrote from its own memory, by file.
    own: ShownFileSums<'a>,
    /// How much of that was in buffers of other files, and not compared with what was read.
    uncompared: u64,
}

impl<'a> Rest<'a> {
    fn of_process(process: &'a Process, report: &'a Report) -> Self {
        let transfers: Vec<&Transfer> = report.transfers_of(process).collect();
        let who = process_name(process);
        let rest = Self::new(who, &process.sources, &process.destinations, &transfers);
        let program = process.name().map(text::escape);
        Self { program, ..rest }
    }

    fn new(
        who: String,
        sources: &'a [SourceTotals],
        destinations: &'a [DestinationTotals],
        transfers: &[&Transfer],
    ) -> Self {
        let mut rest = Self {
            who,
            ..Self::default()
        };
        for one in destinations {
            if let (Some(file), Some(bytes)) = (&one.file, own_bytes(one, transfers)) {
                rest.own.add(file, bytes);
                let uncompared = one.buffers.iter().map(|buffers| buffers.uncompared_bytes);
                rest.uncompared = uncompared.fold(rest.uncompared, u64::saturating_add);
            }
        }
        // A small file counts next to larger ones, and a small message does not.
        if rest.own.largest() < MIN_BYTES {
            rest.own.clear();
        }
        let least = rest.own.sum() / 100 * MIN_PERCENT;
        rest.own
            .retain(|file, bytes| is_file(file) || bytes >= least);
        for one in sources {
            if let (Some(file), Some(kept)) = (&one.file, one.kept_bytes)
                && let bytes = kept.saturating_sub(changed(transfers, |one| one.from == *file))
                && bytes >= MIN_BYTES
                && !file.path.as_deref().is_some_and(is_library)
            {
                rest.kept.add(file, bytes);
            }
        }
        let least = rest.kept.largest() / MIN_SHARE_OF_LARGEST;
        rest.kept.retain(|_, bytes| bytes >= least);
        let kept = rest.kept.sum();
        let transferred = transfers.iter().filter_map(|transfer| transfer.bytes);
        let transferred = transferred.fold(0, u64::saturating_add);
        if rest.own.is_empty() && (kept < MIN_KEPT_BYTES || kept < transferred / 2) {
            rest.kept.clear();
        }
        rest
    }

    fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.own.is_empty()
    }

    fn bytes(&self) -> u64 {
        self.kept.sum().saturating_add(self.own.sum())
    }

    /// `gzip (12) read 3.0 MiB of in; wrote 1.1 MiB to out`.
    fn sentence(&self, names_process: bool) -> String {
        let uncompared = if self.uncompared >= MIN_BYTES {
            let bytes = units::bytes(self.uncompared);
            format!(", {bytes} of it from buffers, not compared")
        } else {
            String::new()
        };
        let read = self
            .kept
            .in_words("of")
            .map(|files| format!("read {files}"));
        let wrote = self.own.in_words("to");
        let wrote = wrote.map(|files| format!("wrote {files}{uncompared}"));
        let clauses: Vec<String> = read.into_iter().chain(wrote).collect();
        let clauses = clauses.join("; ");
        if names_process {
            format!("{}: {clauses}", self.who)
        } else {
            clauses
        }
    }
}

/// What was written to a file and is in none of these transfers, if it is worth a word.
pub(super) fn rest_of(one: &DestinationTotals, transfers: &[&Transfer]) -> Option<u64> {
    own_bytes(one, transfers).filter(|&rest| rest >= MIN_BYTES)
}

/// What was written to a file and is in none of these transfers, unless it is a small part or a message.
fn own_bytes(one: &DestinationTotals, transfers: &[&Transfer]) -> Option<u64> {
    let least = one.written_bytes.unwrap_or(0) / 100 * MIN_PERCENT;
    let changed = changed(transfers, |transfer| {
        Some(&transfer.to) == one.file.as_ref()
    });
    let rest = one.own_memory_bytes?.saturating_sub(changed);
    let is_small_part = one.transferred_bytes.max(changed) > 0 && rest <= least;
    let is_message = rest < MIN_BYTES && !one.file.as_ref().is_some_and(is_file);
    (rest > 0 && !is_message && !is_small_part).then_some(rest)
}

/// The bytes of those that are listed, but are no transfers, because they were changed on the way.
fn changed(transfers: &[&Transfer], is_of_file: impl Fn(&Transfer) -> bool) -> u64 {
    let changed = transfers.iter().filter(|one| !one.is_transfer());
    let of_file = changed.filter(|one| is_of_file(one));
    let bytes = of_file.filter_map(|transfer| transfer.bytes);
    bytes.fold(0, u64::saturating_add)
}
