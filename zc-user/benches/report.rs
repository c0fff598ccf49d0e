//! Time to make large reports. `cargo bench -p zctrace --bench report`
//!
//! From a hundred files to ten thousand, the time must grow linearly, not quadratically.

use divan::Bencher;
use zctrace::{
    render::{self, Format},
    report::{Files, Options, Report},
    syscall::Call,
    trace::{Ends, File, FileId, FileKind, Input, Process, Row, State, Thread, Trace},
};

const FILES: [u32; 3] = [100, 1000, 10_000];

fn main() {
    divan::main();
}

/// One process copies files as `cp` does.
#[divan::bench(args = FILES)]
fn files_copied_by_one_process(bencher: Bencher<'_, '_>, files: u32) {
    let rows = (0..files).flat_map(|index| cp(2 * index));
    bench(bencher, &trace(2 * files, vec![rows.collect()]));
}

/// 200 processes copy them.
#[divan::bench(args = FILES)]
fn files_copied_by_200_processes(bencher: Bencher<'_, '_>, files: u32) {
    let process = |process: u32| {
        (process..files)
            .step_by(200)
            .flat_map(|index| cp(2 * index))
            .collect()
    };
    bench(bencher, &trace(2 * files, (0..200).map(process).collect()));
}

/// One process reads many files and writes all of them to one, as `tar` does.
#[divan::bench(args = FILES)]
fn files_to_one_file(bencher: Bencher<'_, '_>, files: u32) {
    let rows = (0..files).flat_map(|index| read_write(index, files));
    bench(bencher, &trace(files + 1, vec![rows.collect()]));
}

/// One process reads one file and writes it to many connections, as a server does.
#[divan::bench(args = FILES)]
fn one_file_to_many(bencher: Bencher<'_, '_>, files: u32) {
    let read = Row {
        calls: files.into(),
        bytes: Some(5000 * u64::from(files)),
        ..read_write(files, 0).remove(0)
    };
    let writes = (0..files).map(|index| read_write(files, index).remove(1));
    bench(
        bencher,
        &trace(
            files + 1,
            vec![std::iter::once(read).chain(writes).collect()],
        ),
    );
}

/// Pairs of processes with a pipe between them.
#[divan::bench(args = FILES)]
fn pipelines(bencher: Bencher<'_, '_>, files: u32) {
    let pair = |index| {
        [
            read_write(3 * index, 3 * index + 1),
            read_write(3 * index + 1, 3 * index + 2),
        ]
    };
    let mut trace = trace(3 * files, (0..files).flat_map(pair).collect());
    trace
        .files
        .iter_mut()
        .skip(1)
        .step_by(3)
        .for_each(|file| file.kind = Some(FileKind::Pipe));
    bench(bencher, &trace);
}

fn bench(bencher: Bencher<'_, '_>, trace: &Trace) {
    let options = Options {
        files: Files::Listed,
        ..Options::default()
    };
    bencher.bench(|| {
        let report = Report::from_trace(trace, &options);
        [Format::Table, Format::Json]
            .map(|format| render::render(&report, format, &render::Options::default()))
    });
}

fn row(name: &'static str, input: Option<Input>, output: Option<u32>, order: u32) -> Row {
    let row = Row::new(
        Call::native(name),
        Ends {
            input,
            output: output.map(FileId),
        },
    );
    Row {
        calls: 1,
        order: Some(order.into()),
        ..row
    }
}

/// The calls of `cp` for one file. `index` is its source, the next file its destination.
fn cp(index: u32) -> Vec<Row> {
    let from = Some(Input::Named(FileId(index)));
    let failed = |row: Row, errno: i32| Row {
        errors: 1,
        errnos: [(errno.unsigned_abs(), 1)].into(),
        ..row
    };
    vec![
        failed(
            row("ioctl(FICLONE)", from, Some(index + 1), 8 * index),
            libc::EXDEV,
        ),
        failed(
            row("copy_file_range", from, Some(index + 1), 8 * index + 1),
            libc::EXDEV,
        ),
        Row {
            bytes: Some(5000),
            ..row("read", from, None, 8 * index + 2)
        },
        Row {
            bytes: Some(5000),
            paired_bytes: 5000,
            ..row(
                "write",
                Some(Input::ByOrder(FileId(index))),
                Some(index + 1),
                8 * index + 3,
            )
        },
    ]
}

fn read_write(from: u32, to: u32) -> Vec<Row> {
    let order = 8 * from.min(to);
    vec![
        Row {
            bytes: Some(5000),
            ..row("read", Some(Input::Named(FileId(from))), None, order)
        },
        Row {
            bytes: Some(5000),
            paired_bytes: 5000,
            ..row(
                "write",
                Some(Input::ByOrder(FileId(from))),
                Some(to),
                order + 1,
            )
        },
    ]
}

fn trace(files: u32, processes: Vec<Vec<Row>>) -> Trace {
    let file = |index| File {
        kind: Some(FileKind::Regular),
        path: Some(format!("/work/some/directory/file-{index}")),
        size_bytes: Some(5000),
        ..File::default()
    };
    let process = |(pid, rows)| Process {
        pid,
        comm: Some("cp".into()),
        state: State::Exited,
        threads: vec![Thread {
            tid: pid,
            rows,
            ..Thread::default()
        }],
        ..Process::default()
    };
    Trace {
        backend: "ebpf",
        kernel: None,
        arch: None,
        command: vec!["cp".into()],
        directory: Some("/work".into()),
        started_at: None,
        wall_ns: None,
        exit: None,
        losses: std::collections::BTreeMap::new(),
        notes: Vec::new(),
        counted: None,
        files: (0..files).map(file).collect(),
        inherited: None,
        calls_without_files: 0,
        other_calls: None,
        uncounted: std::collections::BTreeSet::new(),
        failed_paths: None,
        stacks: None,
        sees_memory: true,
        merged: Vec::new(),
        settled: zctrace::trace::Settled::default(),
        processes: (1..).zip(processes).map(process).collect(),
    }
}
