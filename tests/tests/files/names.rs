//! Paths as their process sees them, and which names are one file.

use super::{BYTES, directory, files, odd, traced, traced_odd, written};
use crate::harness::{Transfers as _, shell, zctrace};

#[test]
fn paths_are_relative_to_where_the_command_was_launched() {
    let run = traced(&directory(), &shell("mkdir sub && cd sub && exec dd if=../in of=out bs=4k status=none"));
    let transfer = run.report.transfer("in", "out");
    assert_eq!((transfer.from.path.as_deref(), transfer.to.path.as_deref()), (Some("in"), Some("sub/out")));
    assert_eq!(transfer.bytes, Some(BYTES));
}

/// In a mount namespace of its own: what is mounted there ends with the command.
fn path_after(mount: &str, to: &str) -> (Option<String>, Option<String>) {
    let directory = directory();
    let zctrace =
        zctrace().dir(directory.path()).through(&["unshare", "--mount", "sh", "-c", &format!("{mount} && exec \"$@\""), "sh"]);
    let run = zctrace.run(&shell(&format!("exec dd if=in of={to} bs=4k status=none")));
    run.assert_exact();
    let transfer = run.report.transfer("in", "out");
    assert_eq!(transfer.bytes, Some(BYTES));
    (transfer.to.path.clone(), transfer.to.fs.clone())
}

#[test]
fn a_path_leads_across_mounts() {
    let found = path_after("mkdir mnt && mount -t tmpfs none mnt && mkdir mnt/deep", "mnt/deep/out");
    assert_eq!(found, (Some("mnt/deep/out".to_owned()), Some("tmpfs".to_owned())));
}

#[test]
fn a_path_leads_through_the_bind_mount_that_it_was_opened_by() {
    let (path, _) = path_after("mkdir a b && mount --bind a b", "b/out");
    assert_eq!(path.as_deref(), Some("b/out"));
}

#[test]
fn a_path_begins_at_the_root_of_its_process() {
    let directory = directory();
    let script = "mkdir -p root/usr root/proc && for name in bin lib lib64; do cp -a /$name root; done && mount --bind /usr root/usr \
                  && cp in root && exec \"$@\"";
    let zctrace = zctrace().dir(directory.path()).through(&["unshare", "--mount", "sh", "-c", script, "sh"]);
    let run = zctrace.run(&shell("exec chroot root dd if=/in of=/out bs=4k status=none"));
    run.finished.successful();
    let transfer = run.report.transfer("in", "out");
    assert_eq!((transfer.from.path.as_deref(), transfer.to.path.as_deref()), (Some("/in"), Some("/out")));
}

#[test]
fn hard_links_are_one_file() {
    let run = traced_odd("two-names");
    assert_eq!(written(&run.report, "one"), (2, Some(300)));
    assert!(files(&run.report, "two").is_empty());
}

#[test]
fn a_file_has_the_name_that_it_was_first_seen_by() {
    let run = traced_odd("renamed");
    assert_eq!(written(&run.report, "before"), (2, Some(30)));
    assert!(files(&run.report, "after").is_empty());
}

#[test]
fn a_deleted_file_has_the_name_that_it_had() {
    assert_eq!(written(&traced_odd("deleted").report, "gone"), (1, Some(40)));
}

#[test]
fn a_name_that_is_no_text_is_shown_as_well_as_can_be() {
    assert_eq!(written(&traced_odd("not-utf8").report, "caf\u{fffd}"), (1, Some(50)));
}

#[test]
fn a_path_that_is_too_long_says_that_its_beginning_is_missing() {
    let run = traced_odd("very-long");
    let deep = run.report.files.iter().find(|totals| totals.file.path.as_deref().is_some_and(|path| path.ends_with("/deep")));
    let deep = deep.expect("it is listed");
    assert_eq!((deep.writes, deep.bytes_written), (1, Some(60)));
    let path = deep.file.path.as_deref().unwrap_or_default();
    assert!(path.starts_with("…/ddd") && path.len() > 3000, "{path}");
}

/// Makes sure that twenty files after each other are twenty files.
#[track_caller]
fn assert_twenty(directory: &tempfile::TempDir) -> u32 {
    let run = traced(directory, &odd("same-inode-number"));
    let mut bytes: Vec<_> = files(&run.report, "again").iter().map(|totals| (totals.writes, totals.bytes_written)).collect();
    bytes.sort_unstable();
    assert_eq!(bytes, (1..=20).map(|bytes| (1, Some(bytes))).collect::<Vec<_>>());
    run.finished.text().trim().parse().expect("a number of inode numbers")
}

#[test]
fn a_file_with_the_number_of_a_deleted_one_is_another() {
    assert_twenty(&directory());
    assert_twenty(&tempfile::tempdir_in("/dev/shm").expect("a directory in memory"));
}

#[test]
fn a_number_is_used_again_at_once_on_ext4() {
    let directory = directory();
    let script = "truncate -s 64M image && mkfs.ext4 -q image && mkdir mnt && mount -o loop image mnt && cd mnt && exec \"$@\"";
    let through = ["unshare", "--mount", "sh", "-c", script, "sh"];
    let run = zctrace().option("--files").dir(directory.path()).through(&through).run(&odd("same-inode-number"));
    assert_eq!(run.finished.successful().trim(), "1", "inode numbers of twenty files");
    assert_eq!(files(&run.report, "again").len(), 20);
}
