//! Golden files for tests: cases, and after each the lines that say what is found, which begin with
//! `=>`.
#![expect(clippy::missing_panics_doc, reason = "only tests call it")]

use std::{env, fs, path::Path};

/// What is a case in a golden file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoldenCase {
    /// Each line, without its end.
    Line,
    /// All lines up to an empty one or a comment, with their ends.
    Lines,
}

/// Checks that each case of a golden file is `read` as the lines after it say. A relative path starts
/// in this package's `src`. With `ZC_UPDATE_GOLDEN` in the environment it writes them anew; read the
/// difference before you commit it.
#[track_caller]
pub fn check_golden(path: impl AsRef<Path>, kind: GoldenCase, read: impl Fn(&str) -> String) {
    let path = &Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path);
    let golden = fs::read_to_string(path).expect("is there");
    let mut found = String::new();
    let mut case = String::new();
    for line in golden.lines().chain([""]) {
        let is_result = line.starts_with("=>");
        let is_input = !is_result && !line.is_empty() && !line.starts_with('#');
        let is_over = !is_input || kind == GoldenCase::Line;
        if is_over && !case.is_empty() {
            let given = match kind {
                GoldenCase::Line => case.trim_end_matches('\n'),
                GoldenCase::Lines => &case,
            };
            found.extend(read(given).lines().map(|line| format!("=> {line}\n")));
            case.clear();
        }
        if is_input {
            case.extend([line, "\n"]);
        }
        if !is_result {
            found.extend([line, "\n"]);
        }
    }
    let found = format!("{}\n", found.trim_end());
    if env::var_os("ZC_UPDATE_GOLDEN").is_some() {
        fs::write(path, found).expect("can be written");
        return;
    }
    let name = path.display();
    for (number, (expected, found)) in golden.lines().zip(found.lines()).enumerate() {
        assert_eq!(found, expected, "line {} of {name}", number + 1);
    }
    assert_eq!(found, golden, "{name}");
}

/// A figure in a golden file.
#[cfg(test)]
pub(crate) fn known_text(figure: Option<impl ToString>) -> String {
    figure.map_or(crate::units::UNKNOWN.to_owned(), |figure| {
        figure.to_string()
    })
}
