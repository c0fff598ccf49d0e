//! Tests of the analysis as a whole, on made-up traces: one module for each group of rules. What is
//! observed by call and buffer, and that every byte has one source, is also checked by the random
//! programs of `zc-tests`, which know every address.

mod by_call;
mod by_totals;
mod chains;
mod from_memory;
mod pipes;
mod rest;

use std::collections::HashMap;

use super::*;
use crate::{
    errno,
    report::{
        Options, Report,
        sample::files::{
            Scene, copy, map, peek, read, write, written_after, written_changed, written_from,
            written_held,
        },
    },
    syscalls::Spec,
    trace::{
        FileKind::{Eventfd, Tcp},
        Fills,
    },
};

const MIB: u64 = 1 << 20;

/// Processes that did what the text says: `cat: read in 8 9000 +1, write in>pipe 8 9000; dd: ...`.
///
/// A call has its name, its file or files, how many calls there were, and the bytes of all. Files
/// called `pipe...` are pipes, `sock...` TCP sockets, `event...` eventfds, all others regular. Of two files,
/// the sign between them says how the bytes came from the first: `->` the call names it, `>` from a
/// buffer, `!` from a buffer that was changed, `=` from a mapping, `~` after as much was read. After
/// that: `+1` calls returned 0, `cut` one never returned, `EXDEV*2` failed, each asked for `/4096`
/// bytes, and it was first called at `@3` in the order of the trace.
fn scene(text: &str) -> Scene {
    let mut scene = Scene::new();
    let mut files: HashMap<String, FileId> = HashMap::new();
    for process in text.split(';') {
        let (name, calls) = process.split_once(':').expect("NAME: CALLS");
        let mut file = |name: &str| {
            *files.entry(name.to_owned()).or_insert_with(|| match name {
                _ if name.starts_with("pipe") => scene.pipe(),
                _ if name.starts_with("sock") => scene.file(Tcp, name),
                _ if name.starts_with("event") => scene.file(Eventfd, name),
                _ => scene.regular(name),
            })
        };
        let rows = calls.split(',').map(|call| row(call, &mut file)).collect();
        scene.process(name.trim(), rows);
    }
    scene
}

/// The row of a call in such a text.
fn row(call: &str, file: &mut impl FnMut(&str) -> FileId) -> Row {
    let mut words = call.split_whitespace();
    let mut next = || words.next().expect("CALL FILES CALLS BYTES");
    let name: &'static str = next().to_owned().leak();
    let (ends, calls, bytes) = (next(), number(next()), number(next()));
    let mut between = |sign: &str| {
        let (from, to) = ends.split_once(sign)?;
        Some((file(from), file(to)))
    };
    let mut row = if ends == "-" {
        peek(bytes)
    } else if let Some((from, to)) = between("->") {
        copy(name, from, to, calls, bytes)
    } else if let Some((from, to)) = between(">") {
        written_held(name, from, to, calls, bytes, bytes)
    } else if let Some((from, to)) = between("!") {
        written_changed(name, from, to, calls, bytes, bytes)
    } else if let Some((from, to)) = between("~") {
        written_after(name, from, to, calls, bytes, bytes)
    } else if let Some((from, to)) = between("=") {
        written_from(name, from, to, calls, bytes)
    } else {
        match Spec::named(name).fds {
            Fds::Writes(_) => write(name, file(ends), calls, bytes),
            Fds::On(_) => map(file(ends), bytes),
            _ => read(name, file(ends), calls, bytes),
        }
    };
    for word in words {
        row = match (word.split_at(1), word.split_once('*')) {
            (("+", calls), _) => row.zero(number(calls)),
            (("/", each), _) => row.each(number(each)),
            (("@", order), _) => row.at(number(order)),
            (_, Some((name, calls))) => {
                let errno = (1..133_i32).find(|errno| errno::name(errno.unsigned_abs()) == name);
                row.failed(errno.expect("is an errno"), number(calls))
            }
            _ => row.unfinished(1),
        };
    }
    row
}

/// A number; `4M` is 4 MiB.
fn number(word: &str) -> u64 {
    let (digits, unit) = word
        .strip_suffix('M')
        .map_or((word, 1), |digits| (digits, MIB));
    digits.parse::<u64>().expect("is a number") * unit
}

/// All transfers of a trace.
fn found(scene: &Scene) -> Vec<Transfer> {
    // Its sums are checked there.
    Report::from_trace(&scene.trace, &Options::default()).transfers
}

/// The transfers within processes, as `in -> out sendfile 100`.
fn transfers(scene: &Scene) -> Vec<String> {
    let found = found(scene);
    let within = found
        .iter()
        .filter(|transfer| !transfer.crosses_processes());
    within.map(short).collect()
}

/// The transfers over several processes, likewise.
fn across(scene: &Scene) -> Vec<String> {
    let found = found(scene);
    let across = found.iter().filter(|transfer| transfer.crosses_processes());
    across.map(short).collect()
}

/// The only transfer.
fn only(scene: &Scene) -> Transfer {
    let mut found = found(scene);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn short(transfer: &Transfer) -> String {
    let name = |end: &End| end.path.clone().or_else(|| end.kind.clone());
    let [from, to] = [&transfer.from, &transfer.to].map(|end| name(end).unwrap_or_default());
    let bytes = transfer.bytes.map(|bytes| format!(" {bytes}"));
    let api = transfer.api.name();
    format!("{from} -> {to} {api}{}", bytes.unwrap_or_default())
}

#[test]
fn unidentified_files_have_bytes_but_no_transfers() {
    let mut trace = crate::report::sample::copier();
    trace.calls_without_files = 5;
    let analysis = analyse(&trace);
    assert!(analysis.transfers.is_empty());
    let read = &analysis.processes[0].sources;
    assert_eq!(
        (read.len(), &read[0].file, read[0].kept_bytes),
        (1, &None, Some(1 << 30))
    );
}

#[test]
fn ends_are_described_by_their_files() {
    let mut scene = Scene::new();
    let from = scene.regular("in");
    let to = scene.connection("[::1]:5000", "[::1]:80")[0];
    scene.process("copier", vec![copy("sendfile", from, to, 1, MIB)]);
    let Transfer { from, to, .. } = only(&scene);
    assert_eq!(
        [from.kind, from.fs, from.path, to.local, to.peer].map(Option::unwrap_or_default),
        ["regular", "ext4", "in", "[::1]:5000", "[::1]:80"]
    );
}
