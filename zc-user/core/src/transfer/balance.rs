//! What makes an inference worth showing. Nothing of this makes it a fact.

/// From so many reads and writes on, the bytes need not agree exactly: a single read and a single write agree in size by chance much
/// more easily than a loop does.
pub(super) const MANY: u64 = 8;

/// Inferred bytes that are less than this part of those proven between the same ends are left unattributed: the figure that is proven
/// says more than a slightly larger one that is not.
const LEAST_PART: u64 = 100;

/// Whether a part is at least 3/4 of the whole.
pub(super) fn covers(part: u64, whole: u64) -> bool {
    u128::from(part) * 4 >= u128::from(whole) * 3
}

/// Whether so many inferred bytes are worth to make an inferred transfer of a proven one.
pub(super) fn are_worth_adding(inferred: u64, proven: u64) -> bool {
    inferred > 0 && inferred >= proven / LEAST_PART
}
