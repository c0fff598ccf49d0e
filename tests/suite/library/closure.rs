//! `zctrace::trace`: traces a closure in this process.

use std::{
    env,
    fs::File,
    hint::{self, black_box},
    io::{self, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    ptr,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::channel,
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    mm::{MapFlags, ProtFlags, mmap_anonymous},
    process::{getpid, getppid},
    thread::gettid,
};
use zctrace::{
    Report, RunError, Sysno, Tracer,
    report::{Api, State},
};

use crate::harness::{Finished, TestDir, program, untraced};

/// The environment variable of a process that runs only one test.
const ALONE: &str = "ZC_TEST_ALONE";

/// Runs tests in a process of their own, with these arguments for libtest.
#[track_caller]
pub fn in_a_process(arguments: &[&str]) -> Finished {
    let process = program(env::current_exe().expect("known")).args(arguments);
    let finished = untraced(&process).env(ALONE, "1").finish();
    finished.exits(0);
    finished
}

/// Runs a test in a process of its own, where no threads of other tests make calls.
#[track_caller]
pub fn alone(test: impl FnOnce()) {
    if env::var_os(ALONE).is_some() {
        return test();
    }
    let this = thread::current();
    let name = this.name().filter(|name| *name != "main");
    let name = name.expect("libtest names its threads; not with --test-threads=1");
    // With --test-threads=1, the test runs in the main thread, and there is no other.
    in_a_process(&[name, "--exact", "--nocapture", "--test-threads=1"]).prints("1 passed");
}

/// What a closure returned, and the report of its trace.
#[track_caller]
fn traced<T>(closure: impl FnOnce() -> T) -> (T, Report) {
    zctrace::trace(closure).expect("is traced")
}

/// Writes one byte to `/dev/null` this many times.
pub fn write_times(calls: u64) {
    let mut null = File::create("/dev/null").expect("is there");
    for _ in 0..calls {
        null.write_all(b"x").expect("takes everything");
    }
}

/// The writes in a report, whatever was lost.
pub fn counted_writes(report: &Report) -> u64 {
    report.syscall(Sysno::write).expect("was counted").calls
}

/// The writes in a report that lost nothing, except through the tests in other threads, and the
/// overflowing `io_uring` with which a trace that starts within a trace tries its programs.
fn writes_in(report: &Report) -> u64 {
    let expected = [
        "other_threads",
        "overflowed_operations",
        "unknown_origins",
        "unseen_mappings",
    ];
    let mut losses = report.losses.keys();
    let is_lossless = losses.all(|loss| expected.contains(&loss.as_str()));
    assert!(is_lossless, "{:?}", report.losses);
    counted_writes(report)
}

#[test]
fn io_copy_between_files_is_copy_file_range_of_exactly_its_bytes() {
    alone(|| {
        let dir = TestDir::with("in", vec![7; 300_000]);
        let mut from = File::open(dir.join("in")).expect("is there");
        let mut to = File::create(dir.join("out")).expect("room for it");
        let (copied, report) = traced(|| io::copy(&mut from, &mut to));
        assert_eq!(copied.expect("is copied"), 300_000);
        assert!(report.exact, "{:?}", report.losses);
        let [call] = report.totals.syscalls.as_slice() else {
            panic!("one call: {:?}", report.totals.syscalls)
        };
        let found = (call.name.as_str(), call.errors, call.bytes);
        assert_eq!(found, ("copy_file_range", 0, Some(300_000)));
        let transfers = report.transfers.iter();
        let transfers: Vec<_> = transfers.map(|one| (one.api, one.bytes)).collect();
        assert_eq!(transfers, [(Api::CopyFileRange, Some(300_000))]);
        let holds =
            "transfer(\"in\" -> \"out\").api == copy_file_range and read[file=\"in\"].calls == 0";
        report.expect(holds).expect("holds");
        let fails = report.expect("copy_file_range.bytes == 1");
        fails.expect_err("does not hold");
        for end in ["/in", "/out"] {
            let mut paths = report
                .files
                .iter()
                .filter_map(|file| file.file.path.as_ref());
            assert!(paths.any(|path| path.ends_with(end)), "{:?}", report.files);
        }
    });
}

#[test]
fn the_report_has_no_calls_of_zctrace() {
    let all_calls = |closure: &dyn Fn()| {
        let tracer = Tracer::new().syscalls("all".parse().expect("a selection"));
        let ((), report) = tracer.trace(closure).expect("is traced");
        let rows = report.totals.syscalls.into_iter();
        rows.map(|row| (row.name, row.counts.calls))
            .collect::<Vec<_>>()
    };
    assert_eq!(all_calls(&|| ()), []);
    let one_call = || _ = getppid();
    assert_eq!(all_calls(&one_call), [("getppid".to_owned(), 1)]);
}

#[test]
fn the_report_covers_the_calling_thread() {
    let named = thread::Builder::new().name("the-traced-one".into());
    let thread = named.spawn(|| traced(gettid)).expect("a thread");
    let (tid, report) = thread.join().expect("does not panic");
    let [process] = report.processes.as_slice() else {
        panic!("one process: {:?}", report.processes)
    };
    assert_ne!(tid, getpid(), "libtest has threads");
    assert_eq!(process.pid, std::process::id());
    let parent = getppid().map(|pid| pid.as_raw_pid().cast_unsigned());
    assert_eq!(process.ppid, parent);
    let comm = process.comm.as_deref();
    let found = (comm, process.threads, process.state);
    assert_eq!(found, (Some("the-traced-one"), 1, State::Running));
    assert_eq!((report.exit.code, report.exit.signal), (None, None));
    assert_eq!(report.backend, "ebpf");
    assert_eq!(report.command, env::args().collect::<Vec<_>>());
    let process = report.process("the-traced-*").expect("is there");
    assert_eq!(process.syscall(Sysno::read).expect("was counted").calls, 0);
}

#[test]
fn a_thread_that_slept_and_was_not_woken_is_no_loss_and_one_at_work_all_the_time_is() {
    alone(|| {
        let (rounds, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        // The next one begins in some milliseconds, while the thread sleeps.
        drop(traced(|| ()));
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(300));
                while !is_over.load(Relaxed) {
                    write_times(1);
                    rounds.fetch_add(1, Relaxed);
                }
            });
            // It makes no call when the sleep ends.
            let write_beside = || {
                spin_until(&rounds, 20);
                write_times(1000);
                spin_until(&rounds, 20);
            };
            let [slept, at_work] = [zctrace::trace(write_beside), zctrace::trace(write_beside)];
            is_over.store(true, Relaxed);
            let [slept, at_work] = [slept, at_work].map(|traced| traced.expect("is traced").1);
            for report in [&slept, &at_work] {
                assert_eq!(counted_writes(report), 1000);
                let is_noted = |note: &String| {
                    note.contains("made meanwhile by threads that the closure did not wake")
                };
                assert!(report.notes.iter().any(is_noted), "{:?}", report.notes);
            }
            assert!(slept.exact, "{:?}", slept.losses);
            assert!(at_work.losses["other_threads"] > 0, "{:?}", at_work.losses);
        });
    });
}

