//! A report, reduced to which interface did it after which failed attempts. Pure.

use zctrace::report::{Report, Transfer};

/// What the copier did to get bytes to an end of this kind.
pub fn of(report: &Report, destination: &str) -> String {
    let copier = report.processes.iter().find(|process| process.comm.as_deref() == Some("copier"));
    let transfers = copier.into_iter().flat_map(|process| &process.transfers);
    let mut cells: Vec<String> =
        transfers.filter(|transfer| transfer.to.kind.as_deref() == Some(destination)).map(describe).collect();
    cells.dedup();
    if cells.is_empty() { "nothing".to_owned() } else { cells.join(", ") }
}

fn describe(transfer: &Transfer) -> String {
    let attempts: Vec<String> =
        transfer.attempts.iter().map(|attempt| format!("`{}` {}", attempt.syscall, attempt.errno)).collect();
    let api = format!("`{}`", transfer.api.name());
    if attempts.is_empty() { api } else { format!("{api} after {}", attempts.join(", ")) }
}
