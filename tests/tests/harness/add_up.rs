//! What holds for every report: no byte is counted in two places, and none is lost.

use zctrace::report::{DestinationTotals, Process, Report};

/// Calls that write bytes from memory.
const WRITING: [&str; 7] = [
    "write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg",
];

/// Panics if the bytes of a process do not add up: no byte is counted in two places, and none is
/// lost.
#[track_caller]
pub fn assert_bytes_add_up(report: &Report) {
    for process in &report.processes {
        for to in &process.destinations {
            destination_adds_up(to);
            transfers_bring_what_it_got(to, process, report);
        }
        for from in &process.sources {
            let (read, kept) = (from.read_bytes, from.kept_bytes);
            let is_right = read.zip(kept).is_none_or(|(read, kept)| kept <= read);
            assert!(is_right, "{from:?}");
        }
        if report.exact {
            calls_wrote_what_destinations_got(process);
        }
    }
}

#[track_caller]
fn destination_adds_up(to: &DestinationTotals) {
    let calls = to.transferred_calls + to.own_memory_calls;
    assert_eq!(to.written_calls, calls, "{to:?}");
    if let (Some(written), Some(own)) = (to.written_bytes, to.own_memory_bytes) {
        assert_eq!(written, to.transferred_bytes + own, "{to:?}");
        let changed: u64 = to.changed.iter().map(|changed| changed.bytes).sum();
        assert!(changed <= own, "{to:?}");
    }
}

/// Transfers to a file have no more bytes than were written to it.
#[track_caller]
fn transfers_bring_what_it_got(to: &DestinationTotals, process: &Process, report: &Report) {
    let Some(file) = &to.file else {
        return;
    };
    let mut others = process.destinations.iter();
    if others.any(|other| other.file == to.file && !std::ptr::eq(other, to)) {
        return;
    }
    let transfers = report.transfers_of(process);
    let to_it = transfers.filter(|transfer| transfer.to == *file);
    let stated: u64 = to_it.filter_map(|transfer| transfer.bytes).sum();
    let is_right = to.written_bytes.is_none_or(|written| stated <= written);
    assert!(is_right, "{stated} stated: {to:?}, {process:?}");
}

/// Destinations have at least the bytes that writing calls returned; other calls may add more.
#[track_caller]
fn calls_wrote_what_destinations_got(process: &Process) {
    let calls = process.syscalls.iter();
    let writing = calls.filter(|call| WRITING.contains(&call.name.as_str()));
    let written: Option<u64> = writing.map(|call| call.bytes).sum();
    let got: Option<u64> = process.destinations.iter().map(|to| to.written_bytes).sum();
    let is_right = written.zip(got).is_none_or(|(written, got)| written <= got);
    assert!(
        is_right,
        "{written:?} written, {got:?} at destinations: {process:?}"
    );
}
