//! Which names stand for the same file.

use super::*;

/// An inspector that finds what a test has put there.
#[derive(Default)]
struct Fake(HashMap<Vec<u8>, Inspected>);

impl Fake {
    fn put(&mut self, path: &str, inode: u64, born: u64) {
        let born = Some(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(born));
        let kind = Some(FileKind::Regular);
        let seen = Inspected { kind, device: 9, inode, born, size_bytes: Some(5), filesystem: Some("ext4".to_owned()) };
        self.0.insert(path.as_bytes().to_vec(), seen);
    }
}

impl Inspector for Fake {
    fn devices(&self) -> Devices {
        Devices { pipes: 7, sockets: 8 }
    }

    fn inspect(&mut self, target: &Target<'_>) -> Option<Inspected> {
        self.0.get(target.path).filter(|_| !target.is_deleted).cloned()
    }
}

fn descriptor(text: &str) -> Descriptor<'_> {
    Descriptor::whole(text.as_bytes()).expect("has a name")
}

fn find(files: &mut FileTable<'_>, text: &str) -> FileId {
    files.find(Some(10), descriptor(text))
}

fn opened(files: &mut FileTable<'_>, result: &str) {
    files.apply(FileEffect::Open, Some(10), b"AT_FDCWD</tmp>, \"x\", O_RDONLY", result.as_bytes());
}

#[test]
fn a_name_is_one_file() {
    let mut files = FileTable::default();
    let a = find(&mut files, "3</a>");
    assert_eq!(find(&mut files, "4</a>"), a);
    assert_ne!(find(&mut files, "3</b>"), a);
    assert_eq!(find(&mut files, "3</a>(deleted)"), a);
    assert_eq!(files.into_all()[0].identity, None);
}

#[test]
fn an_inspected_file_has_an_identity() {
    let mut fake = Fake::default();
    fake.put("/a", 1, 0);
    let mut files = FileTable::with_inspector(&mut fake);
    find(&mut files, "3</a>");
    let identity = Some(FileIdentity { device: 9, inode: 1, generation: None });
    let path = Some("/a".to_owned());
    let expected = File {
        kind: Some(FileKind::Regular),
        identity,
        filesystem: Some("ext4".to_owned()),
        path,
        size_bytes: Some(5),
        ..File::default()
    };
    assert_eq!(files.into_all(), [expected]);
}

#[test]
fn two_paths_of_an_inode_are_one_file() {
    let mut fake = Fake::default();
    fake.put("/a", 1, 0);
    fake.put("/link", 1, 0);
    fake.put("/later", 1, 1);
    let mut files = FileTable::with_inspector(&mut fake);
    let a = find(&mut files, "3</a>");
    assert_eq!(find(&mut files, "4</link>"), a);
    assert_ne!(find(&mut files, "5</later>"), a, "the inode number was used again");
}

#[test]
fn a_path_that_is_opened_again_may_be_another_file() {
    let mut fake = Fake::default();
    fake.put("/a", 1, 0);
    let mut files = FileTable::with_inspector(&mut fake);
    let before = find(&mut files, "3</a>");
    opened(&mut files, "3</a>");
    assert_eq!(find(&mut files, "3</a>"), before);
    // What was at the path is gone, and something else is there.
    let mut fake = Fake::default();
    fake.put("/a", 2, 0);
    files.inspector = Some(&mut fake);
    assert_eq!(find(&mut files, "3</a>"), before, "it was not opened");
    opened(&mut files, "4</a> <0.000012>");
    assert_ne!(find(&mut files, "4</a>"), before);
}

#[test]
fn a_file_that_cannot_be_inspected_is_known_by_its_name() {
    let mut fake = Fake::default();
    let mut files = FileTable::with_inspector(&mut fake);
    let a = find(&mut files, "3</a>");
    opened(&mut files, "4</a>");
    assert_eq!(find(&mut files, "4</a>"), a);
    assert_eq!(files.into_all()[0].identity, None);
}

#[test]
fn files_in_memory_of_one_name_are_different_files() {
    let mut files = FileTable::default();
    let three = find(&mut files, "3</memfd:x>(deleted)");
    assert_ne!(find(&mut files, "4</memfd:x>(deleted)"), three);
    assert_eq!(find(&mut files, "3</memfd:x>(deleted)"), three);
    files.apply(FileEffect::Memfd, None, b"\"x\", 0", b"3</memfd:x>(deleted)");
    assert_ne!(find(&mut files, "3</memfd:x>(deleted)"), three);
}

