//! Rule 1: calls that name both ends, and attempts before them; and what verdicts say.

use super::*;

#[test]
fn a_call_that_names_both_ends_is_a_transfer() {
    let apis = [
        ("sendfile", Api::Sendfile),
        ("splice", Api::Splice),
        ("tee", Api::Tee),
        ("copy_file_range", Api::CopyFileRange),
    ];
    for (name, api) in apis {
        let mut scene = Scene::new();
        let [from, to] = ["in", "out"].map(|name| scene.regular(name));
        scene.process("copier", vec![copy(name, from, to, 3, MIB).zero(1)]);
        assert_eq!(transfers(&scene), one("in", "out", api, MIB));
        let transfer = only(&scene);
        assert_eq!(
            (transfer.evidence, transfer.certainty),
            (Evidence::Call, Certainty::Observed)
        );
        assert_eq!(
            (transfer.calls, transfer.zero_calls, transfer.mean_bytes),
            (Some(4), 1, Some(MIB / 3))
        );
        assert_eq!(
            (transfer.crossings, transfer.user_memory_bytes),
            (Some(4), Some(0))
        );
    }
}

/// A failed call between the same ends.
fn failed(name: &'static str, from: FileId, to: FileId, errno: i32, calls: u64) -> Row {
    copy(name, from, to, 0, 0).failed(errno, calls)
}

#[test]
fn a_verdict_says_what_was_done_and_what_was_tried_before() {
    let cases: [(RowsOfCopy, &str); 12] = [
        (
            |from, to| vec![copy("ioctl(FICLONE)", from, to, 1, 0)],
            "reflink, 1 call that shared blocks instead of copying",
        ),
        (
            |from, to| {
                vec![
                    failed("copy_file_range", from, to, libc::EXDEV, 2).at(2),
                    copy("sendfile", from, to, 1, MIB).zero(1).at(3),
                    failed("ioctl(FICLONE)", from, to, libc::EOPNOTSUPP, 1).at(1),
                ]
            },
            "sendfile, 1 call of 1 MiB, after ioctl(FICLONE) (EOPNOTSUPP), copy_file_range (EXDEV, 2 times): \
             copy_file_range does not work between these two filesystems",
        ),
        (
            // It failed afterwards.
            |from, to| {
                vec![
                    copy("sendfile", from, to, 1, MIB).at(3),
                    failed("copy_file_range", from, to, libc::EXDEV, 1).at(9),
                ]
            },
            "sendfile, 1 call of 1 MiB",
        ),
        (
            |from, to| {
                vec![
                    copy("copy_file_range", from, to, 0, 0).zero(1).at(1),
                    read("read", from, 1, 2466).zero(1).at(2),
                    written_held("write", from, to, 1, 2466, 2466).at(3),
                ]
            },
            "read + write, 1 call of 2.4 KiB, after copy_file_range (0 bytes): copy_file_range took the source for empty",
        ),
        (
            |from, to| {
                vec![
                    failed("ioctl(FICLONE)", from, to, libc::EOPNOTSUPP, 1).at(1),
                    copy("copy_file_range", from, to, 0, 0).zero(1).at(2),
                ]
            },
            "copy_file_range, 1 call that found nothing to copy, after ioctl(FICLONE) (EOPNOTSUPP): ",
        ),
        (
            |from, to| vec![failed("ioctl(FICLONE)", from, to, libc::EOPNOTSUPP, 1)],
            "reflink, 1 call failed (EOPNOTSUPP): the filesystem cannot share",
        ),
        (
            |from, to| vec![copy("sendfile", from, to, 2, MIB).failed(libc::EAGAIN, 7)],
            "sendfile, 2 calls of 512 KiB, 7 calls retried (EAGAIN)",
        ),
        (
            |from, to| vec![copy("sendfile", from, to, 3, 4501).each(2048)],
            "sendfile, 3 calls of 1.5 KiB on average",
        ),
        (
            |from, to| vec![copy("sendfile", from, to, 100, 204_700).each(2048)],
            "sendfile, 100 calls of 2 KiB",
        ),
        (cat, "read + write, 8 calls of 128 KiB"),
        (
            |from, to| {
                let mut rows = cat(from, to);
                rows.push(write("write", to, 0, 0).failed(libc::EAGAIN, 3));
                rows
            },
            "read + write, 8 calls of 128 KiB, 3 calls retried (EAGAIN)",
        ),
        (
            |from, to| {
                let mut rows = cat(from, to);
                rows[1].unfinished = 1;
                rows
            },
            "read + write, 8 calls of 128 KiB, and a call that was cut off",
        ),
    ];
    for (rows, expected) in cases {
        let verdict = only(&scene_of("copier", rows)).verdict;
        let is_expected = if verdict.contains(": ") {
            verdict.starts_with(expected)
        } else {
            verdict == expected
        };
        assert!(is_expected, "{verdict}\nexpected: {expected}");
    }
}

#[test]
fn attempts_count_as_crossings() {
    let transfer = only(&scene_of("copier", |from, to| {
        vec![
            failed("copy_file_range", from, to, libc::EXDEV, 3).at(1),
            copy("sendfile", from, to, 1, MIB).zero(1).at(3),
        ]
    }));
    assert_eq!((transfer.calls, transfer.crossings), (Some(2), Some(5)));
    let meaning = transfer.attempts[0].meaning();
    assert_eq!(
        meaning,
        Some("copy_file_range does not work between these two filesystems")
    );
}

#[test]
fn the_parts_of_a_verdict_tell_the_reason_from_the_meaning_of_the_last_attempt() {
    let mut transfer = only(&scene_of("cp", |from, to| {
        vec![
            failed("ioctl(FICLONE)", from, to, libc::EOPNOTSUPP, 1).at(1),
            copy("copy_file_range", from, to, 1, MIB).zero(1).at(2),
        ]
    }));
    let parts = transfer.verdict_parts();
    assert_eq!(
        (parts.work, parts.attempts, parts.why),
        (
            "copy_file_range, 1 call of 1 MiB",
            transfer.attempts.as_slice(),
            Some("cp uses copy_file_range if the files cannot share blocks")
        )
    );
    // A report of another version may have other words: then nothing is said twice.
    transfer.verdict = "copied by copy_file_range after FICLONE".to_owned();
    let parts = transfer.verdict_parts();
    assert_eq!(
        (parts.work, parts.attempts.len()),
        ("copied by copy_file_range after FICLONE", 0)
    );
}