/// Waits, without a call, until another thread has gone on for so many rounds.
pub fn spin_until(rounds: &AtomicU64, more: u64) {
    let last = rounds.load(Relaxed) + more;
    while rounds.load(Relaxed) < last {
        hint::spin_loop();
    }
}

#[test]
fn work_by_a_thread_that_existed_before_makes_the_report_a_lower_bound() {
    alone(|| {
        let (order, orders) = channel::<u64>();
        let (done, is_done) = channel();
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
        let ((), idle) = traced(|| ());
        assert!(idle.exact, "{:?}", idle.losses);
        idle.expect("write.calls == 0").expect("holds");
        let ((), report) = traced(|| hand_over(100));
        hand_over(10);
        assert_eq!(report.losses, [("other_threads".to_owned(), 100)].into());
        assert_eq!((report.exact, counted_writes(&report)), (false, 0));
        let failed = report.expect("write.calls == 0");
        let failed = failed.expect_err("it may have been more").to_string();
        assert!(failed.contains("inconclusive"), "{failed}");
        let why = "calls of other threads that may work for the closure: 100 (";
        assert!(failed.contains(why), "{failed}");
        drop(order);
        pool.join().expect("does not panic");
    });
}

#[test]
fn threads_of_the_closure_are_counted_to_their_last_call() {
    alone(|| {
        let threads = || {
            let spawned = (1..=8).map(|number| thread::spawn(move || write_times(100 * number)));
            for thread in spawned.collect::<Vec<_>>() {
                thread.join().expect("does not panic");
            }
            write_times(7);
        };
        let ((), report) = traced(threads);
        assert_eq!(writes_in(&report), 3607);
        assert_eq!((report.totals.processes, report.totals.threads), (1, 9));
    });
}

