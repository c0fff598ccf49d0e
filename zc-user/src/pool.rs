//! The idle [`KernelTracer`]s of this process: a test that traces many times loads the programs
//! once. Traces that run side by side have one each.
//!
//! All calls of the machine run the programs as long as these are attached, so a thread detaches
//! those of tracers that nobody has used for a while.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::backend::{
    KernelTracer, RunOptions,
    ebpf::{LoadSettings, own_thread},
};

static POOL: Mutex<WorkerPool> = Mutex::new(WorkerPool {
    idle: Vec::new(),
    watched_by: 0,
});

/// How many are kept. Each takes 25 MB of the kernel's memory (`memlock` of its maps).
const MAX_IDLE: usize = 16;

/// How long the programs of an idle tracer stay attached. Tests that trace one after the other take
/// less; a trace after more time attaches them again, which takes some milliseconds.
const STAY_ATTACHED: Duration = Duration::from_millis(500);

struct WorkerPool {
    idle: Vec<IdleTracer>,
    /// The id of the process in which a thread runs [`detach_unused`]; 0: there is none.
    watched_by: u32,
}

struct IdleTracer {
    tracer: KernelTracer,
    /// The id of the process that loaded its programs. A fork has a copy of it, whose maps are those
    /// of its parent.
    process: u32,
    /// Since when nobody uses it; `None`: its programs are detached.
    attached_since: Option<Instant>,
}

/// Calls the function with a tracer that nobody else uses: one that needs no load for these options,
/// if there is one.
pub fn with_tracer<T>(options: &RunOptions, work: impl FnOnce(&mut KernelTracer) -> T) -> T {
    let settings = LoadSettings::from(options);
    let mut tracer = take(&settings).unwrap_or_else(KernelTracer::for_many_runs);
    let result = work(&mut tracer);
    give_back(tracer, &settings);
    result
}

fn take(settings: &LoadSettings) -> Option<KernelTracer> {
    // Another thread may have held the lock when this process was forked, so nobody waits for it.
    let mut pool = POOL.try_lock().ok()?;
    let own = std::process::id();
    pool.idle.retain(|known| known.process == own);
    let mut idle = pool.idle.iter();
    let place = idle.position(|known| known.tracer.is_ready_for(settings))?;
    Some(pool.idle.swap_remove(place).tracer)
}

fn give_back(tracer: KernelTracer, settings: &LoadSettings) {
    let process = std::process::id();
    if let Ok(mut pool) = POOL.try_lock()
        && pool.idle.len() < MAX_IDLE
        && tracer.is_ready_for(settings)
        && pool.ensure_watcher(process)
    {
        pool.idle.push(IdleTracer {
            tracer,
            process,
            attached_since: Some(Instant::now()),
        });
    }
}

impl WorkerPool {
    /// Starts the thread that watches the pool in this process, unless it runs. Returns whether it
    /// runs now.
    fn ensure_watcher(&mut self, process: u32) -> bool {
        if self.watched_by != process && own_thread().spawn(detach_unused).is_ok() {
            self.watched_by = process;
        }
        self.watched_by == process
    }
}

/// Detaches the programs of tracers that nobody has used for long, until none is attached.
fn detach_unused() {
    loop {
        thread::sleep(STAY_ATTACHED);
        let is_due = |known: &mut IdleTracer| {
            let since = known.attached_since;
            since.is_some_and(|since| since.elapsed() >= STAY_ATTACHED)
        };
        let due: Vec<_> = lock().idle.extract_if(.., is_due).collect();
        for mut known in due {
            known.tracer.detach();
            known.attached_since = None;
            lock().idle.push(known);
        }
        let mut pool = lock();
        if pool.idle.iter().all(|known| known.attached_since.is_none()) {
            pool.watched_by = 0;
            return;
        }
    }
}

fn lock() -> MutexGuard<'static, WorkerPool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}
