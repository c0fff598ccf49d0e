//! Each rule in scenarios: the steps of a program, and what is said of each file.

use super::{
    super::{FileSyncs, RunEnd, Syncs},
    script::Script,
};
use crate::golden::{GoldenCase, check_golden};

#[test]
fn programs_are_judged_as_the_golden_file_says() {
    check_golden("durable/tests/rules.txt", GoldenCase::Line, |case| {
        let (asked, steps) = case.split_once(": ").unwrap_or(("verdicts", case));
        let syncs = Script::run_text(steps);
        let lines = match asked {
            "syncs" => sum_lines(&syncs),
            "told" => {
                let files = syncs.told[0].files.iter();
                files.map(|file| file.path.clone()).collect()
            }
            "timeline" => last_timeline(&syncs),
            _ => verdict_lines(&syncs),
        };
        if lines.is_empty() {
            "nothing".to_owned()
        } else {
            lines.join(", ")
        }
    });
}

/// The verdict on each changed file: `a: in order`, `b: not synced`.
fn verdict_lines(syncs: &Syncs) -> Vec<String> {
    let mut files: Vec<_> = syncs.files.iter().filter(|file| file.changed).collect();
    files.sort_by_key(|file| &file.path);
    let line = |file: &FileSyncs| format!("{}: {}", &file.path[1..], file.verdict.name());
    files.into_iter().map(line).collect()
}

fn sum_lines(syncs: &Syncs) -> Vec<String> {
    let sums = &syncs.sums;
    let by_file = syncs.files.iter().map(|file| file.syncs.count);
    assert_eq!(by_file.sum::<u64>(), sums.count);
    assert_eq!(sums.ns, Some(7 * sums.count));
    let [wasted, failed] = [sums.wasted, sums.failed];
    vec![format!("{}, {wasted} wasted, {failed} failed", sums.count)]
}

fn last_timeline(syncs: &Syncs) -> Vec<String> {
    let mut changed = syncs.files.iter().filter(|file| file.changed);
    let last = changed.next_back().expect("a file was changed");
    let events = last.timeline.iter();
    events
        .map(|event| format!("{} {}", event.what.name(), event.at_ns))
        .collect()
}

#[test]
fn the_syncs_of_the_directory_in_which_a_run_begins_count_once() {
    let mut script = Script::default();
    script.judge.names.begin_in("/w");
    script.run_step("create /w/a");
    script.run_step("sync /w");
    let syncs = script.judge.finish_verdicts(RunEnd::default());
    let files = syncs.files.iter();
    let files: Vec<_> = files.map(|file| (&*file.path, file.syncs.count)).collect();
    assert_eq!(files, [("a", 0), (".", 1)]);
}

#[test]
fn a_mark_says_what_was_not_synced_then() {
    let syncs = Script::run_text("had a; write a; mark x; sync a; mark x; write a; mark y; sync a");
    let at = |name: &str| {
        let mut marks = syncs.marks.iter();
        let mark = marks.find(|mark| mark.name == name).expect("was made");
        let files = mark.files.iter();
        let files = files.map(|file| (file.path.as_str(), file.first_ns));
        (mark.count, files.collect::<Vec<_>>())
    };
    assert_eq!(at("x"), (2, vec![("/a", Some(2))]));
    assert_eq!(at("y"), (1, vec![("/a", Some(7))]));
    assert_eq!(syncs.in_order, 1);
}

#[test]
fn a_million_writes_and_temporary_files_take_no_memory() {
    let mut script = Script::default();
    script.run_step("had a");
    for _ in 0..100_000 {
        script.run_step("write a");
        script.run_step("create t");
        script.run_step("write t");
        script.run_step("remove t");
    }
    let judge = &script.judge;
    assert_eq!((judge.contents.len(), judge.changed_names.len()), (1, 0));
    let pending = judge.contents.values().map(|one| one.pending.groups());
    assert_eq!(pending.map(<[_]>::len).sum::<usize>(), 1);
}

#[test]
fn the_timeline_of_a_directory_has_syncs_without_need() {
    let directory = Script::run_text("create a; remove a; create b; sync .");
    let mut files = directory.files.iter();
    let root = files.find(|file| file.path == "/").expect("it was synced");
    let events = root.timeline.iter();
    let kinds: Vec<_> = events.map(|event| event.what.name()).collect();
    let expected = ["changed", "nothing left to sync", "changed", "synced"];
    assert_eq!(kinds, expected);
}

#[test]
fn a_timeline_is_bounded() {
    let mut script = Script::default();
    script.run_step("had a");
    for _ in 0..100 {
        script.run_step("write a");
        script.run_step("sync a");
    }
    let syncs = script.judge.finish_verdicts(RunEnd::default());
    let [file] = &syncs.files[..] else {
        panic!("{:?}", syncs.files)
    };
    assert_eq!((file.timeline.len(), file.timeline_left_out), (50, 150));
}
