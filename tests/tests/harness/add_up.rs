//! What holds for every report: no byte is counted in two places, and none is lost.

use zctrace::report::{Process, Report};

/// Calls that write bytes from memory.
const WRITING: [&str; 7] = [
    "write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg",
];

/// Panics if the bytes of a process do not add up: no byte is counted in two places, and none is
/// lost.
#[track_caller]
pub fn assert_bytes_add_up(report: &Report) {
    for process in &report.processes {
        each_destination_adds_up(process);
        transfers_bring_what_destinations_got(process, report);
        if report.exact {
            calls_wrote_what_destinations_got(process);
        }
    }
}

#[track_caller]
fn each_destination_adds_up(process: &Process) {
    for to in &process.destinations {
        assert_eq!(
            to.written_calls,
            to.transferred_calls + to.own_memory_calls,
            "{to:?}"
        );
        if let (Some(written), Some(own)) = (to.written_bytes, to.own_memory_bytes) {
            assert_eq!(written, to.transferred_bytes + own, "{to:?}");
            let changed: u64 = to.changed.iter().map(|changed| changed.bytes).sum();
            assert!(changed <= own, "{to:?}");
        }
    }
    for from in &process.sources {
        assert!(
            from.read_bytes
                .is_none_or(|read| from.kept_bytes.is_none_or(|kept| kept <= read)),
            "{from:?}"
        );
    }
}

/// Transfers to a file have no more bytes than were written to it.
#[track_caller]
fn transfers_bring_what_destinations_got(process: &Process, report: &Report) {
    for to in process.destinations.iter().filter(|to| to.file.is_some()) {
        let of_file = report
            .transfers_of(process)
            .filter(|transfer| Some(&transfer.to) == to.file.as_ref());
        let stated: u64 = of_file.filter_map(|transfer| transfer.bytes).sum();
        let is_only_one = process
            .destinations
            .iter()
            .filter(|other| other.file == to.file)
            .count()
            == 1;
        assert!(
            !is_only_one || to.written_bytes.is_none_or(|written| stated <= written),
            "{stated} stated: {to:?}, {process:?}"
        );
    }
}

/// Destinations have at least the bytes that writing calls returned; other calls may add more.
#[track_caller]
fn calls_wrote_what_destinations_got(process: &Process) {
    let calls = process
        .syscalls
        .iter()
        .filter(|call| WRITING.contains(&call.name.as_str()));
    let written: Option<u64> = calls.map(|call| call.bytes).sum();
    let got: Option<u64> = process.destinations.iter().map(|to| to.written_bytes).sum();
    if let (Some(written), Some(got)) = (written, got) {
        assert!(
            written <= got,
            "{written} bytes written, {got} at destinations: {process:?}"
        );
    }
}
