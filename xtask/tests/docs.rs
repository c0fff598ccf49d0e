//! The documentation names files, headings and items that exist, and its summary lists every page.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The text of a page that is not in a fenced code block.
fn prose(text: &str) -> String {
    let mut prose = String::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            prose = prose + line + "\n";
        }
    }
    prose
}

/// What GitHub calls a heading in a link.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Why a Markdown link of this page is broken. Links to other sites are not followed.
fn broken_link(page: &Path, target: &str) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
    let file = if path.is_empty() {
        page.to_owned()
    } else {
        page.with_file_name("").join(path)
    };
    if !file.exists() {
        return Some(format!("link to {target}: there is no such file"));
    }
    if fragment.is_empty() {
        return None;
    }
    let text = prose(&fs::read_to_string(file).unwrap_or_default());
    let mut headings = text.lines().filter(|line| line.starts_with('#'));
    let is_broken = headings.all(|heading| anchor(heading) != fragment);
    is_broken.then(|| format!("link to {target}: the page has no such heading"))
}

/// Why a piece of code in the text, like `path/to/file.rs` or `path/to/file.rs::item`, names
/// something that does not exist. `None` also for code that is not a path below the repository's
/// root.
fn broken_code(root: &Path, code: &str) -> Option<String> {
    let (path, items) = code.split_once("::").unwrap_or((code, ""));
    let Some(Component::Normal(top)) = Path::new(path).components().next() else {
        return None;
    };
    let is_rust = path.split('.').next_back() == Some("rs");
    let is_word = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    // The target directory comes and goes.
    let is_ours = root.join(top).is_dir() && top != "target";
    if !path.contains('/') || !path.chars().all(is_word) || !(is_rust || is_ours) {
        return None;
    }
    let file = root.join(path);
    if !file.exists() {
        return Some(format!("`{code}`: there is no such file"));
    }
    if items.is_empty() {
        return None;
    }
    let text = fs::read_to_string(file).unwrap_or_default();
    let missing = items.split("::").find(|item| !defines(&text, item))?;
    Some(format!("`{code}`: the file does not define {missing}"))
}

/// Whether this text in Rust or Python defines an item with this name.
fn defines(text: &str, name: &str) -> bool {
    let keywords = "fn struct enum trait type const static mod macro_rules! def class";
    let is_keyword = |word: &str| keywords.split(' ').any(|keyword| keyword == word);
    text.lines().any(|line| {
        let code = line.split("//").next().unwrap_or_default();
        let words: Vec<&str> = code
            .split(|c: char| !c.is_alphanumeric() && !"_!".contains(c))
            .collect();
        let is_item = |pair: &[&str]| is_keyword(pair[0]) && pair[1] == name;
        code.starts_with(&format!("{name} = ")) || words.windows(2).any(is_item)
    })
}

/// Everything that is wrong with a page.
fn broken(root: &Path, page: &Path, text: &str) -> Vec<String> {
    let text = prose(text);
    let links = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target);
    let codes = text.split('`').skip(1).step_by(2);
    links
        .filter_map(|target| broken_link(page, target))
        .chain(codes.filter_map(|code| broken_code(root, code)))
        .collect()
}

/// The Markdown files of a directory; with those below it, if that is wanted.
fn pages_in(directory: &Path, with_subdirectories: bool) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(directory).expect("there is a directory") {
        let path = entry.expect("readable").path();
        if path.is_dir() && with_subdirectories {
            pages.extend(pages_in(&path, true));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages
}

#[test]
fn every_reference_in_the_documentation_exists() {
    let root = root();
    let mut pages = pages_in(&root.join("docs"), true);
    pages.extend(pages_in(&root.join(".github"), false));
    pages.extend(pages_in(&root, false));
    let mut all = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).expect("a page is text");
        let found = broken(&root, page, &text);
        all.extend(
            found
                .into_iter()
                .map(|found| format!("{}: {found}", page.display())),
        );
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn the_summary_lists_every_page() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("there is a summary");
    for page in pages_in(&docs, true) {
        let path = page.strip_prefix(&docs).expect("it is below docs");
        let path = path.display().to_string();
        let is_listed = path == "SUMMARY.md" || summary.contains(&format!("]({path})"));
        assert!(is_listed, "docs/SUMMARY.md does not list {path}");
    }
}

#[test]
fn a_broken_reference_is_found() {
    let root = root();
    let found = |text: &str| broken(&root, &root.join("docs/README.md"), text);
    let sound = "[a](../README.md) [b](../README.md#install) [c](https://example.org/x) `xtask/tests/docs.rs::prose` `/sys/kernel` \
                 `a/b` `std::io`\n```\n[d](gone.md) `xtask/gone.rs`\n```\n";
    assert_eq!(found(sound), [""; 0]);
    for (text, expected) in [
        ("[a](gone.md)", "link to gone.md: there is no such file"),
        (
            "[a](../README.md#gone)",
            "link to ../README.md#gone: the page has no such heading",
        ),
        (
            "[a](../docs#gone)",
            "link to ../docs#gone: the page has no such heading",
        ),
        ("`xtask/gone.rs`", "`xtask/gone.rs`: there is no such file"),
        (
            "`gone/src/lib.rs::root`",
            "`gone/src/lib.rs::root`: there is no such file",
        ),
        (
            "`xtask/src/main.rs::XtaskArguments::gone`",
            "`xtask/src/main.rs::XtaskArguments::gone`: the file does not define gone",
        ),
        (
            "`xtask/tests/docs.rs::is_rust`",
            "`xtask/tests/docs.rs::is_rust`: the file does not define is_rust",
        ),
    ] {
        assert_eq!(found(text), [expected], "{text}");
    }
}
