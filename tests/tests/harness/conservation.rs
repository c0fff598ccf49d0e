//! What holds of every report: no byte is in two places, and none is lost.

use zctrace::report::{Process, Report};

/// Calls that write bytes and name no file that they come from.
const WRITING: [&str; 7] = ["write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg"];

/// Panics if the bytes of a process do not add up.
#[track_caller]
pub fn check(report: &Report) {
    for process in &report.processes {
        each_destination_adds_up(process);
        transfers_bring_what_destinations_got(process);
        if report.exact {
            calls_wrote_what_destinations_got(process);
        }
    }
}

#[track_caller]
fn each_destination_adds_up(process: &Process) {
    for to in &process.destinations {
        assert_eq!(to.written_calls, to.attributed_calls + to.unattributed_calls, "{to:?}");
        assert!(to.proven_bytes <= to.attributed_bytes, "{to:?}");
        if let (Some(written), Some(unattributed)) = (to.written_bytes, to.unattributed_bytes) {
            assert_eq!(written, to.attributed_bytes + unattributed, "{to:?}");
            assert!(to.memory_bytes <= unattributed, "{to:?}");
        }
    }
    for from in &process.sources {
        assert!(from.read_bytes.is_none_or(|read| from.written_on_bytes.is_some_and(|on| on <= read)), "{from:?}");
    }
}

/// The transfers to a file have no more bytes than were written there.
#[track_caller]
fn transfers_bring_what_destinations_got(process: &Process) {
    for to in process.destinations.iter().filter(|to| to.file.is_some()) {
        let of_file = process.transfers.iter().filter(|transfer| Some(&transfer.to) == to.file.as_ref());
        let stated: u64 = of_file.filter_map(|transfer| transfer.bytes).sum();
        let is_only_one = process.destinations.iter().filter(|other| other.file == to.file).count() == 1;
        assert!(!is_only_one || to.written_bytes.is_none_or(|written| stated <= written), "{stated} stated: {to:?}, {process:?}");
    }
}

/// What the calls that write say they wrote is at destinations; there, what else brings bytes comes on top.
#[track_caller]
fn calls_wrote_what_destinations_got(process: &Process) {
    let calls = process.syscalls.iter().filter(|call| WRITING.contains(&call.name.as_str()));
    let written: Option<u64> = calls.map(|call| call.bytes).sum();
    let got: Option<u64> = process.destinations.iter().map(|to| to.written_bytes).sum();
    if let (Some(written), Some(got)) = (written, got) {
        assert!(written <= got, "{written} bytes written, {got} at destinations: {process:?}");
    }
}
