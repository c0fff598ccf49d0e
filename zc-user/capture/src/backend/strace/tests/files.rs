//! Which files rows have, and how the writes of a thread are paired with its reads: a made-up log
//! for each rule.

use super::{read_text, row, rows};
use crate::{
    backend::strace::{Log, read_logs},
    syscall::Selection,
    trace::{Ends, FileId, FileKind, Input, Row, Trace},
};

fn launched(rest: &str) -> Trace {
    read_text(&format!(
        "10 execve(\"/bin/x\", [\"x\"], 0x7ffe) = 0\n{rest}"
    ))
}

/// The source of a row and how it is known, and the destination: `named /a -> /b`.
fn ends(trace: &Trace, row: &Row) -> String {
    let path = |id: FileId| {
        let file = &trace.files[usize::try_from(id.0).expect("fits")];
        file.path
            .clone()
            .unwrap_or_else(|| file.kind.expect("is known").name().to_owned())
    };
    let input = match row.ends.input {
        None => "nothing".to_owned(),
        Some(Input::Named(file)) => format!("named {}", path(file)),
        Some(Input::Sequence(file)) => format!("read {}", path(file)),
        Some(_) => panic!("a log does not show this"),
    };
    format!(
        "{input} -> {}",
        row.ends.output.map_or_else(|| "nothing".to_owned(), path)
    )
}

#[test]
fn calls_on_different_files_are_different_rows() {
    let trace = launched(
        "10 read(3</a>, \"\"..., 10) = 7\n10 read(4</b>, \"\"..., 10) = 5\n10 read(5</a>, \"\"..., 10) = 3\n",
    );
    let reads: Vec<_> = rows(&trace)
        .filter(|row| row.call.name == "read")
        .map(|row| (ends(&trace, row), row.bytes))
        .collect();
    assert_eq!(
        reads,
        [
            ("named /a -> nothing".to_owned(), Some(10)),
            ("named /b -> nothing".to_owned(), Some(5))
        ]
    );
    assert_eq!(trace.files.len(), 2);
}

#[test]
fn a_call_that_copies_has_both_ends() {
    for (call, from, to) in [
        (
            "sendfile(4<TCP:[127.0.0.1:1->127.0.0.1:2]>, 3</a>, NULL, 5)",
            "/a",
            "tcp",
        ),
        (
            "splice(5<pipe:[1]>, NULL, 4</b>, NULL, 65536, 0)",
            "pipe",
            "/b",
        ),
        (
            "ioctl(4</b>, BTRFS_IOC_CLONE_RANGE or FICLONERANGE, {src_fd=3</a>, src_offset=0, src_length=0, dest_offset=0})",
            "/a",
            "/b",
        ),
    ] {
        let trace = launched(&format!("10 {call} = 0\n"));
        let row = rows(&trace)
            .find(|row| row.ends != Ends::default())
            .expect("has ends");
        assert_eq!(ends(&trace, row), format!("named {from} -> {to}"));
    }
}

#[test]
fn the_source_of_a_clone_is_the_file_that_was_opened_last() {
    let clone = "10 ioctl(4</b>, BTRFS_IOC_CLONE or FICLONE, 3) = 0\n";
    let opened = |opens: &str| {
        let trace = launched(&format!("{opens}{clone}"));
        ends(&trace, row(&trace, "ioctl(FICLONE)"))
    };
    let open = "10 openat(AT_FDCWD</tmp>, \"/a\", O_RDONLY) = 3</a>\n";
    assert_eq!(opened(open), "named /a -> /b");
    assert_eq!(
        opened(&format!("{open}10 dup2(7</c>, 3</a>) = 3</c>\n")),
        "named /c -> /b"
    );
    assert_eq!(
        opened(&open.replace("10 ", "11 ")),
        "nothing -> /b",
        "another task's"
    );
}

#[test]
fn without_names_there_are_no_files() {
    let trace = launched(
        "10 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3\n10 read(3, \"\"..., 10) = 7\n10 write(4, \"\"..., 7) = 7\n",
    );
    assert!(trace.files.is_empty() && rows(&trace).all(|row| row.ends == Ends::default()));
}

