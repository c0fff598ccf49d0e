//! What is in no transfer: what each process read and kept, and wrote from its own memory.

use std::cmp::Reverse;

use super::file_sums::FileSums;
use crate::{
    render::{
        calls::process_name,
        page::{Style, TextLine, words},
        text,
    },
    report::{DestinationTotals, Process, Report, SourceTotals},
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
/// So many processes are shown, those that moved the most.
const MAX_PROCESSES: usize = 8;

/// The lines, the first of which is their title; `None` if there is nothing to say.
pub(super) fn item(report: &Report) -> Option<Vec<TextLine>> {
    let mut rests: Vec<Rest<'_>> = report
        .processes
        .iter()
        .map(|process| Rest::of_process(process, report))
        .chain(report.merged.iter().map(|merged| {
            let who = text::plural(
                merged.programs,
                "program that had ended",
                "programs that had ended",
            );
            Rest::new(who, &merged.sources, &merged.destinations, 0)
        }))
        .filter(|rest| !rest.is_empty())
        .collect();
    if rests.is_empty() {
        return None;
    }
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
    let lines = std::iter::once(title).chain(lines);
    Some(lines.map(|line| words(&line, Style::Plain)).collect())
}

/// What matters of one process.
struct Rest<'a> {
    who: String,
    /// What it read and kept, by file.
    kept: FileSums<'a>,
    /// What it wrote from its own memory, by file.
    own: FileSums<'a>,
    /// How much of that was in buffers of other files, and not compared with what was read.
    uncompared: u64,
}

impl<'a> Rest<'a> {
    fn of_process(process: &'a Process, report: &'a Report) -> Self {
        let transferred = report
            .transfers_of(process)
            .filter_map(|transfer| transfer.bytes)
            .fold(0, u64::saturating_add);
        let who = process_name(process);
        Self::new(who, &process.sources, &process.destinations, transferred)
    }

    fn new(
        who: String,
        sources: &'a [SourceTotals],
        destinations: &'a [DestinationTotals],
        transferred: u64,
    ) -> Self {
        let mut rest = Self {
            who,
            kept: FileSums::default(),
            own: FileSums::default(),
            uncompared: 0,
        };
        for one in destinations.iter().filter(|one| matters(one)) {
            if let (Some(file), Some(bytes)) = (&one.file, one.own_memory_bytes) {
                rest.own.add(file, bytes);
                let uncompared = one.buffers.iter().map(|buffers| buffers.uncompared_bytes);
                rest.uncompared = uncompared.fold(rest.uncompared, u64::saturating_add);
            }
        }
        for one in sources {
            if let (Some(file), Some(bytes)) = (&one.file, one.kept_bytes)
                && bytes >= MIN_BYTES
                && !file.path.as_deref().is_some_and(is_library)
            {
                rest.kept.add(file, bytes);
            }
        }
        let least = rest.kept.largest() / MIN_SHARE_OF_LARGEST;
        rest.kept.retain_from(least);
        let kept = rest.kept.sum();
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

/// Whether what was written to a file from own memory is worth a word.
fn matters(one: &DestinationTotals) -> bool {
    let least = one.written_bytes.unwrap_or(0) / 100 * MIN_PERCENT;
    let is_small_part = |own: u64| one.transferred_bytes > 0 && own <= least;
    one.own_memory_bytes
        .is_some_and(|own| own >= MIN_BYTES && !is_small_part(own))
}
