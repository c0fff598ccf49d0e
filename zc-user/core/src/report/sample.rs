//! Made-up traces for tests.
#![expect(
    clippy::missing_panics_doc,
    clippy::return_self_not_must_use,
    clippy::new_without_default,
    reason = "only tests call these functions"
)]

mod changes;
pub mod files;

use std::collections::BTreeSet;

use crate::{
    histogram::Histogram,
    syscalls::{Abi, Call, Selection},
    trace::{
        Counters, Ends, Exit, FailedPath, Frame, GivenPath, Process, Row, SampledStack, StackEnd,
        State, Thread, Times, Trace,
    },
};

/// The stack that a text lists from its innermost function, `read | inlined x.so: copy@copy.rs:41 |
/// main`: each in `/bin/app` if it names no other module. A stack with `...` at its end is cut.
pub fn stack(text: &str) -> SampledStack {
    let frame = |text: &str| {
        let (inlined, text) = text
            .strip_prefix("inlined ")
            .map_or((false, text), |rest| (true, rest));
        let (module, text) = text.split_once(": ").unwrap_or(("/bin/app", text));
        let (function, file) = text.split_once('@').unwrap_or((text, ""));
        let (file, line) = file.split_once(':').unwrap_or((file, ""));
        Frame {
            function: Some(function.into()),
            file: Some(file.to_owned()).filter(|file| !file.is_empty()),
            line: line.parse().ok(),
            inlined,
            module: Some(module.into()),
            ..Frame::default()
        }
    };
    let (text, end) = match text.strip_suffix(" | ...") {
        Some(text) => (text, StackEnd::TooDeep),
        None => (text, StackEnd::Root),
    };
    let frames = text.split(" | ").map(frame).collect();
    SampledStack::new(frames, &end)
}

/// A row without calls. The methods below fill it.
pub fn row(name: &'static str) -> Row {
    Row::unmeasured(Call::new(name, Abi::X86_64), Ends::default())
}

impl Row {
    /// Made by a 32-bit program.
    pub fn i386(mut self) -> Self {
        self.call.abi = Abi::I386;
        self
    }

    /// Sets the number of calls.
    pub fn called(mut self, calls: u64) -> Self {
        self.calls = calls;
        self
    }

    /// Adds calls that failed with this errno.
    pub fn failed(mut self, errno: i32, calls: u64) -> Self {
        self.calls += calls;
        self.errors += calls;
        *self.errnos.entry(errno.unsigned_abs()).or_default() += calls;
        self
    }

    /// Sets how many calls never returned.
    pub fn unfinished(mut self, calls: u64) -> Self {
        self.unfinished = calls;
        self
    }

    /// Sets how many calls were under way at the end.
    pub fn under_way(mut self, calls: u64) -> Self {
        (self.unfinished, self.under_way) = (calls, calls);
        self
    }

    /// Sets how many bytes they moved in all.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        if self.calls > 0 && bytes.is_multiple_of(self.calls) {
            self.note_size(bytes / self.calls);
        }
        self
    }

    /// Sets how many bytes they asked for in all.
    pub fn requested(mut self, bytes: u64) -> Self {
        self.requested_bytes = Some(bytes);
        self
    }

    /// Adds a call for each of these durations.
    pub fn took(mut self, durations: &[u64]) -> Self {
        let mut histogram = Histogram::default();
        for &ns in durations {
            histogram.record(ns);
        }
        self.calls += durations.len() as u64;
        self.total_ns = Some(durations.iter().sum());
        self.times = Some(Times {
            // The value of a minimum that no call has set.
            min_ns: durations.iter().copied().min().unwrap_or(u64::MAX),
            max_ns: durations.iter().copied().max().unwrap_or(0),
            histogram,
        });
        self
    }

    /// Adds this many calls: one took `min` ns, one `max`, the others `usual`.
    fn took_mostly(self, calls: usize, usual: u64, min: u64, max: u64) -> Self {
        let mut durations = vec![usual; calls];
        durations[0] = min;
        durations[calls - 1] = max;
        self.took(&durations)
    }
}

/// A call that returned so on this path; without an errno it succeeded.
pub fn on_path(call: &'static str, errno: i32, path: Option<&str>) -> FailedPath {
    let path = path.map(|path| GivenPath {
        text: path.to_owned(),
        is_cut: false,
        is_below_descriptor: false,
    });
    FailedPath {
        call: Call::native(call),
        errno: errno.unsigned_abs(),
        paths: [path, None],
    }
}

