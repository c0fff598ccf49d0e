//! The idle [`KernelTracer`]s of this process: a test that traces many times loads the programs
//! once. Traces that run side by side have one each.

use std::sync::Mutex;

use crate::backend::{KernelTracer, RunOptions, ebpf::LoadSettings};

/// Each with the id of the process that loaded its programs. A fork has copies of them, whose maps
/// are those of its parent.
static IDLE: Mutex<Vec<(u32, KernelTracer)>> = Mutex::new(Vec::new());

/// How many are kept. Each takes 25 MB of the kernel's memory (`memlock` of its maps).
const MOST: usize = 16;

/// Calls the function with a tracer that nobody else uses: one that needs no load for these options,
/// if there is one.
pub fn with_tracer<T>(options: &RunOptions, work: impl FnOnce(&mut KernelTracer) -> T) -> T {
    let settings = LoadSettings::from(options);
    let mut tracer = take(&settings).unwrap_or_default();
    let result = work(&mut tracer);
    give_back(tracer, &settings);
    result
}

fn take(settings: &LoadSettings) -> Option<KernelTracer> {
    // Another thread may have held the lock when this process was forked, so nobody waits for it.
    let mut idle = IDLE.try_lock().ok()?;
    let own = std::process::id();
    idle.retain(|(process, _)| *process == own);
    let place = idle
        .iter()
        .position(|(_, tracer)| tracer.is_ready_for(settings))?;
    Some(idle.swap_remove(place).1)
}

fn give_back(tracer: KernelTracer, settings: &LoadSettings) {
    if let Ok(mut idle) = IDLE.try_lock()
        && idle.len() < MOST
        && tracer.is_ready_for(settings)
    {
        idle.push((std::process::id(), tracer));
    }
}
