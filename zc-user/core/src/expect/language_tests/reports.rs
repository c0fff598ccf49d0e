//! Made-up reports, as `verdicts.txt` says what they are of.

use crate::{
    report::{
        Detail, Files, Options, Report,
        sample::{self, files::Scene},
    },
    trace::Trace,
};

/// A shell that started a copier. It copies `in.dat` by `sendfile` to a Unix socket after
/// `copy_file_range` failed, and `log` by a loop to a pipe. The source of the datagram that it
/// sends is unknown.
const COPIER: &str = "\
@ kind s.sock unix-stream
@ kind datagrams udp
sh: read libc.so.6 2 832, mmap libc.so.6 1 4096
copier: copy_file_range in.dat->s.sock 0 0 @1 EXDEV*1, \
    sendfile in.dat->s.sock 0 1M @2 /1048576 2000+3000+1500000ns EAGAIN*2, \
    read data/log 16 65536 @3 /4096 +1, write data/log>pipe 16 65536 @4 /4096, \
    sendto datagrams 1 100 @5
@ exit 3
@ counted %data,%network
@ left open 5 data/log openat
@ left open 6 pipe pipe2
@ sizes read 832*1 0*2 4096*16
@ touched written out/a openat copier
@ touched removed /tmp/x unlink sh
@ touched read /etc/hosts openat copier
@ touched read none openat copier ENOENT
@ touched executed /usr/bin/copier execve sh
@ touched connected tcp:192.0.2.1:443 connect copier EINPROGRESS
@ touched connected unix:/run/nscd/socket connect copier ENOENT
@ touched bound tcp:[::1]:80 bind copier
";

/// 5 of 7 `openat` and all of 2 `stat` failed.
const FAILED_PATHS: &str = "\
cp: read in 1 10
@ the directory may change
@ given openat ENOENT /etc/app.conf
@ given openat ENOENT /etc/app.d/one
@ given openat EACCES /etc/app.d/one
@ given openat ENOENT data/x
@ given openat ENOENT /usr/../etc/y
@ given stat ENOENT /srv
@ given stat ENOENT /srv
@ counted %data
@ sums openat 7 5
@ sums stat 2 2
";

/// The other 2 `openat` succeeded.
const SUCCEEDED_PATHS: &str = "\
@ paths that succeed
@ given openat - /etc/hosts
@ given openat - /lib/libc.so.6
";

pub(super) fn sample_trace() -> Trace {
    Scene::read(COPIER).trace
}

/// The report of a trace, with calls by file.
pub(super) fn report_of(trace: &Trace) -> Report {
    Report::from_trace(trace, &with_calls_by_file())
}

fn with_calls_by_file() -> Options {
    Options {
        detail: Detail::Thread,
        file_calls: Files::Listed,
        ..Options::default()
    }
}

/// The report that these lines say.
pub(super) fn report_of_lines(lines: &[&str]) -> Report {
    let mut scene = Scene::new();
    let mut options = with_calls_by_file();
    let mut finish: fn(&mut Report) = |_| ();
    for line in lines {
        match *line {
            "the copier" => scene = Scene::read(COPIER),
            "paths of failed calls" => scene = Scene::read(FAILED_PATHS),
            "paths of all calls" => {
                scene = Scene::read(&format!("{FAILED_PATHS}{SUCCEEDED_PATHS}"));
            }
            "a log of strace" => scene.trace = sample::from_strace(),
            "50 processes of make, of which 4 are listed" => {
                scene.trace = sample::make(50);
                finish = |report| report.limit_processes(4);
            }
            "without its directory" => finish = |report| report.directory = None,
            "without calls by file" => options = Options::default(),
            "without threads" => options.detail = Detail::Process,
            "sums only" => {
                options = Options {
                    detail: Detail::Total,
                    ..Options::default()
                };
            }
            "without errnos" => {
                let processes = scene.trace.processes.iter_mut();
                let threads = processes.flat_map(|process| &mut process.threads);
                let rows = threads.flat_map(|thread| &mut thread.rows);
                rows.for_each(|row| row.errnos.clear());
            }
            "without line tables" => {
                let stacks = scene.trace.stacks.iter_mut().flatten();
                let frames = stacks.flat_map(|stack| &mut stack.frames);
                frames.for_each(|frame| frame.file = None);
            }
            "without stacks" => {
                let note = "callers are unknown: the backend does not sample them";
                (scene.trace.stacks, scene.trace.notes) = (None, vec![note.to_owned()]);
            }
            line => {
                if let Some(calls) = line.strip_prefix("the copier with ") {
                    scene = Scene::read(COPIER);
                    let rows = calls.split(',').map(|call| scene.row(call));
                    let rows: Vec<_> = rows.collect();
                    scene.trace.processes[0].threads[0].rows.extend(rows);
                } else if let Some(samples) = line.strip_prefix("callers ") {
                    scene = sampled_scene(samples);
                } else if line.contains(": ") {
                    scene.run(line);
                } else {
                    scene.change(line);
                }
            }
        }
    }
    let mut report = Report::from_trace(&scene.trace, &options);
    finish(&mut report);
    report
}

/// A program that reads 8 times and writes 8 times. Of the reads and of the writes, so many have
/// these stacks, `0*6 1*2`: one of a call that `app::load` made, one that `std::io::copy` made for
/// `app::save`, and one whose end is unknown.
fn sampled_scene(samples: &str) -> Scene {
    const LIBRARY: &str = "/rustc/1/library/std/src";
    let read = format!("<std::fs::File as std::io::Read>::read@{LIBRARY}/fs.rs");
    let copy = format!("std::io::copy::stack_buffer_copy<A, B>@{LIBRARY}/io/copy.rs");
    let main = "app::main@src/main.rs";
    Scene::read(&format!(
        "@ kind out unix-stream\n\
         app: read in 8 65536 @1, write in>out 8 65536 @2\n\
         @ stack {read} | app::load@src/load.rs | {main}\n\
         @ stack {read} | {copy} | app::save@src/save.rs | {main}\n\
         @ stack {read} | ...\n\
         @ sampled 0 {samples}\n\
         @ sampled 1 {samples}"
    ))
}
