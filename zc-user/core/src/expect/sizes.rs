//! Figures of how many bytes single calls moved.

use super::known::KnownFigure;
use crate::{
    figures::list::FigureField,
    report::{Sizes, Syscall, percentile_range},
};

/// Reads such a figure over all of these rows. It is known only if the size of each call is that did
/// not fail.
pub(super) fn measure<'a>(
    field: FigureField,
    rows: impl Iterator<Item = &'a Syscall>,
) -> KnownFigure {
    let moving = rows.filter(|row| row.calls > row.errors);
    let sizes = moving.map(|row| {
        let sizes = row.sizes.as_ref();
        sizes.filter(|sizes| sizes.calls == row.calls - row.errors)
    });
    let sizes: Option<Vec<&Sizes>> = sizes.collect();
    let Some(sizes) = sizes else {
        return KnownFigure::Unknown;
    };
    let percent = match field {
        FigureField::SizeP50 => 50,
        FigureField::SizeP90 => 90,
        FigureField::SizeP99 => 99,
        _ => {
            let most = sizes.iter().map(|one| one.max_bytes).max();
            return most.map_or_else(no_call, KnownFigure::exactly);
        }
    };
    percentile_range(&sizes, percent).map_or_else(no_call, |(low, high)| {
        KnownFigure::Between(low.into(), Some(high.into()))
    })
}

fn no_call() -> KnownFigure {
    KnownFigure::Missing("no call moved bytes".to_owned())
}

/// Why such a figure is not known exactly.
pub(super) const fn why_unknown(known: &KnownFigure) -> &'static str {
    match known {
        KnownFigure::Between(..) => "percentiles of sizes are known to within 12.5 %",
        _ => "the report does not have the size of each call: --histogram records them",
    }
}
