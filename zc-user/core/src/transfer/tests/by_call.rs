//! Rule 1: calls that name both ends, and attempts before them; and what verdicts say.

use super::*;

#[test]
fn a_call_that_names_both_ends_is_a_transfer() {
    for call in ["sendfile", "splice", "tee", "copy_file_range"] {
        let transfer = only(&scene(&format!("copier: {call} in->out 3 1M +1")));
        assert_eq!(short(&transfer), format!("in -> out {call} 1048576"));
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

#[test]
fn a_verdict_says_what_was_done_and_what_was_tried_before() {
    for (calls, expected) in [
        (
            "ioctl(FICLONE) in->out 1 0",
            "reflink, 1 call that shared blocks instead of copying",
        ),
        (
            "copy_file_range in->out 0 0 EXDEV*2 @2, sendfile in->out 1 1M +1 @3, \
             ioctl(FICLONE) in->out 0 0 EOPNOTSUPP*1 @1",
            "sendfile, 1 call of 1 MiB, after ioctl(FICLONE) (EOPNOTSUPP), copy_file_range \
             (EXDEV, 2 times): copy_file_range does not work between these two filesystems",
        ),
        // It failed afterwards.
        (
            "sendfile in->out 1 1M @3, copy_file_range in->out 0 0 EXDEV*1 @9",
            "sendfile, 1 call of 1 MiB",
        ),
        (
            "copy_file_range in->out 0 0 +1 @1, read in 1 2466 +1 @2, write in>out 1 2466 @3",
            "read + write, 1 call of 2.4 KiB, after copy_file_range (0 bytes): copy_file_range \
             took the source for empty",
        ),
        (
            "ioctl(FICLONE) in->out 0 0 EOPNOTSUPP*1 @1, copy_file_range in->out 0 0 +1 @2 /4096",
            "copy_file_range, 1 call that found nothing to copy, after ioctl(FICLONE) (EOPNOTSUPP): ",
        ),
        (
            "ioctl(FICLONE) in->out 0 0 EOPNOTSUPP*1",
            "reflink, 1 call failed (EOPNOTSUPP): the filesystem cannot share",
        ),
        (
            "sendfile in->tcp 2 1M EAGAIN*7",
            "sendfile, 2 calls of 512 KiB, 7 calls retried (EAGAIN)",
        ),
        (
            "sendfile in->out 0 0 +1 /0",
            "sendfile, 1 call that asked for 0 bytes",
        ),
        (
            "sendfile in->tcp 3 4501 /2048",
            "sendfile, 3 calls of 1.5 KiB on average",
        ),
        (
            "sendfile in->tcp 100 204700 /2048",
            "sendfile, 100 calls of 2 KiB",
        ),
        (
            "read in 8 1M +1, write in>out 8 1M",
            "read + write, 8 calls of 128 KiB",
        ),
        (
            "read in 8 1M +1, write in>out 8 1M, write out 0 0 EAGAIN*3",
            "read + write, 8 calls of 128 KiB, 3 calls retried (EAGAIN)",
        ),
        (
            "read in 8 1M +1, write in>out 8 1M cut",
            "read + write, 8 calls of 128 KiB, and a call that was cut off",
        ),
    ] {
        let verdict = only(&scene(&format!("copier: {calls}"))).verdict;
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
    let calls = "copy_file_range in->out 0 0 EXDEV*3 @1, sendfile in->out 1 1M +1 @3";
    let transfer = only(&scene(&format!("copier: {calls}")));
    assert_eq!((transfer.calls, transfer.crossings), (Some(2), Some(5)));
    let meaning = transfer.attempts[0].meaning();
    assert_eq!(
        meaning,
        Some("copy_file_range does not work between these two filesystems")
    );
}

#[test]
fn the_parts_of_a_verdict_tell_the_reason_from_the_meaning_of_the_last_attempt() {
    let calls = "ioctl(FICLONE) in->out 0 0 EOPNOTSUPP*1 @1, copy_file_range in->out 1 1M +1 @2";
    let mut transfer = only(&scene(&format!("cp: {calls}")));
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
