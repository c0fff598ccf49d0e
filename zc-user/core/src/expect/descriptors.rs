//! How many descriptors the command left open.

use super::{
    ast::FigureExpr,
    facts::{MeasuredFigure, shorten},
    known::KnownFigure,
    pattern::Match,
};
use crate::report::Report;

/// Reads the number of those whose file matches, or of all.
pub(super) fn measure(figure: &FigureExpr, report: &Report) -> MeasuredFigure {
    let Some(left) = &report.left_open else {
        return MeasuredFigure::unknown(
            "the report lacks the descriptors that were left open: --fds records them",
        );
    };
    let (mut sure, mut possible, mut facts) = (0, 0, Vec::new());
    for one in &left.descriptors {
        let glob = figure.selectors.file.as_ref();
        let found = match (glob, &one.path, &one.kind) {
            (None, ..) => Match::Yes,
            (Some(glob), Some(path), _) => glob.matches_path(path),
            // A pipe or a socket has no path.
            (Some(_), None, Some(_)) => Match::No,
            (Some(_), None, None) => Match::Maybe,
        };
        sure += u64::from(found == Match::Yes);
        possible += u64::from(found != Match::No);
        if found != Match::No {
            facts.push(one.label());
        }
    }
    let doubt = left.doubts.first().cloned();
    let unclear = (possible > sure).then(|| "not all paths are known".to_owned());
    MeasuredFigure {
        known: match doubt {
            Some(_) => KnownFigure::Unknown,
            None => KnownFigure::Between(sure.into(), Some(possible.into())),
        },
        reason: doubt.or(unclear),
        facts: shorten(facts),
    }
}
