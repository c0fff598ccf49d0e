//! Figures of how many bytes single calls moved.

use super::known::KnownFigure;
use crate::{
    figures::list::FigureField,
    report::{Syscall, percentile_range},
};

/// Reads such a figure over all of these rows. It is known only if the size of each call is that did
/// not fail.
pub(super) fn measure_sizes<'a>(
    field: FigureField,
    rows: impl Iterator<Item = &'a Syscall>,
) -> KnownFigure {
    let mut sizes = Vec::new();
    for row in rows.filter(|row| row.calls > row.errors) {
        match &row.sizes {
            Some(of_row) if of_row.calls == row.calls - row.errors => sizes.push(of_row),
            _ => return KnownFigure::Unknown,
        }
    }
    let no_call = KnownFigure::Missing("no call moved bytes".to_owned());
    let percent = match field {
        FigureField::SizeP50 => 50,
        FigureField::SizeP90 => 90,
        FigureField::SizeP99 => 99,
        _ => {
            let most = sizes.iter().map(|one| one.max_bytes).max();
            return most.map_or(no_call, KnownFigure::exactly);
        }
    };
    match percentile_range(&sizes, percent) {
        Some((low, high)) => KnownFigure::Between(low.into(), Some(high.into())),
        None => no_call,
    }
}

/// Why such a figure is not known exactly.
pub(super) const fn why_unknown(known: &KnownFigure) -> &'static str {
    match known {
        KnownFigure::Between(..) => "percentiles of sizes are known to within 12.5 %",
        _ => "the report does not have the size of each call: --histogram records them",
    }
}
