//! Rules 2 to 5: what calls wrote from memory, and the word for each pair of files (rule 3).

use std::collections::{BTreeMap, BTreeSet};

use derive_more::Deref;

use crate::{
    trace::{Content, File, FileId, Input, Part, Row, SummedContent},
    transfer::Evidence,
};

/// Bytes of one file that calls wrote to another one.
#[derive(Debug, Clone, Deref)]
pub(super) struct WritePart<'a> {
    #[deref]
    part: Part,
    /// The row of these calls. `None`: the row names another file whose bytes they also wrote.
    pub(super) row: Option<&'a Row>,
}

impl<'a> WritePart<'a> {
    /// What the calls of a row wrote of its source. `None`: it has no source.
    pub(super) fn of_row(row: &'a Row) -> Option<Self> {
        let part = Part {
            call: row.call.clone(),
            from: row.ends.input?,
            to: row.ends.output?,
            sourced: row.sourced,
            calls: moving_calls(&[row]),
        };
        Some(Self {
            part,
            row: Some(row),
        })
    }

    pub(super) fn of_part(part: &Part) -> Self {
        Self {
            part: part.clone(),
            row: None,
        }
    }
}

/// How bytes are known to have gone from buffers of one file to another. `None`: they are not; they
/// are the program's own memory.
pub(super) type PairWord = Option<Evidence>;

/// What the comparisons of all pieces showed.
#[derive(Default)]
struct Shown {
    contents: BTreeSet<Content>,
    /// All bytes but those of [`Content::OtherUse`].
    bytes: u64,
}

impl Shown {
    fn add_content(&mut self, content: Content, bytes: u64) {
        self.contents.insert(content);
        if content != Content::OtherUse {
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    /// One comparison that failed marks the pair, whatever else is the same. Zeros are everywhere, so
    /// they tell something only if all was compared.
    fn word_of_pair(&self) -> PairWord {
        let has = |content| self.contents.contains(&content);
        match (has(Content::Same), has(Content::Changed)) {
            (true, true) => Some(Evidence::Changed),
            (true, false) => Some(Evidence::Buffer),
            (false, true) => None,
            (false, false) if has(Content::Uncompared) => None,
            (false, false) => has(Content::Zeros).then_some(Evidence::Buffer),
        }
    }

    /// Whether nothing was compared but zeros.
    fn is_uncompared(&self) -> bool {
        let tells_nothing = |content| matches!(content, Content::Uncompared | Content::Zeros);
        self.contents.contains(&Content::Uncompared)
            && self.contents.iter().copied().all(tells_nothing)
    }
}

/// The word for each pair of a file and another one that was written from its buffers.
///
/// What was not compared leans on what was: of the pair, or if that has nothing, of all that the
/// process wrote from the source. `read_bytes` tells how many bytes the process read of a file. Of a
/// file that is a sum, the word was found before the files were summed.
pub(super) fn words_of_pairs(
    pieces: &[WritePart<'_>],
    files: &[File],
    read_bytes: impl Fn(FileId) -> Option<u64>,
) -> BTreeMap<(FileId, FileId), PairWord> {
    let mut by_source: BTreeMap<FileId, Shown> = BTreeMap::new();
    let mut by_pair: BTreeMap<(FileId, FileId), Shown> = BTreeMap::new();
    for piece in pieces {
        if let Input::Buffer(from, content) = piece.from {
            let source = by_source.entry(from).or_default();
            source.add_content(content, piece.bytes);
            let pair = by_pair.entry((from, piece.to)).or_default();
            pair.add_content(content, piece.bytes);
        }
    }
    let word = |(from, to): (FileId, FileId), shown: &Shown| {
        if let Some(word) = word_of_sums([from, to], files) {
            return word;
        }
        let of_source = by_source[&from].word_of_pair();
        let leans = shown.is_uncompared() && of_source == Some(Evidence::Buffer);
        let word = if leans {
            of_source
        } else {
            shown.word_of_pair()
        };
        let is_more = read_bytes(from).is_some_and(|read| shown.bytes > read);
        if word == Some(Evidence::Buffer) && is_more {
            Some(Evidence::Reused)
        } else {
            word
        }
    };
    let pairs = by_pair.into_iter();
    pairs
        .map(|(pair, shown)| (pair, word(pair, &shown)))
        .collect()
}

/// The word for a pair of which a file is a sum.
fn word_of_sums(pair: [FileId; 2], files: &[File]) -> Option<PairWord> {
    let sums = pair.map(|file| file.in_files(files).and_then(|file| file.sum));
    let told = sums.into_iter().flatten().max()?;
    Some(match told {
        SummedContent::Same => Some(Evidence::Buffer),
        SummedContent::Reused => Some(Evidence::Reused),
        SummedContent::Changed => Some(Evidence::Changed),
        SummedContent::Own => None,
    })
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
