//! The eBPF object: embedded in this program, loaded with what this kernel needs, attached and
//! detached.

use std::{
    fs, io, mem,
    num::NonZero,
    os::unix::fs::MetadataExt as _,
    sync::{Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use aya::{
    Btf, Ebpf, EbpfLoader, VerifierLogLevel,
    maps::{Array, MapData, MapError, RingBuf},
    programs::Program,
};
use nix::unistd::gettid;
use zc_ebpf::{ABSENT, CallSpec, Control, KernelFields, armed, globals, maps};

use super::{
    call_specs::{SpecsBySlot, set_specs},
    kernel::{self, TypesFile},
    loader::{self, take_map},
    map_sizes::{
        SYNC_EVENTS_BYTES, TOUCH_CALLS, TOUCH_EVENTS_BYTES, busy_rows, events_bytes, files_entries,
        near_rows, samples_bytes, sizes_entries, task_slots,
    },
    settings::LoadSettings,
    sync_specs,
    unavailable::{self, EbpfUnavailable, TooOld, no_program, no_thread, object_refused, refused},
};
use crate::{
    backend::{
        Recorded, RunError,
        ebpf::{
            attach::{
                hooks::{Hook, Link, missed_runs},
                idle_threads::own_thread,
                targets::Attaching,
            },
            read::{
                drain::Maps, epochs::Epochs, forgetting::Forgetting, syncs::SyncMaps,
                touches::TouchMaps,
            },
        },
    },
    syscalls::Selection,
};

/// The compiled kernel side; empty if this zctrace was built with the feature `without-ebpf`.
#[cfg(not(feature = "without-ebpf"))]
pub(crate) static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/zctrace-bpf"));
#[cfg(feature = "without-ebpf")]
pub(crate) static OBJECT: &[u8] = &[];

/// The same with the programs and maps for `--syncs`.
#[cfg(not(feature = "without-ebpf"))]
pub(crate) static OBJECT_WITH_SYNCS: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/zctrace-bpf-syncs"));
#[cfg(feature = "without-ebpf")]
pub(crate) static OBJECT_WITH_SYNCS: &[u8] = &[];

/// The same with the programs and maps for `--paths`.
#[cfg(not(feature = "without-ebpf"))]
pub(crate) static OBJECT_WITH_PATHS: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/zctrace-bpf-paths"));
#[cfg(feature = "without-ebpf")]
pub(crate) static OBJECT_WITH_PATHS: &[u8] = &[];

/// Where the embedded object comes from, as the build script found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectOrigin {
    /// How it got into this program: `prebuilt`, with the published package, or `built from its
    /// sources`.
    pub origin: &'static str,
    /// The SHA-256 of the object; `unknown` if the machine that built this had no `sha256sum`.
    pub sha256: &'static str,
    /// The versions of the compiler and the linker that made it.
    pub tools: &'static str,
}

impl ObjectOrigin {
    /// That of the embedded object, if there is one.
    #[cfg(not(feature = "without-ebpf"))]
    pub(crate) const EMBEDDED: Option<Self> = Some(Self {
        origin: env!("ZCTRACE_OBJECT_ORIGIN"),
        sha256: env!("ZCTRACE_OBJECT_SHA256"),
        tools: env!("ZCTRACE_OBJECT_TOOLS"),
    });
    /// That of the embedded object, if there is one.
    #[cfg(feature = "without-ebpf")]
    pub(crate) const EMBEDDED: Option<Self> = None;
}

/// Which events wake their reader: each, as long as nothing else is said.
pub struct Wakeups(Array<MapData, u32>);

impl Wakeups {
    /// Events may wait until there are many.
    pub fn await_many(&mut self) -> Result<(), MapError> {
        self.0.set(0, 0, 0)
    }

    /// Each event wakes its reader. It may miss one that is sent at this moment.
    pub fn await_each(&mut self) -> Result<(), MapError> {
        self.0.set(0, 1, 0)
    }
}

/// What is read and written while the programs count, by the one that watches the tasks.
pub struct Watched {
    /// The events of the kernel side.
    pub events: RingBuf<MapData>,
    /// Which of them wake their reader.
    pub wakeups: Wakeups,
    /// The messages about callers; `None` if they are not recorded.
    pub samples: Option<RingBuf<MapData>>,
    /// What takes rows out of the maps; `None` if they stay there until the trace ends.
    pub epochs: Option<Epochs>,
    /// What changes and syncs files, if that is recorded.
    pub syncs: Option<SyncMaps>,
    /// What calls touch, if that is recorded.
    pub touches: Option<TouchMaps>,
    /// Whether a run has ended of which nothing goes on, and its maps can be emptied.
    pub serves_again: bool,
}

impl Watched {
    /// Forgets the run before.
    fn restart(&mut self) -> Result<(), RunError> {
        while self.events.next().is_some() {}
        self.wakeups.await_each()?;
        self.epochs.as_mut().map_or(Ok(()), Epochs::restart)
    }
}

/// What programs see that are loaded with these settings for this kernel.
#[derive(Debug, Clone, Default)]
pub struct Sight {
    /// Whether they can see which buffers lie in mappings.
    pub sees_memory: bool,
    /// What they record.
    pub recorded: Recorded,
    /// Whether the kernel measures how long tasks wait for a CPU.
    pub has_run_delays: bool,
    /// What this kernel lacks, each a sentence.
    pub notes: Vec<String>,
}

/// The programs that run in the kernel when they are attached, and their maps. Dropping it detaches
/// them.
pub struct Loaded {
    pub ebpf: Ebpf,
    /// The maps that are read at the end.
    pub maps: Maps,
    specs: Array<MapData, SpecsBySlot<CallSpec>>,
    pub control: Array<MapData, Control>,
    /// What `control` has when a run begins, without a task to wait for.
    pub at_start: Control,
    is_over: Array<MapData, u32>,
    /// What the programs see.
    pub sight: Sight,
    /// The programs that are attached.
    hooks: Vec<Hook>,
    /// What finds tasks that already run, if that was asked for.
    pub attaching: Option<Attaching>,
    /// What keeps them attached, until counting ends and after that.
    pub links: AttachedPrograms,
    /// Whether they serve one run only, so they are detached as soon as it has ended.
    pub serves_once: bool,
    /// What detaches them.
    detaching: Option<JoinHandle<()>>,
    /// How often the kernel skipped programs before counting ended.
    missed: u64,
    /// How often before this run.
    missed_before: u64,
}

impl Loaded {
    /// Loads the programs for a kernel with these types.
    pub(crate) fn new(
        settings: &LoadSettings,
        types: TypesFile,
    ) -> Result<(Self, Watched), EbpfUnavailable> {
        if OBJECT.is_empty() {
            return Err(EbpfUnavailable::NotBuilt);
        }
        TooOld::check(&unavailable::release())?;
        let namespace = fs::metadata("/proc/self/ns/pid").map_err(EbpfUnavailable::NoProc)?;
        make_room_for_descriptors();
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        // From its creation on, the thread of the loader cannot open files.
        let loader = spawned_thread(loader::new)?;
        let kernel = kernel::examine(types, settings.attaches);
        let (loader, kernel) = (joined_thread(loader)?, kernel?);
        let tracepoints = kernel.tracepoints;
        let types = spawned_thread(move || tracepoints.to_types())?;
        let rings = Some(kernel.rings).filter(|_| settings.selection.contains_rings());
        let mut hooks = Hook::choose(&rings.unwrap_or_default(), kernel.preemption);
        let (has_syncs, has_touches) = (
            settings.recorded.has_syncs(),
            settings.recorded.has_touches(),
        );
        if (has_syncs || has_touches) && !sync_specs::shows_files(&kernel.fields) {
            return Err(EbpfUnavailable::NoFileNames);
        }
        if has_syncs {
            hooks.extend(Hook::for_syncs(kernel.preemption));
        }
        if has_touches {
            hooks.extend(Hook::for_touches(kernel.preemption));
        }
        let mut ebpf = load_object(loader, &kernel.fields, settings, processors)?;
        let types = joined_thread(types)?.map_err(|error| refused(&error))?;
        verify_object(&mut ebpf, &types, &hooks, processors)?;
        let attaching = settings
            .attaches
            .then(|| Attaching::load(&mut ebpf, &types, &kernel.fields));
        let watched = watch_events(&mut ebpf, settings)?;
        let mut this = Self {
            maps: Maps::take_from(&mut ebpf)?,
            specs: take_map(&mut ebpf, maps::SPECS)?,
            control: take_map(&mut ebpf, maps::CONTROL)?,
            at_start: Control {
                pidns_device: namespace.dev(),
                pidns_inode: namespace.ino(),
                max_files: settings.limits.max_files,
                max_samples: settings.recorded.most_samples(),
                ..Control::default()
            },
            is_over: take_map(&mut ebpf, maps::IS_OVER)?,
            sight: Sight {
                sees_memory: settings.recorded.has_files() && kernel.fields.vma_file != ABSENT,
                recorded: settings.recorded,
                has_run_delays: kernel.fields.task_run_delay != ABSENT && measures_run_delays(),
                notes: kernel.notes,
            },
            hooks,
            attaching: attaching.transpose()?,
            links: AttachedPrograms::default(),
            serves_once: false,
            detaching: None,
            missed: 0,
            missed_before: 0,
            ebpf,
        };
        this.select(&settings.selection)?;
        Ok((this, watched))
    }

    /// Sets which calls are counted.
    fn select(&mut self, selection: &Selection) -> Result<(), EbpfUnavailable> {
        set_specs(&mut self.specs, CallSpec::NONE, selection.kernel_specs())
    }

    /// Attaches the programs in their order, unless all of them are.
    pub fn attach(&mut self) -> Result<(), EbpfUnavailable> {
        if !self.links.counting.is_empty() {
            return Ok(());
        }
        self.release();
        for hook in self.hooks.clone() {
            let link = self.attach_hook(hook)?;
            if hook.watches_ends {
                self.links.watching_ends.push(link);
            } else {
                self.links.counting.push(link);
            }
        }
        Ok(())
    }

    pub fn attach_hook(&mut self, hook: Hook) -> Result<Link, EbpfUnavailable> {
        let program = self.ebpf.program_mut(hook.program);
        hook.attach(program.ok_or_else(|| no_program(hook.program))?)
    }

    /// Detaches all programs.
    pub fn release(&mut self) {
        self.links = AttachedPrograms::default();
    }

    /// Empties what a run has left in the maps, and makes the programs count again: these calls, or
    /// the same as before. They must follow no task, so nobody else writes.
    pub fn restart(
        &mut self,
        selection: Option<&Selection>,
        watched: &mut Watched,
    ) -> Result<(), RunError> {
        self.maps.clear()?;
        watched.restart()?;
        selection.map_or(Ok(()), |selection| self.select(selection))?;
        self.set_control(self.at_start)?;
        self.missed_before = self.missed_by(|_| true)?;
        self.is_over.set(0, 0, 0)?;
        Ok(self.attach()?)
    }

    /// Makes the next task that this thread creates the root of the trace.
    pub fn arm(&mut self) -> Result<(), EbpfUnavailable> {
        self.links.watching_wakes.clear();
        self.set_control(Control {
            tracer_pid: std::process::id(),
            // A thread's id is positive.
            tracer_tid: gettid().as_raw().unsigned_abs(),
            armed: armed::ROOT,
            ..self.at_start
        })
    }

    pub fn set_control(&mut self, control: Control) -> Result<(), EbpfUnavailable> {
        let set = self.control.set(0, control, 0);
        set.map_err(|error| refused(&error))
    }

    /// Ends the trace for all programs at once.
    pub fn stop_counting(&mut self) -> Result<(), RunError> {
        self.is_over.set(0, 1, 0)?;
        self.missed = self.missed_by(|hook| !hook.watches_ends)?;
        Ok(())
    }

    /// Detaches the programs but for those that watch the end of tasks.
    pub fn detach(&mut self) {
        self.links.counting.clear();
        self.links.watching_wakes.clear();
        self.links.watching_cgroup = None;
    }

    /// Begins to detach all programs if they serve one run only: nothing more is to be seen. That
    /// takes a millisecond, in which the maps are read.
    pub fn detach_after_last_run(&mut self) {
        if self.serves_once {
            let links = mem::take(&mut self.links);
            self.detaching = own_thread().spawn(move || drop(links)).ok();
        }
    }

    /// How often the kernel skipped a program because it was already running on that CPU. Sums all
    /// programs; most of them count until counting ended.
    pub fn missed(&self) -> io::Result<u64> {
        let missed = self.missed + self.missed_by(|hook| hook.watches_ends)?;
        Ok(missed.saturating_sub(self.missed_before))
    }

    fn missed_by(&self, is_wanted: impl Fn(&Hook) -> bool) -> io::Result<u64> {
        let closures = &Hook::for_closures();
        let hooks = self.hooks.iter().chain(closures);
        let hooks = hooks.filter(|hook| is_wanted(hook));
        let programs = hooks.filter_map(|hook| self.ebpf.program(hook.program));
        programs.map(missed_runs).sum()
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // A thread that only drops does not panic.
        let _ = self.detaching.take().map(JoinHandle::join);
    }
}

/// What keeps programs attached.
#[derive(Default)]
pub struct AttachedPrograms {
    counting: Vec<Link>,
    /// Those of the programs that watch the end of tasks.
    watching_ends: Vec<Link>,
    /// Those of the programs that see which threads a closure wakes.
    pub watching_wakes: Vec<Link>,
    /// That of the program that sees which tasks enter a cgroup.
    pub watching_cgroup: Option<Link>,
}

/// Has the kernel enlarge this process's table of descriptors before there are threads. Maps,
/// programs and links take about 60, and once there are threads, the kernel waits for a grace
/// period of RCU when the table grows, some 10 ms (`expand_fdtable` of its fs/file.c).
fn make_room_for_descriptors() {
    /// The kernel's tables have 64 places, then 256.
    const LAST: i32 = 255;
    // Where so many are not allowed, the start only takes longer.
    let _ = rustix::io::fcntl_dupfd_cloexec(io::stderr(), LAST);
}

/// Prepares something in another thread.
fn spawned_thread<T: Send + 'static>(
    prepare: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, EbpfUnavailable> {
    let thread = own_thread().spawn(prepare);
    thread.map_err(|error| no_thread(&error))
}

/// What a thread has prepared.
fn joined_thread<T>(thread: JoinHandle<T>) -> Result<T, EbpfUnavailable> {
    let panicked = |_| EbpfUnavailable::Refused("a thread panicked that prepares them".into());
    thread.join().map_err(panicked)
}

/// Whether the kernel measures how long tasks wait for a CPU: if not, all figures of
/// `/proc/PID/schedstat` are 0, also the number of times that the task was on one (`proc_pid_schedstat`
/// of the kernel's fs/proc/base.c).
fn measures_run_delays() -> bool {
    let figures = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let times_on_cpu = figures.split_ascii_whitespace().nth(2);
    times_on_cpu.is_some_and(|times| times != "0")
}

/// Loads the object for a kernel with these fields, with maps of the size that the settings say.
fn load_object(
    loader: EbpfLoader<'static>,
    fields: &KernelFields,
    settings: &LoadSettings,
    processors: usize,
) -> Result<Ebpf, EbpfUnavailable> {
    let limits = settings.limits;
    let recorded = settings.recorded.bits();
    let last_slot = task_slots(limits) - 1;
    let uses_near_rows = u32::from(near_rows(limits.max_rows) > 0);
    let attaches = u32::from(settings.attaches);
    let slower_than_ns = settings.recorded.slower_than_ns().unwrap_or(0);
    let mut loader: EbpfLoader<'_> = loader;
    loader
        .override_global(globals::FIELDS, fields, true)
        .override_global(globals::RECORDED, &recorded, true)
        .override_global(globals::LAST_SLOT, &last_slot, true)
        .override_global(globals::USES_NEAR_ROWS, &uses_near_rows, true)
        .override_global(globals::ATTACHES, &attaches, true)
        .override_global(globals::SLOWER_THAN_NS, &slower_than_ns, true)
        .map_max_entries(maps::TARGETS, 1.max(attaches * limits.max_tasks))
        .map_max_entries(maps::THREAD_GROUPS, 1.max(attaches * limits.max_tasks))
        .override_global(aya_log::LEVEL, &LEVELS[usize::from(settings.verbose)], true)
        .map_max_entries(maps::TASKS, task_slots(limits))
        .map_max_entries(maps::TASK_SLOTS, limits.max_tasks)
        .map_max_entries(maps::NEAR_ROWS, near_rows(limits.max_rows).max(1))
        .map_max_entries(maps::ROWS, limits.max_rows)
        .map_max_entries(maps::FILE_ROWS, limits.max_rows)
        .map_max_entries(maps::BUSY_ROWS, busy_rows(limits.max_rows))
        .map_max_entries(maps::FILES, files_entries(limits.max_files))
        .map_max_entries(maps::FAILED_PATHS, limits.max_files)
        .map_max_entries(maps::SIZES, sizes_entries(settings.recorded))
        .map_max_entries(maps::EVENTS, events_bytes(limits.max_tasks, processors))
        .map_max_entries(maps::SAMPLES, samples_bytes(settings.recorded))
        .map_max_entries(maps::SYNC_EVENTS, SYNC_EVENTS_BYTES)
        .map_max_entries(maps::SYNC_TASKS, limits.max_tasks)
        .map_max_entries(maps::SYNC_FILES, files_entries(limits.max_files))
        .map_max_entries(maps::TOUCH_EVENTS, TOUCH_EVENTS_BYTES)
        .map_max_entries(maps::TOUCH_CALLS, TOUCH_CALLS)
        // If the verifier refuses, its log has the reason, without the megabytes of states that led
        // there.
        .verifier_log_level(VerifierLogLevel::STATS)
        .load(object_for(settings))
        .map_err(|error| object_refused(&error))
}

/// The smallest object that has what is to be recorded.
fn object_for(settings: &LoadSettings) -> &'static [u8] {
    if settings.recorded.has_touches() {
        OBJECT_WITH_PATHS
    } else if settings.recorded.has_syncs() {
        OBJECT_WITH_SYNCS
    } else {
        OBJECT
    }
}

