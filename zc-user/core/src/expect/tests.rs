//! The language as a whole: every form that holds and that fails, with what it says; every mistake; anything at all.

mod anything;
mod certainty;
mod forms;
mod mistakes;
mod three_values;

use super::*;
use crate::{
    report::{
        Files, Options,
        sample::files::{Scene, copy, map, read, write, written_held},
    },
    trace::{Exit, FileKind, Trace},
};

/// A copier and the shell that started it: `in.dat` by `sendfile` to a Unix socket after `copy_file_range` failed, and `log` by
/// hand to a pipe. What it sends as a datagram comes from nobody knows where.
pub(super) fn scene() -> Trace {
    let mut scene = Scene::new();
    let [source, library, log] = ["in.dat", "libc.so.6", "data/log"].map(|name| scene.regular(name));
    let socket = scene.file(FileKind::UnixStream, "s.sock");
    let pipe = scene.pipe();
    let datagrams = scene.file(FileKind::Udp, "datagrams");
    scene.process("sh", vec![read("read", library, 2, 832), map(library, 4096)]);
    let copier = vec![
        copy("copy_file_range", source, socket, 0, 0).at(1).failed(libc::EXDEV, 1),
        copy("sendfile", source, socket, 0, 1 << 20).at(2).each(1 << 20).took(&[2000, 3000, 1_500_000]).failed(libc::EAGAIN, 2),
        read("read", log, 16, 1 << 16).at(3).each(4096).zero(1),
        written_held("write", log, pipe, 16, 1 << 16, 1 << 16).at(4).each(4096),
        write("sendto", datagrams, 1, 100).at(5),
    ];
    scene.process("copier", copier);
    scene.trace.exit = Some(Exit::Code(3));
    scene.trace.counted = Some("%data,%network".parse().expect("a selection"));
    scene.trace
}

/// The report on a trace, with calls file by file.
pub(super) fn report_of(trace: &Trace) -> Report {
    Report::from_trace(trace, &Options { file_calls: Files::Listed, ..Options::default() })
}
