//! The section of transfers and the table of files.

use super::*;
use crate::{
    report::{Certainty, Files, sample::files::Scene},
    trace::FileKind,
};

/// `std::io::copy` to a socket, beside the reads and writes that every program does.
pub(super) fn std_io_copy() -> Trace {
    let mut scene = Scene::new();
    scene.file(FileKind::UnixStream, "run/sink.sock");
    scene.run(
        "copier: read libc.so.6 0 832 600ns, read in 131071 1024M +1 457333000ns /8192, \
         sendto in~run/sink.sock 131071 1024M EAGAIN*12 268689000ns, write log 0 23 4000ns",
    );
    scene.change("rust");
    scene.trace
}

/// A pipeline, a reflink with its fallback, and a server.
pub(super) fn several() -> Trace {
    let mut scene = Scene::new();
    for name in ["data/in", "data/out", "copied"] {
        scene.regular(name);
    }
    let mapped = scene.regular("a file with a rather long name in it.iso");
    scene.name("mapped", mapped);
    scene.named("pipe");
    let [client, _] = scene.connection("10.0.0.1:5000", "10.0.0.2:80");
    scene.name("client", client);
    scene.run(
        "cat: read data/in 8 1024M, write data/in~pipe 8 1024M; \
         dd: copy_file_range pipe->data/out 0 0 EINVAL*1 @1, read pipe 16 1024M @2, write pipe~data/out 16 1024M @3; \
         cp: ioctl(FICLONE) data/in->copied 0 0 EOPNOTSUPP*1 @1, \
         copy_file_range data/in->copied 1 1M +1 @2; \
         server: mmap mapped 1 3M, sendto mapped=client 3 3M, read data/out 5 4M",
    );
    scene.trace
}

/// A copy of many files.
pub(super) fn many(files: u64) -> Trace {
    let mut scene = Scene::new();
    let calls = (0..files).map(|index| {
        let ends = format!("src/file-{index}->dst/file-{index}");
        let (bytes, order) = (4096 + index % 5000, 3 * index);
        format!(
            "ioctl(FICLONE) {ends} 0 0 EOPNOTSUPP*1 @{order}, \
             copy_file_range {ends} 1 {bytes} +1 @{}",
            order + 1
        )
    });
    scene.run(&format!("cp: {}", calls.collect::<Vec<_>>().join(", ")));
    scene.trace
}

/// Twenty processes that each copy a file, all of another name.
pub(super) fn many_sizes() -> Trace {
    let mut scene = Scene::new();
    for (bytes, name) in (1 << 20..).zip('a'..='t') {
        scene.run(&format!(
            "{name}: copy_file_range src/{name}->dst/{name} 1 {bytes}"
        ));
    }
    scene.trace
}

pub(super) fn with_files(trace: &Trace) -> Report {
    Report::from_trace(
        trace,
        &report::Options {
            files: Files::Listed,
            ..report::Options::default()
        },
    )
}

/// A server that sends a file to many clients.
fn server(clients: u64) -> Trace {
    let mut scene = Scene::new();
    scene.named("in.dat");
    let rows = (0..clients).map(|client| {
        let [socket, _] = scene.connection("10.0.0.1:80", &format!("10.0.0.2:{}", 5000 + client));
        scene.name("socket", socket);
        scene.row("sendfile in.dat->socket 16 1M 1000ns")
    });
    let rows = rows.collect();
    scene.process("server", rows);
    scene.trace
}

/// The report on a server of 300 clients, of whose transfers 12 are inferred.
fn partly_inferred() -> Report {
    let mut report = report(&server(300));
    for transfer in report.transfers.iter_mut().take(12) {
        (transfer.certainty, transfer.observed_bytes) = (Certainty::Inferred, Some(0));
    }
    report
}

#[test]
fn transfers_are_shown_by_themselves_or_in_groups() {
    let by_total = Report::from_trace(&several(), &by_detail(Detail::Total));
    let without_bytes = {
        let mut report = partly_inferred();
        let transfers = report.transfers.iter_mut();
        transfers.for_each(|transfer| transfer.bytes = None);
        report
    };
    let mut partly_known = std_io_copy();
    partly_known.losses.insert(Loss::CallsWithoutFiles, 77);
    let plain = Options::default();
    let cases = [
        ("one", table(&std_io_copy(), Some(40))),
        ("sums", shown(&by_total, &plain)),
        ("ten thousand copies", table(&many(10_000), Some(100))),
        ("a server", table(&server(300), Some(80))),
        // A group is as sure as its least sure member, and without any bytes there is no sum.
        ("partly inferred", shown(&partly_inferred(), &plain)),
        ("without bytes", shown(&without_bytes, &plain)),
        ("many shapes", table(&many_sizes(), Some(80))),
        ("partly known", table(&partly_known, None)),
    ];
    assert_beginnings("transfers", &cases);
    let files = shown(&with_files(&many(3000)), &at_width(100));
    assert_has(&files, &["\n  and 5980 more paths with "]);
    assert!(files.lines().count() < 100);
    let narrow = shown(&with_files(&several()), &at_width(40));
    assert_has(&narrow, &["\nPATHS, 6\n"]);
    let single = "\n  in.dat (regular, ext4) -> 10.0.0.2:";
    let few = table(&server(3), Some(80));
    assert_eq!(few.matches(single).count(), 3, "{few}");
    let all = shown(&report(&server(5)), &everything_shown());
    assert_eq!(all.matches(single).count(), 5, "{all}");
}

#[test]
fn what_is_in_no_transfer_is_said_as_the_golden_file_says() {
    check_shown("rest.txt", |trace| {
        let text = table(trace, None);
        let titles = ["\nTRANSFERS", "\nREAD AND WRITTEN"];
        let section = titles.iter().find_map(|title| text.split_once(title));
        let (_, section) = section.expect("has the section");
        let section = section.split("\n\n").next().unwrap_or_default();
        let lines = section.lines().skip(1).map(str::trim);
        lines.collect::<Vec<_>>().join("\n")
    });
}