/// The level of messages that is below all, and that of messages for debugging.
static LEVELS: [u8; 2] = [0, aya_log::Level::Debug as u8];

/// Has the kernel verify the programs.
fn verify_object(
    ebpf: &mut Ebpf,
    types: &Btf,
    hooks: &[Hook],
    processors: usize,
) -> Result<(), EbpfUnavailable> {
    let mut loads: Vec<ProgramLoad<'_>> = Vec::new();
    for (name, program) in ebpf.programs_mut() {
        if let Some(place) = hooks.iter().position(|hook| hook.program == name) {
            loads.push((place, hooks[place], program));
        }
    }
    loads.sort_by_key(|(_, hook, _)| hook.load_order());
    let refusals = load_in_parallel(loads, types, processors).map_err(|error| no_thread(&error))?;
    // If several are refused, the message always names the same one.
    let first = refusals.into_iter().min_by_key(|(place, _)| *place);
    first.map_or(Ok(()), |(_, refusal)| Err(refusal))
}

/// A program to load, after its place among the programs that are attached.
type ProgramLoad<'a> = (usize, Hook, &'a mut Program);

/// Loads the programs, each in the first thread that is free: most of the start-up time is the
/// verifier's. There are as many threads as processors. Returns why programs were refused, with
/// their places.
fn load_in_parallel(
    loads: Vec<ProgramLoad<'_>>,
    types: &Btf,
    processors: usize,
) -> io::Result<Vec<(usize, EbpfUnavailable)>> {
    let threads = processors.min(loads.len());
    let queue = Mutex::new(loads.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || -> Vec<_> {
        std::iter::from_fn(next)
            .filter_map(|(place, hook, program)| Some((place, hook.verify(program, types).err()?)))
            .collect()
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|_| own_thread().spawn_scoped(scope, work))
            .collect::<io::Result<_>>()?;
        let mut refusals = work();
        for thread in others {
            let panicked = |_| io::Error::other("a thread that loads programs panicked");
            refusals.extend(thread.join().map_err(panicked)?);
        }
        Ok(refusals)
    })
}

