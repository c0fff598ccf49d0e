//! What the workflows and the action promise: actions pinned by commit, the oldest Rust, least rights.
//! And that all files name one owner of the repository.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

/// The workflows and the action: name and text.
fn files() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let workflows = fs::read_dir(root.join(".github/workflows")).expect("workflows");
    let workflows = workflows.map(|entry| entry.expect("readable").path());
    let files = workflows.chain([root.join("action.yml")]).map(|path| {
        let text = fs::read_to_string(&path).expect("text");
        (path.display().to_string(), text)
    });
    files.collect()
}

/// Whether an action is named as `owner/name@COMMIT # vX.Y.Z`.
fn is_pinned(action: &str) -> bool {
    let Some((commit, version)) = action
        .split_once('@')
        .and_then(|(_, commit)| commit.split_once(" # v"))
    else {
        return false;
    };
    commit.len() == 40
        && commit
            .bytes()
            .all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
        && version
            .split('.')
            .filter(|part| part.parse::<u32>().is_ok())
            .count()
            == 3
}

#[test]
fn each_action_is_pinned_by_one_commit_with_its_version() {
    let mut pins: BTreeMap<String, String> = BTreeMap::new();
    for (file, text) in files() {
        let actions = text.lines().filter_map(|line| {
            let step = line.trim_start().trim_start_matches("- ");
            step.strip_prefix("uses: ")
        });
        for action in actions.filter(|action| !action.starts_with("./")) {
            assert!(is_pinned(action), "{file}: {action}");
            let (name, commit) = action.split_once('@').expect("pinned");
            // `actions/cache/save` is a part of `actions/cache`.
            let repository: Vec<&str> = name.split('/').take(2).collect();
            let pin = pins
                .entry(repository.join("/"))
                .or_insert(commit.to_owned());
            assert_eq!(pin, commit, "{file}: {name}");
        }
    }
    assert!(pins.len() > 3, "{pins:?}");
}

#[test]
fn an_action_that_can_change_is_found() {
    let commit = "3d3c42e5aac5ba805825da76410c181273ba90b1";
    assert!(is_pinned(&format!("actions/checkout@{commit} # v7.0.1")));
    for action in [
        "actions/checkout@v7",
        "actions/checkout",
        "a/b@3d3c42e # v7.0.1",
    ] {
        assert!(!is_pinned(action), "{action}");
    }
    assert!(!is_pinned(&format!("actions/checkout@{commit}")));
    assert!(!is_pinned(&format!("actions/checkout@{commit} # v7")));
}

#[test]
fn the_containers_have_the_oldest_rust_that_is_promised() {
    let oldest = format!("rust:{}-bookworm", env!("CARGO_PKG_RUST_VERSION"));
    let all: Vec<_> = files();
    let images = all.iter().flat_map(|(file, text)| {
        let lines = text.lines().map(str::trim);
        let images = lines.filter_map(|line| line.strip_prefix("image: "));
        images.map(move |image| (file, image))
    });
    let mut count = 0;
    for (file, image) in images {
        assert_eq!(image, oldest, "{file}");
        count += 1;
    }
    assert!(count > 0, "no job uses a container");
}

#[test]
fn a_workflow_may_only_read_unless_a_job_says_otherwise() {
    for (file, text) in files() {
        if !file.ends_with("action.yml") {
            assert!(
                text.contains("\npermissions:\n  contents: read\n"),
                "{file}"
            );
        }
        let checkouts = text.matches("uses: actions/checkout@").count();
        let without_token = text.matches("persist-credentials: false").count();
        assert_eq!(checkouts, without_token, "{file}");
    }
}

/// What the files in git have of this pattern.
fn found(pattern: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut git = Command::new("git");
    let git = git.args(["grep", "--cached", "-hoIE", pattern]);
    let output = git.current_dir(root).output().expect("git is there");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn every_file_names_the_same_owner() {
    let owner = found("^repository = \"https://github.com/[^/]+/");
    let owner = owner[0].rsplit('/').nth(1).expect("an owner");
    let before = "(https://github.com/|uses: |repository: |REPOSITORY=)";
    let named = found(&format!("{before}[A-Za-z0-9-]+/zctrace"));
    assert!(named.len() > 2, "Cargo.toml, and the docs of the action");
    for name in &named {
        assert!(name.ends_with(&format!("{owner}/zctrace")), "{name}");
    }
    // CONTRIBUTING.md replaces no other spelling of the placeholder.
    for name in found("([O]WNER[/@][a-z]*|`[O]WNER`)") {
        assert!(
            ["OWNER/zctrace", "OWNER@users"].contains(&name.as_str()),
            "{name}"
        );
    }
}
