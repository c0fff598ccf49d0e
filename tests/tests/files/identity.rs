//! Which file a call was on: paths as the process sees them, several names of one file, descriptors
//! that change, files without a path.

use zctrace::report::FileTotals;

use super::{BYTES, directory, file, files, odd, traced, traced_odd, written};
use crate::harness::{TestDir, Transfers as _, shell, zctrace};

#[test]
fn paths_are_relative_to_where_the_command_was_launched() {
    let run = traced(
        &directory(),
        &shell("mkdir sub && cd sub && exec dd if=../in of=out bs=4k status=none"),
    );
    let transfer = run.report.transfer("in", "out");
    assert_eq!(
        (transfer.from.path.as_deref(), transfer.to.path.as_deref()),
        (Some("in"), Some("sub/out"))
    );
    assert_eq!(transfer.bytes, Some(BYTES));
}

/// Copies `in` to this file after a script that mounts something: the path and the filesystem of
/// the destination.
fn path_after(mount: &str, to: &str) -> (Option<String>, Option<String>) {
    let directory = directory();
    let run = zctrace()
        .dir(directory.path())
        .with_mounts(mount)
        .run(&shell(&format!("exec dd if=in of={to} bs=4k status=none")));
    run.assert_exact();
    let transfer = run.report.transfer("in", "out");
    assert_eq!(transfer.bytes, Some(BYTES));
    (transfer.to.path.clone(), transfer.to.fs.clone())
}

#[test]
fn a_path_crosses_mounts() {
    let found = path_after(
        "mkdir mnt && mount -t tmpfs none mnt && mkdir mnt/deep",
        "mnt/deep/out",
    );
    assert_eq!(
        found,
        (Some("mnt/deep/out".to_owned()), Some("tmpfs".to_owned()))
    );
}

#[test]
fn a_path_goes_through_the_bind_mount_that_the_file_was_opened_through() {
    let (path, _) = path_after("mkdir a b && mount --bind a b", "b/out");
    assert_eq!(path.as_deref(), Some("b/out"));
}

#[test]
fn a_path_starts_at_the_root_of_its_process() {
    let directory = directory();
    let script = "mkdir -p root/usr root/proc && for name in bin lib lib64; do cp -a /$name root; done && mount --bind /usr root/usr \
                  && cp in root";
    let run = zctrace()
        .dir(directory.path())
        .with_mounts(script)
        .run(&shell(
            "exec chroot root dd if=/in of=/out bs=4k status=none",
        ));
    run.finished.successful();
    let transfer = run.report.transfer("in", "out");
    assert_eq!(
        (transfer.from.path.as_deref(), transfer.to.path.as_deref()),
        (Some("/in"), Some("/out"))
    );
}

#[test]
fn hard_links_are_one_file() {
    let run = traced_odd("two-names");
    assert_eq!(written(&run.report, "one"), (2, Some(300)));
    assert!(files(&run.report, "two").is_empty());
}

#[test]
fn a_renamed_file_keeps_the_name_it_was_first_seen_by() {
    let run = traced_odd("renamed");
    assert_eq!(written(&run.report, "before"), (2, Some(30)));
    assert!(files(&run.report, "after").is_empty());
}

#[test]
fn a_deleted_file_keeps_its_name() {
    assert_eq!(
        written(&traced_odd("deleted").report, "gone"),
        (1, Some(40))
    );
}

#[test]
fn a_name_that_is_not_utf8_is_shown_with_replacement_characters() {
    assert_eq!(
        written(&traced_odd("not-utf8").report, "caf\u{fffd}"),
        (1, Some(50))
    );
}

#[test]
fn a_path_that_is_too_long_is_marked_as_cut() {
    let run = traced_odd("very-long");
    let deep = run.report.files.iter().find(|totals| {
        totals
            .file
            .path
            .as_deref()
            .is_some_and(|path| path.ends_with("/deep"))
    });
    let deep = deep.expect("it is listed");
    assert_eq!((deep.writes, deep.bytes_written), (1, Some(60)));
    let path = deep.file.path.as_deref().unwrap_or_default();
    assert!(path.starts_with("…/ddd") && path.len() > 3000, "{path}");
}

/// Makes sure that twenty files, each deleted before the next is created, are twenty files. Returns
/// how many inode numbers they had.
#[track_caller]
fn assert_twenty(directory: &TestDir) -> u32 {
    let run = traced(directory, &odd("same-inode-number"));
    let mut bytes: Vec<_> = files(&run.report, "again")
        .iter()
        .map(|totals| (totals.writes, totals.bytes_written))
        .collect();
    bytes.sort_unstable();
    assert_eq!(
        bytes,
        (1..=20).map(|bytes| (1, Some(bytes))).collect::<Vec<_>>()
    );
    run.finished
        .text()
        .trim()
        .parse()
        .expect("a number of inode numbers")
}