/// A trace of one process with these rows by thread.
pub fn of_threads(threads: Vec<Vec<Row>>) -> Trace {
    let threads = (1234..).zip(threads).map(|(tid, rows)| Thread {
        tid,
        comm: Some("copier".into()),
        counters: Some(scaled_counters(tid % 7)),
        rows,
        ..Thread::default()
    });
    let process = Process {
        pid: 1234,
        ppid: Some(1),
        comm: Some("copier".into()),
        exe: Some("./copier".into()),
        command: Some(vec!["./copier".into(), "in".into(), "out".into()]),
        counters: Some(scaled_counters(10)),
        threads: threads.collect(),
        ..Process::default()
    };
    Trace {
        backend: "ebpf",
        kernel: Some("6.12.1".into()),
        arch: Some("x86_64".into()),
        command: vec!["./copier".into(), "in".into(), "out".into()],
        started_at: Some(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_733_000_000)),
        wall_ns: Some(1_234_567_890),
        exit_ns: Some(124_000_000),
        exit: Some(Exit::Code(0)),
        counted: Some(Selection::All),
        directory: Some("/work".into()),
        inherited: Some(BTreeSet::new()),
        sees_memory: true,
        processes: vec![process],
        ..Trace::default()
    }
}

/// A read-write loop over 1 GiB in two threads, with every kind of entry.
pub fn copier() -> Trace {
    let half = 1 << 29;
    let read = || {
        row("read")
            .bytes(half)
            .requested(half)
            .took_mostly(65536, 4200, 251, 457_333_000)
    };
    let write = || {
        row("write")
            .bytes(half)
            .requested(half)
            .took_mostly(65536, 2900, 310, 1_268_689)
    };
    of_threads(vec![
        vec![
            read().failed(libc::EINTR, 1),
            write().failed(libc::EAGAIN, 5).failed(512, 3),
            row("mmap").requested(1 << 20).took(&[800, 900, 12000]),
            row("exit_group").unfinished(1),
        ],
        vec![read(), write(), row("read").unfinished(1)],
    ])
}

/// A build: `make` and its children. Every fourth makes no counted call.
pub fn make(processes: u32) -> Trace {
    let mut trace = of_threads(Vec::new());
    trace.command = vec!["make".into(), "-j8".into()];
    trace.processes = (0..processes).map(build_process).collect();
    trace
}

fn build_process(index: u32) -> Process {
    let (comm, command) = match index {
        0 => ("make", vec!["make".into(), "-j8".into()]),
        _ if index % 4 == 3 => ("true", vec!["true".into()]),
        _ => (
            "cc1",
            vec![
                "/usr/lib/gcc/cc1".into(),
                "-quiet".into(),
                format!("file {index}.c"),
                "-o".into(),
                "-".into(),
            ],
        ),
    };
    let rows = match comm {
        "true" => Vec::new(),
        _ => vec![
            row("read")
                .bytes(4096 * u64::from(index + 1))
                .took(&vec![1500; index as usize % 50 + 2]),
            row("write").bytes(700).took(&[90_000]),
        ],
    };
    let thread = Thread {
        tid: 2000 + index,
        comm: Some(comm.into()),
        counters: Some(scaled_counters(index % 7)),
        rows,
        ..Thread::default()
    };
    let is_first = index == 0;
    Process {
        pid: thread.tid,
        ppid: Some(if is_first { 1 } else { 2000 }),
        comm: thread.comm.clone(),
        command: Some(command),
        state: if is_first {
            State::Running
        } else {
            State::Exited
        },
        counters: thread.counters,
        threads: vec![thread],
        ..Process::default()
    }
}

/// A log that was recorded elsewhere without `-T`: times, CPU, kernel and command are unknown.
pub fn from_strace() -> Trace {
    let mut trace = of_threads(vec![vec![
        row("read").bytes(300).requested(4096).called(4),
        row("recvmmsg").called(2),
        row("write").i386().bytes(20).requested(20).called(1),
    ]]);
    trace.backend = "strace";
    (
        trace.kernel,
        trace.arch,
        trace.started_at,
        trace.wall_ns,
        trace.exit_ns,
        trace.exit,
    ) = (None, None, None, None, None, None);
    trace.command.clear();
    trace.counted = None;
    trace.notes = vec!["The log has no times: record it with -T.".into()];
    let process = &mut trace.processes[0];
    (process.comm, process.exe, process.command, process.counters) = (None, None, None, None);
    process.threads[0].counters = None;
    trace
}

/// A command that makes no counted call.
pub fn nothing() -> Trace {
    of_threads(vec![Vec::new()])
}

fn scaled_counters(factor: u32) -> Counters {
    let factor = u64::from(factor);
    Counters {
        user_ns: 1_200_000 * factor,
        system_ns: 30_000_000 * factor,
        run_delay_ns: Some(2_000_000 * factor),
        voluntary_switches: 12 * factor,
        involuntary_switches: factor,
        minor_faults: 21 * factor,
        major_faults: factor % 3,
    }
}
