//! The descriptors that the command left open, in a line.

use zctrace_core::text::first_of;

use super::{
    page::{Style, words},
    part::DocumentPart,
};
use crate::{left_open::LeftDescriptor, report::Report};

/// How many of them the line names.
const MAX_NAMED: usize = 8;

/// The line, if it is known.
pub(super) fn part(report: &Report) -> Option<DocumentPart> {
    let left = report.left_open.as_ref()?;
    let labels = left.descriptors.iter().map(LeftDescriptor::label);
    let labels: Vec<String> = labels.collect();
    let line = match labels.len() {
        0 => "left open: no descriptor".to_owned(),
        count => format!("left open, {count}: {}", first_of(&labels, MAX_NAMED)),
    };
    let doubts = left.doubts.iter();
    let doubts =
        doubts.map(|why| words(&format!("it may have been others: {why}"), Style::Warning));
    Some(DocumentPart {
        heading: words(&line, Style::Heading),
        remarks: doubts.collect(),
        ..DocumentPart::default()
    })
}
