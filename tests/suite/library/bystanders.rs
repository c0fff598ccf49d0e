//! Other threads of a process in which a closure is traced: which of them may have worked for it.

use std::{
    hint, io,
    process::Command,
    ptr,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};

use rustix::{
    mm::{MapFlags, ProtFlags, mmap_anonymous, munmap},
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};
use tokio::runtime::{Builder, Runtime};

use super::closure::{alone, counted_writes, in_a_process, spin_until, write_times};
use crate::harness::repetitions;

/// Five traces, while other threads of this process do the same.
fn trace_five_times() {
    for calls in 1..=5 {
        let ((), report) = zctrace::trace(|| write_times(calls)).expect("is traced");
        assert!(report.exact, "{:?}", report.losses);
        assert_eq!(counted_writes(&report), calls);
    }
}

/// Tests as a user has them, each of which traces. Here each runs in a process of its own;
/// [`traces_side_by_side_are_exact`] runs all of them in one.
mod side_by_side {
    use super::{alone, trace_five_times};

    macro_rules! tests {
        ($($name:ident),+) => {
            $(
                #[test]
                fn $name() {
                    alone(trace_five_times);
                }
            )+
        };
    }
    tests!(first, second, third, fourth, fifth, sixth, seventh, eighth);
}

#[test]
fn traces_side_by_side_are_exact() {
    for _ in 0..repetitions(5) {
        in_a_process(&["bystanders::side_by_side::", "--test-threads=8"]).prints("8 passed");
    }
}

/// A thread that sleeps until there is work.
trait Pool {
    /// Has it write so many times, and waits until it has.
    fn write(&self, calls: u64);
}

/// It waits for a channel.
struct Channels {
    orders: mpsc::Sender<u64>,
    done: mpsc::Receiver<()>,
}

impl Channels {
    fn start() -> Self {
        let (orders, to_do) = mpsc::channel();
        let (tell, done) = mpsc::channel();
        thread::spawn(move || {
            for calls in to_do {
                write_times(calls);
                tell.send(()).expect("somebody waits");
            }
        });
        Self { orders, done }
    }
}

impl Pool for Channels {
    fn write(&self, calls: u64) {
        self.orders.send(calls).expect("it lives");
        self.done.recv().expect("it answers");
    }
}

/// Its threads wait for a condition. The first one hands the work on to the second.
#[derive(Clone, Default)]
struct Conditions(Arc<(Mutex<[u64; 3]>, Condvar)>);

impl Conditions {
    fn start() -> Self {
        let pool = Self::default();
        for place in 0..2 {
            let pool = pool.clone();
            thread::spawn(move || {
                loop {
                    let calls = pool.take(place);
                    if place == 1 {
                        write_times(calls);
                    }
                    pool.put(place + 1, calls);
                }
            });
        }
        pool
    }

    fn take(&self, place: usize) -> u64 {
        let (places, changed) = &*self.0;
        let places = places.lock().expect("no panic");
        let mut places = changed
            .wait_while(places, |places| places[place] == 0)
            .expect("no panic");
        std::mem::take(&mut places[place])
    }

    fn put(&self, place: usize, calls: u64) {
        let (places, changed) = &*self.0;
        places.lock().expect("no panic")[place] = calls;
        changed.notify_all();
    }
}

impl Pool for Conditions {
    fn write(&self, calls: u64) {
        self.put(0, calls);
        assert_eq!(self.take(2), calls);
    }
}

/// Workers of tokio, which wait for an event or a condition.
struct Workers(Runtime);

impl Pool for Workers {
    fn write(&self, calls: u64) {
        let (tell, done) = mpsc::channel();
        self.0.spawn(async move {
            write_times(calls);
            tell.send(()).expect("somebody waits");
        });
        done.recv().expect("it answers");
    }
}

/// A worker of tokio that leaves the work to a thread for blocking calls, which it may create.
struct BlockingThreads(Runtime);

impl Pool for BlockingThreads {
    fn write(&self, calls: u64) {
        let (tell, done) = mpsc::channel();
        self.0.spawn(async move {
            let written = tokio::task::spawn_blocking(move || write_times(calls));
            tell.send(written.await.is_ok()).expect("somebody waits");
        });
        assert!(done.recv().expect("it answers"));
    }
}

/// It reads what to do from a pipe.
struct Pipes {
    orders: io::PipeWriter,
    done: io::PipeReader,
}

impl Pipes {
    fn start() -> Self {
        use io::{Read as _, Write as _};
        let (mut to_do, orders) = io::pipe().expect("a pipe");
        let (done, mut tell) = io::pipe().expect("a pipe");
        thread::spawn(move || {
            let mut calls = [0; 1];
            while to_do.read_exact(&mut calls).is_ok() {
                write_times(calls[0].into());
                tell.write_all(&calls).expect("somebody reads");
            }
        });
        Self { orders, done }
    }
}

