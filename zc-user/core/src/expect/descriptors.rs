//! How many descriptors the command left open.

use super::{ast::FigureExpr, facts::MeasuredFigure, known::KnownFigure, pattern::Match};
use crate::report::Report;

/// Reads the number of those whose file matches, or of all.
pub(super) fn measure_descriptors(figure: &FigureExpr, report: &Report) -> MeasuredFigure {
    let Some(left) = &report.left_open else {
        return MeasuredFigure::unknown_because(
            "the report lacks the descriptors that were left open: --fds records them",
        );
    };
    let (mut counts, mut facts) = ([0, 0], Vec::new());
    for one in &left.descriptors {
        let glob = figure.selectors.file.as_ref();
        let found = match (glob, &one.path, &one.kind) {
            (None, ..) => Match::Yes,
            (Some(glob), Some(path), _) => glob.matches_path(path),
            // A pipe or a socket has no path.
            (Some(_), None, Some(_)) => Match::No,
            (Some(_), None, None) => Match::Maybe,
        };
        if found != Match::No {
            counts[usize::from(found == Match::Maybe)] += 1;
            facts.push(one.label());
        }
    }
    let why_unsure = "not all paths are known".to_owned();
    let measured =
        MeasuredFigure::count_of_things(counts, left.doubts.first().cloned(), why_unsure, facts);
    if left.doubts.is_empty() {
        return measured;
    }
    // There may also be fewer: something unseen may have closed them.
    MeasuredFigure {
        known: KnownFigure::Unknown,
        ..measured
    }
}
