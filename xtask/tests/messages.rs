//! What the program says: every sentence in the sources, as one list for review, without the words that
//! read as translated. Print it with `cargo test -p xtask --test messages -- --nocapture`.
//!
//! What `--help` says is in docs/reference/command-line.md.

use std::{
    fs,
    iter::Peekable,
    path::{Path, PathBuf},
    str::Chars,
};

/// Words that read as translated, with what to write.
const TICS: [(&str, &str); 7] = [
    (", too.", "also"),
    (", too\"", "also"),
    (" is said", "name who says it"),
    (" so many ", "the number"),
    ("one behind the other", "in order"),
    ("by itself alone", "alone"),
    ("the same goes for", "also"),
];

/// What stands in front of literals that no user reads.
const NOT_SHOWN: [&str; 5] = [
    "reason =",
    ".expect(",
    "unreachable!(",
    "debug_assert!(",
    "include_str!(",
];

/// The sources of the program and its libraries, without tests.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("readable") {
        let path = entry.expect("readable").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_test = name.ends_with("tests") || name.ends_with("tests.rs") || name == "testing.rs";
        if path.is_dir() && !is_test && name != "build" {
            sources(&path, found);
        } else if name.ends_with(".rs") && !is_test && name != "build.rs" {
            found.push(path);
        }
    }
}

/// The rest of a literal after its first quotation mark, as the program prints it.
fn literal(chars: &mut Peekable<Chars<'_>>) -> String {
    let mut text = String::new();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next() {
                Some('\n') => while chars.next_if(|c| c.is_whitespace()).is_some() {},
                Some('n') | None => text.push('\n'),
                Some(escaped) => text.push(escaped),
            },
            c => text.push(c),
        }
    }
    text
}

/// The string literals of a source, each with what stands in front of it.
fn literals(source: &str) -> Vec<(String, String)> {
    // Modules of tests are the last of a file.
    let source = source
        .split("#[cfg(test)]\nmod ")
        .next()
        .unwrap_or_default();
    let mut found = Vec::new();
    let mut before = String::new();
    let mut chars = source.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                found.push((before.trim_end().to_owned(), literal(&mut chars)));
                before.clear();
            }
            '/' if chars.peek() == Some(&'/') => while chars.next_if(|&c| c != '\n').is_some() {},
            '\'' => {
                // A character, perhaps a quotation mark; else a lifetime.
                let mut ahead = chars.clone();
                let is_escaped = ahead.next() == Some('\\');
                if is_escaped {
                    ahead.next();
                }
                if ahead.next() == Some('\'') {
                    chars = ahead;
                }
            }
            c => before.push(c),
        }
    }
    found
}

/// Whether a user may read it: it has at least three words.
fn is_sentence(text: &str) -> bool {
    let is_word = |word: &&str| {
        word.len() > 1
            && word
                .chars()
                .all(|c| c.is_alphabetic() || ",;:.'".contains(c))
    };
    text.split(' ').filter(is_word).count() >= 3
}

/// Every message, after the name of its file.
fn messages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../zc-user");
    let mut files = Vec::new();
    sources(&root, &mut files);
    files.sort();
    let of_file = |path: &PathBuf| {
        let source = fs::read_to_string(path).expect("text");
        let name = path
            .strip_prefix(&root)
            .expect("below it")
            .display()
            .to_string();
        let shown = literals(&source).into_iter().filter(|(before, text)| {
            is_sentence(text) && !NOT_SHOWN.iter().any(|not| before.ends_with(not))
        });
        shown
            .map(|(_, text)| (name.clone(), text))
            .collect::<Vec<_>>()
    };
    files.iter().flat_map(of_file).collect()
}

#[test]
fn no_message_reads_as_translated() {
    let messages = messages();
    let mut file = "";
    for (name, text) in &messages {
        if name != file {
            println!("\n{name}");
            file = name;
        }
        println!("  {}", text.replace('\n', "\n    "));
    }
    assert!(messages.len() > 300, "{}", messages.len());
    for (name, text) in &messages {
        let end = format!("{text}\"");
        for (tic, better) in TICS {
            assert!(
                !end.contains(tic),
                "{name}: '{tic}' (write {better}): {text}"
            );
        }
    }
}

#[test]
fn a_message_is_found_as_it_is_printed() {
    let source = "// not \"this one here\"\nlet quote = '\"'; fn f<'a>(x: &'a str) { bail!(\n    \"it is \\\"here\\\": \\\n     {x}\") }\n\
        const A: &str = \"x\";\n#[cfg(test)]\nmod tests { \"nor that one\" }";
    let texts: Vec<String> = literals(source).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["it is \"here\": {x}", "x"]);
    assert!(!is_sentence(&texts[0]) && !is_sentence(&texts[1]));
    assert!(is_sentence("the log is empty"));
}
