//! `zctrace::trace`: traces a closure in this process.

use std::{
    env,
    fs::File,
    io::{self, Read as _, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Command, Stdio},
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use crate::harness::TestDir;

use rustix::{
    fs::MemfdFlags,
    process::{getpid, getppid},
    thread::gettid,
};
use zctrace::{
    Report, RunError, Sysno, Tracer,
    backend::Choice,
    report::{Api, State},
};

/// The environment variable of a process that runs only one test.
const ALONE: &str = "ZC_TEST_ALONE";

/// Runs a test in a process of its own, where no threads of other tests make calls.
#[track_caller]
fn alone(test: impl FnOnce()) {
    if env::var_os(ALONE).is_some() {
        return test();
    }
    let this = thread::current();
    let name = this
        .name()
        .filter(|name| *name != "main")
        .expect("libtest names its threads; not with --test-threads=1");
    let mut process = Command::new(env::current_exe().expect("known"));
    // With --test-threads=1, the test runs in the main thread, and there is no other.
    let output = process
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .expect("it runs");
    let said =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(
        output.status.success() && said[0].contains("1 passed"),
        "{}{}",
        said[0],
        said[1]
    );
}

/// A directory with a file `in` of this size.
fn directory_with(bytes: usize) -> TestDir {
    TestDir::with("in", vec![7; bytes])
}

/// Writes one byte to `/dev/null` this many times.
fn write_times(calls: u64) {
    let mut null = File::create("/dev/null").expect("is there");
    for _ in 0..calls {
        null.write_all(b"x").expect("takes everything");
    }
}

/// The writes in a report that lost nothing, except through the tests in other threads, and the
/// overflowing `io_uring` with which a trace that starts within a trace tries its programs.
fn writes_in(report: &Report) -> u64 {
    let is_expected = |loss: &String| {
        [
            "other_threads",
            "overflowed_operations",
            "forgotten_buffers",
        ]
        .contains(&loss.as_str())
    };
    assert!(report.losses.keys().all(is_expected), "{:?}", report.losses);
    report.syscall(Sysno::write).expect("was counted").calls
}

/// All calls of a closure, with their numbers.
fn all_calls(closure: impl FnOnce()) -> Vec<(String, u64)> {
    let ((), report) = Tracer::new()
        .syscalls("all".parse().expect("a selection"))
        .trace(closure)
        .expect("is traced");
    report
        .totals
        .syscalls
        .into_iter()
        .map(|row| (row.name, row.calls))
        .collect()
}

#[test]
fn io_copy_between_files_is_copy_file_range_of_exactly_its_bytes() {
    alone(|| {
        let dir = directory_with(300_000);
        let mut from = File::open(dir.join("in")).expect("is there");
        let mut to = File::create(dir.join("out")).expect("room for it");
        let (copied, report) = zctrace::trace(|| io::copy(&mut from, &mut to)).expect("is traced");
        assert_eq!(copied.expect("is copied"), 300_000);
        let call = report.syscall(Sysno::copy_file_range).expect("was counted");
        assert_eq!((call.errors, call.bytes), (0, Some(300_000)));
        let others: Vec<_> = report
            .totals
            .syscalls
            .iter()
            .filter(|row| row.name != "copy_file_range")
            .collect();
        assert!(
            others.is_empty() && report.exact,
            "{others:?} {:?}",
            report.losses
        );
        let transfers: Vec<_> = report
            .transfers
            .iter()
            .map(|transfer| (transfer.api, transfer.bytes))
            .collect();
        assert_eq!(transfers, [(Api::CopyFileRange, Some(300_000))]);
        report.expect("transfer(\"in\" -> \"out\").api == copy_file_range and read[file=\"in\"].calls == 0").expect("holds");
        report
            .expect("copy_file_range.bytes == 1")
            .expect_err("does not hold");
        let files: Vec<_> = report
            .files
            .iter()
            .filter_map(|file| file.file.path.as_deref())
            .collect();
        assert!(
            files.iter().any(|path| path.ends_with("/in"))
                && files.iter().any(|path| path.ends_with("/out")),
            "{files:?}"
        );
    });
}

#[test]
fn the_report_has_no_calls_of_zctrace() {
    assert_eq!(all_calls(|| ()), []);
    let one_call = || {
        let _ = getppid();
    };
    assert_eq!(all_calls(one_call), [("getppid".to_owned(), 1)]);
}

#[test]
fn the_report_covers_the_calling_thread() {
    let (tid, report) = thread::Builder::new()
        .name("the-traced-one".into())
        .spawn(|| zctrace::trace(gettid).expect("is traced"))
        .expect("a thread")
        .join()
        .expect("does not panic");
    let [process] = report.processes.as_slice() else {
        panic!("one process: {:?}", report.processes)
    };
    assert_ne!(tid, getpid(), "libtest has threads");
    assert_eq!(i64::from(process.pid), i64::from(getpid().as_raw_pid()));
    assert_eq!(
        process.ppid.map(i64::from),
        getppid().map(|pid| i64::from(pid.as_raw_pid()))
    );
    assert_eq!(
        (process.comm.as_deref(), process.threads, process.state),
        (Some("the-traced-one"), 1, State::Running)
    );
    assert_eq!(
        (
            report.exit.code,
            report.exit.signal,
            report.backend.as_str()
        ),
        (None, None, "ebpf")
    );
    assert_eq!(report.command, env::args().collect::<Vec<_>>());
    assert_eq!(
        report
            .process("the-traced-*")
            .expect("is there")
            .syscall(Sysno::read)
            .expect("was counted")
            .calls,
        0
    );
}

#[test]
fn another_thread_is_not_counted() {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let bystander = scope.spawn(|| {
            let mut calls = 0;
            while !is_over.load(Relaxed) {
                write_times(1);
                calls += 1;
            }
            calls
        });
        let ((), report) = zctrace::trace(|| write_times(1000)).expect("is traced");
        is_over.store(true, Relaxed);
        assert_eq!(
            report.syscall(Sysno::write).expect("was counted").calls,
            1000
        );
        assert!(
            bystander.join().expect("does not panic") > 0,
            "there was a bystander"
        );
    });
}

