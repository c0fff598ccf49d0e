//! Rule 1: calls that name both ends, and attempts before them.

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

#[test]
fn a_reflink_copies_an_unknown_number_of_bytes() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    scene.process("copier", vec![copy("ioctl(FICLONE)", from, to, 1, 0)]);
    assert_eq!(
        transfers(&scene),
        [("in".into(), "out".into(), Api::Reflink, None)]
    );
    let verdict = only(&scene).verdict;
    assert_eq!(
        verdict,
        "reflink, 1 call that shared blocks instead of copying"
    );
}

#[test]
fn a_call_that_failed_before_is_an_attempt() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let rows = vec![
        copy("copy_file_range", from, to, 0, 0)
            .failed(libc::EXDEV, 2)
            .at(2),
        copy("sendfile", from, to, 1, MIB).zero(1).at(3),
        copy("ioctl(FICLONE)", from, to, 0, 0)
            .failed(libc::EOPNOTSUPP, 1)
            .at(1),
    ];
    scene.process("copier", rows);
    let transfer = only(&scene);
    assert_eq!(
        (transfer.api, transfer.calls, transfer.crossings),
        (Api::Sendfile, Some(2), Some(5))
    );
    assert_eq!(
        transfer.verdict,
        "sendfile, 1 call of 1 MiB, after ioctl(FICLONE) (EOPNOTSUPP), copy_file_range (EXDEV, 2 times): \
         copy_file_range does not work between these two filesystems"
    );
    let parts = transfer.verdict_parts();
    assert_eq!(
        (parts.work, parts.attempts, parts.why),
        (
            "sendfile, 1 call of 1 MiB",
            transfer.attempts.as_slice(),
            None
        )
    );
    assert_eq!(
        parts.attempts[1].meaning(),
        Some("copy_file_range does not work between these two filesystems")
    );
}

#[test]
fn the_parts_of_a_verdict_tell_the_reason_from_the_meaning_of_the_last_attempt() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let rows = vec![
        copy("ioctl(FICLONE)", from, to, 0, 0)
            .failed(libc::EOPNOTSUPP, 1)
            .at(1),
        copy("copy_file_range", from, to, 1, MIB).zero(1).at(2),
    ];
    scene.process("cp", rows);
    let mut transfer = only(&scene);
    let parts = transfer.verdict_parts();
    assert_eq!(parts.work, "copy_file_range, 1 call of 1 MiB");
    assert_eq!(
        parts.why,
        Some("cp uses copy_file_range if the files cannot share blocks")
    );
    // A report of another version may have other words: then nothing is said twice.
    transfer.verdict = "copied by copy_file_range after FICLONE".to_owned();
    let parts = transfer.verdict_parts();
    assert_eq!(
        (parts.work, parts.attempts.len()),
        ("copied by copy_file_range after FICLONE", 0)
    );
}

#[test]
fn a_call_that_failed_afterwards_is_not_an_attempt() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let failed = copy("copy_file_range", from, to, 0, 0)
        .failed(libc::EXDEV, 1)
        .at(9);
    scene.process(
        "copier",
        vec![copy("sendfile", from, to, 1, MIB).at(3), failed],
    );
    assert!(only(&scene).attempts.is_empty());
}

#[test]
fn a_call_that_moved_nothing_before_a_loop_did_is_an_attempt() {
    let mut scene = Scene::new();
    let [from, to] = ["cpuinfo", "out"].map(|name| scene.regular(name));
    let rows = vec![
        copy("copy_file_range", from, to, 0, 0).zero(1).at(1),
        read("read", from, 1, 2466).zero(1).at(2),
        written_held("write", from, to, 1, 2466, 2466).at(3),
    ];
    scene.process("copier", rows);
    let transfer = only(&scene);
    let verdict = "read + write, 1 call of 2.4 KiB, after copy_file_range (0 bytes): ";
    assert!(transfer.verdict.starts_with(verdict), "{transfer:?}");
}

#[test]
fn an_empty_file_is_copied_by_the_call_that_found_it_empty() {
    let mut scene = Scene::new();
    let [from, to] = ["empty", "out"].map(|name| scene.regular(name));
    let rows = vec![
        copy("ioctl(FICLONE)", from, to, 0, 0)
            .failed(libc::EOPNOTSUPP, 1)
            .at(1),
        copy("copy_file_range", from, to, 0, 0).zero(1).at(2),
    ];
    scene.process("cp", rows);
    assert_eq!(
        transfers(&scene),
        one("empty", "out", Api::CopyFileRange, 0)
    );
    let verdict = only(&scene).verdict;
    let expected =
        "copy_file_range, 1 call that found nothing to copy, after ioctl(FICLONE) (EOPNOTSUPP)";
    assert!(verdict.starts_with(expected), "{verdict}");
}

#[test]
fn a_copy_that_failed_says_so() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    scene.process(
        "cp",
        vec![copy("ioctl(FICLONE)", from, to, 0, 0).failed(libc::EOPNOTSUPP, 1)],
    );
    let verdict = only(&scene).verdict;
    assert!(
        verdict.starts_with("reflink, 1 call failed (EOPNOTSUPP): the filesystem cannot share"),
        "{verdict}"
    );
}

#[test]
fn retries_are_not_attempts() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.file(Tcp, "sock"));
    scene.process(
        "nginx",
        vec![copy("sendfile", from, to, 2, MIB).failed(libc::EAGAIN, 7)],
    );
    let transfer = only(&scene);
    assert!(transfer.attempts.is_empty());
    assert_eq!(transfer.retries["EAGAIN"], 7);
    assert_eq!(
        transfer.verdict,
        "sendfile, 2 calls of 512 KiB, 7 calls retried (EAGAIN)"
    );
}

#[test]
fn a_much_shorter_last_call_makes_the_size_an_upper_limit() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.file(Tcp, "sock"));
    let cases = [
        (3, 4500, "sendfile, 3 calls of up to 2 KiB"),
        (100, 204_700, "sendfile, 100 calls of 2 KiB"),
    ];
    for (calls, bytes, expected) in cases {
        scene.trace.processes.clear();
        scene.process(
            "nginx",
            vec![copy("sendfile", from, to, calls, bytes).each(2048)],
        );
        assert_eq!(only(&scene).verdict, expected);
    }
}