#[test]
fn child_processes_are_counted() {
    alone(|| {
        let script = "head -c 5000 /dev/zero | cat | cat >/dev/null";
        let (status, report) = traced(|| Command::new("sh").args(["-c", script]).status());
        assert!(status.expect("sh is there").success());
        assert!(report.exact, "{:?}", report.losses);
        let cats = report.process("cat").expect("is there");
        assert_eq!(cats.iter().count(), 2);
        let writes = cats.syscall(Sysno::write).expect("was counted");
        assert_eq!(writes.bytes, Some(10_000));
        assert!(cats.iter().all(|cat| cat.state == State::Exited));
    });
}

#[test]
fn concurrent_traces_do_not_mix() {
    let meet = Barrier::new(4);
    // All closures run at the same time.
    let write_together = |number: u64| {
        meet.wait();
        write_times(1000 * number);
        meet.wait();
    };
    thread::scope(|scope| {
        let write_together = &write_together;
        let trace = |number| scope.spawn(move || traced(|| write_together(number)).1);
        let traces = [1, 2, 3, 4].map(trace);
        let writes = traces.map(|trace| writes_in(&trace.join().expect("does not panic")));
        assert_eq!(writes, [1000, 2000, 3000, 4000]);
    });
}

#[test]
fn a_nested_trace_counts_only_its_own_calls() {
    alone(|| {
        let (inner, outer) = traced(|| {
            write_times(10);
            traced(|| write_times(5)).1
        });
        assert_eq!(writes_in(&inner), 5);
        // The outer closure also makes the calls that start and end the inner trace, but those
        // write elsewhere.
        let mut files = outer.files.iter();
        let null = files.find(|file| file.file.path.as_deref() == Some("/dev/null"));
        assert_eq!(null.expect("was written").writes, 15);
        assert!(writes_in(&outer) >= 15);
    });
}

#[test]
fn a_panic_propagates_and_ends_the_trace() {
    alone(|| {
        let panics = || zctrace::trace(|| -> u32 { panic!("of the closure") });
        let caught = catch_unwind(AssertUnwindSafe(panics));
        let panic = caught.map(|_| ()).expect_err("goes on");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"of the closure"));
        let ((), report) = traced(|| write_times(3));
        assert_eq!(writes_in(&report), 3);
    });
}

/// Keeps the processor busy.
fn spin(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        black_box(());
    }
}

/// Writes to 64 pages of new memory. Each is a fault.
fn touch_pages() {
    let bytes = 64 << 12;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, and its own length.
    unsafe {
        let pages = mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::SHARED);
        pages.expect("room").cast::<u8>().write_bytes(1, bytes);
    }
}

#[test]
fn counters_cover_the_closure_only() {
    spin(Duration::from_millis(30));
    let began = Instant::now();
    let ((), report) = traced(|| {
        touch_pages();
        spin(Duration::from_millis(40));
    });
    let usage = report.processes[0].usage;
    let faults = usage.page_faults.minor.expect("is known");
    assert!((64..200).contains(&faults), "{faults} faults");
    let cpu = Duration::from_nanos(usage.cpu_ns().expect("is known"));
    let wall = Duration::from_nanos(report.wall_ns.expect("is known"));
    let is_right = wall >= Duration::from_millis(40) && wall <= began.elapsed();
    assert!(is_right, "{wall:?}");
    // The counters are read a little before and after the clock. Another thread may have had the
    // processor meanwhile, but not all the time.
    let millisecond = Duration::from_millis(1);
    let is_right = cpu > millisecond && cpu <= wall + millisecond;
    assert!(is_right, "{cpu:?} of {wall:?}");
}

/// Takes all privileges from this thread, and from no other.
pub fn become_nobody() {
    // SAFETY: no pointers. Unlike libc's function, the call itself changes only this thread.
    let status = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
    assert_eq!(status, 0, "root may become somebody else");
}

#[test]
fn without_privileges_closures_cannot_be_traced() {
    // Where nobody has loaded the programs before.
    alone(|| {
        let error = thread::spawn(|| {
            become_nobody();
            zctrace::trace(|| ()).expect_err("is not permitted")
        });
        let error = error.join().expect("does not panic");
        assert!(error.is_unavailable(), "{error:?}");
        assert!(matches!(error, RunError::Ebpf(_)), "{error:?}");
        assert!(error.to_string().contains("CAP_BPF"), "{error}");
    });
}