#[test]
fn a_file_with_the_inode_number_of_a_deleted_one_is_another_file() {
    assert_twenty(&directory());
    assert_twenty(&TestDir::inside("/dev/shm"));
}

#[test]
fn ext4_reuses_an_inode_number_at_once_and_the_files_are_told_apart() {
    let directory = directory();
    let script = "truncate -s 64M image && mkfs.ext4 -q image && mkdir mnt && mount -o loop image mnt && cd mnt";
    let run = zctrace()
        .option("--files")
        .dir(directory.path())
        .with_mounts(script)
        .run(&odd("same-inode-number"));
    assert_eq!(
        run.finished.successful().trim(),
        "1",
        "inode numbers of twenty files"
    );
    assert_eq!(files(&run.report, "again").len(), 20);
}

/// Makes sure that a hundred writes of 1 byte went to `a`, and a hundred of 2 bytes to `b`.
#[track_caller]
fn assert_in_turn(case: &str) {
    let run = traced_odd(case);
    assert_eq!(
        (written(&run.report, "a"), written(&run.report, "b")),
        ((100, Some(100)), (100, Some(200)))
    );
}

#[test]
fn a_reopened_descriptor_is_another_file() {
    assert_in_turn("reopened");
}

#[test]
fn dup2_replaces_the_file_of_a_descriptor() {
    assert_in_turn("replaced");
}

#[test]
fn another_thread_can_replace_the_file_of_a_descriptor() {
    assert_in_turn("replaced-by-thread");
}

#[test]
fn io_uring_can_replace_the_file_of_a_descriptor() {
    let run = traced_odd("ring-replaced");
    let read = |name| {
        (
            file(&run.report, name).reads,
            file(&run.report, name).bytes_read,
        )
    };
    assert_eq!((read("a"), read("b")), ((1, Some(1)), (1, Some(2))));
}

#[test]
fn a_descriptor_received_over_a_socket_is_the_senders_file() {
    let run = traced_odd("passed");
    assert_eq!(written(&run.report, "passed"), (1, Some(500)));
    let [child] = run.descendants()[..] else {
        panic!("one child, not {:?}", run.descendants().len())
    };
    let writes = child
        .syscalls
        .iter()
        .find(|call| call.name == "write")
        .expect("it wrote");
    assert_eq!((writes.calls, writes.bytes), (1, Some(500)));
}

/// The two ends of a connection: first the one that wrote, then the one that read.
#[track_caller]
fn ends(mut both: Vec<&FileTotals>, bytes: u64) -> [&FileTotals; 2] {
    both.sort_by_key(|totals| totals.reads);
    let [writer, reader] = both
        .try_into()
        .unwrap_or_else(|both| panic!("two ends, not {both:?}"));
    assert_eq!(
        (writer.bytes_written, reader.bytes_read),
        (Some(bytes), Some(bytes))
    );
    [writer, reader]
}

#[test]
fn sockets_are_shown_with_their_addresses() {
    let run = traced_odd("sockets");
    ends(files(&run.report, "listening"), 11);
    let ports: Vec<&str> = run.finished.text().split_ascii_whitespace().collect();
    for (host, port, bytes) in [("127.0.0.1", ports[0], 44), ("[::1]", ports[1], 66)] {
        let listening = format!("{host}:{port}");
        let address = |address: &Option<String>| address.as_ref() == Some(&listening);
        let both = run
            .report
            .files
            .iter()
            .filter(|totals| address(&totals.file.local) || address(&totals.file.peer))
            .collect();
        let [client, server] = ends(both, bytes);
        assert_eq!(
            (client.file.kind.as_deref(), server.file.kind.as_deref()),
            (Some("tcp"), Some("tcp"))
        );
        assert_eq!(
            (&client.file.local, &client.file.peer),
            (&server.file.peer, &server.file.local)
        );
        assert_eq!(server.file.local, Some(listening));
    }
}

#[test]
fn files_without_a_name_have_a_kind() {
    let run = traced_odd("nameless");
    ends(files(&run.report, "unix-stream"), 21);
    let pipes: Vec<_> = files(&run.report, "pipe")
        .into_iter()
        .filter(|totals| totals.reads > 0)
        .collect();
    let [pipe] = pipes[..] else {
        panic!("one pipe, not {pipes:?}")
    };
    assert_eq!((pipe.bytes_written, pipe.bytes_read), (Some(22), Some(22)));
    assert_eq!(written(&run.report, "memfd:zc-memory"), (1, Some(23)));
    assert_eq!(
        file(&run.report, "memfd:zc-memory").file.kind.as_deref(),
        Some("memfd")
    );
    assert_eq!(written(&run.report, "anon_inode:[eventfd]"), (1, Some(8)));
    assert_eq!(
        file(&run.report, "anon_inode:[eventfd]")
            .file
            .kind
            .as_deref(),
        Some("eventfd")
    );
}
