//! What somebody may have meant by a misspelt word.

/// The nearest of these names, if it is near enough to be meant.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = names.into_iter().map(|name| (strsim::damerau_levenshtein(name, word), name)).min();
    near.filter(|(distance, _)| *distance <= (word.len() / 3).max(1)).map(|(_, name)| name)
}

/// `; did you mean 'calls'?`, if there is anything near.
pub fn hint(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_suggested() {
        assert_eq!(nearest("cals", ["calls", "bytes"]), Some("calls"));
        assert_eq!(nearest("qqqqqq", ["calls", "bytes"]), None);
        assert_eq!(hint(None), "");
    }
}
