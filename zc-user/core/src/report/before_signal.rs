//! The failed call after which the kernel sends the signal that killed the command.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ends::{End, EndTable},
    errno,
    trace::{self, Trace},
};

/// A failed call of the launched process. With its error, the kernel also sends the signal that
/// killed the process: `SIGPIPE` with `EPIPE`, `SIGXFSZ` with `EFBIG`. Another process may have
/// sent it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BeforeSignal {
    /// The call.
    pub syscall: String,
    /// The error.
    pub errno: String,
    /// The file that it was to write. `None`: unknown, or several.
    pub file: Option<End>,
}

/// The signals that the kernel sends to a thread whose call fails with an error, and the error:
/// `write(2)`, `send(2)` and `setrlimit(2)` of the Linux manual.
const SIGNALS: [(i32, i32); 2] = [(libc::SIGPIPE, libc::EPIPE), (libc::SIGXFSZ, libc::EFBIG)];

impl BeforeSignal {
    /// That of a trace. `None`: another signal ended the command, or none, or no counted call failed so.
    pub(super) fn of_trace(trace: &Trace, ends: &EndTable<'_>) -> Option<Self> {
        let Some(trace::Exit::Signal(signal)) = trace.exit else {
            return None;
        };
        let (_, error) = SIGNALS.into_iter().find(|(sent, _)| *sent == signal)?;
        let error = error.unsigned_abs();
        let launched = trace.processes.first()?.pid;
        let mut processes = trace.processes.iter();
        // The last program that it ran.
        let process = processes.rfind(|process| process.pid == launched)?;
        let failed = process.rows().filter(|row| row.errnos.contains_key(&error));
        let call = failed.clone().next()?.call.name.to_string();
        let files: BTreeSet<_> = failed
            .clone()
            .map(|row| row.ends.output.or(row.files().next()))
            .collect();
        let is_one_call = failed.clone().all(|row| row.call.name == call);
        let file = files.first().filter(|_| files.len() == 1).copied();
        is_one_call.then(|| Self {
            syscall: call,
            errno: errno::name(error),
            file: file.flatten().map(|file| ends.find_end(file)),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{report::sample::files::scene, trace::Exit};

    /// What the report of a command tells that made these calls and was killed by this signal.
    fn told_of_signal(calls: &str, signal: i32) -> Option<(String, String)> {
        let mut scene = scene(calls);
        scene.trace.exit = Some(Exit::Signal(signal));
        let found = scene.report().before_signal?;
        let file = found.file.and_then(|end| end.kind.or(end.path));
        let call = format!("{} {}", found.syscall, found.errno);
        Some((call, file.unwrap_or_default()))
    }

    #[test]
    fn a_signal_is_explained_by_the_error_that_comes_with_it() {
        let pipe = |file: &str| Some(("write EPIPE".to_owned(), file.to_owned()));
        let broken = "yes: write pipe 9 9000, write pipe 1 0 EPIPE*1";
        assert_eq!(told_of_signal(broken, libc::SIGPIPE), pipe("pipe"));
        assert_eq!(told_of_signal(broken, libc::SIGKILL), None);
        let two = "x: write pipe 1 0 EPIPE*1, write tcp 1 0 EPIPE*1";
        assert_eq!(told_of_signal(two, libc::SIGPIPE), pipe(""));
        let other = "x: write pipe 1 0 EPIPE*1, writev pipe 1 0 EPIPE*1";
        assert_eq!(told_of_signal(other, libc::SIGPIPE), None);
        let full = told_of_signal("x: write out 1 0 EFBIG*1", libc::SIGXFSZ);
        assert_eq!(full.expect("is told").0, "write EFBIG");
        // A child's error explains nothing.
        let child = "sh: read in 1 1; yes: write pipe 1 0 EPIPE*1";
        assert_eq!(told_of_signal(child, libc::SIGPIPE), None);
    }
}
