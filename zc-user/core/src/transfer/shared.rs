//! [`Shared`]: rows that several flows are made of.

use std::{collections::HashMap, ptr};

use super::flow::Flow;
use crate::trace::Row;

/// The rows that several flows are made of, such as the reads of a source with several destinations. Each of these flows has a part of
/// their figures, in proportion to its bytes: else the figures of the flows would add up to more than there was.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The bytes of all flows that a row is in, if they are several.
    bytes: HashMap<*const Row, u64>,
}

impl Shared {
    /// The rows that several of these flows have.
    pub(super) fn of<'f, 'a: 'f>(flows: impl Iterator<Item = &'f Flow<'a>>) -> Self {
        let mut sums: HashMap<*const Row, (u32, u64)> = HashMap::new();
        for flow in flows {
            for row in flow.rows() {
                let (flows, bytes) = sums.entry(ptr::from_ref(row)).or_default();
                *flows += 1;
                *bytes = bytes.saturating_add(flow.bytes.unwrap_or(0));
            }
        }
        let several = sums.into_iter().filter(|(_, (flows, bytes))| *flows > 1 && *bytes > 0);
        Self { bytes: several.map(|(row, (_, bytes))| (row, bytes)).collect() }
    }

    /// A flow's part of a row.
    pub(super) fn part(&self, row: &Row, flow: &Flow<'_>) -> Part {
        self.bytes.get(&ptr::from_ref(row)).map_or(Part::ALL, |&bytes| Part { bytes: flow.bytes.unwrap_or(0), of: bytes })
    }
}

/// A part of a row's figures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    bytes: u64,
    of: u64,
}

impl Part {
    pub(super) const ALL: Self = Self { bytes: 1, of: 1 };

    /// Whether others have a part, too.
    pub(super) fn is_less(self) -> bool {
        self.bytes < self.of
    }

    /// This part of a figure, rounded down.
    pub(super) fn of(self, figure: u64) -> u64 {
        let part = u128::from(figure) * u128::from(self.bytes) / u128::from(self.of);
        u64::try_from(part).unwrap_or(figure)
    }
}
