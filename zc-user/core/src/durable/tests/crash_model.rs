//! The judge against an independent model of a crash: a disk that may have lost every change that
//! no sync covered, and may have kept any of them without the others.
//!
//! The model keeps all changes in a list, and knows of each whether a sync promised it. It tries
//! every subset of the others that may be there after a crash, and looks whether a file that the
//! program left is there with all its changes. It knows no rule.

use std::collections::BTreeSet;

use super::{
    super::SyncVerdict,
    file_model::{DIRECTORY, FILE_IN_DIRECTORY, FileModel, ModelOutcome},
    script::Script,
};

/// More changes without a promise have too many subsets.
const MAX_OPEN: usize = 11;

/// Performs steps of a [`FileModel`]; `false` if one cannot be made now.
fn perform_steps(model: &mut FileModel, steps: &[&str]) -> bool {
    let mut steps = steps.iter().map(|step| step.split(' ').collect());
    steps.all(|words: Vec<&str>| model.perform_step(&words, 10) == ModelOutcome::Done)
}

/// Performs a step of a [`Script`]; `false` if a program cannot make it now.
fn perform_step(model: &mut FileModel, step: &[&str]) -> bool {
    let open = |flags: &str| format!("open 0 {} {flags}", step[step.len() - 1]);
    let mut on_object = |call: &str| {
        let is_open = perform_steps(model, &[&open("D")]) || perform_steps(model, &[&open("r")]);
        is_open && perform_steps(model, &[call])
    };
    match *step {
        ["sync", _] => on_object("fsync 0"),
        ["sync-fails", _] => on_object("!fsync 0"),
        ["syncfs", _] => on_object("syncfs 0"),
        ["begin", number, _] => on_object(&format!("begin {number} 0")),
        ["create", _] => perform_steps(model, &[&open("wcx")]),
        ["create-or-open", _] => perform_steps(model, &[&open("wc")]),
        ["write", _] => perform_steps(model, &[&open("w"), "write 0"]),
        ["write-synced", _] => perform_steps(model, &[&open("w"), "sync-write 0"]),
        ["truncate", path] => perform_steps(model, &[&format!("truncate {path} 0")]),
        ["remove", path] => ["unlink", "rmdir"]
            .iter()
            .any(|call| perform_steps(model, &[&format!("{call} {path}")])),
        ["move", from, to] => perform_steps(model, &[&format!("rename {from} {to}")]),
        ["swap", one, other] => perform_steps(model, &[&format!("exchange {one} {other}")]),
        ["sync-all"] => perform_steps(model, &["sync"]),
        _ => perform_steps(model, &[&step.join(" ")]),
    }
}

/// Numbers that look random, the same for each seed (xorshift).
struct Random(u64);

impl Random {
    fn number_below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % count as u64).expect("is small")
    }

    fn one_of(&mut self, all: &[&'static str]) -> &'static str {
        all[self.number_below(all.len())]
    }

    fn random_step(&mut self) -> Vec<&'static str> {
        const PATHS: [&str; 9] = ["a", "b", "c", "d/a", "d/b", "d", "e", "e/a", "e/b"];
        const OBJECTS: [&str; 8] = [".", ".", "a", "b", "d", "e", "d/a", "d/b"];
        let two = ["link", "move", "move", "move", "swap"];
        let one = [
            "create",
            "create-or-open",
            "write",
            "write",
            "truncate",
            "write-synced",
            "remove",
            "mkdir",
        ];
        match self.number_below(10) {
            0..=3 => vec![self.one_of(&one), self.one_of(&PATHS)],
            4..=5 => vec![self.one_of(&two), self.one_of(&PATHS), self.one_of(&PATHS)],
            6..=7 => vec!["sync", self.one_of(&OBJECTS)],
            8 => match self.number_below(5) {
                0 => vec!["sync-all"],
                1 => vec!["sync-fails", self.one_of(&OBJECTS)],
                2 => vec!["syncfs", self.one_of(&OBJECTS)],
                _ => vec!["begin", self.one_of(&["1", "2"]), self.one_of(&OBJECTS)],
            },
            _ => vec!["end", self.one_of(&["1", "2"])],
        }
    }
}

/// A program, and where a crash loses what it wrote.
fn random_program(seed: u64) -> (String, BTreeSet<String>) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut model = FileModel::new(false);
    if random.number_below(3) == 0 {
        model.mounted = [DIRECTORY, FILE_IN_DIRECTORY].into();
    }
    let length = 3 + random.number_below(12);
    let mut text = String::new();
    for _ in 0..length * 3 {
        if model.disk.updates.len() >= length {
            break;
        }
        let step = random.random_step();
        if model.disk.count_open() < MAX_OPEN && perform_step(&mut model, &step) {
            text += &step.join(" ");
            text += "; ";
        }
    }
    (text, model.lost_files())
}

/// What the judge says of a program: the paths where it fails, holds, and where that is unknown.
fn judged_paths(text: &str) -> [BTreeSet<String>; 3] {
    let mut all = [const { BTreeSet::new() }; 3];
    for file in Script::run_text(text).files {
        let index = match file.verdict {
            SyncVerdict::InOrder => 1,
            SyncVerdict::Unknown => 2,
            _ => 0,
        };
        all[index].insert(file.path.trim_start_matches('/').to_owned());
    }
    all
}

#[test]
fn no_verdict_disagrees_with_what_a_crash_may_leave() {
    let times: u64 =
        std::env::var("ZC_CRASH_PROGRAMS").map_or(1, |times| times.parse().expect("is a number"));
    let (mut files, mut unknown, mut failed) = (0, 0, 0);
    for seed in 1..=3_000 * times {
        let (text, lost) = random_program(seed);
        let [fails, holds, open] = judged_paths(&text);
        let wrong: Vec<&String> = fails
            .difference(&lost)
            .chain(holds.intersection(&lost))
            .collect();
        // No call showed that a file is in a directory that was moved.
        let is_below = |path: &str| {
            let above = path.rsplit_once('/').map(|(above, _)| above);
            above.is_some_and(|above| fails.contains(above) || open.contains(above))
        };
        let is_noticed = |path: &str| fails.contains(path) || open.contains(path) || is_below(path);
        let unnoticed: Vec<&String> = lost.iter().filter(|path| !is_noticed(path)).collect();
        assert!(
            wrong.is_empty() && unnoticed.is_empty(),
            "seed {seed}: {text}\nthe model loses {lost:?}\nthe judge: fails {fails:?}, holds {holds:?}, unknown {open:?}"
        );
        files += fails.len() + holds.len() + open.len();
        failed += fails.len();
        unknown += open.len();
    }
    println!("{files} files: {failed} fail, {unknown} unknown");
    assert!(
        failed > files / 10 && unknown < files / 5,
        "{files} files: {failed} fail, {unknown} unknown"
    );
}
