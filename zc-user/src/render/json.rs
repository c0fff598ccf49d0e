//! The report as JSON: the model as it is.

use crate::report::Report;

/// Indented, with a newline at its end.
pub(super) fn render(report: &Report) -> String {
    let mut json = serde_json::to_string_pretty(report).expect("every key of a report is a string");
    json.push('\n');
    json
}
