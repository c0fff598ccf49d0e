//! Lines of the head that sum up all processes: which files and hosts the bytes came from and went
//! to, what was done to names, and which programs used the CPU.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    calls::{name, program_name},
    page::{Style, TextLine, titled_list, words},
    text,
    transfers::{ShownFileSums, TransferredBytes, end_label, is_file},
};
use crate::{
    report::{End, Report, Syscall},
    syscalls::syncs_files,
    units::{self, sum_all},
};
use zctrace_core::text::is_library;

/// Fewer bytes are not told.
const MIN_BYTES: u64 = 64 << 10;
/// How many hosts, calls or programs a line names.
const MAX_NAMED: usize = 3;
/// The fewest names changed in one way that are told.
const MIN_CHANGED: u64 = 10;
/// Calls that change names.
const NAMES: [&str; 12] = [
    "link",
    "linkat",
    "mkdir",
    "mkdirat",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "symlink",
    "symlinkat",
    "unlink",
    "unlinkat",
];

/// Whether the largest transfer moved at least a tenth of all that was written.
pub(super) fn is_telling(largest: TransferredBytes, report: &Report) -> bool {
    let written: u64 = report
        .all_destinations()
        .filter_map(|one| one.written_bytes)
        .fold(0, u64::saturating_add);
    largest.all.is_some_and(|moved| moved >= written / 10)
}

/// Which files all processes read and wrote, unless the largest transfer moved nearly all of that, or
/// the line of the flow tells it: `data: wrote 3.8 MiB to 201 files in tree2/; read 3.8 MiB of 201 files
/// in tree/`.
pub(super) fn data(
    report: &Report,
    calls: &[Syscall],
    largest: TransferredBytes,
    of_flow: [u64; 2],
) -> TextLine {
    let [mut read, mut written] = [ShownFileSums::default(), ShownFileSums::default()];
    for one in report.all_sources() {
        add_file(&mut read, one.file.as_ref(), one.read_bytes);
    }
    for one in report.all_destinations() {
        add_file(&mut written, one.file.as_ref(), one.written_bytes);
    }
    let sums = [read.sum(), written.sum()];
    // What is synced matters however small it is.
    let is_synced = calls.iter().any(|call| syncs_files(&call.name));
    let is_synced = is_synced && largest.all.is_none_or(|bytes| bytes < MIN_BYTES);
    let least = if is_synced { 1 } else { MIN_BYTES };
    let is_told = |told: [u64; 2]| {
        let mut told = told.into_iter().zip(sums);
        told.all(|(told, all)| all.saturating_sub(told) < least.max(all / 50))
    };
    if is_told(largest.of_files) || is_told(of_flow) {
        return TextLine::new();
    }
    let is_small = sums[0] < least && sums[0] < sums[1] / 10;
    let read = read.in_words("of").filter(|_| !is_small);
    let read = read.map(|files| format!("read {files}"));
    let stores = if report.misses_stores() {
        " (stores to mapped files are not seen)"
    } else {
        ""
    };
    let written = written.in_words("to");
    let written = written.map(|files| format!("wrote {files}{stores}"));
    let both: Vec<String> = written.into_iter().chain(read).collect();
    words(&format!("data: {}", both.join("; ")), Style::Plain)
}

