//! Each rule in scenarios: the steps of a program, and what is said of each file.

use super::{
    super::{FileSyncs, RunEnd, Syncs},
    script::Script,
};

/// All that is said of files that were changed: `a: in order, b: not synced`.
fn verdicts(syncs: &Syncs) -> String {
    let mut files: Vec<_> = syncs.files.iter().filter(|file| file.changed).collect();
    files.sort_by_key(|file| &file.path);
    let line = |file: &FileSyncs| format!("{}: {}", &file.path[1..], file.verdict.name());
    files.into_iter().map(line).collect::<Vec<_>>().join(", ")
}

fn check(table: &[(&str, &str)]) {
    for (steps, expected) in table {
        assert_eq!(verdicts(&Script::run(steps)), *expected, "{steps}");
    }
}

#[test]
fn data_are_synced_if_a_sync_was_entered_after_the_last_change() {
    check(&[
        ("had a; write a; sync a", "a: in order"),
        ("had a; write a", "a: not synced"),
        ("had a; write a; sync a; write a", "a: not synced"),
        ("had a; write a; sync-all", "a: in order"),
        ("had a; write-synced a", "a: in order"),
        ("had a; write a; write-synced a", "a: not synced"),
        ("had a; write a; sync a; truncate a", "a: not synced"),
        ("create a; sync .; truncate a", "a: in order"),
        ("create a; sync .; resize a", "a: not synced"),
        // It may have been written to meanwhile: not each write is an event.
        (
            "had a; write a; truncate a; sync-all; truncate a",
            "a: unknown",
        ),
        // Another file was synced.
        ("had a; had b; write a; sync b", "a: not synced"),
        // The change came while the sync ran.
        ("had a; write a; begin 1 a; write a; end 1", "a: not synced"),
        (
            "had a; write a; begin 1 a; write a; begin 2 a; end 1; end 2",
            "a: in order",
        ),
        (
            "had a; write a; begin 1 a; write a; begin 2 a; end 2; end 1",
            "a: in order",
        ),
        ("had a; write a; begin 1 a", "a: not synced"),
    ]);
}

#[test]
fn a_name_is_synced_with_its_directory_and_so_are_those_above_it() {
    check(&[
        ("create a; sync .", "a: in order"),
        ("create a; write a; sync a", "a: not synced"),
        ("create a; write a; sync a; sync .", "a: in order"),
        ("create a; sync-all", "a: in order"),
        (
            "mkdir d; create d/a; sync d",
            "d: not synced, d/a: not synced",
        ),
        (
            "mkdir d; create d/a; sync .",
            "d: in order, d/a: not synced",
        ),
        (
            "mkdir d; create d/a; sync d; sync .",
            "d: in order, d/a: in order",
        ),
        ("had a; move a b", "a: not synced, b: not synced"),
        ("had a; move a b; sync .", "b: in order"),
        (
            "had d/a; had e/b; move d/a e/a; sync e",
            "d/a: not synced, e/a: in order",
        ),
        (
            "had d/a; had e/b; move d/a e/a; sync e; sync d",
            "e/a: in order",
        ),
        ("had a; link a b", "a: in order, b: not synced"),
        ("had a; link a b; sync .", "a: in order, b: in order"),
        ("had a; had b; swap a b", "a: not synced, b: not synced"),
        ("had a; had b; swap a b; sync .", "a: in order, b: in order"),
        (
            "had d/a; write d/a; sync d/a; move d e",
            "d: not synced, e: not synced, e/a: not synced",
        ),
        // Two names of one file: rename(2) does nothing.
        (
            "had a; link a b; sync .; move a b",
            "a: in order, b: in order",
        ),
    ]);
}

#[test]
fn a_name_that_was_removed_may_come_back_if_it_was_on_the_disk() {
    check(&[
        ("had a; remove a", "a: not synced"),
        ("had a; remove a; sync .", ""),
        ("had a; write a; remove a; sync .", ""),
        // A temporary file.
        ("create a; write a; remove a", ""),
        ("create a; sync .; write a; remove a", "a: not synced"),
        ("create a; write a; sync a; move a b; sync .", "b: in order"),
        // What it was moved over needs nothing.
        (
            "had b; write b; create a; sync a; move a b; sync .",
            "b: in order",
        ),
        // It comes back with its directory only.
        ("had d/a; remove d/a; remove d; sync .", ""),
        (
            "had d/a; remove d/a; remove d",
            "d: not synced, d/a: not synced",
        ),
        ("had d/a; remove d/a; sync d; remove d; sync .", ""),
        // Its directory is gone for good, whatever has that name now.
        (
            "had d/a; remove d/a; remove d; create d; sync .; remove d",
            "d: not synced",
        ),
        // With the name that its directory has on the disk.
        (
            "had d/a; move d e; remove e/a; remove e",
            "d: not synced, d/a: not synced, e: unknown",
        ),
        // It was never on the disk, because its directory was not.
        ("mkdir d; create d/a; sync d; remove d/a", "d: not synced"),
        ("mkdir d; create d/a; sync d; remove d/a; remove d", ""),
        (
            "mkdir d; create d/a; sync d; sync .; remove d/a; remove d",
            "d: not synced, d/a: not synced",
        ),
        // The creation was covered by a sync that was still running when it was removed.
        ("create a; begin 1 .; remove a; end 1", "a: not synced"),
    ]);
}

