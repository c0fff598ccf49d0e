//! A traced run: what the program said, and what the report says of it.

use serde::Deserialize;
use serde_json::Value;
use zc_tests::Figures;
use zctrace::report::{Process, Report, Thread};

use super::{Finished, Rows};

/// A traced run.
pub struct Run {
    /// The report.
    pub report: Report,
    /// The rest.
    pub finished: Finished,
}

/// What a workload states of itself: the line that it prints.
#[derive(Debug, Deserialize)]
pub struct Stated {
    /// Its deliberate calls.
    pub calls: Figures,
    /// The thread that made them and no others.
    pub thread: Option<String>,
    /// The process that made them and no others.
    pub pid: Option<u32>,
    /// What else it knows.
    #[serde(flatten)]
    pub facts: Value,
}

impl Run {
    /// What the workload stated.
    #[track_caller]
    pub fn stated(&self) -> Stated {
        let text = self.finished.successful();
        serde_json::from_str(text).unwrap_or_else(|error| panic!("not what a workload states: {error}: {text}"))
    }

    /// Makes sure that the report claims to be exact.
    #[track_caller]
    pub fn assert_exact(&self) {
        // Calls that stand without their files are counted all the same.
        let is_lossless = self.report.losses.keys().all(|loss| loss == "calls_without_files");
        assert!(self.report.exact && is_lossless, "it should be exact: {:?}", self.report.losses);
    }

    /// The rows of the only thread with this name.
    #[track_caller]
    pub fn thread(&self, name: &str) -> Rows<'_> {
        let threads: Vec<&Thread> = self.threads().filter(|thread| thread.comm.as_deref() == Some(name)).collect();
        let known: Vec<_> = self.threads().map(|thread| thread.comm.as_deref()).collect();
        assert_eq!(threads.len(), 1, "threads called {name}, of {known:?}");
        Rows::new(format!("thread {name}"), &threads[0].syscalls)
    }

    /// All threads, if the report has them.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.report.processes.iter().flat_map(|process| &process.by_thread)
    }

    /// The only process with this id.
    #[track_caller]
    pub fn process(&self, pid: u32) -> &Process {
        self.only(|process| process.pid == pid, &format!("with id {pid}"))
    }

    /// The only process with this name.
    #[track_caller]
    pub fn process_named(&self, comm: &str) -> &Process {
        self.only(|process| process.comm.as_deref() == Some(comm), &format!("called {comm}"))
    }

    #[track_caller]
    fn only(&self, wanted: impl Fn(&Process) -> bool, how: &str) -> &Process {
        let found: Vec<&Process> = self.report.processes.iter().filter(|process| wanted(process)).collect();
        let all: Vec<_> = self.report.processes.iter().map(|process| (process.pid, process.comm.as_deref())).collect();
        assert_eq!(found.len(), 1, "processes {how}, of {all:?}");
        found[0]
    }

    /// The launched process.
    pub fn root(&self) -> &Process {
        self.report.processes.first().expect("there is a process")
    }

    /// The launched process's descendants.
    pub fn descendants(&self) -> &[Process] {
        self.report.processes.get(1..).unwrap_or_default()
    }

    /// The sums over all processes.
    pub fn totals(&self) -> Rows<'_> {
        Rows::new("all processes", &self.report.totals.syscalls)
    }
}
