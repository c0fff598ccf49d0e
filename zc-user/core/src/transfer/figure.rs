//! [`Figure`]: what the bytes of a transfer stand for, and the words that say so. Everything that a person reads takes them from here.

use super::{Certainty, Evidence, Transfer};
use crate::units;

/// Ends what a sentence says of bytes that the program changed, or wrote others in place of.
pub(super) const CHANGED: &str = "changed or replaced on the way";
/// The same of bytes of which nobody knows whether the program did so.
pub(super) const PERHAPS_CHANGED: &str = "perhaps changed or replaced on the way";

/// What a number of bytes stands for, the surest first. A sum is as sure as the least sure of its
/// parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// So many bytes moved.
    Exact,
    /// So many bytes are proven to have moved, and there may be more.
    AtLeast,
    /// So many bytes were written. How many of them are those of the source is inferred, and can be
    /// fewer.
    #[default]
    Probable,
}

impl Figure {
    /// Follows from what is proven. An inferred figure is a lower bound only if all of it is.
    pub fn of(certainty: Certainty, bytes: Option<u64>, proven_bytes: Option<u64>) -> Self {
        match certainty {
            Certainty::Exact => Self::Exact,
            Certainty::Inferred if bytes == proven_bytes => Self::AtLeast,
            Certainty::Inferred => Self::Probable,
        }
    }

    /// The words before the number: none, `at least ` or `probably `.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Exact => "",
            Self::AtLeast => "at least ",
            Self::Probable => "probably ",
        }
    }

    /// The bytes as text: `5.0 MiB`, `at least 4.7 MiB` or `probably 4.7 MiB`.
    pub fn amount(self, bytes: u64) -> String {
        let bytes = if self == Self::AtLeast {
            units::least_bytes(bytes)
        } else {
            units::bytes(bytes)
        };
        format!("{}{bytes}", self.prefix())
    }

    /// What follows what is known of how several transfers moved the bytes of a sum: `, the rest
    /// perhaps changed or replaced on the way`.
    pub fn doubt_of_sum(self, proven_bytes: u64) -> String {
        match (self, proven_bytes) {
            (Self::Exact | Self::AtLeast, _) => String::new(),
            (Self::Probable, 0) => format!(", {PERHAPS_CHANGED}"),
            (Self::Probable, _) => format!(", the rest {PERHAPS_CHANGED}"),
        }
    }
}

/// What the bytes of an inferred transfer rest on, see [`Transfer::doubt`].
pub(super) fn doubt(transfer: &Transfer) -> Option<String> {
    let figure = transfer.figure();
    if figure == Figure::Exact {
        return None;
    }
    let inferred = match transfer.evidence {
        Some(Evidence::Order) => "inferred from the order of calls",
        Some(Evidence::Totals) => "inferred from equal byte counts",
        Some(Evidence::Memory | Evidence::Mapping) => {
            "inferred from the memory that the calls used"
        }
        Some(Evidence::Call) | None => "inferred",
    };
    let doubt = match transfer.proven_bytes {
        Some(1..) if figure == Figure::AtLeast => {
            return Some("all of it proven, but there may be more".to_owned());
        }
        Some(proven @ 1..) => format!(
            "{} of it proven, the rest {inferred}",
            units::least_bytes(proven)
        ),
        _ => inferred.to_owned(),
    };
    let is_said = figure == Figure::AtLeast || transfer.verdict.contains(CHANGED);
    Some(if is_said {
        doubt
    } else {
        format!("{doubt}, {PERHAPS_CHANGED}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_all_proven_is_a_lower_bound() {
        let cases = [
            (Certainty::Exact, Some(5), Figure::Exact),
            (Certainty::Inferred, Some(5), Figure::AtLeast),
            (Certainty::Inferred, Some(4), Figure::Probable),
            (Certainty::Inferred, Some(0), Figure::Probable),
            (Certainty::Inferred, None, Figure::Probable),
        ];
        for (certainty, proven, figure) in cases {
            assert_eq!(
                Figure::of(certainty, Some(5), proven),
                figure,
                "{certainty:?} {proven:?}"
            );
        }
    }

    #[test]
    fn only_lower_bounds_are_rounded_down() {
        let amounts = [Figure::Exact, Figure::AtLeast, Figure::Probable]
            .map(|figure| figure.amount(2_999_754));
        assert_eq!(amounts, ["2.9 MiB", "at least 2.8 MiB", "probably 2.9 MiB"]);
    }
}
