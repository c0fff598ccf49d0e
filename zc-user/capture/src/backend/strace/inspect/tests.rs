//! Inspects files of this process.

use std::{fs::File, io::Write as _};

use rustix::fs::{MemfdFlags, memfd_create};

use super::*;

/// An inspector of a run that began this long after now, so that all existing files are older; zero: they may have changed since.
fn proc(began_after: Duration) -> ProcInspector {
    ProcInspector { began_at: SystemTime::now() + began_after, ..ProcInspector::new().expect("has /proc") }
}

fn target(path: &Path, descriptor: i32) -> Target<'_> {
    Target {
        tid: Some(std::process::id()),
        descriptor: u32::try_from(descriptor).expect("is open"),
        path: path.as_os_str().as_bytes(),
        is_deleted: false,
    }
}

/// A descriptor that is not open, so that only the path can lead to the file.
const CLOSED: i32 = i32::MAX;

#[test]
fn a_file_is_seen_behind_its_descriptor_and_by_its_path() {
    let mut file = tempfile::NamedTempFile::new().expect("has room");
    file.write_all(b"12345").expect("has room");
    let metadata = file.as_file().metadata().expect("is there");
    let mut proc = proc(Duration::from_secs(1));
    let behind = proc.inspect(&target(file.path(), file.as_raw_fd())).expect("is open");
    assert_eq!(Some(&behind), proc.inspect(&target(file.path(), CLOSED)).as_ref());
    assert_eq!((behind.kind, behind.device, behind.inode), (Some(FileKind::Regular), metadata.dev(), metadata.ino()));
    assert_eq!((behind.born, behind.size_bytes), (metadata.created().ok(), Some(5)));
    let mounts = fs::read_to_string("/proc/mounts").expect("has mounts");
    let filesystem = behind.filesystem.expect("is mounted");
    assert!(mounts.lines().any(|mount| mount.split(' ').nth(2) == Some(&filesystem)), "{filesystem}");
}

#[test]
fn a_file_that_may_have_changed_has_no_size() {
    let file = tempfile::NamedTempFile::new().expect("has room");
    let seen = proc(Duration::ZERO).inspect(&target(file.path(), CLOSED)).expect("is there");
    assert_eq!(seen.size_bytes, None);
}

#[test]
fn a_deleted_file_is_only_found_by_its_descriptor() {
    let file = tempfile::NamedTempFile::new().expect("has room");
    let (file, path) = file.into_parts();
    let path = path.keep().expect("is there");
    fs::remove_file(&path).expect("is ours");
    File::create(&path).expect("another file of this name");
    let mut proc = proc(Duration::ZERO);
    let deleted = |descriptor| Target { is_deleted: true, ..target(&path, descriptor) };
    let seen = proc.inspect(&deleted(file.as_raw_fd())).expect("is open");
    assert_eq!(seen.inode, file.metadata().expect("is open").ino());
    assert_eq!(proc.inspect(&deleted(CLOSED)), None);
    fs::remove_file(&path).expect("is ours");
}

#[test]
fn another_file_behind_the_descriptor_is_not_used() {
    let file = tempfile::NamedTempFile::new().expect("has room");
    let mut proc = proc(Duration::ZERO);
    assert_eq!(proc.inspect(&target(Path::new("/no/such/file"), file.as_raw_fd())), None);
    let directory = file.path().parent().expect("is in one");
    let seen = proc.inspect(&target(directory, file.as_raw_fd())).expect("is there");
    assert_eq!((seen.kind, seen.size_bytes), (Some(FileKind::Directory), None));
}

#[test]
fn a_file_of_memfd_create_is_in_a_filesystem_that_is_not_mounted() {
    let file = memfd_create("x", MemfdFlags::empty()).expect("has memory");
    let target = Target { is_deleted: true, ..target(Path::new("/memfd:x"), file.as_raw_fd()) };
    let seen = proc(Duration::ZERO).inspect(&target).expect("is open");
    assert_eq!((seen.kind, seen.filesystem.as_deref()), (Some(FileKind::Regular), Some("tmpfs")));
}

#[test]
fn pipes_and_sockets_have_their_own_devices() {
    let devices = proc(Duration::ZERO).devices();
    assert!(devices.pipes != 0 && devices.sockets != 0 && devices.pipes != devices.sockets, "{devices:?}");
}

#[test]
fn a_mount_has_an_id_and_a_type() {
    let line = "36 35 98:0 /mnt1 /a\\040-\\040b rw,noatime master:1 - fuse.sshfs /dev/root rw,errors=continue";
    assert_eq!(mount(line), Some((36, "fuse.sshfs".to_owned())));
    assert_eq!(mount("36 35 98:0 /"), None);
}
