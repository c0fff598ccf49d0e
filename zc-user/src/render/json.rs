//! A model as JSON, as it is.

use serde::Serialize;

/// Indented, with a newline at its end.
pub(super) fn render(model: &impl Serialize) -> String {
    let mut json = serde_json::to_string_pretty(model).expect("every key of a model is a string");
    json.push('\n');
    json
}