/// What is read and written while the programs count.
fn watch_events(ebpf: &mut Ebpf, settings: &LoadSettings) -> Result<Watched, EbpfUnavailable> {
    let has_callers = settings.recorded.has_callers();
    let forgetting = Forgetting::new(
        take_map(ebpf, maps::FILE_ROOM)?,
        take_map(ebpf, maps::FILES)?,
        take_map(ebpf, maps::MEMORIES)?,
        settings.limits,
    );
    // Samples name files long after the calls.
    let forgetting = Some(forgetting).filter(|_| !has_callers);
    let samples = has_callers
        .then(|| take_map(ebpf, maps::SAMPLES))
        .transpose()?;
    let has_syncs = settings.recorded.has_syncs();
    let syncs = has_syncs.then(|| SyncMaps::take_from(ebpf)).transpose()?;
    let has_touches = settings.recorded.has_touches();
    let touches = has_touches
        .then(|| TouchMaps::take_from(ebpf))
        .transpose()?;
    Ok(Watched {
        events: take_map(ebpf, maps::EVENTS)?,
        wakeups: Wakeups(take_map(ebpf, maps::IS_AWAITED)?),
        samples,
        syncs,
        touches,
        serves_again: false,
        epochs: Epochs::new(take_map(ebpf, maps::EPOCH)?, forgetting),
    })
}