/// Which files a process read twice or more from end to end, by their lengths, if that is a good part of
/// what was read: `read repeatedly: 10.1 MiB of list, which has 13.6 KiB, and 1.0 MiB of 3 others`.
pub(super) fn read_again(report: &Report) -> TextLine {
    let is_written = |file: &End| {
        let mut all = report.all_destinations();
        all.any(|one| one.file.as_ref() == Some(file) && one.written_bytes != Some(0))
    };
    let mut files: BTreeMap<&End, u64> = BTreeMap::new();
    let (mut all_read, processes) = (0_u64, report.processes.iter());
    for one in processes.flat_map(|process| &process.sources) {
        let (Some(file), Some(read)) = (&one.file, one.read_bytes) else {
            continue;
        };
        let is_regular = file.kind.as_deref() == Some("regular");
        all_read = all_read.saturating_add(if is_regular { read } else { 0 });
        let is_again = file.size.is_some_and(|size| size > 0 && read / 2 >= size);
        if is_regular && is_again && !is_written(file) {
            let sum = files.entry(file).or_default();
            *sum = sum.saturating_add(read);
        }
    }
    let all = files.values().copied().fold(0, u64::saturating_add);
    let mut files: Vec<(&End, u64)> = files.into_iter().collect();
    files.retain(|_| all >= MIN_BYTES.max(all_read / 4));
    files.sort_by_key(|&(_, read)| Reverse(read));
    let Some((&(file, read), others)) = files.split_first() else {
        return TextLine::new();
    };
    let size = units::bytes(file.size.unwrap_or(0));
    let first = format!(
        "{} of {}, which has {size}",
        units::bytes(read),
        end_label(file)
    );
    let mut parts = vec![first];
    if !others.is_empty() {
        let bytes = others.iter().map(|(_, read)| *read);
        let bytes = units::bytes(bytes.fold(0, u64::saturating_add));
        let count = text::plural(others.len() as u64, "other", "others");
        parts.push(format!("and {bytes} of {count}"));
    }
    titled_list("read repeatedly:", &parts, Style::Plain).unwrap_or_default()
}

/// Adds the bytes of a file or device. Libraries are what a program loads for itself.
fn add_file<'a>(sums: &mut ShownFileSums<'a>, file: Option<&'a End>, bytes: Option<u64>) {
    let is_of_program = |file: &&End| file.path.as_deref().is_some_and(is_library);
    let file = file
        .filter(|file| is_file(file))
        .filter(|file| !is_of_program(file));
    if let (Some(file), Some(bytes @ 1..)) = (file, bytes) {
        sums.add(file, bytes);
    }
}

/// What was received from hosts and sent to them: `network: 20.0 MiB from and 81 B to 127.0.0.1:80
/// (tcp)`.
pub(super) fn network(report: &Report) -> TextLine {
    let mut hosts: BTreeMap<(&str, &str), [u64; 2]> = BTreeMap::new();
    let received = report
        .all_sources()
        .map(|one| (one.file.as_ref(), [one.read_bytes, None]));
    let sent = report
        .all_destinations()
        .map(|one| (one.file.as_ref(), [None, one.written_bytes]));
    for (file, bytes) in received.chain(sent) {
        let Some((kind, host)) = file.and_then(host) else {
            continue;
        };
        let sums = hosts.entry((host, kind)).or_default();
        for (sum, bytes) in sums.iter_mut().zip(bytes) {
            *sum = sum.saturating_add(bytes.unwrap_or(0));
        }
    }
    hosts.retain(|_, sums| *sums != [0, 0]);
    let mut hosts = if hosts.len() > MAX_NAMED {
        without_ports(&hosts)
    } else {
        let alone = hosts.into_iter();
        alone
            .map(|((host, kind), bytes)| (format!("{} ({kind})", text::escape(host)), bytes))
            .collect()
    };
    hosts.sort_by_key(|(_, [received, sent])| Reverse(received.saturating_add(*sent)));
    let others = hosts.split_off(hosts.len().min(MAX_NAMED));
    let line = |&(ref host, bytes): &(String, [u64; 2])| {
        let ways = ["from", "to"].into_iter().zip(bytes);
        let ways = ways.filter(|(_, bytes)| *bytes > 0);
        let ways = ways.map(|(way, bytes)| format!("{} {way}", units::bytes(bytes)));
        let ways: Vec<String> = ways.collect();
        format!("{} {host}", ways.join(" and "))
    };
    let mut parts: Vec<String> = hosts.iter().map(line).collect();
    if !others.is_empty() {
        parts.push(format!("{} more", others.len()));
    }
    titled_list("network:", &parts, Style::Plain).unwrap_or_default()
}

