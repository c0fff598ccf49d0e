//! Which hints are given, and where none is given because it would not work.

use crate::{report::sample::files::Scene, transfer::analyse};

/// The hint for a program that made these calls. `edit` changes the scene, in which `in` and `out`
/// are the first files.
fn hint_if(edit: impl FnOnce(&mut Scene), calls: &str) -> Option<String> {
    let mut scene = Scene::new();
    for name in FILES {
        scene.named(name);
    }
    edit(&mut scene);
    scene.run(&format!("copier: {calls}"));
    let found = analyse(&scene.trace).transfers;
    let [one] = found.as_slice() else {
        panic!("{found:?}")
    };
    one.hint.clone()
}

fn hint(calls: &str) -> Option<String> {
    hint_if(|_| {}, calls)
}

/// A loop in pieces of `moved` bytes each, by a program that asks for `asked`.
fn pieces([from, to]: [&str; 2], moved: u64, asked: u64) -> String {
    let calls = (4 << 20) / moved;
    format!("read {from} {calls} 4M +1 /{asked} @8, write {from}~{to} {calls} 4M @9")
}

fn large_pieces(ends: [&str; 2]) -> String {
    pieces(ends, 128 << 10, 128 << 10)
}

/// The same after a call that failed.
fn after(failed: &str, [from, to]: [&str; 2], calls: &str) -> String {
    let (call, errno) = failed.split_once(' ').expect("CALL ERRNO");
    format!("{call} {from}->{to} 0 0 {errno}*1 @1, {calls}")
}

const FILES: [&str; 2] = ["in", "out"];

#[test]
fn each_pair_of_kinds_gets_its_hint_if_the_program_only_copies() {
    for (from, to, expected) in [
        ("in", "unix-stream", "sendfile would avoid copying"),
        ("in", "tcp", "sendfile would avoid copying"),
        ("in", "pipe", "splice would avoid copying"),
        ("in", "out", "copy_file_range would copy within"),
        ("block", "out", "sendfile would copy within"),
        ("memfd", "out", "sendfile would copy within"),
        ("pipe", "out", "splice would"),
        ("pipe", "tcp", "splice would"),
        ("unix-stream", "pipe", "splice would"),
        ("tcp1", "tcp2", "splice through a pipe"),
        ("tcp", "unix-stream", "splice through a pipe"),
        ("tcp", "out", "splice through a pipe"),
    ] {
        let hint = hint(&large_pieces([from, to])).expect("is a loop");
        let condition = ", if the program neither inspects nor changes the bytes; cost: ";
        let fits = hint.starts_with(expected) && hint.contains(condition);
        assert!(fits, "{hint}");
        // It may have been opened to append.
        assert_eq!(hint.contains("O_APPEND"), to == "out", "{hint}");
    }
    let mapped = hint("mmap in 1 4M, sendto in=tcp 4 4M").expect("is a loop");
    assert!(
        mapped.starts_with("sendfile would avoid copying"),
        "{mapped}"
    );
}

#[test]
fn copy_file_range_is_for_one_filesystem() {
    let on_another = |scene: &mut Scene| {
        let identity = scene.trace.files[1].identity.as_mut();
        identity.expect("has one").device = 8;
    };
    let refused = after("copy_file_range EXDEV", FILES, &large_pieces(FILES));
    for hint in [hint_if(on_another, &large_pieces(FILES)), hint(&refused)] {
        let hint = hint.expect("is a loop");
        assert!(hint.starts_with("sendfile"), "{hint}");
    }
}

#[test]
fn no_hint_replaces_a_loop_that_needs_its_memory() {
    let same_file = |scene: &mut Scene| {
        let files = &mut scene.trace.files;
        files[1].identity = files[0].identity;
    };
    assert_eq!(hint_if(same_file, &large_pieces(FILES)), None);
    // The destination was opened to append.
    for (ends, failed) in [
        (FILES, "copy_file_range EBADF"),
        (["block", "out"], "sendfile EINVAL"),
        (["pipe", "out"], "splice EINVAL"),
    ] {
        assert_eq!(hint(&after(failed, ends, &large_pieces(ends))), None);
    }
}

#[test]
fn larger_pieces_are_suggested_if_the_program_asks_for_small_ones() {
    let appending = |calls: &str| hint(&after("copy_file_range EBADF", FILES, calls));
    let small = appending(&pieces(FILES, 4096, 4096)).expect("is a loop");
    let expected = "read + write with 128 KiB at a time could need as few as 32 pieces instead of \
                    1024, if the program can handle that much";
    assert!(small.starts_with(expected), "{small}");
    assert_eq!(appending(&pieces(FILES, 4096, 1 << 20)), None);
    let text = "at a time could need as few as";
    for (call, expected) in [
        (
            "sendfile in->tcp",
            Some(format!("sendfile with 128 KiB {text} 32")),
        ),
        // A pipe holds no more.
        (
            "splice in->pipe",
            Some(format!("splice with 64 KiB {text} 64")),
        ),
        ("splice pipe->out", None),
    ] {
        let expected = expected.map(|text| text + " pieces instead of 1024; cost: none");
        assert_eq!(hint(&format!("{call} 1024 4M +1 /4096")), expected);
    }
}

#[test]
fn messages_streams_and_generated_files_get_no_hint() {
    // Datagrams; what a peer sends; what a terminal or a device gives.
    for ends in [
        ["udp1", "udp2"],
        ["in", "udp"],
        ["in", "unix-dgram"],
        ["unix-seqpacket", "out"],
        ["unix-stream", "out"],
        ["char", "tcp"],
    ] {
        for (moved, asked) in [(4096, 4096), (8192, 1 << 20)] {
            assert_eq!(hint(&pieces(ends, moved, asked)), None, "{ends:?}");
        }
    }
    let edits: [fn(&mut Scene); 4] = [
        |scene| scene.trace.files[0].size_bytes = Some(0),
        |scene| scene.trace.files[0].filesystem = Some("proc".to_owned()),
        |scene| scene.trace.files[0].filesystem = Some("sysfs".to_owned()),
        |scene| scene.trace.files[0].filesystem = Some("fuse.sshfs".to_owned()),
    ];
    for edit in edits {
        assert_eq!(hint_if(edit, &pieces(FILES, 4096, 4096)), None);
    }
}
