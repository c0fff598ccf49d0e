//! The figures of a report that a program repeats from run to run, as text for a snapshot.

use std::fmt::Write as _;

use super::{
    list::{Steadiness, steadiness_of},
    reading::ReportFigures,
};
use crate::report::Report;

impl Report {
    /// What the same work gives each time: calls, errors and bytes by call, the exit status, the numbers of
    /// processes and threads, and the transfers; one in a line, those above 0. Times, page faults,
    /// context switches and calls by which threads wait for each other are left out. It is for a
    /// snapshot that is reviewed when it changes:
    ///
    /// ```ignore
    /// let report = zctrace::Command::new("cp").args(["in", "out"]).report()?;
    /// insta::assert_snapshot!(report.steady_figures());
    /// ```
    ///
    /// A command's loader makes calls, too, which differ from machine to machine: trace a closure, or
    /// [select](crate::syscalls::Selection) calls. Paths are as in the report. If it is not
    /// [exact](Report::exact), the text begins by saying so.
    pub fn steady_figures(&self) -> String {
        let mut text = String::new();
        if !self.exact {
            text += "lower bound\n";
        }
        let figures = [ReportFigures::from_report(self)];
        for name in ReportFigures::names(&figures) {
            let value = figures[0].value_of(name).filter(|&value| value > 0);
            if let Some(value) = value.filter(|_| steadiness_of(name) == Steadiness::Steady) {
                let _ = writeln!(text, "{name} {value}");
            }
        }
        for transfer in self.transfers.iter().filter(|one| one.is_transfer()) {
            let ends = [&transfer.from, &transfer.to].map(|end| end.path.as_deref().unwrap_or("-"));
            let bytes = transfer
                .bytes
                .map_or("unknown".into(), |bytes| bytes.to_string());
            let api = transfer.api.name();
            let _ = writeln!(text, "{} -> {}: {bytes} bytes by {api}", ends[0], ends[1]);
        }
        text
    }
}