#[test]
fn work_by_a_thread_that_existed_before_makes_the_report_a_lower_bound() {
    alone(|| {
        let (order, orders) = std::sync::mpsc::channel::<u64>();
        let (done, is_done) = std::sync::mpsc::channel();
        let pool = thread::spawn(move || {
            for calls in orders {
                write_times(calls);
                done.send(()).expect("somebody waits");
            }
        });
        // What the thread does before and after the trace does not count.
        let hand_over = |calls| {
            order.send(calls).expect("it lives");
            is_done.recv().expect("it answers");
        };
        hand_over(10);
        let ((), idle) = zctrace::trace(|| ()).expect("is traced");
        assert!(idle.exact, "{:?}", idle.losses);
        idle.expect("write.calls == 0").expect("holds");
        let ((), report) = zctrace::trace(|| hand_over(100)).expect("is traced");
        hand_over(10);
        assert_eq!(
            report
                .losses
                .iter()
                .map(|(name, count)| (name.as_str(), *count))
                .collect::<Vec<_>>(),
            [("other_threads", 100)]
        );
        assert_eq!(
            (
                report.exact,
                report.syscall(Sysno::write).expect("was counted").calls
            ),
            (false, 0)
        );
        let failed = report
            .expect("write.calls == 0")
            .expect_err("it may have been more");
        assert!(failed.to_string().contains("inconclusive"), "{failed}");
        drop(order);
        pool.join().expect("does not panic");
    });
}

#[test]
fn threads_of_the_closure_are_counted_to_their_last_call() {
    alone(|| {
        let threads = || {
            let spawned: Vec<_> = (1..=8)
                .map(|number| thread::spawn(move || write_times(100 * number)))
                .collect();
            for thread in spawned {
                thread.join().expect("does not panic");
            }
            write_times(7);
        };
        let ((), report) = zctrace::trace(threads).expect("is traced");
        assert_eq!(writes_in(&report), 3607);
        assert_eq!((report.totals.processes, report.totals.threads), (1, 9));
    });
}

