//! Looking at files of this process.

use std::{fs::File, io::Write as _};

use rustix::fs::{MemfdFlags, memfd_create};

use super::*;

/// Somebody to look who began a while after all that exists now, or before.
fn proc(began_after: Duration) -> Proc {
    Proc { began_at: SystemTime::now() + began_after, ..Proc::new().expect("has /proc") }
}

fn sighting(path: &Path, descriptor: i32) -> Sighting<'_> {
    Sighting {
        tid: Some(std::process::id()),
        descriptor: u32::try_from(descriptor).expect("is open"),
        path: path.as_os_str().as_bytes(),
        is_deleted: false,
    }
}

/// No descriptor at all, so that there is the path alone.
const CLOSED: i32 = i32::MAX;

#[test]
fn a_file_is_seen_behind_its_descriptor_and_by_its_path() {
    let mut file = tempfile::NamedTempFile::new().expect("has room");
    file.write_all(b"12345").expect("has room");
    let metadata = file.as_file().metadata().expect("is there");
    let mut proc = proc(Duration::from_secs(1));
    let behind = proc.look(&sighting(file.path(), file.as_raw_fd())).expect("is open");
    assert_eq!(Some(&behind), proc.look(&sighting(file.path(), CLOSED)).as_ref());
    assert_eq!((behind.kind, behind.device, behind.inode), (Some(FileKind::Regular), metadata.dev(), metadata.ino()));
    assert_eq!((behind.born, behind.size_bytes), (metadata.created().ok(), Some(5)));
    let mounts = fs::read_to_string("/proc/mounts").expect("has mounts");
    let filesystem = behind.filesystem.expect("is mounted");
    assert!(mounts.lines().any(|mount| mount.split(' ').nth(2) == Some(&filesystem)), "{filesystem}");
}

#[test]
fn what_may_have_changed_since_has_no_length() {
    let file = tempfile::NamedTempFile::new().expect("has room");
    let seen = proc(Duration::ZERO).look(&sighting(file.path(), CLOSED)).expect("is there");
    assert_eq!(seen.size_bytes, None);
}

#[test]
fn a_deleted_file_is_seen_behind_its_descriptor_alone() {
    let file = tempfile::NamedTempFile::new().expect("has room");
    let (file, path) = file.into_parts();
    let path = path.keep().expect("is there");
    fs::remove_file(&path).expect("is ours");
    File::create(&path).expect("another file of this name");
    let mut proc = proc(Duration::ZERO);
    let deleted = |descriptor| Sighting { is_deleted: true, ..sighting(&path, descriptor) };
    let seen = proc.look(&deleted(file.as_raw_fd())).expect("is open");
    assert_eq!(seen.inode, file.metadata().expect("is open").ino());
    assert_eq!(proc.look(&deleted(CLOSED)), None);
    fs::remove_file(&path).expect("is ours");
}

#[test]
fn another_file_behind_the_descriptor_is_not_taken_for_it() {
    let file = tempfile::NamedTempFile::new().expect("has room");
    let mut proc = proc(Duration::ZERO);
    assert_eq!(proc.look(&sighting(Path::new("/no/such/file"), file.as_raw_fd())), None);
    let directory = file.path().parent().expect("is in one");
    let seen = proc.look(&sighting(directory, file.as_raw_fd())).expect("is there");
    assert_eq!((seen.kind, seen.size_bytes), (Some(FileKind::Directory), None));
}

#[test]
fn a_file_of_memfd_create_is_in_a_filesystem_that_is_mounted_nowhere() {
    let file = memfd_create("x", MemfdFlags::empty()).expect("has memory");
    let sighting = Sighting { is_deleted: true, ..sighting(Path::new("/memfd:x"), file.as_raw_fd()) };
    let seen = proc(Duration::ZERO).look(&sighting).expect("is open");
    assert_eq!((seen.kind, seen.filesystem.as_deref()), (Some(FileKind::Regular), Some("tmpfs")));
}

#[test]
fn pipes_and_sockets_have_devices_of_their_own() {
    let devices = proc(Duration::ZERO).devices();
    assert!(devices.pipes != 0 && devices.sockets != 0 && devices.pipes != devices.sockets, "{devices:?}");
}
