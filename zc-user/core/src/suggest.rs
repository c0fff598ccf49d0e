//! Suggestions for misspelt words.

/// The nearest name, if it is near enough.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = names.into_iter().map(|name| (strsim::damerau_levenshtein(name, word), name)).min();
    near.filter(|(distance, _)| *distance <= (word.len() / 3).max(1)).map(|(_, name)| name)
}

/// `; did you mean 'calls'?`, or nothing without a near name.
pub fn hint(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_suggested() {
        assert_eq!(nearest("cals", ["calls", "bytes"]), Some("calls"));
        assert_eq!(nearest("qqqqqq", ["calls", "bytes"]), None);
        assert_eq!(hint(None), "");
    }
}
