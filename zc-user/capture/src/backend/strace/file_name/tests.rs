//! One test for each form of a name, most of them as strace 6.1 printed them.

use super::*;

fn file(name: &str) -> File {
    parse(name.as_bytes()).file
}

/// Kind and path of a name.
fn shown(name: &str) -> (Option<FileKind>, Option<String>) {
    let file = file(name);
    (file.kind, file.path)
}

fn some(kind: FileKind, path: &str) -> (Option<FileKind>, Option<String>) {
    (Some(kind), Some(path.to_owned()))
}

#[test]
fn paths_are_unescaped() {
    for (name, path) in [
        ("/tmp/plain", "/tmp/plain"),
        (r"/d/a\74b\76c", "/d/a<b>c"),
        (r#"/d/q\"uo\\te"#, r#"/d/q"uo\te"#),
        (r"/d/tab\tnl\n", "/d/tab\tnl\n"),
        (r"/d/\303\274mlaut", "/d/ümlaut"),
        (r"/d/x-\76y", "/d/x->y"),
        (r"/d/ \74char 1:3\76", "/d/ <char 1:3>"),
        (r"\x2f\x64\x2f\xc3\xbc", "/d/ü"),
    ] {
        let told = parse(name.as_bytes());
        assert_eq!((told.file.kind, told.file.path.as_deref(), told.is_deleted), (None, Some(path), false), "{name}");
        assert_eq!(told.path.as_deref(), Some(path.as_bytes()));
    }
}

#[test]
fn a_path_that_is_not_utf_8_is_kept_as_bytes() {
    let told = parse(br"/d/\377");
    assert_eq!((told.file.path.as_deref(), told.path.as_deref()), (Some("/d/\u{fffd}"), Some(b"/d/\xff".as_slice())));
}

#[test]
fn a_deleted_file_keeps_its_path() {
    for name in ["/tmp/x>(deleted)", "/tmp/x (deleted)", r"\x2ftmp/x>(deleted)"] {
        let told = parse(name.as_bytes());
        assert_eq!((told.file.path.as_deref(), told.is_deleted), (Some("/tmp/x"), true), "{name}");
    }
    assert_eq!(file("/d/space (deleted)>(deleted)").path.as_deref(), Some("/d/space (deleted)"));
}

#[test]
fn devices_have_their_kind() {
    assert_eq!(shown("/dev/pts/1<char 136:1>"), some(FileKind::Char, "/dev/pts/1"));
    assert_eq!(shown("/dev/loop0<block 7:0>"), some(FileKind::Block, "/dev/loop0"));
    assert_eq!(shown(r"/dev/a\74b\76<char 1:3>"), some(FileKind::Char, "/dev/a<b>"));
    assert_eq!(shown("/dev/null<what 1:3>"), (None, Some("/dev/null<what 1:3>".to_owned())));
}

#[test]
fn files_of_memfd_create_are_found() {
    for name in ["/memfd:na me>(deleted)", "/memfd:na me (deleted)"] {
        assert_eq!(shown(name), some(FileKind::Memfd, "memfd:na me"), "{name}");
    }
    assert_eq!(shown("/memfd:x"), (None, Some("/memfd:x".to_owned())), "a file in the root directory");
}

#[test]
fn pipes_have_an_inode_and_no_path() {
    for name in ["pipe:[123]", r"\x70\x69\x70\x65\x3a\x5b\x31\x32\x33\x5d"] {
        let told = parse(name.as_bytes());
        assert_eq!((told.file.kind, told.file.path, told.inode), (Some(FileKind::Pipe), None, Some(123)), "{name}");
        assert_eq!(told.file.filesystem.as_deref(), Some("pipefs"));
    }
}

#[test]
fn anonymous_inodes_have_the_kernels_names() {
    assert_eq!(shown("anon_inode:[eventfd]"), some(FileKind::Eventfd, "anon_inode:[eventfd]"));
    assert_eq!(shown("anon_inode:[eventpoll]"), some(FileKind::Anonymous, "anon_inode:[eventpoll]"));
    assert_eq!(shown("anon_inode:inotify"), some(FileKind::Anonymous, "anon_inode:inotify"));
    assert_eq!(shown("pid:123"), some(FileKind::Anonymous, "anon_inode:[pidfd]"));
    assert_eq!(shown("signalfd:[USR1]"), some(FileKind::Anonymous, "anon_inode:[signalfd]"));
    let eventfd = "{eventfd-count=0x1, eventfd-id=2, eventfd-semaphore=0}";
    assert_eq!(shown(eventfd), some(FileKind::Eventfd, "anon_inode:[eventfd]"));
    assert_eq!(file(eventfd).filesystem.as_deref(), Some("anon_inodefs"));
    assert_eq!(shown("net:[4026531840]"), (None, Some("net:[4026531840]".to_owned())));
}

#[test]
fn a_stable_key_does_not_change_with_the_count_of_an_eventfd() {
    let key = |text: &'static str| {
        let (_, name) = text.split_once('<').expect("has a name");
        stable_key(text.as_bytes(), name.as_bytes())
    };
    let eventfd = |count, id| format!("3<{{eventfd-count={count:#x}, eventfd-id={id}, eventfd-semaphore=0}}").leak();
    assert_eq!(key(eventfd(1, 2)), key(eventfd(7, 2)));
    assert_ne!(key(eventfd(1, 2)), key(eventfd(1, 3)));
    assert_eq!(key("3<{eventfd-count=0x1}"), key("4<{eventfd-count=0x2}"));
    assert_eq!(key("3</tmp/x"), key("4</tmp/x"));
    assert_ne!(key("3</memfd:x>(deleted)"), key("4</memfd:x>(deleted)"), "two files of one name");
}

