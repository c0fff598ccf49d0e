//! Whether a run received bytes through pipes or sockets. How many calls that takes, and which of
//! them find nothing, depends on when the bytes arrive, and so does what a program does with each
//! piece: a download by `curl` polls, receives and writes another number of times in each run.

use super::list::{FigureField, FigureGroup};
use crate::{
    report::{End, Report},
    syscalls::{CallEffect, Spec, syncs_files},
};

/// How the figures are called that depend on it.
pub(super) const BY_ARRIVAL: &str = "any, because it depends on when bytes arrive";

/// The kinds of files from which a read returns what has arrived.
const ARRIVING: [&str; 7] = [
    "pipe",
    "unix-stream",
    "unix-dgram",
    "unix-seqpacket",
    "tcp",
    "udp",
    "socket",
];

/// Whether bytes were read from a pipe or a socket.
pub(super) fn received_bytes(report: &Report) -> bool {
    let is_arriving = |end: &End| {
        let kind = end.kind.as_deref();
        kind.is_some_and(|kind| ARRIVING.contains(&kind))
    };
    let mut sources = report.all_sources();
    let mut calls = report.totals.syscalls.iter();
    sources.any(|one| one.file.as_ref().is_some_and(is_arriving) && one.read_bytes != Some(0))
        || report.transfers.iter().any(|one| is_arriving(&one.from))
        || calls.any(|call| call.name.starts_with("recv") && call.bytes.is_some_and(|n| n > 0))
}

/// Whether the figure of this name counts calls, or those of them that failed, that may be made
/// once for each piece that arrives. A program opens, names and syncs files, and starts others, for
/// reasons of its own.
pub(super) fn may_be_by_piece(name: &str) -> bool {
    let (call, field) = name.split_once('.').unwrap_or((name, ""));
    let field = field.split('.').next();
    let counts_calls = [FigureField::Calls, FigureField::Errors]
        .into_iter()
        .filter_map(|field| FigureGroup::Calls.figure_of(field))
        .any(|figure| field == Some(figure.name));
    let spec = Spec::named(call);
    let has_own_reason = spec.takes_path()
        || matches!(
            spec.effect,
            CallEffect::CreatesTask | CallEffect::Executes | CallEffect::Opens
        )
        || syncs_files(call);
    counts_calls && !has_own_reason
}