#[test]
fn only_files_of_counted_calls_are_in_the_trace() {
    let log = "10 execve(\"/bin/x\", [\"x\"], 0x7ffe) = 0\n10 openat(AT_FDCWD</tmp>, \"/a\", O_RDONLY) = 3</a>\n10 read(4</b>, \"\", 1) = 0\n";
    let selection = "read".parse().expect("a call");
    let log = Log {
        reader: log.as_bytes(),
        tid: None,
    };
    let trace =
        read_logs(vec![log], &selection, &mut |line| panic!("{line}")).expect("memory can be read");
    let paths: Vec<_> = trace
        .files
        .iter()
        .map(|file| file.path.as_deref())
        .collect();
    assert_eq!(paths, [Some("/b")]);
}

#[test]
fn a_write_is_paired_with_the_read_before_it_if_it_has_as_many_bytes() {
    let trace = launched(
        "10 read(3</a>, \"\"..., 8192) = 8192\n10 write(4</b>, \"\"..., 8192) = 8192\n10 write(4</b>, \"\"..., 3192) = 3000\n10 read(3</a>, \"\", 8192) = 0\n10 write(4</b>, \"\"..., 5) = 5\n",
    );
    let writes: Vec<_> = rows(&trace)
        .filter(|row| row.call.name == "write")
        .collect();
    let found: Vec<_> = writes
        .iter()
        .map(|row| (ends(&trace, row), row.bytes, row.input_bytes))
        .collect();
    assert_eq!(
        found,
        [
            ("read /a -> /b".to_owned(), Some(8192), 8192),
            ("nothing -> /b".to_owned(), Some(3005), 0)
        ]
    );
    assert_eq!(
        (
            row(&trace, "read").zero_calls,
            row(&trace, "read").short_calls
        ),
        (1, 0)
    );
    assert_eq!((writes[1].zero_calls, writes[1].short_calls), (0, 1));
    assert_eq!((writes[0].fills.calls, writes[1].fills.calls), (1, 0));
}

#[test]
fn calls_pair_in_the_order_in_which_they_return() {
    let trace = launched(
        "10 read(3</a>,  <unfinished ...>\n11 read(5</c>, \"\"..., 9) = 9\n10 <... read resumed>\"\"..., 7) = 7\n11 write(6</d>, \"\"..., 9 <unfinished ...>\n10 write(4</b>, \"\"..., 7) = 7\n11 <... write resumed>) = 9\n",
    );
    let writes: Vec<_> = rows(&trace)
        .filter(|row| row.call.name == "write")
        .map(|row| (ends(&trace, row), row.input_bytes))
        .collect();
    assert_eq!(
        writes,
        [
            ("read /a -> /b".to_owned(), 7),
            ("read /c -> /d".to_owned(), 9)
        ]
    );
}

#[test]
fn a_write_after_a_read_from_an_unknown_file_is_not_paired() {
    let trace = launched(
        "10 read(3</a>, \"\"..., 7) = 7\n10 read(4, \"\"..., 7) = 7\n10 write(5</b>, \"\"..., 7) = 7\n",
    );
    assert_eq!(
        (
            ends(&trace, row(&trace, "write")),
            row(&trace, "write").input_bytes
        ),
        ("nothing -> /b".to_owned(), 0)
    );
}

#[test]
fn an_exec_forgets_what_was_read() {
    let trace = launched(
        "10 read(3</a>, \"\"..., 7) = 7\n10 execve(\"/bin/y\", [\"y\"], 0x7ffe) = 0\n10 write(4</b>, \"\"..., 7) = 7\n",
    );
    assert_eq!(ends(&trace, row(&trace, "write")), "nothing -> /b");
}

#[test]
fn sendmmsg_has_no_bytes_and_is_not_paired() {
    let trace = launched(
        "10 read(3</a>, \"\"..., 7) = 7\n10 sendmmsg(4<UDP:[127.0.0.1:1->127.0.0.1:2]>, [{msg_hdr={}, msg_len=7}], 1, 0) = 1\n",
    );
    let sent = row(&trace, "sendmmsg");
    assert_eq!(
        (ends(&trace, sent), sent.bytes, sent.zero_calls),
        ("nothing -> udp".to_owned(), None, 0)
    );
}

#[test]
fn a_call_that_never_returned_has_its_files() {
    let trace = launched(
        "10 read(3</a>,  <unfinished ...>\n11 write(4</b>, \"\", 0 <unfinished ...>\n10 +++ killed by SIGKILL +++\n12 read(5</c>, 0x7f, 10) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)\n12 +++ killed by SIGTERM +++\n",
    );
    let unfinished: Vec<_> = rows(&trace)
        .filter(|row| row.unfinished == 1)
        .map(|row| ends(&trace, row))
        .collect();
    assert_eq!(
        unfinished,
        [
            "named /a -> nothing",
            "nothing -> /b",
            "named /c -> nothing"
        ]
    );
}