/// What was received from hosts and sent to them, whatever their ports: a server sees each client at
/// another one.
fn without_ports(hosts: &BTreeMap<(&str, &str), [u64; 2]>) -> Vec<(String, [u64; 2])> {
    let mut sums: BTreeMap<(&str, &str), ([u64; 2], u64)> = BTreeMap::new();
    for (&(host, kind), bytes) in hosts {
        let address = host.rsplit_once(':').map_or(host, |(address, _)| address);
        let (sum, ports) = sums.entry((address, kind)).or_default();
        *ports += 1;
        for (sum, bytes) in sum.iter_mut().zip(bytes) {
            *sum = sum.saturating_add(*bytes);
        }
    }
    let named = |((address, kind), (bytes, ports)): ((&str, &str), ([u64; 2], u64))| {
        let ports = text::plural(ports, "port", "ports");
        (
            format!("{} ({ports}, {kind})", text::escape(address)),
            bytes,
        )
    };
    sums.into_iter().map(named).collect()
}

/// The kind of a connection with a host, and its address.
fn host(end: &End) -> Option<(&str, &str)> {
    let kind = end.kind.as_deref()?;
    let host = end.peer.as_deref()?;
    matches!(kind, "tcp" | "udp").then_some((kind, host))
}

/// What was done to names and to make data durable: `on files: 1009 fsync in 1.24 s, 2 fsync by io_uring,
/// 203 link`.
pub(super) fn on_files(report: &Report, calls: &[Syscall]) -> TextLine {
    let done = |call: &Syscall| call.calls - call.errors.min(call.calls);
    let is_sync = |call: &Syscall| syncs_files(call.as_ring_operation().unwrap_or(&call.name));
    let is_told = |call: &&Syscall| {
        let changes_names = NAMES.contains(&call.as_ring_operation().unwrap_or(&call.name));
        done(call) > 0 && (is_sync(call) || changes_names && done(call) >= MIN_CHANGED)
    };
    // A program alone is not summed up.
    let alone = report.processes.iter();
    let alone = alone.filter(|_| report.programs.is_empty());
    let of_programs = report.programs.iter().flat_map(|program| &program.io_uring);
    let operations = of_programs.chain(alone.flat_map(|process| &process.io_uring));
    let mut told: Vec<&Syscall> = calls.iter().chain(operations).filter(is_told).collect();
    told.sort_by_key(|call| (!is_sync(call), Reverse(done(call))));
    let part = |call: &&Syscall| {
        let time = call.total_ns.filter(|_| is_sync(call));
        let time = time.map_or_else(String::new, |ns| format!(" in {}", units::duration(ns)));
        let name = match call.as_ring_operation() {
            Some(operation) => format!("{} by io_uring", text::escape(operation)),
            None => name(call),
        };
        format!("{} {name}{time}", done(call))
    };
    let parts: Vec<String> = told.iter().take(2 * MAX_NAMED).map(part).collect();
    titled_list("on files:", &parts, Style::Plain).unwrap_or_default()
}

/// Which programs used the CPU, if there are several: `CPU: 435 ms gzip (95.6 %), 11.9 ms cat (2.6 %)`.
pub(super) fn programs(report: &Report) -> TextLine {
    let programs = &report.programs;
    let all = sum_all(programs.iter().map(|program| program.usage.cpu_ns()));
    let Some(all) = all.filter(|_| programs.len() > 1) else {
        return TextLine::new();
    };
    let named = programs.iter().take(MAX_NAMED).filter_map(|program| {
        let ns = program.usage.cpu_ns()?;
        let (time, share) = (units::duration(ns), units::percent(ns, all));
        Some(format!("{time} {} ({share})", program_name(program)))
    });
    let mut parts: Vec<String> = named.collect();
    if let Some(more @ 1..) = programs.len().checked_sub(MAX_NAMED) {
        parts.push(text::plural(more as u64, "other", "others"));
    }
    titled_list("CPU:", &parts, Style::Plain).unwrap_or_default()
}
