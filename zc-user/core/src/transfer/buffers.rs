//! Rule 3: what was written to each file from buffers of each other one, and one word for the pair.

use std::collections::{BTreeMap, BTreeSet};

use super::End;
use crate::{
    trace::{Content, FileId, Input, Part, Row, Words},
    transfer::BufferTotals,
};

/// What a process wrote to each file from buffers of each other one: source and destination.
pub(super) type BuffersByFiles = BTreeMap<(FileId, FileId), BufferSums>;

/// What was written to one file from buffers of another one, by what the words showed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BufferSums {
    /// Bytes of which the compared words are the same, and not all zeros.
    same_bytes: u64,
    /// Bytes of which the compared words are the same, and zeros.
    zero_bytes: u64,
    changed_bytes: u64,
    other_use_bytes: u64,
    uncompared_bytes: u64,
    words: Words,
    calls: u64,
    /// The calls that wrote none but bytes of [`Content::OtherUse`].
    other_use_calls: u64,
}

/// What is said of a pair of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PairWord {
    /// Bytes went from one to the other: those that were compared are the same.
    Observed,
    /// Some that were compared differ, and some are the same: they were changed on the way.
    Changed,
    /// Nothing: the program's own memory.
    Nothing,
}

impl BufferSums {
    /// Adds bytes that calls wrote.
    pub(super) fn add(&mut self, content: Content, bytes: u64, calls: u64, words: Words) {
        let sum = match content {
            Content::Same => &mut self.same_bytes,
            Content::Zeros => &mut self.zero_bytes,
            Content::Changed => &mut self.changed_bytes,
            Content::OtherUse => &mut self.other_use_bytes,
            Content::Uncompared => &mut self.uncompared_bytes,
        };
        *sum = sum.saturating_add(bytes);
        self.words += words;
        self.calls += calls;
        if content == Content::OtherUse {
            self.other_use_calls += calls;
        }
    }

    /// The word for the pair. One comparison that failed marks it, whatever else is the same; and
    /// zeros are everywhere.
    pub(super) const fn word(&self) -> PairWord {
        let has_same = self.same_bytes > 0;
        if self.changed_bytes > 0 {
            if has_same {
                PairWord::Changed
            } else {
                PairWord::Nothing
            }
        } else if has_same || self.zero_bytes > 0 {
            PairWord::Observed
        } else {
            PairWord::Nothing
        }
    }

    /// Whether no word was compared.
    pub(super) const fn is_uncompared(&self) -> bool {
        self.words.compared == 0
    }

    /// What is in no transfer, if this is the word for the pair. `None`: nothing.
    pub(super) fn in_no_transfer(mut self, word: PairWord, from: End) -> Option<BufferTotals> {
        if word == PairWord::Observed {
            self = Self {
                other_use_bytes: self.other_use_bytes,
                calls: self.other_use_calls,
                ..Self::default()
            };
        }
        let same_bytes = self.same_bytes.saturating_add(self.zero_bytes);
        let bytes = same_bytes
            .saturating_add(self.changed_bytes)
            .saturating_add(self.other_use_bytes)
            .saturating_add(self.uncompared_bytes);
        let totals = BufferTotals {
            from,
            bytes,
            same_bytes,
            changed_bytes: self.changed_bytes,
            other_use_bytes: self.other_use_bytes,
            uncompared_bytes: self.uncompared_bytes,
            compared_words: self.words.compared,
            changed_words: self.words.changed,
            calls: self.calls,
        };
        (bytes > 0).then_some(totals)
    }
}

/// What these rows and parts wrote from buffers.
pub(super) fn sums_by_files<'a>(
    rows: impl Iterator<Item = &'a Row>,
    parts: impl Iterator<Item = &'a Part>,
) -> BuffersByFiles {
    let mut sums = BuffersByFiles::new();
    let mut add = |input: Option<Input>, to: Option<FileId>, bytes, calls, words| {
        if let (Some(Input::Buffer(from, content)), Some(to)) = (input, to) {
            let pair = sums.entry((from, to)).or_default();
            pair.add(content, bytes, calls, words);
        }
    };
    for row in rows {
        let calls = moving_calls(&[row]);
        add(
            row.ends.input,
            row.ends.output,
            row.input_bytes,
            calls,
            row.words,
        );
    }
    for part in parts {
        add(
            Some(part.from),
            Some(part.to),
            part.bytes,
            part.calls,
            part.words,
        );
    }
    sums
}

/// The files of whose bytes some were compared, and all these were the same.
pub(super) fn unchanged_sources(buffers: &BuffersByFiles) -> BTreeSet<FileId> {
    let mut sources: BTreeMap<FileId, BufferSums> = BTreeMap::new();
    for (&(from, _), sums) in buffers {
        let source = sources.entry(from).or_default();
        source.same_bytes = source.same_bytes.saturating_add(sums.same_bytes);
        source.zero_bytes = source.zero_bytes.saturating_add(sums.zero_bytes);
        source.changed_bytes = source.changed_bytes.saturating_add(sums.changed_bytes);
    }
    let is_unchanged = |(_, sums): &(FileId, BufferSums)| sums.word() == PairWord::Observed;
    let unchanged = sources.into_iter().filter(is_unchanged);
    unchanged.map(|(from, _)| from).collect()
}

impl BufferTotals {
    /// Adds what was written from buffers of the same file.
    fn add(&mut self, more: &Self) {
        for (sum, more) in [
            (&mut self.bytes, more.bytes),
            (&mut self.same_bytes, more.same_bytes),
            (&mut self.changed_bytes, more.changed_bytes),
            (&mut self.other_use_bytes, more.other_use_bytes),
            (&mut self.uncompared_bytes, more.uncompared_bytes),
            (&mut self.compared_words, more.compared_words),
            (&mut self.changed_words, more.changed_words),
            (&mut self.calls, more.calls),
        ] {
            *sum = sum.saturating_add(more);
        }
    }

    /// Adds those of others to a list with one for each file.
    pub(super) fn add_all(sums: &mut Vec<Self>, more: Vec<Self>) {
        for one in more {
            match sums.iter_mut().find(|sum| sum.from == one.from) {
                Some(sum) => sum.add(&one),
                None => sums.push(one),
            }
        }
    }
}

/// Calls of these rows that moved something.
pub(super) fn moving_calls(rows: &[&Row]) -> u64 {
    rows.iter()
        .map(|row| {
            row.calls
                .saturating_sub(row.errors)
                .saturating_sub(row.zero_calls)
        })
        .sum()
}