#[test]
fn rows_are_in_the_order_of_their_first_calls_over_all_threads() {
    let trace = launched(
        "10 read(3</a>,  <unfinished ...>\n11 read(3</a>, \"\", 1) = 0\n10 <... read resumed>\"\", 1) = 0\n10 close(3</a>) = 0\n",
    );
    let order = |tid: u32, name: &str| {
        let thread = trace
            .processes
            .iter()
            .flat_map(|process| &process.threads)
            .find(|thread| thread.tid == tid)
            .expect("is there");
        thread
            .rows
            .iter()
            .find(|row| row.call.name == name)
            .and_then(|row| row.order)
            .expect("is known")
    };
    assert!(order(10, "read") < order(11, "read") && order(11, "read") < order(10, "close"));
    assert!(order(10, "execve") < order(10, "read"));
}

#[test]
fn logs_of_one_thread_each_have_no_common_order() {
    let log = |text: &'static str, tid| Log {
        reader: text.as_bytes(),
        tid: Some(tid),
    };
    let logs = vec![
        log("read(3</a>, \"\"..., 9) = 9\n", 10),
        log("write(4</a>, \"\"..., 9) = 9\n", 11),
    ];
    let trace =
        read_logs(logs, &Selection::All, &mut |line| panic!("{line}")).expect("memory can be read");
    assert!(rows(&trace).all(|row| row.order.is_none()));
    assert_eq!(trace.files.len(), 1);
}

#[test]
fn sockets_that_uncounted_calls_created_are_known() {
    let log = "10 execve(\"/bin/x\", [\"x\"], 0x7ffe) = 0\n10 socketpair(AF_UNIX, SOCK_SEQPACKET, 0, [3<UNIX:[11->12]>, 4<UNIX:[12->11]>]) = 0\n10 write(3<UNIX:[11->12]>, \"\"..., 5) = 5\n";
    let selection = "write".parse().expect("a call");
    let log = Log {
        reader: log.as_bytes(),
        tid: None,
    };
    let trace =
        read_logs(vec![log], &selection, &mut |line| panic!("{line}")).expect("memory can be read");
    assert_eq!(
        trace.files.iter().map(|file| file.kind).collect::<Vec<_>>(),
        [Some(FileKind::UnixSeqpacket)]
    );
}

#[test]
fn peeked_bytes_have_not_moved() {
    let trace = launched(
        "10 recvfrom(3<socket:[7]>, \"MSG_PEEK\"..., 100, 0, NULL, NULL) = 100\n\
         10 recvfrom(3<socket:[7]>, \"abc\"..., 100, MSG_PEEK, NULL, NULL) = 100\n\
         10 write(4</b>, \"abc\"..., 100) = 100\n",
    );
    let received = row(&trace, "recvfrom");
    assert_eq!(
        (received.calls, received.bytes, received.zero_calls),
        (2, Some(100), 0)
    );
    assert_eq!(
        ends(&trace, row(&trace, "write")),
        "nothing -> /b",
        "the buffer holds something else"
    );
}

#[test]
fn a_write_after_recvmmsg_is_not_paired() {
    let trace = launched(
        "10 read(3</a>, \"\"..., 100) = 100\n\
         10 recvmmsg(5<socket:[7]>, [{msg_hdr={msg_namelen=0}, msg_len=100}], 1, 0, NULL) = 1\n\
         10 write(4</b>, \"\"..., 100) = 100\n",
    );
    assert_eq!(ends(&trace, row(&trace, "write")), "nothing -> /b");
}

#[test]
fn a_call_that_fills_memory_forgets_what_was_read() {
    for (call, source) in [
        ("getrandom(\"\"..., 100, 0) = 100", "nothing"),
        ("getpid() = 10", "read /a"),
    ] {
        let trace = launched(&format!(
            "10 read(3</a>, \"\"..., 100) = 100\n10 {call}\n10 write(4</b>, \"\"..., 100) = 100\n"
        ));
        assert_eq!(
            ends(&trace, row(&trace, "write")),
            format!("{source} -> /b")
        );
    }
}