#[test]
fn internet_sockets_have_addresses() {
    let ends = |name: &str| {
        let told = parse(name.as_bytes());
        (told.file.kind, told.file.local, told.file.peer, told.inode)
    };
    let text = |text: &str| Some(text.to_owned());
    let (tcp, udp) = (Some(FileKind::Tcp), Some(FileKind::Udp));
    assert_eq!(ends("TCP:[127.0.0.1:80->127.0.0.1:4000]"), (tcp, text("127.0.0.1:80"), text("127.0.0.1:4000"), None));
    assert_eq!(ends("TCP:[0.0.0.0:80]"), (tcp, text("0.0.0.0:80"), None, None));
    assert_eq!(ends("TCP:[159729]"), (tcp, None, None, Some(159_729)));
    assert_eq!(ends("TCPv6:[[::1]:80->[::1]:4000]"), (tcp, text("[::1]:80"), text("[::1]:4000"), None));
    let mapped = ends("TCPv6:[[::ffff:127.0.0.1]:80->[::ffff:127.0.0.1]:4000]");
    assert_eq!(mapped, (tcp, text("[::ffff:127.0.0.1]:80"), text("[::ffff:127.0.0.1]:4000"), None));
    assert_eq!(ends("UDP:[127.0.0.1:53]"), (udp, text("127.0.0.1:53"), None, None));
    assert_eq!(ends("UDPv6:[[::]:45302->[::1]:53]"), (udp, text("[::]:45302"), text("[::1]:53"), None));
    assert_eq!(ends("UDP:[0.0.0.0:0]"), (udp, None, None, None));
    assert_eq!(ends("RAW:[0.0.0.0:1]").0, Some(FileKind::Socket));
    assert_eq!(file("TCP:[0.0.0.0:80]").filesystem.as_deref(), Some("sockfs"));
}

#[test]
fn unix_sockets_have_inodes_and_paths() {
    let told = |name: &str| {
        let told = parse(name.as_bytes());
        (told.file.kind, told.inode, told.file.peer_inode, told.file.path)
    };
    let text = |text: &str| Some(text.to_owned());
    let stream = Some(FileKind::UnixStream);
    assert_eq!(told("UNIX-STREAM:[11]"), (stream, Some(11), None, None));
    assert_eq!(told("UNIX-STREAM:[11->12]"), (stream, Some(11), Some(12), None));
    assert_eq!(told(r#"UNIX-STREAM:[11,"/run/x"]"#), (stream, Some(11), None, text("/run/x")));
    assert_eq!(told(r#"UNIX-STREAM:[11->12,"/a b]>"]"#), (stream, Some(11), Some(12), text("/a b]>")));
    assert_eq!(told(r#"UNIX-STREAM:[11,@"abs\"x"]"#), (stream, Some(11), None, text("@abs\"x")));
    assert_eq!(told(r#"UNIX-STREAM:[11,"\x2f\x78"]"#), (stream, Some(11), None, text("/x")));
    assert_eq!(told("UNIX:[11->12]"), (Some(FileKind::Socket), Some(11), Some(12), None));
}

#[test]
fn other_sockets_have_a_kind() {
    assert_eq!(shown("NETLINK:[ROUTE:29359]"), (Some(FileKind::Netlink), None));
    assert_eq!(shown("NETLINK:[7]"), (Some(FileKind::Netlink), None));
    assert_eq!(shown("socket:[123]"), (Some(FileKind::Socket), None));
    assert_eq!(parse(b"socket:[123]").inode, Some(123));
    assert_eq!(shown("L2TP/IP:[5]"), (Some(FileKind::Socket), None));
}

#[test]
fn malformed_names_do_not_panic() {
    for name in ["", ":", "x", "TCP:", "TCP:[", "pipe:[]", "pipe:[x]", "\\", "<", ">", ">(deleted)", "UNIX-STREAM:[", "[]"] {
        assert_eq!(parse(name.as_bytes()).inode, None, "{name}");
    }
}
