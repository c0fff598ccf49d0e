//! The descriptors that the command left open, in a line.

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
    let named = left.descriptors.iter().take(MAX_NAMED);
    let named: Vec<String> = named.map(LeftDescriptor::label).collect();
    let line = match left.descriptors.len() {
        0 => "left open: no descriptor".to_owned(),
        count => {
            let more = match count - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("left open, {count}: {}{more}", named.join(", "))
        }
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