#[test]
fn child_processes_are_counted() {
    alone(|| {
        let children = || {
            let mut child = Command::new("sh")
                .args(["-c", "cat | cat"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("sh is there");
            child
                .stdin
                .take()
                .expect("a pipe")
                .write_all(&[1; 5000])
                .expect("is read");
            let mut echo = Vec::new();
            child
                .stdout
                .take()
                .expect("a pipe")
                .read_to_end(&mut echo)
                .expect("is written");
            assert!(child.wait().expect("is ours").success());
            echo.len()
        };
        let (length, report) = zctrace::trace(children).expect("is traced");
        assert_eq!(length, 5000);
        let cats = report.process("cat").expect("is there");
        assert_eq!(cats.iter().count(), 2);
        assert_eq!(
            cats.syscall(Sysno::write).expect("was counted").bytes,
            Some(10_000)
        );
        assert!(cats.iter().all(|cat| cat.state == State::Exited));
        assert!(report.exact, "{:?}", report.losses);
    });
}

#[test]
fn concurrent_traces_do_not_mix() {
    let meet = Barrier::new(4);
    thread::scope(|scope| {
        let traced: Vec<_> = (1..=4_u64)
            .map(|number| {
                let meet = &meet;
                let closure = move || {
                    // All closures run at the same time.
                    meet.wait();
                    write_times(1000 * number);
                    meet.wait();
                };
                scope.spawn(move || zctrace::trace(closure).expect("is traced").1)
            })
            .collect();
        let writes: Vec<u64> = traced
            .into_iter()
            .map(|trace| writes_in(&trace.join().expect("does not panic")))
            .collect();
        assert_eq!(writes, [1000, 2000, 3000, 4000]);
    });
}

#[test]
fn a_nested_trace_counts_only_its_own_calls() {
    alone(|| {
        let (inner, outer) = zctrace::trace(|| {
            write_times(10);
            zctrace::trace(|| write_times(5)).expect("is traced").1
        })
        .expect("is traced");
        assert_eq!(writes_in(&inner), 5);
        // The outer closure also makes the calls that start and end the inner trace, but those
        // write elsewhere.
        let null = outer
            .files
            .iter()
            .find(|file| file.file.path.as_deref() == Some("/dev/null"))
            .expect("was written");
        assert!(null.writes == 15 && writes_in(&outer) >= 15, "{null:?}");
    });
}

#[test]
fn a_panic_propagates_and_ends_the_trace() {
    alone(|| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            zctrace::trace(|| -> u32 { panic!("of the closure") })
        }));
        let panic = caught.map(|_| ()).expect_err("goes on");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"of the closure"));
        let ((), report) = zctrace::trace(|| write_times(3)).expect("the next one is traced");
        assert_eq!(writes_in(&report), 3);
    });
}

#[test]
fn counters_cover_the_closure_only() {
    let spin = |time: Duration| {
        let began = Instant::now();
        while began.elapsed() < time {
            std::hint::black_box(());
        }
    };
    spin(Duration::from_millis(30));
    // Each page of this new memory is a fault.
    let touch = || {
        let file = rustix::fs::memfd_create("touched", MemfdFlags::CLOEXEC).expect("a file");
        rustix::fs::ftruncate(&file, 64 << 12).expect("room");
        // SAFETY: a new mapping of a file of our own.
        let pages = unsafe {
            use rustix::mm::{MapFlags, ProtFlags, mmap};
            mmap(
                std::ptr::null_mut(),
                64 << 12,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
            .expect("room")
        };
        for page in 0..64_usize {
            // SAFETY: within the mapping.
            unsafe { pages.cast::<u8>().add(page << 12).write_volatile(1) };
        }
        spin(Duration::from_millis(40));
    };
    let began = Instant::now();
    let ((), report) = zctrace::trace(touch).expect("is traced");
    let usage = report.processes[0].usage;
    let faults = usage.page_faults.minor.expect("is known");
    assert!((64..200).contains(&faults), "{faults} faults");
    let cpu =
        Duration::from_nanos(usage.user_ns.expect("is known") + usage.system_ns.expect("is known"));
    let wall = Duration::from_nanos(report.wall_ns.expect("is known"));
    // The counters are read a little before and after the clock.
    let most = wall + Duration::from_millis(1);
    assert!(
        wall >= Duration::from_millis(40) && wall <= began.elapsed() && cpu <= most,
        "{cpu:?} of {wall:?}"
    );
    // Another thread may have had the processor meanwhile, but not all the time.
    assert!(cpu > Duration::from_millis(1), "{cpu:?}");
}

#[test]
fn a_closure_can_be_traced_from_async_code() {
    alone(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let ((), report) =
            runtime.block_on(async { zctrace::trace(|| write_times(2)).expect("is traced") });
        assert_eq!(writes_in(&report), 2);
    });
}

#[test]
fn without_privileges_closures_cannot_be_traced() {
    let error = thread::spawn(|| {
        // SAFETY: no pointers. Unlike libc's function, the call itself changes only this thread.
        let status = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        assert_eq!(status, 0, "root may become somebody else");
        zctrace::trace(|| ()).expect_err("is not permitted")
    });
    let error = error.join().expect("does not panic");
    assert!(
        error.is_unavailable() && matches!(error, RunError::Ebpf(_)),
        "{error:?}"
    );
    assert!(error.to_string().contains("CAP_BPF"), "{error}");
}

#[test]
fn strace_cannot_trace_a_closure() {
    let error = Tracer::new()
        .backend(Choice::Strace)
        .trace(|| ())
        .expect_err("is refused");
    assert!(
        matches!(error, RunError::ClosureUnderStrace) && !error.is_unavailable(),
        "{error:?}"
    );
}
