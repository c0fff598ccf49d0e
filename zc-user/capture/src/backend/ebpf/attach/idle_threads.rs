//! Whether the other threads of this process sleep, so that who has work for them must wake them.

use std::{
    collections::HashMap,
    fs,
    sync::atomic::{AtomicI32, Ordering},
    thread::{self, Builder},
    time::{Duration, Instant},
};

use nix::unistd::gettid;
use zc_ebpf::WATCHER_COMM;

use crate::{backend::ebpf::read::events::text, proc_stat::name_and_fields};

/// How much CPU time a thread may take before it sleeps, in the ticks of `/proc`, of which a second
/// has 100. A thread that waits for a processor takes none, and is waited for.
const MAX_TICKS: u64 = 5;
/// For how long.
const LIMIT: Duration = Duration::from_secs(2);

/// A thread of zctrace's own, which the kernel side knows by its name.
pub fn own_thread() -> Builder {
    Builder::new().name(text(&WATCHER_COMM))
}

/// The threads that trace closures of their own, by their ids; 0: a free place. Without a lock, which
/// another thread may hold when this process is forked.
static TRACING: [AtomicI32; 256] = [const { AtomicI32::new(0) }; 256];

/// A thread that traces a closure, until this is dropped: it works for no other closure.
pub struct TracingThread(i32);

impl TracingThread {
    /// This thread. If there are too many, others wait for it.
    pub fn enter() -> Self {
        let id = gettid().as_raw();
        let take = |place: &&AtomicI32| replace(place, 0, id);
        let _ = TRACING.iter().find(take);
        Self(id)
    }

    /// Waits until no other thread of this process is awake that traces nothing by itself. Returns
    /// whether that was so: if not, one is at work all the time, or `/proc` does not tell.
    pub fn await_sleep_of_others(&self) -> bool {
        let mut ticks_before = HashMap::new();
        let start = Instant::now();
        loop {
            let Ok(tasks) = fs::read_dir("/proc/self/task") else {
                return false;
            };
            let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
            let others = ids.filter(|&id: &i32| id != self.0);
            let awake: Vec<_> = others
                .filter_map(|id| Some((id, ticks_if_awake(id)?)))
                .collect();
            if awake.is_empty() {
                return true;
            }
            let is_busy = |(id, now): (i32, u64)| {
                let before = *ticks_before.entry(id).or_insert(now);
                now >= before + MAX_TICKS
            };
            if awake.into_iter().any(is_busy) || start.elapsed() > LIMIT {
                return false;
            }
            // A sleep would end by an interrupt, which may hit a call of a closure that runs by then.
            thread::yield_now();
        }
    }
}

impl Drop for TracingThread {
    fn drop(&mut self) {
        let leave = |place: &&AtomicI32| replace(place, self.0, 0);
        let _ = TRACING.iter().find(leave);
    }
}

/// Replaces what is in a place, and returns whether that was `old`.
fn replace(place: &AtomicI32, old: i32, new: i32) -> bool {
    let replaced = place.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed);
    replaced.is_ok()
}

fn is_tracing(id: i32) -> bool {
    TRACING
        .iter()
        .any(|place| place.load(Ordering::Acquire) == id)
}

/// How much CPU time a thread has taken, if it runs or waits for a processor, a disk or a lock of the
/// kernel, is not zctrace's own, and traces nothing by itself. `None` for one that has ended.
fn ticks_if_awake(id: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/self/task/{id}/stat")).ok()?;
    // After the name, `utime` is the 12th field and `stime` the 13th.
    let (name, fields) = name_and_fields(&stat)?;
    let fields: Vec<&str> = fields.collect();
    let ticks = |place: usize| fields.get(place)?.parse::<u64>().ok();
    let is_awake =
        ["R", "D"].contains(fields.first()?) && name != text(&WATCHER_COMM) && !is_tracing(id);
    is_awake.then_some(ticks(11)? + ticks(12)?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_thread_that_goes_to_sleep_is_waited_for_and_one_that_never_does_is_awake() {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| thread::sleep(Duration::from_millis(300)));
            let spinner = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let this = TracingThread::enter();
            assert!(!this.await_sleep_of_others());
            is_over.store(true, Ordering::Relaxed);
            for thread in [sleeper, spinner] {
                thread.join().expect("no panic");
            }
        });
    }
}