#[test]
fn no_file_is_moved_before_its_data_are_synced() {
    check(&[
        (
            "had b; create a; write a; move a b; sync b; sync .",
            "b: moved unsynced",
        ),
        ("create a; write a; sync a; move a b; sync .", "b: in order"),
        (
            "create a; write a; begin 1 a; move a b; end 1; sync .",
            "b: moved unsynced",
        ),
        ("create a; move a b; write b; sync b; sync .", "b: in order"),
        (
            "had a; had b; write b; swap a b; sync-all",
            "a: moved unsynced, b: in order",
        ),
        // Not even a later one in order makes up for it.
        (
            "create a; write a; move a b; create a; write a; sync a; move a b; sync .",
            "b: moved unsynced",
        ),
    ]);
}

#[test]
fn a_sync_that_failed_is_not_passed_over() {
    check(&[
        ("had a; write a; sync-fails a", "a: sync failed"),
        // It is not written again: fsync(2).
        ("had a; write a; sync-fails a; sync a", "a: sync failed"),
        ("had a; write a; sync-fails a; fail", "a: not synced"),
        ("had a; write a; sync-fails a; tell; fail", "a: sync failed"),
        (
            "had a; write a; sync-fails a; truncate a; write a; sync a",
            "a: in order",
        ),
        // If it was empty still, that may not be on the disk.
        (
            "had a; write a; sync a; truncate a; sync-fails a; truncate a; sync a",
            "a: unknown",
        ),
        ("had a; write a; sync-refused a", "a: not synced"),
        ("had a; write a; sync-refused a; sync a", "a: in order"),
        ("had a; sync-fails a", ""),
    ]);
}

#[test]
fn what_the_calls_do_not_show_is_unknown() {
    check(&[
        ("create-or-open a", "a: unknown"),
        ("create-or-open a; sync .", "a: in order"),
        ("create-or-open a; write a", "a: not synced"),
        ("create-or-open a; write a; sync a", "a: unknown"),
        // A directory that was just made has no other names.
        (
            "mkdir d; sync .; create-or-open d/a",
            "d: in order, d/a: not synced",
        ),
        ("create-or-open a; remove a", "a: unknown"),
        ("had a; map a", "a: unknown"),
        ("had a; map a; msync a", "a: in order"),
        ("had a; map a; write a; msync a", "a: not synced"),
        (
            "had a; write a; sync a; resize a; map a; msync a",
            "a: unknown",
        ),
        ("had a; map a; resize a; msync a; sync a", "a: in order"),
        ("had a; map a; sync a", "a: in order"),
        ("had a; write-cut-off a", "a: unknown"),
        // It may have been empty, or so long.
        ("had a; truncate a", "a: unknown"),
        ("had a; truncate a; truncate a; sync a", "a: in order"),
        ("had a; write a; sync a; resize a", "a: unknown"),
        ("had a; write a; sync a; io_uring", "a: unknown"),
        // It may be in another filesystem, unless something was made in it.
        ("had d/a; had b; write d/a; syncfs b", "d/a: unknown"),
        (
            "create a; create b; write a; syncfs b",
            "a: in order, b: in order",
        ),
        (
            "mkdir d; create d/a; write d/a; syncfs .",
            "d: in order, d/a: in order",
        ),
    ]);
}

#[test]
fn a_sync_is_wasted_if_nothing_had_changed() {
    for (steps, [count, wasted, failed]) in [
        ("had a; write a; sync a", [1, 0, 0]),
        ("had a; write a; sync a; sync a", [2, 1, 0]),
        ("had a; chmod a; sync a; sync a", [2, 1, 0]),
        ("create a; sync a; sync .; sync .", [3, 2, 0]),
        ("had a; write a; sync-all; sync-all", [2, 1, 0]),
        ("had a; chmod a; sync-all; sync-all", [2, 1, 0]),
        ("had a; write a; sync-fails a; sync-refused a", [2, 0, 2]),
        // The syncs of a file that is gone count.
        ("create a; write a; sync a; remove a", [1, 0, 0]),
    ] {
        let syncs = Script::run(steps);
        let sums = &syncs.sums;
        assert_eq!(
            [sums.count, sums.wasted, sums.failed],
            [count, wasted, failed],
            "{steps}"
        );
        let by_file = syncs.files.iter().map(|file| file.syncs.count);
        assert_eq!(by_file.sum::<u64>(), count, "{steps}");
        assert_eq!(sums.ns, Some(7 * count));
    }
}