#[test]
fn both_ends_of_a_pipe_are_one_file() {
    let mut fake = Fake::default();
    for (mut files, device) in [(FileTable::default(), 0), (FileTable::with_inspector(&mut fake), 7)] {
        assert_eq!(find(&mut files, "3<pipe:[12]>"), find(&mut files, "4<pipe:[12]>"));
        assert_eq!(files.into_all()[0].identity, Some(FileIdentity { device, inode: 12, generation: None }));
    }
}

#[test]
fn a_socket_stays_the_same_file_when_it_is_connected() {
    let mut files = FileTable::default();
    let client = find(&mut files, "3<UNIX-STREAM:[11]>");
    files.apply(FileEffect::Connect, None, br#"3<UNIX-STREAM:[11]>, {sa_family=AF_UNIX, sun_path="/run/x"}, 22"#, b"");
    assert_eq!(find(&mut files, "3<UNIX-STREAM:[11->12]>"), client);
    let file = &files.into_all()[0];
    assert_eq!((file.path.as_deref(), file.peer_inode), (Some("/run/x"), Some(12)));
}

#[test]
fn a_client_gets_the_address_of_its_server() {
    let mut files = FileTable::default();
    find(&mut files, "3<UNIX-STREAM:[11->12]>");
    find(&mut files, r#"4<UNIX-STREAM:[12->11,"/run/x"]>"#);
    find(&mut files, "5<UNIX-STREAM:[21->22]>");
    let paths: Vec<Option<String>> = files.into_all().into_iter().map(|file| file.path).collect();
    assert_eq!(paths, [Some("/run/x".to_owned()), Some("/run/x".to_owned()), None]);
}

#[test]
fn the_kind_of_a_unix_socket_is_known_from_the_call_that_created_it() {
    let mut files = FileTable::default();
    files.apply(FileEffect::Socket, None, b"AF_UNIX, SOCK_SEQPACKET|SOCK_CLOEXEC, 0", b"3<UNIX:[11]>");
    files.apply(FileEffect::Accept, None, br#"3<UNIX:[11,"/x"]>, NULL, NULL"#, br#"4<UNIX:[12->13,"/x"]>"#);
    files.apply(FileEffect::Socket, None, b"0x1, 0x80002, 0", b"5<UNIX:[14]>");
    files.apply(FileEffect::SocketPair, None, b"AF_UNIX, SOCK_DGRAM, 0, [6<UNIX:[15->16]>, 7<UNIX:[16->15]>]", b"");
    files.apply(FileEffect::Socket, None, b"AF_UNIX, SOCK_STREAM, 0", b"8<UNIX-STREAM:[17]>");
    files.apply(FileEffect::Socket, None, b"AF_INET, SOCK_DGRAM, IPPROTO_IP", b"9<UDP:[18]>");
    let of = |files: &mut FileTable<'_>, text| {
        let id = find(files, text);
        files.all[index(id)].kind
    };
    let (packets, datagrams) = (Some(FileKind::UnixSeqpacket), Some(FileKind::UnixDatagram));
    assert_eq!([of(&mut files, "3<UNIX:[11]>"), of(&mut files, "4<UNIX:[12->13]>")], [packets; 2]);
    for text in ["5<UNIX:[14]>", "6<UNIX:[15->16]>", "7<UNIX:[16->15]>"] {
        assert_eq!(of(&mut files, text), datagrams, "{text}");
    }
    assert_eq!(of(&mut files, "8<UNIX-STREAM:[17]>"), Some(FileKind::UnixStream));
    assert_eq!(of(&mut files, "9<UDP:[18]>"), Some(FileKind::Udp));
    assert_eq!(of(&mut files, "10<UNIX:[19]>"), Some(FileKind::Socket));
}

#[test]
fn names_that_change_with_every_call_take_no_memory() {
    let mut files = FileTable::default();
    for count in 0..1000 {
        find(&mut files, &format!("3<{{eventfd-count={count:#x}, eventfd-id=2, eventfd-semaphore=0}}>"));
    }
    assert_eq!((files.all.len(), files.by_name.len()), (1, 1));
}
