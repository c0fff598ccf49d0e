//! What is no regular file, with its addresses.

use zctrace::report::FileTotals;

use super::{file, files, traced_odd, written};

/// The two ends of a connection: the one that wrote, the one that read.
#[track_caller]
fn ends(mut both: Vec<&FileTotals>, bytes: u64) -> [&FileTotals; 2] {
    both.sort_by_key(|totals| totals.reads);
    let [writer, reader] = both.try_into().unwrap_or_else(|both| panic!("two ends, not {both:?}"));
    assert_eq!((writer.bytes_written, reader.bytes_read), (Some(bytes), Some(bytes)));
    [writer, reader]
}

#[test]
fn sockets_have_their_addresses() {
    let run = traced_odd("sockets");
    ends(files(&run.report, "listening"), 11);
    let ports: Vec<&str> = run.finished.text().split_ascii_whitespace().collect();
    for (host, port, bytes) in [("127.0.0.1", ports[0], 44), ("[::1]", ports[1], 66)] {
        let listening = format!("{host}:{port}");
        let address = |address: &Option<String>| address.as_ref() == Some(&listening);
        let both = run.report.files.iter().filter(|totals| address(&totals.file.local) || address(&totals.file.peer)).collect();
        let [client, server] = ends(both, bytes);
        assert_eq!((client.file.kind.as_deref(), server.file.kind.as_deref()), (Some("tcp"), Some("tcp")));
        assert_eq!((&client.file.local, &client.file.peer), (&server.file.peer, &server.file.local));
        assert_eq!(server.file.local, Some(listening));
    }
}

#[test]
fn what_has_no_name_has_a_kind() {
    let run = traced_odd("nameless");
    ends(files(&run.report, "unix-stream"), 21);
    let pipes: Vec<_> = files(&run.report, "pipe").into_iter().filter(|totals| totals.reads > 0).collect();
    let [pipe] = pipes[..] else { panic!("one pipe, not {pipes:?}") };
    assert_eq!((pipe.bytes_written, pipe.bytes_read), (Some(22), Some(22)));
    assert_eq!(written(&run.report, "memfd:zc-memory"), (1, Some(23)));
    assert_eq!(file(&run.report, "memfd:zc-memory").file.kind.as_deref(), Some("memfd"));
    assert_eq!(written(&run.report, "anon_inode:[eventfd]"), (1, Some(8)));
    assert_eq!(file(&run.report, "anon_inode:[eventfd]").file.kind.as_deref(), Some("eventfd"));
}
