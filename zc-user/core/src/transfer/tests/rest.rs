//! Rule 9: what is in no transfer.

use super::*;

/// What a process with these rows wrote to a file: in transfers, and from its own memory, in bytes
/// and calls.
fn written(rows: impl FnOnce(FileId, FileId) -> Vec<Row>) -> [u64; 4] {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    scene.process("program", rows(from, to));
    let report = Report::from_trace(&scene.trace, &Options::default());
    let destinations = &report.processes[0].destinations;
    assert_eq!(destinations.len(), 1, "{destinations:?}");
    let one = &destinations[0];
    [
        one.transferred_bytes,
        one.own_memory_bytes.expect("calls tell"),
        one.transferred_calls,
        one.own_memory_calls,
    ]
}

#[test]
fn what_is_in_no_transfer_is_the_programs_own() {
    let own = |_, to| vec![write("write", to, 3, 300)];
    assert_eq!(written(own), [0, 300, 0, 3]);
    let all = |from, to| cat(from, to);
    assert_eq!(written(all), [MIB, 0, 8, 0]);
    let both = |from, to| {
        let mut rows = cat(from, to);
        rows.push(write("write", to, 2, 50));
        rows.push(copy("sendfile", from, to, 1, 7));
        rows
    };
    assert_eq!(written(both), [MIB + 7, 50, 9, 2]);
    let changed = |from, to| {
        vec![
            read("read", from, 2, 300),
            written_changed("write", from, to, 2, 300, 300),
        ]
    };
    assert_eq!(written(changed), [0, 300, 0, 2]);
}

/// What a process with these rows read of a file and kept.
fn kept(rows: impl FnOnce(FileId, [FileId; 2]) -> Vec<Row>) -> Option<u64> {
    let mut scene = Scene::new();
    let from = scene.regular("in");
    let to = ["a", "b"].map(|name| scene.regular(name));
    scene.process("program", rows(from, to));
    let report = Report::from_trace(&scene.trace, &Options::default());
    report.processes[0].sources[0].kept_bytes
}

#[test]
fn what_was_read_and_is_in_no_transfer_was_kept() {
    assert_eq!(kept(|from, _| vec![read("read", from, 3, 300)]), Some(300));
    assert_eq!(kept(|from, [to, _]| cat(from, to)), Some(0));
    let some = |from, [to, _]: [FileId; 2]| {
        vec![
            read("read", from, 3, 300),
            written_held("write", from, to, 1, 100, 100),
        ]
    };
    assert_eq!(kept(some), Some(200));
    let twice = |from, to: [FileId; 2]| {
        let write = |to| written_held("write", from, to, 1, 200, 200);
        vec![read("read", from, 3, 300), write(to[0]), write(to[1])]
    };
    assert_eq!(kept(twice), None, "some bytes were written several times");
}

#[test]
fn a_reflink_writes_nothing() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    scene.process("cp", vec![copy("ioctl(FICLONE)", from, to, 1, 0)]);
    let report = Report::from_trace(&scene.trace, &Options::default());
    assert!(report.processes[0].destinations.is_empty());
}

#[test]
fn it_is_known_whether_memory_was_seen() {
    let mut trace = crate::report::sample::copier();
    assert!(sees_memory(&trace));
    trace.counted = Some("write".parse().expect("a call"));
    assert!(!sees_memory(&trace), "reads were not counted");
    trace.counted = None;
    assert!(!sees_memory(&trace), "nobody knows");
}