#[test]
fn the_syncs_of_the_directory_in_which_a_run_begins_count_once() {
    let mut script = Script::default();
    script.judge.names.begin_in("/w");
    script.step("create /w/a");
    script.step("sync /w");
    let syncs = script.judge.finish(RunEnd::default());
    let files = syncs.files.iter();
    let files: Vec<_> = files.map(|file| (&*file.path, file.syncs.count)).collect();
    assert_eq!(files, [("a", 0), (".", 1)]);
}

#[test]
fn a_mark_says_what_was_not_synced_then() {
    let syncs = Script::run("had a; write a; mark x; sync a; mark x; write a; mark y; sync a");
    let at = |name: &str| {
        let mark = syncs
            .marks
            .iter()
            .find(|mark| mark.name == name)
            .expect("was made");
        let files = mark
            .files
            .iter()
            .map(|file| (file.path.as_str(), file.first_ns));
        (mark.count, files.collect::<Vec<_>>())
    };
    assert_eq!(at("x"), (2, vec![("/a", Some(2))]));
    assert_eq!(at("y"), (1, vec![("/a", Some(7))]));
    assert_eq!(syncs.in_order, 1);
}

#[test]
fn what_others_were_told_before_a_sync_is_kept() {
    for (steps, expected) in [
        ("had a; write a; tell; sync a", vec!["/a"]),
        ("had a; write a; sync a; tell", vec![]),
        ("had a; tell; write a; told-again; sync a", vec![]),
        (
            "had a; write a; sync a; tell; write a; tell; sync a",
            vec!["/a"],
        ),
        ("had a; write a; begin 1 a; tell; end 1", vec!["/a"]),
        ("had d/a; move d e; tell; sync .", vec!["/d", "/e"]),
        (
            "had d/a; write d/a; sync d/a; move d e; tell; sync .",
            vec!["/d", "/e", "/e/a"],
        ),
    ] {
        let syncs = Script::run(steps);
        let files: Vec<&str> = syncs.told[0].files.iter().map(|file| &*file.path).collect();
        assert_eq!(files, expected, "{steps}");
    }
}

#[test]
fn a_million_writes_and_temporary_files_take_no_memory() {
    let mut script = Script::default();
    script.step("had a");
    for _ in 0..100_000 {
        script.step("write a");
        script.step("create t");
        script.step("write t");
        script.step("remove t");
    }
    let judge = &script.judge;
    assert_eq!((judge.contents.len(), judge.changed_names.len()), (1, 0));
    let pending = judge.contents.values().map(|one| one.pending.groups());
    assert_eq!(pending.map(<[_]>::len).sum::<usize>(), 1);
}

#[test]
fn a_timeline_has_each_change_of_state() {
    for (steps, expected) in [
        (
            "had a; write a; write a; sync a; sync a; write a",
            "changed 1, synced 4, synced 6, changed 7",
        ),
        ("create a; move a b; sync .", "made 1, moved 2"),
        (
            "had a; write a; begin 1 a; write a; end 1",
            "changed 1, synced 4, changed 4",
        ),
        (
            "had a; write a; sync-fails a; sync-all",
            "changed 1, sync failed 3, synced 5, changed 5",
        ),
        ("had a; write-synced a", ""),
    ] {
        let syncs = Script::run(steps);
        let found = |file: &FileSyncs| {
            let events = file.timeline.iter();
            let events = events.map(|event| format!("{} {}", event.what.name(), event.at_ns));
            events.collect::<Vec<_>>().join(", ")
        };
        let mut of_files = syncs.files.iter().filter(|file| file.changed).map(found);
        let last = of_files.next_back().expect("a file was changed");
        assert_eq!(last, expected, "{steps}");
    }
    let directory = Script::run("create a; remove a; create b; sync .");
    let mut files = directory.files.iter();
    let root = files.find(|file| file.path == "/").expect("it was synced");
    let kinds: Vec<_> = root
        .timeline
        .iter()
        .map(|event| event.what.name())
        .collect();
    let expected = ["changed", "nothing left to sync", "changed", "synced"];
    assert_eq!(kinds, expected);
}

#[test]
fn a_timeline_is_bounded() {
    let mut script = Script::default();
    script.step("had a");
    for _ in 0..100 {
        script.step("write a");
        script.step("sync a");
    }
    let syncs = script.judge.finish(RunEnd::default());
    let [file] = &syncs.files[..] else {
        panic!("{:?}", syncs.files)
    };
    assert_eq!((file.timeline.len(), file.timeline_left_out), (50, 150));
}