impl Pool for Pipes {
    fn write(&self, calls: u64) {
        use io::{Read as _, Write as _};
        let calls = u8::try_from(calls).expect("few");
        (&self.orders).write_all(&[calls]).expect("it reads");
        (&self.done).read_exact(&mut [0]).expect("it answers");
    }
}

/// As [`Pipes`], through a process that the closure starts.
struct Children(Pipes);

impl Pool for Children {
    fn write(&self, calls: u64) {
        use io::Read as _;
        let mut child = Command::new("printf");
        child.arg(format!("\\{calls:o}"));
        child.stdout(self.0.orders.try_clone().expect("a descriptor"));
        assert!(child.status().expect("is there").success());
        (&self.0.done).read_exact(&mut [0]).expect("it answers");
    }
}

fn runtime() -> Runtime {
    let runtime = Builder::new_multi_thread().worker_threads(2).build();
    runtime.expect("threads")
}

#[test]
fn a_closure_that_hands_work_to_a_warm_pool_is_never_exact() {
    alone(|| {
        let pools: [(&str, &dyn Pool); 6] = [
            ("channels", &Channels::start()),
            ("conditions", &Conditions::start()),
            ("pipes", &Pipes::start()),
            ("a child process", &Children(Pipes::start())),
            ("workers of tokio", &Workers(runtime())),
            ("blocking threads of tokio", &BlockingThreads(runtime())),
        ];
        for (name, pool) in pools {
            pool.write(1);
            for calls in 1..=repetitions(20) {
                let calls = calls as u64 % 100 + 1;
                let ((), report) = zctrace::trace(|| pool.write(calls)).expect("is traced");
                let lost = report.losses.get("other_threads").copied();
                assert!(
                    !report.exact && lost >= Some(calls),
                    "{name}: {calls} calls, {:?}",
                    report.losses
                );
            }
        }
    });
}

/// Keeps this thread, and those that it creates, on one processor.
fn stay_on_one_processor() {
    let mut one = CpuSet::new();
    let first = sched_getaffinity(None).expect("is known");
    one.set(
        (0..CpuSet::MAX_CPU)
            .find(|&cpu| first.is_set(cpu))
            .expect("there is one"),
    );
    sched_setaffinity(None, &one).expect("is permitted");
}

#[test]
fn an_interrupt_that_ends_a_sleep_hands_no_work_over() {
    alone(|| {
        stay_on_one_processor();
        let (rounds, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    thread::sleep(Duration::from_micros(100));
                    write_times(1);
                    rounds.fetch_add(1, Relaxed);
                }
            });
            // Most of these sleeps end in the middle of the closure, which makes no calls. One may end in
            // the call that begins it, which looks like a hand-over, but not in each.
            let traced = [(); 5].map(|()| zctrace::trace(|| spin_until(&rounds, 20)));
            is_over.store(true, Relaxed);
            let reports = traced.map(|traced| traced.expect("is traced").1);
            let losses = reports.each_ref().map(|report| &report.losses);
            assert!(reports.iter().any(|report| report.exact), "{losses:?}");
        });
    });
}

/// Maps and unmaps memory so many times. Each time it takes a lock of the process in the kernel.
fn map_times(count: u32) {
    for _ in 0..count {
        let bytes = 64 << 12;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, and its own length.
        unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
            let pages = mmap_anonymous(ptr::null_mut(), bytes, access, flags).expect("room");
            munmap(pages, bytes).expect("is mapped");
        }
    }
}

#[test]
fn a_lock_in_the_kernel_hands_no_work_over() {
    alone(|| {
        // On another one, a thread may wake up by itself while it is being woken.
        stay_on_one_processor();
        let (rounds, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let started = AtomicU64::new(0);
        drop(zctrace::trace(|| ()).expect("is traced"));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    // The closure begins when no other thread is awake.
                    thread::sleep(Duration::from_millis(300));
                    started.fetch_add(1, Relaxed);
                    while !is_over.load(Relaxed) {
                        map_times(1);
                        write_times(1);
                        rounds.fetch_add(1, Relaxed);
                    }
                });
            }
            let traced = zctrace::trace(|| {
                while started.load(Relaxed) < 4 {
                    hint::spin_loop();
                }
                for _ in 0..50 {
                    map_times(20);
                    spin_until(&rounds, 1);
                }
            });
            is_over.store(true, Relaxed);
            let ((), report) = traced.expect("is traced");
            assert!(report.exact, "{:?} {:?}", report.losses, report.notes);
        });
    });
}
